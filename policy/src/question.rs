//! Questions about new conversations: who, with whom, which way, and what is sent.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Which way a conversation goes, seen from the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The subject opens it.
    Egress,
    /// The subject is asked.
    Ingress,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Direction::Egress => "egress",
            Direction::Ingress => "ingress",
        })
    }
}

/// A new conversation, seen from one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Question {
    /// Which way it goes.
    pub direction: Direction,
    /// The address of the pod whose rules are asked.
    pub subject: IpAddr,
    /// The address of the other end, of the same family.
    pub peer: IpAddr,
    /// What is sent.
    pub traffic: Traffic,
}

/// What a conversation carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Traffic {
    /// The protocol number of the IP header (for IPv6, of the last header).
    pub protocol: u8,
    /// The destination port; None for protocols without ports and for later fragments.
    pub port: Option<u16>,
}
