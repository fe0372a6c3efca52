//! Hardware addresses, tags, other protocols than IP, and frames that are too short.

use fabric_core::pipeline::vocabulary::Cause;

use super::super::build::{self, ARP, EVERYBODY, IPV4, IPV6, SERVICE_VLAN, VLAN, ethernet, tag};
use super::{End, List, NOBODY_MAC, NOBODY_V4, ROUTER};

pub(super) fn add(list: &mut List) {
    hardware_addresses(list);
    tags(list);
    arp(list);
    others(list);
}

fn hardware_addresses(list: &mut List) {
    let (own, near) = (list.scene.own, list.scene.near);
    for (who, mac) in
        [("nobody", NOBODY_MAC), ("the near pod", near.mac), ("the router", ROUTER), ("all", EVERYBODY)]
    {
        let (ethertype, packet) = list.datagram(own.v4.into(), near.v4.into());
        let name = format!("own IPv4 packet from the hardware address of {who}");
        list.frame(&name, Cause::SpoofedMac, ethernet(ROUTER, mac, ethertype, &packet));
    }
    // Straight to the pod beside, without the router between.
    let (ethertype, packet) = list.datagram(near.v6.into(), near.v6.into());
    let frame = ethernet(near.mac, near.mac, ethertype, &packet);
    list.frame("all of it from the near pod", Cause::SpoofedMac, frame);
}

fn tags(list: &mut List) {
    let (own, near) = (list.scene.own, list.scene.near);
    for (what, vid) in [("VLAN 100", 100), ("priority", 0xa000)] {
        let (ethertype, packet) = list.datagram(own.v4.into(), near.v4.into());
        let frame = ethernet(ROUTER, own.mac, VLAN, &tag(vid, ethertype, &packet));
        list.frame(&format!("own packet with a tag: {what}"), Cause::VlanTag, frame);
    }
    for outer in [SERVICE_VLAN, VLAN] {
        let (ethertype, packet) = list.datagram(own.v6.into(), near.v6.into());
        let inside = tag(7, VLAN, &tag(100, ethertype, &packet));
        let frame = ethernet(ROUTER, own.mac, outer, &inside);
        list.frame(&format!("own packet with two tags, the outer {outer:#x}"), Cause::VlanTag, frame);
    }
}

fn arp(list: &mut List) {
    let (own, near) = (list.scene.own, list.scene.near);
    let (me, victim) = ((own.mac, own.v4), (own.mac, near.v4));
    let (zero, unknown) = ([0; 6], std::net::Ipv4Addr::UNSPECIFIED);
    let forged = Cause::SpoofedArp;
    for (name, cause, operation, sender, target) in [
        ("request that claims another's address", Some(forged), 1, victim, (zero, NOBODY_V4)),
        (
            "request that shows another's hardware address",
            Some(forged),
            1,
            (near.mac, own.v4),
            (zero, near.v4),
        ),
        ("reply that claims another's address", Some(forged), 2, victim, (near.mac, near.v4)),
        (
            "reply that claims the router's address",
            Some(forged),
            2,
            (own.mac, NOBODY_V4),
            (near.mac, near.v4),
        ),
        ("gratuitous request for another's address", Some(forged), 1, victim, (zero, near.v4)),
        ("gratuitous reply for another's address", Some(forged), 2, victim, (EVERYBODY, near.v4)),
        ("probe for another's address", Some(forged), 1, (own.mac, unknown), (zero, near.v4)),
        ("gratuitous reply for the own address", None, 2, me, (EVERYBODY, own.v4)),
        ("reply that nobody asked for", None, 2, me, (near.mac, near.v4)),
        ("RARP inside ARP", None, 3, me, me),
    ] {
        for to in [EVERYBODY, near.mac] {
            let packet = build::arp(operation, sender, target, &list.mark());
            list.frame(&format!("ARP: {name}"), cause, ethernet(to, own.mac, ARP, &packet));
        }
    }
}

fn others(list: &mut List) {
    let End { mac, .. } = list.scene.own;
    let near = list.scene.near.mac;
    let lldp = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
    let bridges = [0x01, 0x80, 0xc2, 0, 0, 0];
    for (name, to, ethertype) in [
        ("LLDP", lldp, 0x88cc),
        ("a BPDU by its length", bridges, 38),
        ("an experiment", near, 0x88b5),
        ("MPLS", near, 0x8847),
        ("PPPoE", near, 0x8864),
        ("RARP", EVERYBODY, 0x8035),
        ("802.1X", near, 0x888e),
        ("MACsec", near, 0x88e5),
    ] {
        let frame = ethernet(to, mac, ethertype, &[&[0x42; 40], list.mark().as_slice()].concat());
        list.frame(&format!("neither IP nor ARP: {name}"), Cause::Protocol, frame);
    }
    for (name, ethertype, cause) in [
        ("IPv4", IPV4, Cause::SpoofedIpv4),
        ("IPv6", IPV6, Cause::SpoofedIpv6),
        ("ARP", ARP, Cause::SpoofedArp),
        ("another protocol", 0x88b5, Cause::Protocol),
    ] {
        list.frame(&format!("14 bytes of {name}"), cause, ethernet(near, mac, ethertype, &[]));
        let cut = ethernet(near, mac, ethertype, &[0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        list.frame(&format!("24 bytes of {name}"), cause, cut);
    }
}
