//! Networks: where pods get their addresses from.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::{Family, IpRange, from_number, to_number};
use crate::name::Name;
use crate::selector::Selector;

/// How an overlay carries packets between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encap {
    /// VXLAN (RFC 7348).
    #[default]
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GRE (RFC 2784) with a key.
    Gre,
    /// Routed between the nodes, without a tunnel.
    None,
}

impl fmt::Display for Encap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Encap::Vxlan => "vxlan",
            Encap::Geneve => "geneve",
            Encap::Gre => "gre",
            Encap::None => "none",
        })
    }
}

/// How a Network's packets leave a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// From node to node.
    Overlay {
        /// The encapsulation.
        encap: Encap,
        /// The network identifier in the tunnel header, 24 bits.
        vni: u32,
    },
    /// On the wire of a physical network.
    Underlay {
        /// 1 to 4094; without one, untagged.
        vlan: Option<u16>,
        /// The name that a node's file maps to a NIC, at most 12 characters.
        physical_network: Name,
    },
}

/// A Network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: Name,
    /// `metadata.creationTimestamp` (RFC 3339, UTC), where the store gives one: of two that collide the older
    /// stands.
    pub created: Option<Name>,
    /// Overlay or underlay.
    pub mode: Mode,
    /// Its prefixes, at most one per family, without host bits.
    pub cidrs: Vec<IpNet>,
    /// The addresses to hand out; a family without a range hands out its whole prefix.
    pub ranges: Vec<IpRange>,
    /// Addresses that are never handed out.
    pub exclude: Vec<IpRange>,
    /// The gateways given, at most one per family; [`Network::gateway`] fills in the others.
    pub gateway: Vec<IpAddr>,
    /// Whether packets to the outside take the node's address.
    pub snat: bool,
    /// Destinations outside that packets go to with the pod's own address although [`Network::snat`] holds.
    pub snat_except: Vec<IpNet>,
    /// The MTU of its pods, in bytes; without it, derived from the interface that carries them.
    pub mtu: Option<u32>,
    /// Whether pods that name no Network get this one.
    pub default: bool,
    /// The namespaces whose pods may use it; without a selector, all.
    pub allowed_namespaces: Option<Selector>,
}

impl Network {
    /// Whether it is an overlay, and not on the wire of a physical network.
    pub fn is_overlay(&self) -> bool {
        matches!(self.mode, Mode::Overlay { .. })
    }

    /// Its prefix of a family.
    pub fn cidr(&self, family: Family) -> Option<IpNet> {
        self.cidrs.iter().find(|cidr| Family::of_net(cidr) == family).copied()
    }

