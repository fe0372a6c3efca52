//! Paths between nodes that become narrower and wider, and packets that are too big for the last part of their way.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::{Event, SwitchEvent};
use fabric_core::pipeline::vocabulary::{
    Cookie, HOST_METER, Kind as FlowKind, OVERSIZE_METER, Origin, RETRY, ROUTER_MAC, Table, meter_oversize,
};
use openflow::message::{PacketIn, packet_fields};
use openflow::{Action, Field, Flow, FlowTable, port};
use support::cluster::{Cluster, TCP, UDP};

/// Tunnel addresses of the two nodes.
const N1: [u8; 4] = [192, 168, 77, 1];
const N2: [u8; 4] = [192, 168, 77, 2];
/// The port of the tunnels.
const TUNNEL: u32 = 1;

/// Pods `a` and `b` on one node and `c` on the other, that have talked; `a` has with somebody outside.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    for (node, name) in [(0, "a"), (0, "b"), (1, "c")] {
        cluster.attach(node, "x", name);
    }
    for (from, to, protocol) in [("a", "c", TCP), ("c", "b", UDP), ("a", "b", TCP)] {
        let sent = cluster.sent(from, to, protocol, 5000, 80);
        assert!(cluster.send(sent) && cluster.send(sent.answer()));
    }
    let (a, outside) = (cluster.pods["a"].clone(), IpAddr::from([8, 8, 8, 8]));
    let reg0 = Origin::Pod.bit() | RETRY | u32::from(Table::Egress.id()) << 20;
    cluster.nodes[0].punt(reg0, a.place.port, a.address, outside);
    cluster.nodes[0].pass(Duration::from_secs(1));
    cluster
}

fn narrow(cluster: &mut Cluster, paths: &[([u8; 4], u32)]) {
    let paths = paths.iter().map(|(address, mtu)| (IpAddr::from(*address), *mtu)).collect();
    cluster.nodes[0].handle(Event::PathMtus(paths));
}

/// The sizes that ways look at, and how many ways do not look.
fn looks(flows: &FlowTable) -> (Vec<u16>, usize) {
    let ways = flows.iter().filter(|flow| Cookie(flow.cookie).kind() == Some(FlowKind::Route));
    let size = |flow: &Flow| {
        flow.actions.iter().find_map(|action| match action {
            Action::CheckPktLarger { bytes, .. } => Some(*bytes),
            _ => None,
        })
    };
    let sizes: Vec<Option<u16>> = ways.map(size).collect();
    (sizes.iter().copied().flatten().collect(), sizes.iter().filter(|size| size.is_none()).count())
}

/// The meters of what tells senders that their packets are too big, with the port that it is about.
fn tellers(flows: &FlowTable) -> BTreeSet<(Option<u128>, u32)> {
    let meter = |flow: &Flow| {
        let asks =
            flow.actions.iter().any(|action| matches!(action, Action::Controller(c) if c.userdata == [4]));
        flow.actions.iter().find_map(|action| match action {
            Action::Meter(meter) if asks => Some((flow.matches.exact(Field::IN_PORT), *meter)),
            _ => None,
        })
    };
    flows.iter().filter(|flow| flow.table == Table::Output.id()).filter_map(meter).collect()
}

#[test]
fn a_path_that_becomes_narrow_is_looked_at_by_the_ways_that_take_it_and_by_no_others() {
    let mut cluster = cluster();
    let before = cluster.nodes[0].flows.clone();
    assert_eq!(looks(&before), (vec![], 2));
    let judged = cluster.nodes[0].node.status(cluster.nodes[0].now).judged;
    narrow(&mut cluster, &[(N2, 1400)]);
    let node = &cluster.nodes[0];
    // Less VXLAN over IPv4, and with the Ethernet header.
    assert_eq!(looks(&node.flows), (vec![1400 - 50 + 14], 1));
    let status = node.node.status(node.now);
    assert_eq!(status.judged - judged, 1);
    let paths: Vec<_> = status.paths.iter().map(|p| (p.node.as_deref(), p.address, p.mtu)).collect();
    assert_eq!(paths, [(Some("n2"), IpAddr::from(N2), 1400)]);
    assert_eq!(status.problems, Vec::<String>::new());
    narrow(&mut cluster, &[(N2, 1350)]);
    assert_eq!(looks(&cluster.nodes[0].flows), (vec![1314], 1));
    narrow(&mut cluster, &[]);
    assert_eq!(cluster.nodes[0].flows, before);
}

