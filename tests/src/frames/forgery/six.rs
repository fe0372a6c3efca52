//! IPv6: sources that are another's, behind extension headers and in fragments, and
//! neighbour discovery.

use std::net::Ipv6Addr;

use fabric_core::pipeline::vocabulary::Cause;

use super::super::build::{ICMPV6, IPV6, UDP, extension, fragment, icmpv6, ipv6, option, udp_datagram};
use super::{List, NOBODY_V6};

/// All nodes of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Option of neighbour discovery: the sender's hardware address.
const SOURCE_LINK: u8 = 1;
/// Option of neighbour discovery: the target's hardware address.
const TARGET_LINK: u8 = 2;
/// An option for experiments (RFC 4727), which carries the mark.
const EXPERIMENT: u8 = 253;

pub(super) fn add(list: &mut List) {
    sources(list);
    shapes(list);
    solicitations(list);
    advertisements(list);
    routers(list);
}

fn sources(list: &mut List) {
    let scene = list.scene;
    for (who, source) in [
        ("nobody", NOBODY_V6),
        ("the near pod", scene.near.v6),
        ("the far pod", scene.far.v6),
        ("the own node", scene.node.v6),
        ("the other node", scene.other_node.v6),
        ("outside", scene.outside.v6),
        ("nowhere", Ipv6Addr::UNSPECIFIED),
        ("the loopback", Ipv6Addr::LOCALHOST),
        ("a group", ALL_NODES),
        ("the own link", link_local(scene.own.mac)),
        ("the router's link", Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
        ("an IPv4 address", scene.near.v4.to_ipv6_mapped()),
    ] {
        for end in [scene.near, scene.far, scene.node, scene.other_node, scene.outside] {
            let packet = list.datagram(source.into(), end.v6.into());
            list.packet(&format!("IPv6 from {who} to {}", end.v6), Cause::SpoofedIpv6, packet);
        }
    }
}

fn shapes(list: &mut List) {
    let (own, near, far) = (list.scene.own.v6, list.scene.near.v6, list.scene.far.v6);
    for (name, header) in [("hop-by-hop options", 0), ("a routing header", 43), ("destination options", 60)] {
        let datagram = udp_datagram((far.into(), 4000), (near.into(), 4001), &list.mark());
        let packet = ipv6(far, near, header, 64, &extension(UDP, &datagram));
        list.packet(&format!("IPv6 with {name} from the far pod"), Cause::SpoofedIpv6, (IPV6, packet));
        let chain = extension(60, &extension(43, &extension(UDP, &datagram)));
        let packet = ipv6(far, near, header, 64, &chain);
        list.packet(
            &format!("IPv6 with {name} and more from the far pod"),
            Cause::SpoofedIpv6,
            (IPV6, packet),
        );
    }
    for (name, offset, more) in [("atomic", 0, false), ("first", 0, true), ("later", 3, false)] {
        let payload = [&[0x55; 24], list.mark().as_slice()].concat();
        let packet = ipv6(far, near, 44, 64, &fragment(UDP, offset, more, &payload));
        list.packet(&format!("{name} fragment from the far pod"), Cause::SpoofedIpv6, (IPV6, packet));
    }
    for bytes in [10, 39] {
        let mut packet = list.datagram(own.into(), near.into());
        packet.1.truncate(bytes);
        list.packet(&format!("{bytes} bytes of an own IPv6 packet"), Cause::SpoofedIpv6, packet);
    }
    // What the headers promise is not there.
    let packet = ipv6(own, near, 0, 64, &[UDP, 9, 1, 4, 0, 0, 0, 0]);
    list.packet("own IPv6 packet cut in its options", None, (IPV6, packet));
    let packet = ipv6(own, near, 44, 64, &[UDP, 0, 0, 1]);
    list.packet("own IPv6 packet cut in its fragment header", None, (IPV6, packet));
}

fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let pair = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

/// A message of neighbour discovery.
fn message(list: &List, from: Ipv6Addr, to: Ipv6Addr, kind: u8, body: &[&[u8]]) -> (u16, Vec<u8>) {
    let body = [body.concat(), option(EXPERIMENT, &list.mark())].concat();
    (IPV6, ipv6(from, to, ICMPV6, 255, &icmpv6(from, to, kind, &body)))
}

fn solicitations(list: &mut List) {
    let (own, near) = (list.scene.own, list.scene.near);
    let cases = [
        ("shows another's hardware address", own.v6, near.mac),
        ("is from another's address", near.v6, own.mac),
        ("is from another's link", link_local(near.mac), own.mac),
    ];
    for (name, from, mac) in cases {
        for to in [near.v6, ALL_NODES] {
            let body: [&[u8]; 3] = [&[0; 4], &near.v6.octets(), &option(SOURCE_LINK, &mac)];
            let packet = message(list, from, to, 135, &body);
            list.packet(&format!("solicitation that {name}, to {to}"), Cause::SpoofedDiscovery, packet);
        }
    }
    let inside = icmpv6(own.v6, near.v6, 135, &[&[0; 4], near.v6.octets().as_slice(), &list.mark()].concat());
    let packet = ipv6(own.v6, near.v6, 0, 255, &extension(ICMPV6, &inside));
    list.packet("solicitation behind options", Cause::SpoofedDiscovery, (IPV6, packet));
}

fn advertisements(list: &mut List) {
    let (own, near, far) = (list.scene.own, list.scene.near, list.scene.far);
    for (name, from, target) in [
        ("for another's address", own.v6, far.v6),
        ("for the router's link", own.v6, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
        ("from another's address", far.v6, far.v6),
        ("from the own link", link_local(own.mac), far.v6),
    ] {
        for to in [near.v6, ALL_NODES] {
            let body: [&[u8]; 3] = [&[0x60, 0, 0, 0], &target.octets(), &option(TARGET_LINK, &own.mac)];
            let packet = message(list, from, to, 136, &body);
            list.packet(&format!("advertisement {name}, to {to}"), Cause::SpoofedDiscovery, packet);
        }
    }
    // In two fragments, of which neither shows what it is.
    let body =
        [&[0x60, 0, 0, 0], far.v6.octets().as_slice(), &option(TARGET_LINK, &own.mac), &list.mark()].concat();
    let whole = icmpv6(own.v6, near.v6, 136, &body);
    for (offset, more, part) in [(0, true, &whole[..24]), (3, false, &whole[24..])] {
        let packet = ipv6(own.v6, near.v6, 44, 255, &fragment(ICMPV6, offset, more, part));
        list.packet("advertisement in fragments", None, (IPV6, packet));
    }
}

fn routers(list: &mut List) {
    let (own, near) = (list.scene.own, list.scene.near);
    let link = link_local(own.mac);
    for (from, to, cause) in [
        (link, ALL_NODES, Cause::Multicast),
        (own.v6, ALL_NODES, Cause::Multicast),
        (link, near.v6, Cause::SpoofedIpv6),
        (own.v6, near.v6, Cause::Invalid),
    ] {
        let router: [&[u8]; 2] = [&[64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], &option(SOURCE_LINK, &own.mac)];
        let packet = message(list, from, to, 134, &router);
        list.packet(&format!("router advertisement from {from} to {to}"), cause, packet);
        let redirect: [&[u8]; 3] = [&[0; 4], &own.v6.octets(), &list.scene.far.v6.octets()];
        let packet = message(list, from, to, 137, &redirect);
        list.packet(&format!("redirect from {from} to {to}"), cause, packet);
    }
}
