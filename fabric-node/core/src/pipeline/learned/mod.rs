//! Flows that come from packets.
//!
//! A [`Query`] is what a packet made the agent ask; [`decide`] answers it with one flow
//! that covers a whole region of packets. The same query can be asked again at any
//! time: when the world changes, and for flows that an earlier run left in the switch
//! ([`revive`]). A flow stays untouched exactly if the answer is the same flow.

mod answer;
mod decide;
mod decision;
mod exits;
mod packet;
mod revive;
mod verdict;
mod ways;

use std::net::IpAddr;

use policy::{Direction, Question, World};

use super::site::{LocalPod, Site};
use super::vocabulary::Kind;

pub use answer::{Answer, Verdict, answer};
pub use decide::decide;
pub use decision::Decision;
pub use packet::{Course, Denied, Punt, PuntError, Tracked, Tuple};
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
        /// The conversation, or for [`Part::Back`] the one that is answered: then of direction ingress.
        question: Question,
        /// The packets of it that are meant.
        part: Part,
    },
    /// Which way does this address lie?
    Route {
        /// The address.
        destination: IpAddr,
    },
    /// By which way does a packet leave the cluster whose sender has an egress address?
    Exit {
        /// The pod's address.
        source: IpAddr,
        /// The address outside.
        destination: IpAddr,
        /// Whether a tunnel has brought it here; else the pod is of this node.
        by_tunnel: bool,
    },
    /// Does what comes back to that pod come by this tunnel?
    Return {
        /// Outer source.
        tunnel: IpAddr,
        /// The address outside that answers.
        source: IpAddr,
        /// The pod's address.
        pod: IpAddr,
    },
    /// Which way does this address lie for pods of a segment?
    Wire {
        /// The segment, as the register has it.
        segment: u32,
        /// The address; none of an overlay Network.
        destination: IpAddr,
    },
    /// May the pod of this zone receive this?
    Ingress {
        /// Zone of the receiving pod.
        zone: u16,
        /// The conversation, or for [`Part::Back`] the one that is answered: then of direction egress.
        question: Question,
        /// The packets of it that are meant.
        part: Part,
    },
    /// Is there still no way to this address, for the sender behind this port?
    Vacant {
        /// OpenFlow port of the sender.
        port: u32,
        /// The address.
        destination: IpAddr,
    },
    /// May that pod, which is reached by a tunnel or a wire, receive this from the pod of this zone?
    Peer {
        /// Zone of the sending pod.
        zone: u16,
        /// The conversation as the receiver sees it: the subject is the remote pod, the peer the local one.
        question: Question,
        /// The packets of it that are meant; none of SCTP, which commits nothing that passes without a verdict.
        part: Part,
    },
    /// Do new conversations to this address need the verdict of its own end?
    Gate {
        /// An address of a pod that is reached by a tunnel or a wire.
        destination: IpAddr,
    },
    /// Is there still a pod that ICMP errors about SCTP are for or from?
    Related {
        /// Its zone.
        zone: u16,
        /// Egress for what it sends, ingress for what it receives.
        direction: Direction,
    },
    /// Is this conversation, which was cut, still forbidden?
    Ended {
        /// Zone of the subject.
        zone: u16,
        /// The conversation, as one end of it sees it.
        question: Question,
        /// The port that it was opened from.
        source_port: u16,
    },
}

/// Which packets of a conversation a query is about. In a region of all ports the first three are the same in IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Packets that are no fragments.
    Whole,
    /// First fragments: the switch knows their ports from connection tracking only.
    First,
    /// Later fragments, which show no ports.
    Later,
    /// In SCTP, which connection tracking may know without ports: packets to the conversation's port, from this one.
    There(u16),
    /// In SCTP: the answers to those.
    Back(u16),
}

impl Query {
    /// The kind of flow that answers it.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Query::TunnelSource { .. } => Kind::TunnelSource,
            Query::Egress { .. } => Kind::Egress,
            Query::Route { .. } | Query::Wire { .. } => Kind::Route,
            Query::Ingress { .. } => Kind::Ingress,
            Query::Exit { .. } => Kind::Exit,
            Query::Return { .. } => Kind::Return,
            Query::Vacant { .. } => Kind::Vacant,
            Query::Peer { .. } => Kind::Peer,
            Query::Gate { .. } => Kind::Gate,
            Query::Related { .. } => Kind::Related,
            Query::Ended { .. } => Kind::Ended,
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
