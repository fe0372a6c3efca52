//! The words that the oracle is asked in and answers with.

use std::fmt;
use std::net::IpAddr;

use serde_json::Value;

/// Whether a conversation may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

impl Answer {
    /// Allow, if so.
    pub fn allow_if(so: bool) -> Answer {
        if so { Answer::Allow } else { Answer::Deny }
    }
}

impl fmt::Display for Answer {
    /// As questions.csv spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Answer::Allow => "allow",
            Answer::Deny => "deny",
        })
    }
}

/// Which of its two ends is asked about a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The one that opens it.
    Egress,
    /// The one that it is opened to.
    Ingress,
}

/// What the first packet of a conversation carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    /// The protocol number of the IP header.
    pub protocol: u8,
    /// The destination port. None with TCP, UDP or SCTP is a later fragment; other protocols have none.
    pub port: Option<u16>,
}

impl Packet {
    /// Whether the packet is of a protocol with ports and shows none.
    pub(super) fn is_fragment(self) -> bool {
        self.port.is_none() && matches!(self.protocol, 6 | 17 | 132)
    }
}

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who<'c> {
    /// A live pod.
    Pod {
        /// Its manifest.
        pod: &'c Value,
        /// The manifest of its namespace.
        namespace: &'c Value,
        /// The node that it is on.
        node: Option<&'c str>,
    },
    /// A container that is no pod.
    Container {
        /// The node that it is on.
        node: Option<&'c str>,
    },
    /// A node, by its manifest.
    Node(&'c Value),
    /// A pod that is not known, or not in full.
    Unknown,
    /// Nobody of the cluster.
    Outside,
}

/// One line of the truth table of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Who opens, as `NAMESPACE/NAME`.
    pub from: String,
    /// By which of its addresses.
    pub from_address: IpAddr,
    /// To whom.
    pub to: String,
    /// At which of its addresses.
    pub to_address: IpAddr,
    /// Whether both ends allow it.
    pub answer: Answer,
}

/// One end of a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'c> {
    pub(super) direction: Direction,
    pub(super) subject: Who<'c>,
    pub(super) subject_address: IpAddr,
    pub(super) peer: Who<'c>,
    pub(super) peer_address: IpAddr,
    pub(super) packet: Packet,
    /// Whether policies that are only watched count too.
    pub(super) with_audit: bool,
}

impl<'c> End<'c> {
    /// Who is asked: by whose names ports are called.
    pub(super) fn destination(&self) -> Who<'c> {
        match self.direction {
            Direction::Ingress => self.subject,
            Direction::Egress => self.peer,
        }
    }
}