#[test]
fn a_way_that_is_learned_later_looks_as_well() {
    let mut cluster = Cluster::new();
    cluster.attach(0, "x", "a");
    cluster.attach(1, "x", "c");
    narrow(&mut cluster, &[(N2, 1300)]);
    let sent = cluster.sent("a", "c", TCP, 5000, 80);
    assert!(cluster.send(sent));
    assert_eq!(looks(&cluster.nodes[0].flows).0, [1264]);
}

#[test]
fn who_sends_too_much_is_told_at_his_own_cost() {
    let mut cluster = cluster();
    assert_eq!(tellers(&cluster.nodes[0].flows), BTreeSet::new());
    narrow(&mut cluster, &[(N2, 1300)]);
    let pods = [("a", 1), ("b", 2)].map(|(pod, zone)| (cluster.pods[pod].place.port, meter_oversize(zone)));
    let wanted: BTreeSet<(Option<u128>, u32)> = pods
        .into_iter()
        .chain([(port::LOCAL, HOST_METER)])
        .map(|(port, meter)| (Some(port.into()), meter))
        .chain([(None, OVERSIZE_METER)])
        .collect();
    assert_eq!(tellers(&cluster.nodes[0].flows), wanted);
}

#[test]
fn the_host_is_told_which_paths_are_in_use() {
    let mut cluster = cluster();
    assert_eq!(cluster.nodes[0].paths_in_use, [IpAddr::from(N2)].into());
    assert_eq!(cluster.nodes[1].paths_in_use, [IpAddr::from(N1)].into());
    cluster.remove("Node", None, "n2");
    cluster.nodes[0].pass(Duration::from_secs(1));
    assert_eq!(cluster.nodes[0].paths_in_use, BTreeSet::new());
}

#[test]
fn what_a_tunnel_brings_and_a_pod_does_not_take_is_answered_by_the_tunnel() {
    let mut cluster = cluster();
    let [IpAddr::V4(from), IpAddr::V4(to)] = ["c", "b"].map(|pod| cluster.pods[pod].address) else {
        panic!()
    };
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(ROUTER_MAC.0, cluster.pods["b"].place.mac.0)
        .ipv4(from.octets(), to.octets(), 62)
        .udp(1, 2)
        .write(&mut frame, &[7; 1400])
        .unwrap();
    let metadata = openflow::Match::new()
        .with(Field::IN_PORT, TUNNEL)
        .with(Field::REG4, 1400_u32)
        .with(Field::TUN_ID, 77_u64)
        .with(Field::TUN_SRC, std::net::Ipv4Addr::from(N2));
    let packet_in = PacketIn { packet: frame, metadata, userdata: vec![4], ..PacketIn::default() };
    let node = &mut cluster.nodes[0];
    node.sent.clear();
    node.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
    let sent = node.sent.pop().unwrap();
    let back: BTreeMap<Field, u128> = sent
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::SetField { field, value, .. } => Some((*field, value.0)),
            _ => None,
        })
        .collect();
    assert_eq!(back, [(Field::TUN_DST, u32::from_be_bytes(N2).into()), (Field::TUN_ID, 77)].into());
    assert_eq!(sent.actions.last(), Some(&Action::Output { port: TUNNEL, max_len: 0 }));
    let fields = packet_fields(&sent.packet);
    assert_eq!(fields.exact(Field::IPV4_DST), Some(u32::from(from).into()));
    assert_eq!(fields.exact(Field::IPV4_SRC), Some(u32::from_be_bytes(N1).into()), "an address of this node");
}

#[test]
fn a_path_too_narrow_for_ipv6_is_a_problem_where_pods_have_it() {
    let mut cluster = cluster();
    narrow(&mut cluster, &[(N2, 1329)]);
    let node = &cluster.nodes[0];
    let problems = node.node.status(node.now).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(["192.168.77.2", "1329", "1279"].iter().all(|part| problems[0].contains(part)), "{problems:?}");
    narrow(&mut cluster, &[(N2, 1330)]);
    let node = &cluster.nodes[0];
    assert_eq!(node.node.status(node.now).problems, Vec::<String>::new());
}
