//! The interface that carries tunnels, as far as the size of its packets goes.

use std::net::IpAddr;

use fabric_node::config::Tunnels;
use nix::ifaddrs::getifaddrs;
use tracing::warn;

/// MTU of an interface whose own cannot be told (RFC 894).
const USUAL_MTU: u32 = 1500;

/// MTU of the interface that the node file names, bytes.
pub fn mtu(tunnels: &Tunnels) -> u32 {
    let Some(device) = device(tunnels) else {
        warn!(
            mtu = USUAL_MTU,
            "no interface is known to carry tunnels; name one in the node file (tunnels.interface)"
        );
        return USUAL_MTU;
    };
    let read = std::fs::read_to_string(format!("/sys/class/net/{device}/mtu"));
    read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| {
        warn!(%device, mtu = USUAL_MTU, "the MTU of the interface that carries tunnels cannot be read");
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
