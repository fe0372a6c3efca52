//! A packet that policy denies, for people.

use policy::Direction;

/// One end of a conversation, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Its address.
    pub address: std::net::IpAddr,
    /// Who has it: `pod NAMESPACE/NAME`, `container ID/INTERFACE`, `node NAME`; None where nobody of the cluster is
    /// known there.
    pub name: Option<String>,
}

/// A packet that was denied, or that audit would deny, of a subject whose namespace asks for a log
/// (`fabric.io/log-denied: "true"`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Which end's rules deny it.
    pub direction: Direction,
    /// The end that sends.
    pub from: End,
    /// The end that receives.
    pub to: End,
    /// IP protocol number.
    pub protocol: u8,
    /// Destination port, where there is one.
    pub port: Option<u16>,
    /// The reason.
    pub because: String,
    /// Whether it was allowed, since the policies that deny it are in audit mode.
    pub audit: bool,
}
