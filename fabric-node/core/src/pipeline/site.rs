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
}

/// A kind of tunnel port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tunnel {
    /// VXLAN (RFC 7348).
    Vxlan,
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
