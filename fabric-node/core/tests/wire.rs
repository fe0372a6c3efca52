//! Simulated switches whose pods are in VLANs: what a pod, and what a machine on the wire, can get past.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests read files, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;

use fabric_core::pipeline::statics::quiet_flows;
use fabric_core::pipeline::vocabulary::CLAIMED;
use openflow::table::{Packet, Simulator};
use openflow::{Field, Mac, port};
use support::switch::{Fabric, Node, Sent};

const WIRE: u32 = 2;
/// LOCAL, as a register holds it.
const HOST: u32 = 0xfffe;
/// The pods of node `n1`: two in VLAN 100, of which policies guard the second, one untagged, one in the overlay.
const WEB: (u32, &str) = (32_769, "10.100.0.70");
const WEB_V6: &str = "fd10::1:70";
const DB: (u32, &str) = (32_770, "10.100.0.71");
const PLAIN: (u32, &str) = (32_771, "10.101.0.7");
const OVERLAY: (u32, &str) = (32_772, "10.244.0.10");
const ROUTER: Mac = Mac([2, 0, 0, 0, 1, 1]);
const MACHINE: Mac = Mac([2, 0, 0, 0, 2, 2]);
const EVERYBODY: Mac = Mac([0xff; 6]);
const VLAN_100: u16 = 0x1064;

fn node() -> Node {
    let world =
        std::fs::read_to_string(format!("{}/tests/golden/underlay/world.yaml", env!("CARGO_MANIFEST_DIR")));
    Fabric::new(&world.unwrap()).nodes.remove(0)
}

