//! What the pipeline knows of its own node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use openflow::Mac;
use policy::{Encap, Mode, Name, Network, World};

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

impl Site {
    /// The tunnel port that packets of a Network take.
    #[must_use]
    pub fn tunnel_of(&self, network: &Network) -> Option<TunnelPort> {
        match network.mode {
            Mode::Overlay { encap: Encap::Vxlan, vni } => {
                self.tunnels.get(&Tunnel::Vxlan).map(|port| TunnelPort { port: *port, vni })
            }
            Mode::Overlay { .. } | Mode::Underlay { .. } => None,
        }
    }

    /// The tunnel port for packets between an overlay Network and a node's own address.
    #[must_use]
    pub fn tunnel_for_nodes(&self, world: &World, source: IpAddr) -> Option<TunnelPort> {
        let network = world.network_of(source).or_else(|| world.networks().find(|n| n.default))?;
        self.tunnel_of(network)
    }
}

/// Where tunnelled packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelPort {
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
    /// Addresses inside: one a family at most.
    pub addresses: Vec<IpAddr>,
    /// The VLAN that it is in, where it is on the underlay.
    pub segment: Option<Segment>,
    /// Its limits.
    pub rates: Rates,
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
