//! What the host room is to bring about.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use openflow::Mac;

/// The node's own side of the fabric, whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostState {
    /// The bridge's LOCAL device.
    pub device: String,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Hardware address behind every next hop on that device.
    pub gateway_mac: Option<Mac>,
    /// Next hops on that device (`169.254.1.1`, `fe80::1`): permanent neighbours.
    pub gateways: Vec<IpAddr>,
    /// Prefixes routed to the device by the next hop of their family.
    pub routes: BTreeSet<IpNet>,
    /// Preferred sources for these routes, one a family at most: addresses of this node.
    pub sources: Vec<IpAddr>,
    /// Overlay prefixes that leave the node under the node's address (masquerade), unless they go to one of `routes`. To
    /// pods in VLANs they do not leave by the host; what of a VLAN's prefix they do is a machine there.
    pub masquerade: BTreeSet<IpNet>,
    /// Addresses of this node's pods in VLANs, which nobody is to reach by being forwarded here.
    pub on_wire: BTreeSet<IpNet>,
    /// By prefix of `masquerade`: what its packets go to with their own address all the same.
    pub unmasked: BTreeMap<IpNet, BTreeSet<IpNet>>,
    /// Whether a namespace asks for an egress address: then nothing that is to leave under one may leave otherwise, whether or
    /// not the node holds it yet.
    pub egress_asked: bool,
    /// Egress addresses that the node holds, each with the hardware address on the bridge from which the host gets what it
    /// is to send under it.
    pub egress: BTreeMap<IpAddr, Mac>,
    /// Tunnel addresses of the other nodes, whose link-layer neighbours are to be kept warm.
    pub peers: BTreeSet<IpAddr>,
}
