//! The interfaces that carry tunnels and VLANs, as far as the size of its packets goes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fabric_node::config::{NodeConfig, PhysicalNetwork, Tunnels};
use nix::ifaddrs::getifaddrs;
use policy::Name;
use tracing::warn;

/// MTU of an interface whose own cannot be told (RFC 894).
const USUAL_MTU: u32 = 1500;

/// The physical networks of the node file, with the MTU of the NIC of each, bytes.
pub fn physical(config: &NodeConfig) -> BTreeMap<Name, u32> {
    let networks = config.physical_networks.iter();
    networks.map(|(name, network)| (name.as_str().into(), mtu_of(&network.nic))).collect()
}

/// MTU of the interface that the node file names for tunnels, bytes. A NIC whose addresses have moved to the bridge
/// of its physical network stands for that bridge.
pub fn mtu(config: &NodeConfig) -> u32 {
    let Some(device) = device(&config.tunnels) else {
        warn!(
            mtu = USUAL_MTU,
            "no interface is known to carry tunnels; name one in the node file (tunnels.interface)"
        );
        return USUAL_MTU;
    };
    let bridge = config.physical_networks.iter().find(|(_, network)| network.nic == device);
    let bridge = bridge.map(|(name, _)| PhysicalNetwork::bridge(name));
    mtu_of(&bridge.filter(|bridge| exists(bridge)).unwrap_or(device))
}

fn exists(device: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(device).exists()
}

fn mtu_of(device: &str) -> u32 {
    let read = std::fs::read_to_string(format!("/sys/class/net/{device}/mtu"));
    read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| {
        warn!(%device, mtu = USUAL_MTU, "the MTU of the interface cannot be read");
        USUAL_MTU
    })
}

fn device(tunnels: &Tunnels) -> Option<String> {
    if let Some(interface) = &tunnels.interface {
        return Some(interface.clone());
    }
    let cidr = tunnels.cidr?;
    let within = |address: &nix::sys::socket::SockaddrStorage| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
            .is_some_and(|ip| cidr.contains(&ip))
    };
    getifaddrs()
        .ok()?
        .find(|entry| entry.address.as_ref().is_some_and(within))
        .map(|entry| entry.interface_name)
}
