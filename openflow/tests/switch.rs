//! The client against a real `ovs-vswitchd`.
#![allow(clippy::expect_used, clippy::panic)] // a failed expectation is a failed test
#![cfg(feature = "client")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use openflow::client::{Client, ClientError, ClientEvent, Config};
use openflow::message::{
    Band, BandKind, Body, Bucket, FlowRequest, GroupCommand, GroupDesc, GroupMod, GroupType, MeterCommand,
    MeterConfig, MeterMod, PKTPS, PacketIn, PacketOut, PortDesc, PortReason, RemovedReason, STATS,
    packet_fields,
};
use openflow::{Action, Field, Flow, FlowMod, FlowTable, Match};
use support::Switch;
use tokio::sync::mpsc;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

/// A frame with UDP from 10.0.0.1 port 1024 to 10.0.0.2 port 2000, without a UDP checksum.
fn packet() -> Vec<u8> {
    let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    frame.extend([0x08, 0x00]);
    frame.extend([0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = frame[14..].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).expect("a short header");
    frame[24..26].copy_from_slice(&(!folded).to_be_bytes());
    frame.extend([4, 0, 7, 0xd0, 0, 30, 0, 0]);
    frame.extend([0; 22]);
    frame
}

fn flow(text: &str) -> Flow {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn adds(texts: &[&str]) -> Vec<FlowMod> {
    texts.iter().map(|text| FlowMod::add(flow(text))).collect()
}

async fn connect(config: Config) -> (Client, mpsc::Receiver<ClientEvent>) {
    let (sender, mut events) = mpsc::channel(256);
    let client = Client::spawn(config, sender);
    await_connected(&mut events).await;
    (client, events)
}

async fn next(events: &mut mpsc::Receiver<ClientEvent>) -> ClientEvent {
    timeout(PATIENCE, events.recv()).await.expect("an event in time").expect("a client that lives")
}

async fn await_connected(events: &mut mpsc::Receiver<ClientEvent>) {
    while !matches!(next(events).await, ClientEvent::Connected(_)) {}
}

async fn await_packet_in(events: &mut mpsc::Receiver<ClientEvent>) -> PacketIn {
    loop {
        if let ClientEvent::PacketIn(packet_in) = next(events).await {
            return *packet_in;
        }
    }
}

async fn dump(client: &Client) -> FlowTable {
    let flows = client.dump_flows(FlowRequest::default()).await.expect("a dump");
    flows.into_iter().map(|stats| stats.flow).collect()
}

#[tokio::test]
async fn a_thousand_flows_come_and_go_in_one_bundle_each() {
    let switch = Switch::start();
    let (client, _events) = connect(Config::quiet(switch.socket())).await;
    let desired: FlowTable = (0..1000_u32)
        .map(|i| {
            let (a, b) = (i >> 8, i & 0xff);
            flow(&format!("table={},cookie={i:#x},priority=7,ip,nw_src=10.0.{a}.{b} actions=output:2", i % 5))
        })
        .collect();
    let empty = FlowTable::default();
    client.commit(FlowTable::diff(&empty, &desired)).await.expect("the adds");
    let installed = dump(&client).await;
    assert_eq!(installed.len(), 1000);
    assert!(FlowTable::diff(&installed, &desired).is_empty());
    client.commit(FlowTable::diff(&installed, &empty)).await.expect("the deletes");
    assert_eq!(dump(&client).await.len(), 0);
}

#[tokio::test]
async fn a_refused_bundle_leaves_nothing() {
    let switch = Switch::start();
    let (client, _events) = connect(Config::quiet(switch.socket())).await;
    // Refused when it is committed: the group does not exist.
    let mut no_group = adds(&["table=1,ip actions=output:1", "table=2,arp actions=output:1"]);
    no_group.push(FlowMod::add(flow("table=3,ip actions=group:999")));
    no_group.extend(adds(&["table=4 actions=drop"]));
    // Refused when it is added: a port number without the IP protocol it is a port of.
    let bad = Flow { matches: Match::new().with(Field::TCP_DST, 80_u16), ..Flow::default() };
    let mut bad_match = adds(&["table=1,ip actions=output:1"]);
    bad_match.push(FlowMod::add(bad));
    bad_match.extend(adds(&["table=4 actions=drop"]));
    for (flow_mods, name) in [(no_group, "OFPBAC_BAD_OUT_GROUP"), (bad_match, "OFPBMC_BAD_PREREQ")] {
        match client.commit(flow_mods).await {
            Err(ClientError::Refused(error)) => assert_eq!(error.name(), Some(name)),
            other => panic!("{name} expected, not {other:?}"),
        }
        assert_eq!(dump(&client).await.len(), 0, "{name}");
    }
    client.commit(adds(&["table=1,ip actions=output:1"])).await.expect("the connection goes on");
    assert_eq!(dump(&client).await.len(), 1);
}

#[tokio::test]
async fn a_paused_packet_goes_on_after_the_flow_mod_before_its_resume() {
    let switch = Switch::start();
    switch.add_port("p1", 1);
    switch.add_port("p2", 2);
    let (client, mut events) = connect(Config::new(switch.socket())).await;
    let punt =
        "table=0,cookie=0x77,ip actions=set_field:0x7->reg0,controller(userdata=01.02.03,pause),resubmit(,1)";
    client.commit(adds(&[punt])).await.expect("the punt");
    let start = switch.received("p2");
    switch.send_udp("p1", "10.0.0.1/24", "10.0.0.2");
    let packet_in = await_packet_in(&mut events).await;
    let fields = packet_fields(&packet_in.packet);
    assert_eq!(fields.exact(Field::IPV4_DST), Some(0x0a00_0002));
    assert_eq!(fields.exact(Field::UDP_DST), Some(2000));
    assert_eq!(packet_in.userdata, [1, 2, 3]);
    assert_eq!(packet_in.cookie, 0x77);
    assert_eq!(packet_in.metadata.exact(Field::IN_PORT), Some(1));
    assert_eq!(packet_in.metadata.exact(Field::REG0), Some(7));
    assert!(packet_in.continuation.is_some());
    let learned = FlowMod::add(flow("table=1,ip,reg0=0x7,nw_dst=10.0.0.2 actions=output:2"));
    client
        .try_send(vec![Body::FlowMod(learned), Body::Resume(packet_in.into_resume())])
        .expect("a flow-mod and a resume");
    client.barrier().await.expect("a barrier");
    support::await_that("the packet", || switch.received("p2") == start + 1);
    let hits = client.dump_flows(FlowRequest { table: 1, ..FlowRequest::default() }).await.expect("a dump");
    assert_eq!(hits.iter().map(|stats| stats.packets).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn a_flushed_zone_is_empty_and_others_are_not() {
    let switch = Switch::start();
    switch.add_port("p1", 1);
    let (client, _events) = connect(Config::quiet(switch.socket())).await;
    client
        .commit(adds(&["table=0,ip actions=ct(commit,zone=7),ct(commit,zone=8)"]))
        .await
        .expect("a flow that commits");
    let mut out =
        PacketOut::new(packet(), vec![Action::Resubmit { in_port: None, table: Some(0), ct: false }]);
    out.metadata = Match::new().with(Field::IN_PORT, 1_u32);
    client.send(vec![Body::PacketOut(out)]).await.expect("a packet-out");
    client.barrier().await.expect("a barrier");
    let zones = || -> BTreeSet<u16> {
        let dump = switch.appctl(&["dpctl/dump-conntrack"]);
        let zone = |line: &str| line.split("zone=").nth(1)?.split([',', ' ']).next()?.parse().ok();
        dump.lines().filter_map(zone).collect()
    };
    support::await_that("both connections", || zones() == BTreeSet::from([7, 8]));
    client.ct_flush_zone(7).await.expect("a flush");
    assert_eq!(zones(), BTreeSet::from([8]));
}

#[tokio::test]
async fn a_killed_switch_is_found_again() {
    let switch = Switch::start();
    let (client, mut events) = connect(Config::new(switch.socket())).await;
    client.commit(adds(&["table=1 actions=drop"])).await.expect("a flow");
    switch.kill_vswitchd();
    loop {
        if let ClientEvent::Disconnected { reason } = next(&mut events).await {
            assert!(reason.contains("closed the connection"), "{reason}");
            break;
        }
    }
    assert!(!client.is_connected());
    assert_eq!(client.commit(Vec::new()).await, Err(ClientError::NotConnected));
    switch.start_vswitchd();
    await_connected(&mut events).await;
    assert_eq!(dump(&client).await.len(), 0, "a restarted switch has no flows");
    client.commit(adds(&["table=1 actions=drop"])).await.expect("a flow on the restarted switch");
    assert_eq!(dump(&client).await.len(), 1);
}

#[tokio::test]
async fn meters_and_groups_are_made_read_and_removed() {
    let switch = Switch::start();
    let (client, _events) = connect(Config::quiet(switch.socket())).await;
    let band = Band { kind: BandKind::Drop, rate: 1000, burst: 1000 };
    let meter = MeterConfig { id: 3, flags: PKTPS | STATS, bands: vec![band] };
    let group = GroupDesc::new(
        5,
        GroupType::Select,
        vec![Bucket::new(1, vec![Action::output(1)]), Bucket::new(2, vec![Action::resubmit(7)])],
    );
    client
        .apply(vec![
            Body::MeterMod(MeterMod { command: MeterCommand::Add, meter: meter.clone() }),
            Body::GroupMod(GroupMod::new(GroupCommand::Add, group.clone())),
        ])
        .await
        .expect("a meter and a group");
    client.commit(adds(&["table=1,ip actions=meter:3,group:5"])).await.expect("a flow that uses both");
    assert_eq!(client.meter_config().await.expect("meters"), std::slice::from_ref(&meter));
    assert_eq!(client.group_desc().await.expect("groups"), std::slice::from_ref(&group));
    assert_eq!(client.meter_stats().await.expect("meter statistics")[0].flows, 1);
    assert_eq!(client.group_stats().await.expect("group statistics")[0].buckets.len(), 2);
    let again = client.apply(vec![Body::GroupMod(GroupMod::new(GroupCommand::Add, group))]).await;
    match again {
        Err(ClientError::Refused(error)) => assert_eq!(error.name(), Some("OFPGMFC_GROUP_EXISTS")),
        other => panic!("a refusal expected, not {other:?}"),
    }
    client
        .apply(vec![Body::MeterMod(MeterMod { command: MeterCommand::Delete, meter })])
        .await
        .expect("the meter's removal");
    assert_eq!(dump(&client).await.len(), 0, "removing a meter removes the flows that use it");
}

#[tokio::test]
async fn removed_flows_and_changed_ports_are_told() {
    let switch = Switch::start();
    let (client, mut events) = connect(Config::new(switch.socket())).await;
    let told = flow("table=1,cookie=0x5,priority=9,send_flow_rem,arp actions=drop");
    client.commit(vec![FlowMod::add(told.clone())]).await.expect("a flow");
    client.commit(vec![FlowMod::delete_strict(told.key())]).await.expect("its removal");
    loop {
        if let ClientEvent::FlowRemoved(removed) = next(&mut events).await {
            assert_eq!((removed.table, removed.cookie, removed.priority), (1, 5, 9));
            assert_eq!(removed.reason, RemovedReason::Delete);
            assert_eq!(removed.matches, told.matches);
            break;
        }
    }
    switch.add_port("p1", 41);
    loop {
        if let ClientEvent::PortStatus(status) = next(&mut events).await
            && status.reason == PortReason::Add
        {
            assert_eq!((status.port.number, status.port.name().as_str()), (41, "p1"));
            break;
        }
    }
    let ports = client.port_desc().await.expect("ports");
    assert_eq!(
        ports.iter().map(PortDesc::name).collect::<BTreeSet<_>>(),
        ["br0", "p1"].map(String::from).into()
    );
}