    /// The families it has, IPv4 first.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| self.cidr(*family).is_some())
    }

    /// Its gateway of a family: the one given, else the first host address of the prefix.
    pub fn gateway(&self, family: Family) -> Option<IpAddr> {
        if let Some(given) = self.gateway.iter().find(|gateway| Family::of(**gateway) == family) {
            return Some(*given);
        }
        let cidr = self.cidr(family)?;
        if has_no_edges(&cidr) {
            return Some(cidr.network());
        }
        from_number(family, to_number(cidr.network()) + 1)
    }

    /// Whether the address is within one of its prefixes.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidrs.iter().any(|cidr| cidr.contains(&address))
    }

    /// Whether the address may be handed out: in a range, not excluded, and neither the network's own address
    /// (in IPv6 the subnet-router anycast address, RFC 4291 §2.6.1), nor the broadcast address, nor the
    /// gateway.
    pub fn usable(&self, address: IpAddr) -> bool {
        self.contains(address)
            && self.pool(Family::of(address)).any(|range| range.contains(address))
            && !self.exclude.iter().any(|range| range.contains(address))
            && self.reserved(address).is_none()
    }

    /// What the address is for, where it can be no pod's even if somebody asks for it by name.
    pub fn reserved(&self, address: IpAddr) -> Option<&'static str> {
        let family = Family::of(address);
        let cidr = self.cidr(family).filter(|cidr| cidr.contains(&address))?;
        let has_edges = !has_no_edges(&cidr);
        match address {
            gateway if self.gateway(family) == Some(gateway) => Some("the gateway"),
            network if has_edges && network == cidr.network() => Some("the network's own address"),
            last if has_edges && family == Family::V4 && last == cidr.broadcast() => {
                Some("the broadcast address")
            }
            _ => None,
        }
    }

    /// How many addresses of a family [`Network::usable`] holds for; those of a whole IPv6 prefix of length 0 count one
    /// less.
    pub fn capacity(&self, family: Family) -> u128 {
        self.free_to_hand_out(&[], family).iter().fold(0, |sum, range| sum.saturating_add(range.size()))
    }

    /// The addresses of a family that a pod may have without asking for that very one, as ranges in order that have
    /// none in common: those that [`Network::usable`] holds for. A workload with ranges of its own (`own`) of the
    /// family has all of those instead that are within the prefix and not [`Network::reserved`].
    pub fn free_to_hand_out(&self, own: &[IpRange], family: Family) -> Vec<IpRange> {
        let Some(cidr) = self.cidr(family).map(IpRange::from) else { return Vec::new() };
        let edges = [cidr.first(), cidr.last()].into_iter().chain(self.gateway(family));
        let reserved = edges.filter(|ip| self.reserved(*ip).is_some()).map(IpRange::from);
        let mut own = own.iter().filter(|range| range.family() == family).copied().peekable();
        let within = |range: IpRange| range.common(&cidr);
        if own.peek().is_some() {
            return without(&disjoint(own.filter_map(within)), &disjoint(reserved));
        }
        let exclude = self.exclude.iter().filter(|range| range.family() == family).copied();
        without(&disjoint(self.pool(family).filter_map(within)), &disjoint(exclude.chain(reserved)))
    }

    /// The ranges to hand out from for a family: those given, else the whole prefix. [`Network::usable`]
    /// still decides.
    pub fn pool(&self, family: Family) -> impl Iterator<Item = IpRange> {
        let given = self.ranges.iter().filter(move |range| range.family() == family).copied();
        let whole = if self.ranges.iter().any(|range| range.family() == family) {
            None
        } else {
            self.cidr(family).map(IpRange::from)
        };
        given.chain(whole)
    }
}

/// The same addresses in ranges that have none in common, in order.
fn disjoint(ranges: impl Iterator<Item = IpRange>) -> Vec<IpRange> {
    let mut sorted: Vec<IpRange> = ranges.collect();
    sorted.sort();
    let mut apart: Vec<IpRange> = Vec::new();
    for range in sorted {
        match apart.last_mut().and_then(|last| last.joined(&range).map(|joined| (last, joined))) {
            Some((last, joined)) => *last = joined,
            None => apart.push(range),
        }
    }
    apart
}

/// What is left of ranges without the addresses of others; both in order, and of one family.
fn without(ranges: &[IpRange], others: &[IpRange]) -> Vec<IpRange> {
    let mut left = Vec::new();
    let mut others = others.iter().peekable();
    for range in ranges {
        let mut rest = Some(*range);
        while let Some(now) = rest {
            match others.peek().filter(|other| other.first() <= now.last()) {
                Some(other) if other.last() < now.first() => drop(others.next()),
                Some(other) => {
                    left.extend(now.part_before(other));
                    rest = now.part_after(other);
                }
                None => {
                    left.push(now);
                    rest = None;
                }
            }
        }
    }
    left
}

/// Point-to-point prefixes (RFC 3021, RFC 6164) and single addresses keep no address back.
fn has_no_edges(cidr: &IpNet) -> bool {
    cidr.prefix_len() + 1 >= cidr.max_prefix_len()
}

#[cfg(test)]
mod tests;
