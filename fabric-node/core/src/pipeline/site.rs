//! What the pipeline knows of its own node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use openflow::Mac;
use policy::{Encap, Family, Mode, Name, Network, World};

/// The node as the pipeline sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// Name of this node.
    pub node: Name,
    /// Addresses of this node.
    pub addresses: Vec<IpAddr>,
    /// Hardware address of the LOCAL port; without it nothing can be delivered to the host.
    pub local_mac: Option<Mac>,
    /// OpenFlow ports of the tunnels, by encapsulation.
    pub tunnels: BTreeMap<Tunnel, u32>,
    /// OpenFlow ports of the patches to the bridges of physical networks, by the network's name.
    pub uplinks: BTreeMap<Name, u32>,
    /// MTU of the interface that carries tunnels, bytes; 0 where it is not known.
    pub carrier_mtu: u32,
    /// Tunnel addresses of other nodes to which less fits than that, with the MTU of the path, bytes.
    pub path_mtus: BTreeMap<IpAddr, u32>,
    /// The largest MTU of this node's pods and of its own interface, bytes.
    pub largest_mtu: u32,
    /// The smallest MTU of this node's pods, bytes; `None` without pods.
    pub smallest_mtu: Option<u32>,
    /// Egress addresses that this node holds.
    pub egress: BTreeSet<IpAddr>,
    /// MTU of the LOCAL port, bytes; 0 where it is not known.
    pub local_mtu: u32,
    /// Whether there may be packets that do not fit into the way that they would take: see [`Site::may_overfill`].
    pub overfills: bool,
}

/// A kind of tunnel port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tunnel {
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GRE with a key (RFC 2784, RFC 2890).
    Gre,
}

/// A VLAN of a physical network: who hears whose broadcasts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// The physical network.
    pub physical: Name,
    /// 1 to 4094; without one, untagged.
    pub vlan: Option<u16>,
}

impl Segment {
    /// The segment of the pods of a Network; none of an overlay's.
    #[must_use]
    pub fn of(network: &Network) -> Option<Segment> {
        match &network.mode {
            Mode::Underlay { vlan, physical_network } => {
                Some(Segment { physical: physical_network.clone(), vlan: *vlan })
            }
            Mode::Overlay { .. } => None,
        }
    }
}

/// What a pod may send and receive, bits per second with Ethernet headers; without a rate, what the switch can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Out of the pod.
    pub out: Option<u64>,
    /// Into it.
    pub into: Option<u64>,
}

impl Tunnel {
    /// The encapsulation's kind of tunnel.
    #[must_use]
    pub const fn of(encap: Encap) -> Option<Tunnel> {
        match encap {
            Encap::Vxlan => Some(Tunnel::Vxlan),
            Encap::Geneve => Some(Tunnel::Geneve),
            Encap::Gre => Some(Tunnel::Gre),
            Encap::None => None,
        }
    }

    /// Bytes that the encapsulation takes from an IP packet: outer IP, the tunnel's own header, inner Ethernet.
    #[must_use]
    pub const fn overhead(self, over_v6: bool) -> u32 {
        let ip = if over_v6 { 40 } else { 20 };
        let own = match self {
            // UDP and the header (RFC 7348 §5, RFC 8926 §3.4 without options).
            Tunnel::Vxlan | Tunnel::Geneve => 8 + 8,
            // Header and key (RFC 2890 §2).
            Tunnel::Gre => 4 + 4,
        };
        ip + own + 14
    }
}

impl Site {
    /// What stands in the register of packets of a segment; `None` while its uplink has no port.
    #[must_use]
    pub fn segment_number(&self, segment: &Segment) -> Option<u32> {
        let port = self.uplinks.get(&segment.physical)?;
        Some(port << 16 | segment.vlan.map_or(0, |vlan| 0x1000 | u32::from(vlan)))
    }

    /// Whether the number is that of a segment of an uplink that there is.
    #[must_use]
    pub fn has_uplink_of(&self, segment_number: u32) -> bool {
        self.uplinks.values().any(|port| *port == segment_number >> 16)
    }

    /// The largest IP packet that reaches a node through a tunnel, bytes; `None` where that is not known.
    #[must_use]
    pub fn capacity(&self, kind: Tunnel, peer: IpAddr) -> Option<u32> {
        let path = self.path_mtus.get(&peer).copied().unwrap_or(self.carrier_mtu);
        path.checked_sub(kind.overhead(peer.is_ipv6())).filter(|_| self.carrier_mtu > 0)
    }

