//! Connection tracking: `ct(...)` and the address translation inside it.

use std::net::IpAddr;

use super::Action;
use crate::field::Subfield;

/// Arguments of `ct(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ct {
    /// Remembers the connection.
    pub commit: bool,
    /// Replaces a connection of the other direction (needs `commit`).
    pub force: bool,
    /// Where the packet goes on, with its state known; `None` to go on here without it.
    pub table: Option<u8>,
    /// The zone.
    pub zone: CtZone,
    /// Well-known port of the protocol helper (21: FTP, 69: TFTP), 0 for none.
    pub alg: u16,
    /// Address translation.
    pub nat: Option<Nat>,
    /// Actions on `ct_mark` and `ct_label` at commit.
    pub exec: Vec<Action>,
}

/// Where the number of the zone comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CtZone {
    /// Given here.
    Imm(u16),
    /// From 16 bits of the packet's fields.
    Field(Subfield),
}

impl Default for CtZone {
    fn default() -> Self {
        CtZone::Imm(0)
    }
}

/// Which address is translated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum NatKind {
    /// Whatever the connection has already: plain `nat`.
    #[default]
    Existing,
    /// The source.
    Src,
    /// The destination.
    Dst,
}

/// Arguments of `nat(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Nat {
    /// Source, destination or what is there already.
    pub kind: NatKind,
    /// The same client keeps the same address.
    pub persistent: bool,
    /// Ports by a hash.
    pub hash: bool,
    /// Ports at random.
    pub random: bool,
    /// First address of the range.
    pub addr_min: Option<IpAddr>,
    /// Last address of the range, where it is not the first.
    pub addr_max: Option<IpAddr>,
    /// First port of the range.
    pub port_min: Option<u16>,
    /// Last port of the range, where it is not the first.
    pub port_max: Option<u16>,
}
