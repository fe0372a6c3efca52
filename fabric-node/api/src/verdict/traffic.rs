//! What a conversation carries, as people say it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A protocol that can be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP between IPv4 addresses, ICMPv6 between IPv6 addresses.
    Icmp,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 4] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp];

    /// As it is written: `TCP`.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
            Protocol::Icmp => "ICMP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Protocol {
    type Err = TrafficError;

    /// In any case of letters.
    fn from_str(text: &str) -> Result<Protocol, TrafficError> {
        let known = Protocol::ALL.into_iter().find(|protocol| protocol.as_str().eq_ignore_ascii_case(text));
        known.ok_or_else(|| TrafficError::Protocol(text.to_owned()))
    }
}

/// Why something cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// No protocol of that name.
    #[error("\"{0}\" is no protocol that can be asked: TCP, UDP, SCTP or ICMP is wanted")]
    Protocol(String),
    /// The protocol has ports and none is named.
    #[error("{0} wants a port: a number from 1 to 65535")]
    NoPort(Protocol),
    /// ICMP has none.
    #[error("ICMP has no ports: the port must be left out")]
    IcmpPort,
    /// Zero is no port.
    #[error("0 is no port: a number from 1 to 65535 is wanted")]
    Zero,
}

/// What a conversation carries: a protocol, and its destination port where the protocol has ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Traffic {
    protocol: Protocol,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
}

#[derive(Deserialize)]
struct Written {
    protocol: Protocol,
    #[serde(default)]
    port: Option<u16>,
}

impl TryFrom<Written> for Traffic {
    type Error = TrafficError;

    fn try_from(written: Written) -> Result<Traffic, TrafficError> {
        Traffic::new(written.protocol, written.port)
    }
}

impl Traffic {
    /// A protocol with its destination port.
    ///
    /// # Errors
    /// Where a port is missing or too many, or zero.
    pub fn new(protocol: Protocol, port: Option<u16>) -> Result<Traffic, TrafficError> {
        match (protocol, port) {
            (Protocol::Icmp, Some(_)) => Err(TrafficError::IcmpPort),
            (Protocol::Icmp, None) => Ok(Traffic { protocol, port }),
            (_, None) => Err(TrafficError::NoPort(protocol)),
            (_, Some(0)) => Err(TrafficError::Zero),
            (_, Some(_)) => Ok(Traffic { protocol, port }),
        }
    }

    /// The protocol.
    pub fn protocol(self) -> Protocol {
        self.protocol
    }

    /// The destination port; None for ICMP.
    pub fn port(self) -> Option<u16> {
        self.port
    }

    /// As it stands in a packet to an address: the number of the protocol (IANA), which for ICMP depends on
    /// the family.
    pub fn to(self, address: IpAddr) -> policy::Traffic {
        let protocol = match (self.protocol, address) {
            (Protocol::Tcp, _) => 6,
            (Protocol::Udp, _) => 17,
            (Protocol::Sctp, _) => 132,
            (Protocol::Icmp, IpAddr::V4(_)) => 1,
            (Protocol::Icmp, IpAddr::V6(_)) => 58,
        };
        policy::Traffic { protocol, port: self.port }
    }
}

impl fmt::Display for Traffic {
    /// `TCP 80` or `ICMP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{} {port}", self.protocol),
            None => self.protocol.fmt(f),
        }
    }
}
