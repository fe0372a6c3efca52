//! The arguments of the larger actions.

use crate::field::{Field, Subfield};

/// Arguments of `controller(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Controller {
    /// Bytes of the packet to send (65,535: all).
    pub max_len: u16,
    /// Which controller connections get it.
    pub controller_id: u16,
    /// Reason in the packet-in (OpenFlow 1.5.1 §7.4.1; 1: an action said so).
    pub reason: u8,
    /// Bytes that the packet-in returns.
    pub userdata: Vec<u8>,
    /// Whether the packet waits for a resume.
    pub pause: bool,
    /// The meter that limits these packet-ins.
    pub meter_id: Option<u32>,
}

impl Controller {
    /// The reason "an explicit action".
    pub const REASON_ACTION: u8 = 1;

    /// Whether nothing but `max_len` differs from the defaults, so that a plain output to the
    /// controller says the same.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Controller { max_len: self.max_len, ..Controller::default() }
    }

    /// Whether the fixed-size encoding cannot say it.
    pub(super) fn needs_properties(&self) -> bool {
        self.pause || !self.userdata.is_empty() || self.meter_id.is_some()
    }
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            max_len: u16::MAX,
            controller_id: 0,
            reason: Self::REASON_ACTION,
            userdata: Vec::new(),
            pause: false,
            meter_id: None,
        }
    }
}

/// Arguments of `multipath(...)`, as numbers of `nicira-ext`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Multipath {
    /// Which fields are hashed.
    pub fields: u16,
    /// Hash parameter.
    pub basis: u16,
    /// How a link is chosen from the hash.
    pub algorithm: u16,
    /// Number of links less one.
    pub max_link: u16,
    /// Argument of the algorithm.
    pub arg: u32,
    /// Where the link's number goes.
    pub dst: Subfield,
}

/// Arguments of `bundle(...)` and, with `dst`, `bundle_load(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bundle {
    /// How a member is chosen.
    pub algorithm: u16,
    /// Which fields are hashed.
    pub fields: u16,
    /// Hash parameter.
    pub basis: u16,
    /// What the members are (`ofport`).
    pub member_type: Field,
    /// Where the member's number goes instead of sending the packet there.
    pub dst: Option<Subfield>,
    /// 16-bit port numbers.
    pub members: Vec<u16>,
}

/// On which side of the switch a packet is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SampleDirection {
    /// As the port implies.
    #[default]
    Default,
    /// As it came in.
    Ingress,
    /// As it goes out.
    Egress,
}

/// Arguments of `sample(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sample {
    /// Of 65,535 packets, how many.
    pub probability: u16,
    /// Row of the collector set.
    pub collector_set_id: u32,
    /// IPFIX observation domain.
    pub obs_domain_id: u32,
    /// IPFIX observation point.
    pub obs_point_id: u32,
    /// The port that the sample names.
    pub sampling_port: Option<u16>,
    /// Which side.
    pub direction: SampleDirection,
}
