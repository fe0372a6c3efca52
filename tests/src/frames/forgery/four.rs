//! IPv4: sources that are another's, whole and in fragments, and DHCP.

use std::net::Ipv4Addr;

use fabric_core::pipeline::vocabulary::Cause;

use super::super::build::{self, IPV4, UDP, ethernet, ipv4, ipv4_with_options};
use super::{List, NOBODY_V4};

/// "More fragments" in the field of flags and offset.
const MORE: u16 = 0x2000;

pub(super) fn add(list: &mut List) {
    sources(list);
    shapes(list);
    parts_of_others(list);
}

fn sources(list: &mut List) {
    let scene = list.scene;
    let everybody = Ipv4Addr::BROADCAST;
    for (who, source) in [
        ("nobody", NOBODY_V4),
        ("the near pod", scene.near.v4),
        ("the far pod", scene.far.v4),
        ("the own node", scene.node.v4),
        ("the other node", scene.other_node.v4),
        ("outside", scene.outside.v4),
        ("nowhere", Ipv4Addr::UNSPECIFIED),
        ("the loopback", Ipv4Addr::LOCALHOST),
        ("a group", Ipv4Addr::new(224, 0, 0, 1)),
        ("all", everybody),
    ] {
        for end in [scene.near, scene.far, scene.node, scene.other_node, scene.outside] {
            let packet = list.datagram(source.into(), end.v4.into());
            list.packet(&format!("IPv4 from {who} to {}", end.v4), Cause::SpoofedIpv4, packet);
        }
    }
}

fn shapes(list: &mut List) {
    let (own, near, far) = (list.scene.own.v4, list.scene.near.v4, list.scene.far.v4);
    let forged = Cause::SpoofedIpv4;
    let payload = [&[0x55; 24], list.mark().as_slice()].concat();
    list.packet("first fragment from the far pod", forged, (IPV4, ipv4(far, near, UDP, MORE, &payload)));
    let payload = [&[0x55; 24], list.mark().as_slice()].concat();
    list.packet("later fragment from the far pod", forged, (IPV4, ipv4(far, near, UDP, 3, &payload)));
    // No operation three times, end of the list; and a loose source route.
    for (name, options) in
        [("no operations", [1, 1, 1, 0, 0, 0, 0, 0]), ("a source route", [131, 7, 4, 10, 0, 0, 1, 0])]
    {
        let datagram = build::udp_datagram((far.into(), 4000), (near.into(), 4001), &list.mark());
        let packet = ipv4_with_options(far, near, UDP, 0, &options, &datagram);
        list.packet(&format!("IPv4 with {name} from the far pod"), forged, (IPV4, packet));
    }
    for (name, protocol) in
        [("ICMP", 1), ("IPv4 in IPv4", 4), ("TCP", 6), ("GRE", 47), ("SCTP", 132), ("raw", 255)]
    {
        let inside = [&[8, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0], list.mark().as_slice()].concat();
        list.packet(
            &format!("{name} from the far pod"),
            forged,
            (IPV4, ipv4(far, near, protocol, 0, &inside)),
        );
    }
    for (name, at, value) in [("a header of 16 bytes", 0, 0x44), ("more bytes than there are", 2, 0xff)] {
        let mut packet = list.datagram(own.into(), near.into());
        packet.1[at] = value;
        list.packet(&format!("own IPv4 packet that tells {name}"), forged, packet);
    }
    // Cut off in the header of UDP or TCP, or with a wrong checksum there.
    for (protocol, bytes) in [(UDP, 4), (6, 12)] {
        let packet = ipv4(own, near, protocol, 0, &list.mark()[..bytes]);
        list.packet(&format!("own IPv4 packet cut in its {protocol}"), Cause::Invalid, (IPV4, packet));
    }
    let mut packet = list.datagram(own.into(), near.into());
    packet.1[26] ^= 0xff;
    list.packet("own IPv4 packet with a wrong checksum in UDP", Cause::Invalid, packet);
    for ttl in [0, 1] {
        let datagram = build::udp_datagram((own.into(), 4000), (near.into(), 4001), &list.mark());
        let packet = build::with_ttl(ipv4(own, near, UDP, 0, &datagram), ttl);
        list.packet(&format!("own IPv4 packet whose time to live is {ttl}"), None, (IPV4, packet));
    }
}

fn parts_of_others(list: &mut List) {
    let (own, near) = (list.scene.own, list.scene.near);
    for to in [near.v4, Ipv4Addr::BROADCAST] {
        let (ethertype, packet) = build::udp((own.v4.into(), 67), (to.into(), 68), &list.mark());
        let frame = ethernet(near.mac, own.mac, ethertype, &packet);
        list.frame(&format!("DHCP answer to {to}"), Cause::DhcpServer, frame);
    }
    for group in [Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::new(239, 1, 2, 3), Ipv4Addr::BROADCAST] {
        let packet = list.datagram(own.v4.into(), group.into());
        list.packet(&format!("own packet to {group}"), Cause::Multicast, packet);
    }
}