    /// The MTU of a tunnel to a node, bytes, where there may be packets that do not fit.
    #[must_use]
    pub fn limit(&self, kind: Tunnel, peer: IpAddr) -> Option<u32> {
        self.capacity(kind, peer).filter(|capacity| self.largest_mtu > *capacity)
    }

    /// The MTU of a pod of this node, where others here send packets that do not fit.
    #[must_use]
    pub fn limit_of(&self, pod: &LocalPod) -> Option<u32> {
        Some(pod.mtu).filter(|mtu| (1..self.largest_mtu).contains(mtu))
    }

    /// The MTU of this node's own interface, where pods here send packets that do not fit.
    #[must_use]
    pub fn limit_of_host(&self) -> Option<u32> {
        Some(self.local_mtu).filter(|mtu| (1..self.largest_mtu).contains(mtu))
    }

    /// Whether there may be packets that a tunnel to some node, a pod of this node or this node itself does not take.
    #[must_use]
    pub fn may_overfill(&self, world: &World) -> bool {
        let smaller = |mtu: u32| (1..self.largest_mtu).contains(&mtu);
        if self.smallest_mtu.is_some_and(smaller) || smaller(self.local_mtu) {
            return true;
        }
        let kinds: BTreeSet<Tunnel> =
            world.networks().filter_map(|n| self.tunnel_of(n)).map(|t| t.kind).collect();
        let others = world.nodes().filter(|node| node.name != self.node);
        others
            .filter_map(|node| node.tunnel_address)
            .any(|peer| kinds.iter().any(|kind| self.limit(*kind, peer).is_some()))
    }

    /// The tunnel port that packets of a Network take.
    #[must_use]
    pub fn tunnel_of(&self, network: &Network) -> Option<TunnelPort> {
        let Mode::Overlay { encap, vni } = network.mode else { return None };
        let kind = Tunnel::of(encap)?;
        let port = *self.tunnels.get(&kind)?;
        Some(TunnelPort { kind, port, vni })
    }

    /// The tunnel port for packets to an address: that of its overlay Network, and for a node or a pod on a segment, the
    /// default one.
    #[must_use]
    pub fn tunnel_for(&self, world: &World, address: IpAddr) -> Option<TunnelPort> {
        let own = world.network_of(address).and_then(|network| self.tunnel_of(network));
        own.or_else(|| self.default_tunnel(world))
    }

    /// The tunnel port of what is of no overlay Network: that of the default one, else of the first.
    #[must_use]
    pub fn default_tunnel(&self, world: &World) -> Option<TunnelPort> {
        let default = world.networks().filter(|n| n.default).find_map(|n| self.tunnel_of(n));
        default.or_else(|| world.networks().find_map(|n| self.tunnel_of(n)))
    }
}

/// Where tunnelled packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelPort {
    /// The encapsulation.
    pub kind: Tunnel,
    /// OpenFlow port.
    pub port: u32,
    /// Virtual network identifier, 24 bits.
    pub vni: u32,
}

/// A pod of this node, as far as its flows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPod {
    /// Conntrack zone, never 0; also tells its meters.
    pub zone: u16,
    /// OpenFlow port.
    pub port: u32,
    /// Hardware address inside.
    pub mac: Mac,
    /// Addresses inside: one a family at most. None while it waits for its lease.
    pub addresses: Vec<IpAddr>,
    /// Whether a DHCP server of its VLAN gives its address: it speaks with such servers whatever policies say.
    pub leases: bool,
    /// The VLAN that it is in, where it is on the underlay.
    pub segment: Option<Segment>,
    /// Its limits.
    pub rates: Rates,
    /// The largest IP packet that its device takes, bytes; 0 where that is not known.
    pub mtu: u32,
    /// The families in which it does not leave the cluster by its own node as others do, but under an egress address or
    /// not at all.
    pub exits: BTreeSet<Family>,
}

impl LocalPod {
    /// Its link-local IPv6 address, formed from the hardware address (RFC 4291 appendix A).
    #[must_use]
    pub fn link_local(&self) -> std::net::Ipv6Addr {
        let [a, b, c, d, e, f] = self.mac.0;
        let pair = |hi: u8, lo: u8| u16::from_be_bytes([hi, lo]);
        std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
    }
}