fn mac(port: u32) -> Mac {
    Mac([0x0e, 0, 0, 0, 0, u8::try_from(port - 32_768).unwrap()])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn udp(from: &str, to: &str, ports: (u16, u16)) -> Packet {
    Sent { from: ip(from), to: ip(to), protocol: 17, ports }.whole()
}

fn frame(packet: Packet, from: Mac, to: Mac) -> Packet {
    packet.with(Field::ETH_SRC, from).with(Field::ETH_DST, to)
}

/// A pod sends; where it goes.
fn sends(node: &mut Node, pod: (u32, &str), packet: Packet, to: Mac) -> Vec<u32> {
    ports(&node.put(pod.0, frame(packet, mac(pod.0), to)))
}

/// The wire brings a frame of VLAN 100; where it goes.
fn brings(node: &mut Node, packet: Packet, from: Mac, to: Mac) -> Vec<u32> {
    ports(&node.put(WIRE, frame(packet, from, to).with(Field::VLAN_TCI, VLAN_100)))
}

fn ports(outputs: &[(u32, Packet)]) -> Vec<u32> {
    outputs.iter().map(|(port, _)| *port).collect()
}

fn arp(operation: u16, (sha, spa): (Mac, &str), tpa: &str) -> Packet {
    let number = |address: &str| match ip(address) {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(_) => panic!("ARP is of IPv4"),
    };
    Packet::new()
        .with(Field::ETH_TYPE, 0x0806u16)
        .with(Field::ARP_OP, operation)
        .with(Field::ARP_SHA, sha)
        .with(Field::ARP_SPA, number(spa))
        .with(Field::ARP_TPA, number(tpa))
}

fn discovery(kind: u8, from: &str, to: &str, target: &str, hops: u8) -> Packet {
    Sent { from: ip(from), to: ip(to), protocol: 58, ports: (0, 0) }
        .whole()
        .with(Field::ICMPV6_TYPE, kind)
        .with(Field::IP_TTL, hops)
        .with(Field::ND_TARGET, number_v6(target))
}

fn number_v6(address: &str) -> u128 {
    match ip(address) {
        IpAddr::V6(v6) => u128::from(v6),
        IpAddr::V4(_) => panic!("IPv6 is wanted"),
    }
}

#[test]
fn frames_keep_their_addresses_and_get_their_tag() {
    let mut node = node();
    let out = node.put(WEB.0, frame(udp(WEB.1, "10.100.0.5", (999, 7)), mac(WEB.0), MACHINE));
    let [(WIRE, sent)] = out.as_slice() else { panic!("{out:?}") };
    let fields = [Field::ETH_SRC, Field::ETH_DST, Field::IP_TTL].map(|field| sent.get(field));
    assert_eq!(fields, [u128::from(mac(WEB.0).to_u64()), u128::from(MACHINE.to_u64()), 64]);
    assert_eq!(sent.get(Field::VLAN_TCI), u128::from(VLAN_100));
    let answer = frame(udp("10.100.0.5", WEB.1, (7, 999)), MACHINE, mac(WEB.0));
    let back = node.put(WIRE, answer.with(Field::VLAN_TCI, VLAN_100));
    let [(port, got)] = back.as_slice() else { panic!("{back:?}") };
    assert_eq!((*port, got.get(Field::VLAN_TCI), got.get(Field::IP_TTL)), (WEB.0, 0, 64));
    assert_eq!(sends(&mut node, PLAIN, udp(PLAIN.1, "10.101.0.9", (999, 7)), MACHINE), [WIRE]);
}

#[test]
fn nobody_on_the_wire_is_somebody_here() {
    let mut node = node();
    let to = mac(WEB.0);
    assert_eq!(brings(&mut node, udp("10.100.0.5", WEB.1, (1, 2)), MACHINE, to), [WEB.0], "the honest one");
    for source in [DB.1, WEB.1, OVERLAY.1, "10.244.9.9", "192.168.77.1"] {
        assert!(brings(&mut node, udp(source, WEB.1, (1, 2)), MACHINE, to).is_empty(), "{source}");
    }
    assert!(brings(&mut node, udp("10.100.0.5", WEB.1, (1, 2)), mac(DB.0), to).is_empty(), "a pod's MAC");
    assert!(brings(&mut node, arp(1, (MACHINE, DB.1), WEB.1), MACHINE, EVERYBODY).is_empty());
    assert!(brings(&mut node, arp(2, (MACHINE, DB.1), WEB.1), MACHINE, to).is_empty());
    let claim = discovery(136, WEB_V6, "ff02::1", WEB_V6, 255);
    assert!(brings(&mut node, claim, MACHINE, Mac([0x33, 0x33, 0, 0, 0, 1])).is_empty());
    let back = udp(PLAIN.1, WEB.1, (1, 2));
    assert_eq!(brings(&mut node, back, ROUTER, to), [WEB.0], "a pod of another VLAN comes by the router");
}

/// A frame of VLAN 100 that goes nowhere; what the agent is shown of it.
fn shown(node: &mut Node, packet: Packet, to: Mac) -> Vec<Vec<u8>> {
    let packet = frame(packet, MACHINE, to).with(Field::IN_PORT, WIRE).with(Field::VLAN_TCI, VLAN_100);
    let trace = Simulator::new(&node.flows).run(packet, &mut node.connections);
    assert!(trace.outputs.is_empty() && trace.undone.is_empty(), "{:?}", trace.outputs);
    trace.punts.iter().map(|punt| punt.controller.userdata.clone()).collect()
}

#[test]
fn who_claims_a_pods_address_is_shown_to_the_agent_until_it_has_heard() {
    let mut node = node();
    let all = Mac([0x33, 0x33, 0, 0, 0, 1]);
    let claims = || {
        [
            (arp(1, (MACHINE, WEB.1), "10.100.0.5"), EVERYBODY),
            (arp(2, (MACHINE, WEB.1), DB.1), mac(DB.0)),
            (discovery(136, "fe80::9", "ff02::1", WEB_V6, 255), all),
            (discovery(136, WEB_V6, "ff02::1", WEB_V6, 255), all),
            (discovery(135, WEB_V6, "ff02::1:ff00:5", "fd10::5", 255), Mac([0x33, 0x33, 0xff, 0, 0, 5])),
        ]
    };
    for (claim, to) in claims() {
        assert_eq!(shown(&mut node, claim, to), [[CLAIMED]]);
    }
    assert!(shown(&mut node, udp(WEB.1, DB.1, (1, 2)), mac(DB.0)).is_empty(), "a packet is no claim");
    let number = WIRE << 16 | u32::from(VLAN_100);
    for address in [WEB.1, WEB_V6] {
        node.flows.extend(quiet_flows(number, ip(address)));
    }
    for (claim, to) in claims() {
        assert!(shown(&mut node, claim, to).is_empty(), "it has heard of that");
    }
    assert_eq!(shown(&mut node, arp(1, (MACHINE, DB.1), WEB.1), EVERYBODY), [[CLAIMED]], "another one's");
}

#[test]
fn the_wire_reaches_its_pods_and_nothing_else() {
    let mut node = node();
    for to in [OVERLAY.1, PLAIN.1, DB.1, "10.244.0.20", "192.168.77.1", "192.168.77.2", "1.1.1.1"] {
        assert!(brings(&mut node, udp("10.100.0.5", to, (1, 2)), MACHINE, mac(WEB.0)).is_empty(), "{to}");
    }
    let other = frame(udp("10.100.0.5", WEB.1, (1, 2)), MACHINE, mac(WEB.0)).with(Field::VLAN_TCI, 0x10c8u16);
    assert!(node.put(WIRE, other).is_empty(), "VLAN 200");
    let by_host = frame(udp(WEB.1, DB.1, (1, 2)), ROUTER, ROUTER);
    assert!(node.put(port::LOCAL, by_host).is_empty(), "the host has no pod's address");
}

#[test]
fn overlay_destinations_leave_the_wire_and_others_do_not() {
    let mut node = node();
    assert_eq!(sends(&mut node, WEB, udp(WEB.1, OVERLAY.1, (1, 2)), ROUTER), [OVERLAY.0]);
    assert_eq!(sends(&mut node, WEB, udp(WEB.1, "10.244.0.20", (1, 2)), ROUTER), [1], "the tunnel");
    assert!(sends(&mut node, WEB, udp(WEB.1, "10.244.0.99", (1, 2)), ROUTER).is_empty(), "nobody there");
    assert_eq!(sends(&mut node, OVERLAY, udp(OVERLAY.1, WEB.1, (3, 4)), ROUTER), [WEB.0]);
    assert_eq!(sends(&mut node, OVERLAY, udp(OVERLAY.1, "10.100.0.5", (3, 4)), ROUTER), [HOST]);
    assert_eq!(sends(&mut node, WEB, udp(WEB.1, "192.168.77.1", (1, 2)), ROUTER), [HOST]);
    assert_eq!(sends(&mut node, WEB, udp(WEB.1, "192.168.77.2", (1, 2)), ROUTER), [WIRE]);
    let tunnel = udp(WEB.1, "192.168.77.2", (1, 4789));
    assert!(sends(&mut node, WEB, tunnel, ROUTER).is_empty(), "no tunnel of a pod's own");
}

#[test]
fn pods_of_one_vlan_meet_here_whatever_the_frame_says() {
    let mut node = node();
    assert_eq!(sends(&mut node, WEB, udp(WEB.1, DB.1, (1, 2)), mac(DB.0)), [DB.0]);
    assert_eq!(sends(&mut node, WEB, udp(WEB.1, DB.1, (3, 4)), ROUTER), [DB.0]);
}

#[test]
fn a_guarded_pod_of_another_vlan_is_asked_before_a_packet_leaves() {
    let mut node = node();
    assert!(sends(&mut node, PLAIN, udp(PLAIN.1, DB.1, (5, 6)), ROUTER).is_empty());
    assert!(node.marks(ip(PLAIN.1)).is_empty(), "nothing that an answer could use");
    assert!(brings(&mut node, udp(PLAIN.1, DB.1, (5, 6)), ROUTER, mac(DB.0)).is_empty());
    assert!(node.marks(ip(DB.1)).is_empty());
    assert_eq!(sends(&mut node, DB, udp(DB.1, PLAIN.1, (6, 5)), ROUTER), [WIRE], "which may open it");
}

#[test]
fn group_frames_carry_group_packets_only() {
    let mut node = node();
    let mdns = || udp(WEB.1, "224.0.0.251", (5353, 5353));
    let group = Mac([1, 0, 0x5e, 0, 0, 0xfb]);
    assert_eq!(sends(&mut node, WEB, mdns(), group), [WIRE], "DB is guarded");
    assert!(sends(&mut node, WEB, mdns(), mac(DB.0)).is_empty());
    for to in [DB.1, OVERLAY.1, "10.100.0.80", "10.100.0.5", "192.168.77.2"] {
        assert!(sends(&mut node, WEB, udp(WEB.1, to, (1, 2)), EVERYBODY).is_empty(), "{to}");
    }
    assert_eq!(brings(&mut node, udp("10.100.0.5", "10.100.0.255", (1, 2)), MACHINE, EVERYBODY), [WEB.0]);
    assert!(brings(&mut node, udp("10.100.0.5", WEB.1, (1, 2)), MACHINE, EVERYBODY).is_empty());
}

#[test]
fn neighbour_discovery_stays_on_the_link() {
    let mut node = node();
    let ask =
        |to: &str, hops: u8| discovery(135, WEB_V6, to, "fd10::5", hops).with(Field::ND_SLL, mac(WEB.0));
    let group = Mac([0x33, 0x33, 0xff, 0, 0, 5]);
    assert_eq!(sends(&mut node, WEB, ask("ff02::1:ff00:5", 255), group), [DB.0, WIRE]);
    assert_eq!(sends(&mut node, WEB, ask("fd10::5", 255), MACHINE), [WIRE]);
    assert!(sends(&mut node, WEB, ask("2001:db8::bad", 255), ROUTER).is_empty());
    assert!(sends(&mut node, WEB, ask("2001:db8::bad", 255), group).is_empty());
    let asks = |hops: u8| discovery(135, "fd10::5", WEB_V6, WEB_V6, hops);
    assert_eq!(brings(&mut node, asks(255), MACHINE, mac(WEB.0)), [WEB.0]);
    let query = discovery(130, "fe80::1", "ff02::1", "::", 1);
    let all = brings(&mut node, query, ROUTER, Mac([0x33, 0x33, 0, 0, 0, 1]));
    assert_eq!(all, [WEB.0, DB.0], "who listens is asked of the guarded, too");
}

#[test]
fn no_pod_answers_for_others() {
    let mut node = node();
    let dhcp = |from: u16| udp(WEB.1, "255.255.255.255", (from, 68));
    assert!(sends(&mut node, WEB, dhcp(67), EVERYBODY).is_empty());
    assert!(sends(&mut node, WEB, dhcp(1067), EVERYBODY).is_empty());
    assert!(sends(&mut node, WEB, udp(WEB_V6, "fe80::9", (547, 546)), MACHINE).is_empty());
    assert!(sends(&mut node, WEB, arp(1, (mac(WEB.0), DB.1), "10.100.0.5"), EVERYBODY).is_empty());
    assert!(sends(&mut node, WEB, arp(1, (MACHINE, WEB.1), "10.100.0.5"), EVERYBODY).is_empty());
    let honest = arp(1, (mac(WEB.0), WEB.1), "10.100.0.5");
    assert_eq!(sends(&mut node, WEB, honest.clone(), EVERYBODY), [DB.0, WIRE]);
    let tagged = frame(honest, mac(WEB.0), EVERYBODY).with(Field::VLAN_TCI, 0x10c8u16);
    assert!(node.put(WEB.0, tagged).is_empty());
    let asked = arp(1, (MACHINE, "10.100.0.5"), WEB.1);
    assert_eq!(brings(&mut node, asked, MACHINE, EVERYBODY), [WEB.0], "a question goes to whom it is for");
}
