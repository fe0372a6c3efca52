//! Regions: the set of packets for which a verdict was proven to be the same.
//!
//! A region becomes one flow, and every kind of mask costs the switch a table to search. So masks come from
//! small fixed sets: prefixes of /0 /8 /16 /24 /32 and /0 /32 /48 /64 /128, and aligned blocks of all ports,
//! 4,096, 256, 16 and one.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::address::{Family, prefix};
use crate::question::Question;

/// The lengths of prefixes in regions of IPv4 peers, widest first.
pub const PREFIX_LENGTHS_V4: [u8; 5] = [0, 8, 16, 24, 32];
/// The lengths of prefixes in regions of IPv6 peers, widest first.
pub const PREFIX_LENGTHS_V6: [u8; 5] = [0, 32, 48, 64, 128];
/// The masks of blocks of ports, widest first: 4,096 ports, 256, 16, one.
pub const PORT_MASKS: [u16; 4] = [0xf000, 0xff00, 0xfff0, 0xffff];

/// The lengths of prefixes in regions of a family, widest first.
pub fn prefix_lengths(family: Family) -> [u8; 5] {
    match family {
        Family::V4 => PREFIX_LENGTHS_V4,
        Family::V6 => PREFIX_LENGTHS_V6,
    }
}

/// The widest prefix of the fixed lengths around `address` for which `same` holds. The address alone needs no
/// proof.
pub fn widest_prefix(address: IpAddr, mut same: impl FnMut(&IpNet) -> bool) -> IpNet {
    let lengths = prefix_lengths(Family::of(address));
    lengths
        .into_iter()
        .map(|length| prefix(address, length))
        .find(|net| same(net))
        .unwrap_or(IpNet::from(address))
}

/// Aligned destination ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PortBlock {
    /// Every port, and packets without one.
    All,
    /// The ports whose bits under `mask` are those of `base`.
    Block {
        /// The lowest port.
        base: u16,
        /// One of [`PORT_MASKS`].
        mask: u16,
    },
    /// No port, but packets of a protocol with ports that show none: later fragments.
    Hidden,
}

impl PortBlock {
    /// The one port.
    pub fn one(port: u16) -> PortBlock {
        PortBlock::Block { base: port, mask: u16::MAX }
    }

    /// The blocks around a port, widest first, beginning with all.
    pub fn around(port: u16) -> impl Iterator<Item = PortBlock> {
        let blocks = PORT_MASKS.into_iter().map(move |mask| PortBlock::Block { base: port & mask, mask });
        std::iter::once(PortBlock::All).chain(blocks)
    }

    /// The widest block around `port` for which `same` holds. The port alone needs no proof.
    pub fn widest(port: u16, mut same: impl FnMut(PortBlock) -> bool) -> PortBlock {
        PortBlock::around(port).find(|block| same(*block)).unwrap_or(PortBlock::one(port))
    }

    /// The lowest and the highest port; None where there is none.
    pub fn bounds(self) -> Option<(u16, u16)> {
        match self {
            PortBlock::All => Some((0, u16::MAX)),
            PortBlock::Block { base, mask } => Some((base & mask, base | !mask)),
            PortBlock::Hidden => None,
        }
    }

    /// Whether two blocks have a packet in common.
    pub fn overlaps(self, other: PortBlock) -> bool {
        match (self.bounds(), other.bounds()) {
            (Some((a, b)), Some((c, d))) => a <= d && c <= b,
            _ => self.contains(None) && other.contains(None),
        }
    }

    /// Whether a packet with this destination port, or with none, is in the block.
    pub fn contains(self, port: Option<u16>) -> bool {
        match (self, port) {
            (PortBlock::All, _) => true,
            (PortBlock::Hidden, port) => port.is_none(),
            (PortBlock::Block { .. }, None) => false,
            (PortBlock::Block { base, mask }, Some(port)) => port & mask == base & mask,
        }
    }

    /// The fewest blocks that make up the ports from `first` to `last`, in ascending order; none when `last`
    /// is lower.
    pub fn covering(first: u16, last: u16) -> Vec<PortBlock> {
        if (first, last) == (0, u16::MAX) {
            return vec![PortBlock::All];
        }
        let (mut at, end) = (u32::from(first), u32::from(last) + 1);
        let mut blocks = Vec::new();
        while at < end {
            let Ok(base) = u16::try_from(at) else { break };
            let fits = |mask: &u16| base & !mask == 0 && at + u32::from(!mask) < end;
            let mask = PORT_MASKS.into_iter().find(fits).unwrap_or(u16::MAX);
            blocks.push(PortBlock::Block { base, mask });
            at += u32::from(!mask) + 1;
        }
        blocks
    }
}

impl fmt::Display for PortBlock {
    /// `all`, `80`, `80-95`, or `hidden`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.bounds()) {
            (PortBlock::All, _) => f.write_str("all"),
            (_, Some((first, last))) if first == last => write!(f, "{first}"),
            (_, Some((first, last))) => write!(f, "{first}-{last}"),
            (_, None) => f.write_str("hidden"),
        }
    }
}

/// The packets of a direction and a subject for which one verdict holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Region {
    /// The other end's addresses, of one of the fixed lengths, host bits clear.
    pub peer: IpNet,
    /// The protocol number; None means any.
    pub protocol: Option<u8>,
    /// The destination ports; a block, or [`PortBlock::Hidden`], goes with a protocol that has ports.
    pub ports: PortBlock,
}

impl Region {
    /// Every packet of the family.
    pub fn whole(family: Family) -> Region {
        Region { peer: family.everything(), protocol: None, ports: PortBlock::All }
    }

    /// Whether the packets that the question is about are in the region. Direction and subject are not looked
    /// at: they are part of the decision, not of the region.
    pub fn contains(&self, question: &Question) -> bool {
        self.peer.contains(&question.peer)
            && self.protocol.is_none_or(|protocol| protocol == question.traffic.protocol)
            && self.ports.contains(question.traffic.port)
    }

    /// Whether two regions have a packet in common.
    pub fn overlaps(&self, other: &Region) -> bool {
        let protocols = match (self.protocol, other.protocol) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        crate::address::overlap(&self.peer, &other.peer) && protocols && self.ports.overlaps(other.ports)
    }

    /// Whether every mask is one of the fixed set, and the parts are aligned.
    pub fn is_aligned(&self) -> bool {
        let lengths = prefix_lengths(Family::of_net(&self.peer));
        let ports = match self.ports {
            PortBlock::All => true,
            PortBlock::Block { base, mask } => {
                PORT_MASKS.contains(&mask) && base & !mask == 0 && self.protocol.is_some()
            }
            PortBlock::Hidden => self.protocol.is_some(),
        };
        ports && lengths.contains(&self.peer.prefix_len()) && self.peer.trunc() == self.peer
    }
}

impl fmt::Display for Region {
    /// `peer 10.1.0.0/16 protocol any ports all`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {} ", self.peer)?;
        match self.protocol {
            Some(protocol) => write!(f, "protocol {protocol} ")?,
            None => f.write_str("protocol any ")?,
        }
        write!(f, "ports {}", self.ports)
    }
}

#[cfg(test)]
mod tests;
