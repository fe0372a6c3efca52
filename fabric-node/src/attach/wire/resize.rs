//! Another MTU for a pair in use.

use rtnetlink::LinkUnspec;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};

use super::check::of_address;
use super::create::IPV6_LEAST_MTU;
use super::{WireError, is_pair, place, request};
use crate::attach::netns::Netns;
use crate::netlink::{Netlink, Step};

/// Gives both ends of a pair another MTU: a smaller one to the container's end first, a larger one to the host's, so that
/// no end sends what the other does not take. The calling thread ends up in the container's namespace.
///
/// # Errors
/// Where an end is missing or the kernel refuses; also for an MTU that would cost the container its IPv6 addresses.
pub fn resize(netns: &str, ifname: &str, host_name: &str, mtu: u32) -> Result<(), WireError> {
    let place = || place(ifname, netns);
    let failed = |cause: String| WireError::Failed { place: place(), cause };
    let io = |cause: std::io::Error| failed(cause.to_string());
    let mut host = Netlink::open().map_err(io)?;
    let outside = host.link(host_name).map_err(io)?.filter(is_pair);
    let outside = outside.ok_or_else(|| failed(format!("the host's end {host_name} is missing")))?;
    Netns::open(netns)?.enter()?;
    let mut container = Netlink::open().map_err(io)?;
    let inside = container.link(ifname).map_err(io)?;
    let inside = inside.ok_or_else(|| failed("the interface is missing".to_owned()))?.header.index;
    if mtu < IPV6_LEAST_MTU && has_ipv6(&mut container, inside).map_err(io)? {
        return Err(failed(format!(
            "an IPv6 address needs an MTU of {IPV6_LEAST_MTU} at least (RFC 8200), not {mtu}"
        )));
    }
    let mut ends = [(&mut container, inside, ifname), (&mut host, outside.header.index, host_name)];
    if mtu > mtu_of(&outside) {
        ends.reverse();
    }
    for (netlink, index, name) in ends {
        let step = set_mtu(index, name, mtu);
        netlink.apply(vec![step]).map_err(|source| WireError::Step { place: place(), source })?;
    }
    Ok(())
}

fn set_mtu(index: u32, name: &str, mtu: u32) -> Step {
    request::set(
        format!("set the MTU of {name} to {mtu}"),
        LinkUnspec::new_with_index(index).mtu(mtu).build(),
    )
}

fn mtu_of(link: &LinkMessage) -> u32 {
    let mtu = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    };
    link.attributes.iter().find_map(mtu).unwrap_or_default()
}

/// Whether the interface has an IPv6 address that the kernel would not make again by itself.
fn has_ipv6(container: &mut Netlink, index: u32) -> std::io::Result<bool> {
    let answers = container.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
    Ok(answers.iter().any(|answer| match answer {
        RouteNetlinkMessage::NewAddress(address) if address.header.index == index => of_address(address)
            .is_some_and(|net| match net {
                ipnet::IpNet::V6(net) => !net.addr().is_unicast_link_local(),
                ipnet::IpNet::V4(_) => false,
            }),
        _ => false,
    }))
}
