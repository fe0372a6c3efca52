//! Flows that come from packets.
//!
//! A [`Query`] is what a packet made the agent ask; [`decide`] answers it with one flow
//! that covers a whole region of packets. The same query can be asked again at any
//! time: when the world changes, and for flows that an earlier run left in the switch
//! ([`revive`]). A flow stays untouched exactly if the answer is the same flow.

mod answer;
mod decide;
mod packet;
mod revive;

use std::net::IpAddr;

use policy::{Question, World};

use super::site::{LocalPod, Site};
use super::vocabulary::Kind;

pub use answer::{Answer, Verdict, answer};
pub use decide::{Decision, decide};
pub use packet::{Punt, PuntError, Tuple};
pub use revive::revive;

/// What a packet made the agent ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// Does this source live behind that tunnel address?
    TunnelSource {
        /// Outer source.
        tunnel: IpAddr,
        /// Inner source.
        source: IpAddr,
    },
    /// May the pod of this zone send this?
    Egress {
        /// Zone of the sending pod.
        zone: u16,
        /// The conversation.
        question: Question,
    },
    /// Which way does this address lie?
    Route {
        /// The address.
        destination: IpAddr,
    },
    /// May the pod of this zone receive this?
    Ingress {
        /// Zone of the receiving pod.
        zone: u16,
        /// The conversation.
        question: Question,
    },
    /// Is there still no way to this address, for the sender behind this port?
    Vacant {
        /// OpenFlow port of the sender.
        port: u32,
        /// The address.
        destination: IpAddr,
    },
}

impl Query {
    /// The kind of flow that answers it.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Query::TunnelSource { .. } => Kind::TunnelSource,
            Query::Egress { .. } => Kind::Egress,
            Query::Route { .. } => Kind::Route,
            Query::Ingress { .. } => Kind::Ingress,
            Query::Vacant { .. } => Kind::Vacant,
        }
    }
}

/// The local pods, found by what a packet shows of them.
pub trait Pods {
    /// By conntrack zone.
    fn by_zone(&self, zone: u16) -> Option<&LocalPod>;
    /// By OpenFlow port.
    fn by_port(&self, port: u32) -> Option<&LocalPod>;
    /// By address.
    fn by_address(&self, address: IpAddr) -> Option<&LocalPod>;
}

/// What decisions are made from.
pub struct Context<'a, P> {
    /// This node.
    pub site: &'a Site,
    /// The cluster.
    pub world: &'a World,
    /// The pods of this node.
    pub pods: &'a P,
}
