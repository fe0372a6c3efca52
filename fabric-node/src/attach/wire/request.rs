//! What the kernel is asked to do.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use fabric_core::node::WireSpec;
use ipnet::IpNet;
use openflow::Mac;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoData, InfoVeth, LinkMessage};
use rtnetlink::packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use rtnetlink::packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{LinkUnspec, LinkVeth};

use crate::attach::netns::Netns;
use crate::netlink::Step;

/// Index of the loopback device, in every namespace.
const LOOPBACK: u32 = 1;

/// The pair, its inner end born in the container's namespace.
pub fn create(spec: &WireSpec, netns: &Netns) -> Step {
    let inside = LinkUnspec::new_with_name(&spec.ifname)
        .address(spec.mac.0.to_vec())
        .mtu(spec.mtu)
        .setns_by_fd(netns.file().as_raw_fd())
        .build();
    let pair = LinkVeth::new(&spec.host_name, &spec.ifname)
        .mtu(spec.mtu)
        .set_info_data(InfoData::Veth(InfoVeth::Peer(inside)))
        .build();
    Step {
        what: format!("create the pair {} and {}", spec.host_name, spec.ifname),
        message: RouteNetlinkMessage::NewLink(pair),
        flags: NLM_F_CREATE | NLM_F_EXCL,
    }
}

/// Removes a device, and with it its other end.
pub fn delete(name: &str) -> Step {
    let message = RouteNetlinkMessage::DelLink(LinkUnspec::new_with_name(name).build());
    Step { what: format!("remove {name}"), message, flags: 0 }
}

/// The host's end, which answers no ARP: the switch does.
pub fn host_up(name: &str) -> Step {
    set(format!("set {name} up"), LinkUnspec::new_with_name(name).arp(false).up().build())
}

/// Everything inside, in an order that the kernel accepts.
pub fn inside(spec: &WireSpec, index: u32) -> Vec<Step> {
    let mut steps = vec![set("set lo up".to_owned(), LinkUnspec::new_with_index(LOOPBACK).up().build())];
    steps.extend(spec.addresses.iter().map(|address| add_address(index, *address)));
    steps.push(set(format!("set {} up", spec.ifname), LinkUnspec::new_with_index(index).up().build()));
    for gateway in &spec.gateways {
        steps.extend(spec.gateway_mac.map(|mac| add_neighbour(index, *gateway, mac)));
        if needs_link_route(*gateway, &spec.addresses) {
            steps.push(add_route(index, IpNet::from(*gateway), None));
        }
        steps.push(add_route(index, default_route(*gateway), Some(*gateway)));
    }
    steps
}

/// Whether the way to the gateway does not follow from an address of the interface.
pub fn needs_link_route(gateway: IpAddr, addresses: &[IpNet]) -> bool {
    let link_local = matches!(gateway, IpAddr::V6(gateway) if gateway.is_unicast_link_local());
    !link_local && !addresses.iter().any(|address| address.contains(&gateway))
}

/// The destination of the default route in the gateway's family.
pub fn default_route(gateway: IpAddr) -> IpNet {
    match gateway {
        IpAddr::V4(_) => IpNet::V4(ipnet::Ipv4Net::default()),
        IpAddr::V6(_) => IpNet::V6(ipnet::Ipv6Net::default()),
    }
}

/// The family of an address, as netlink counts.
pub fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// Changes a device.
pub fn set(what: String, link: LinkMessage) -> Step {
    Step { what, message: RouteNetlinkMessage::SetLink(link), flags: 0 }
}

fn add_address(index: u32, address: IpNet) -> Step {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = index;
    message.attributes.push(AddressAttribute::Address(address.addr()));
    message.attributes.push(AddressAttribute::Local(address.addr()));
    match address {
        IpNet::V4(net) if net.prefix_len() < 31 => {
            message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
        }
        IpNet::V4(_) => {}
        IpNet::V6(_) => message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad)),
    }
    Step {
        what: format!("add the address {address}"),
        message: RouteNetlinkMessage::NewAddress(message),
        flags: NLM_F_CREATE | NLM_F_REPLACE,
    }
}

fn add_neighbour(index: u32, address: IpAddr, mac: Mac) -> Step {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.header.kind = RouteType::Unicast;
    message.attributes.push(NeighbourAttribute::Destination(address.into()));
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
    Step {
        what: format!("add the neighbour {address}"),
        message: RouteNetlinkMessage::NewNeighbour(message),
        flags: NLM_F_CREATE | NLM_F_REPLACE,
    }
}

fn add_route(index: u32, destination: IpNet, gateway: Option<IpAddr>) -> Step {
    let mut message = RouteMessage::default();
    message.header.address_family = family(destination.addr());
    message.header.destination_prefix_length = destination.prefix_len();
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.kind = RouteType::Unicast;
    message.header.scope = RouteScope::Universe;
    message.attributes.push(RouteAttribute::Oif(index));
    if destination.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(destination.addr().into()));
    }
    let what = match gateway {
        Some(gateway) => {
            message.attributes.push(RouteAttribute::Gateway(gateway.into()));
            format!("add the route {destination} via {gateway}")
        }
        None => {
            message.header.scope = RouteScope::Link;
            format!("add the route {destination}")
        }
    };
    Step { what, message: RouteNetlinkMessage::NewRoute(message), flags: NLM_F_CREATE | NLM_F_REPLACE }
}
