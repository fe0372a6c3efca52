//! Connections as the switch tracks them.

use std::net::IpAddr;

/// A connection that the switch tracks in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The conntrack zone: the local pod's, of which one end is.
    pub zone: u16,
    /// The packets of the end that opened it, before any change of addresses.
    pub original: Tuple,
    /// The packets of the other end: where addresses are changed, its source is the real endpoint.
    pub reply: Tuple,
    /// `ct_mark`: whether policy has judged it.
    pub mark: u32,
    /// `ct_label`: its low 64 bits are the decision that it was allowed by.
    pub label: u128,
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// What tells conversations of the protocol between these two apart.
    pub detail: Detail,
}

/// What tells conversations between two addresses apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// Ports; both 0 where the tracker does not know them (SCTP in the userspace datapath, protocols without ports).
    Ports {
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// ICMP and ICMPv6.
    Icmp {
        /// Identifier of the query (RFC 792, RFC 4443 §4.1).
        id: u16,
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
    },
}

impl Tuple {
    /// Destination port, where there is one.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        match self.detail {
            Detail::Ports { destination, .. } => Some(destination),
            Detail::Icmp { .. } => None,
        }
    }

    /// Source port, where there is one.
    #[must_use]
    pub const fn source_port(&self) -> Option<u16> {
        match self.detail {
            Detail::Ports { source, .. } => Some(source),
            Detail::Icmp { .. } => None,
        }
    }
}
