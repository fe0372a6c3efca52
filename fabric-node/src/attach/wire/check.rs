//! Comparing the container's side with what it should be.

use std::net::IpAddr;

use fabric_core::node::WireSpec;
use ipnet::IpNet;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};

use super::request::{default_route, needs_link_route};
use super::{WireError, is_pair, place};
use crate::attach::netns::Netns;
use crate::netlink::Netlink;

/// The container's side as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Hardware address.
    pub mac: Vec<u8>,
    /// MTU, bytes.
    pub mtu: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Addresses, with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// Routes out of this interface, with their next hops.
    pub routes: Vec<(IpNet, Option<IpAddr>)>,
}

/// Compares, and names every difference. What another plugin of the chain added is no difference.
pub fn check(spec: &WireSpec) -> Result<(), WireError> {
    let failed = |cause: std::io::Error| WireError::Failed {
        place: place(&spec.ifname, &spec.netns),
        cause: cause.to_string(),
    };
    let mut host = Netlink::open().map_err(failed)?;
    let outside = host.link(&spec.host_name).map_err(failed)?;
    let mut differences = host_differences(spec, outside.as_ref());
    match observe(&spec.netns, &spec.ifname)? {
        Some(observed) => differences.extend(inside_differences(spec, &observed)),
        None => differences.push("the interface is missing".to_owned()),
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(WireError::Differs { place: place(&spec.ifname, &spec.netns), differences })
}

/// What the kernel has of an interface in a namespace. The calling thread ends up there.
pub fn observe(netns: &str, ifname: &str) -> Result<Option<Observed>, WireError> {
    let failed =
        |cause: std::io::Error| WireError::Failed { place: place(ifname, netns), cause: cause.to_string() };
    Netns::open(netns)?.enter()?;
    let mut container = Netlink::open().map_err(failed)?;
    let Some(link) = container.link(ifname).map_err(failed)? else { return Ok(None) };
    let mut observed = of_link(&link);
    let index = link.header.index;
    for answer in
        container.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default())).map_err(failed)?
    {
        if let RouteNetlinkMessage::NewAddress(address) = answer
            && address.header.index == index
        {
            observed.addresses.extend(of_address(&address));
        }
    }
    for answer in container.dump(RouteNetlinkMessage::GetRoute(RouteMessage::default())).map_err(failed)? {
        if let RouteNetlinkMessage::NewRoute(route) = answer {
            observed.routes.extend(of_route(&route, index));
        }
    }
    Ok(Some(observed))
}

fn host_differences(spec: &WireSpec, link: Option<&LinkMessage>) -> Vec<String> {
    match link {
        None => vec![format!("the host's end {} is missing", spec.host_name)],
        Some(link) if !is_pair(link) => vec![format!("the host's end {} is another device", spec.host_name)],
        Some(link) if !link.header.flags.contains(LinkFlags::Up) => {
            vec![format!("the host's end {} is down", spec.host_name)]
        }
        Some(_) => Vec::new(),
    }
}

fn inside_differences(spec: &WireSpec, observed: &Observed) -> Vec<String> {
    let mut differences = Vec::new();
    if !observed.up {
        differences.push("the interface is down".to_owned());
    }
    if observed.mac != spec.mac.0 {
        differences.push(format!("the hardware address is {}, not {}", hex(&observed.mac), spec.mac));
    }
    if observed.mtu != spec.mtu {
        differences.push(format!("the MTU is {}, not {}", observed.mtu, spec.mtu));
    }
    for address in spec.addresses.iter().filter(|address| !observed.addresses.contains(address)) {
        differences.push(format!("the address {address} is missing"));
    }
    for gateway in &spec.gateways {
        let link_route = (IpNet::from(*gateway), None);
        if needs_link_route(*gateway, &spec.addresses) && !observed.routes.contains(&link_route) {
            differences.push(format!("the route to {gateway} is missing"));
        }
        if !observed.routes.contains(&(default_route(*gateway), Some(*gateway))) {
            differences.push(format!("the default route via {gateway} is missing"));
        }
    }
    differences
}

fn of_link(link: &LinkMessage) -> Observed {
    let mut observed = Observed { up: link.header.flags.contains(LinkFlags::Up), ..Observed::default() };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::Address(mac) => observed.mac.clone_from(mac),
            LinkAttribute::Mtu(mtu) => observed.mtu = *mtu,
            _ => {}
        }
    }
    observed
}

/// The kernel gives an IPv4 address as `Local`; an IPv6 one has `Address` alone.
pub(super) fn of_address(address: &AddressMessage) -> Option<IpNet> {
    let local = address.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(local) => Some(*local),
        _ => None,
    });
    let given = || {
        address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(given) => Some(*given),
            _ => None,
        })
    };
    IpNet::new(local.or_else(given)?, address.header.prefix_len).ok()
}

fn of_route(route: &RouteMessage, index: u32) -> Option<(IpNet, Option<IpAddr>)> {
    let mut destination = None;
    let mut gateway = None;
    let mut out = false;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => out = *oif == index,
            RouteAttribute::Destination(address) => destination = plain(address),
            RouteAttribute::Gateway(address) => gateway = plain(address),
            _ => {}
        }
    }
    if !out || route.header.kind != RouteType::Unicast {
        return None;
    }
    let everything = match route.header.address_family {
        rtnetlink::packet_route::AddressFamily::Inet => IpAddr::from([0_u8; 4]),
        _ => IpAddr::from([0_u8; 16]),
    };
    let destination = destination.unwrap_or(everything);
    IpNet::new(destination, route.header.destination_prefix_length).ok().map(|net| (net, gateway))
}

fn plain(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn hex(mac: &[u8]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}
