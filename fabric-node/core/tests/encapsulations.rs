//! The node on a model of its rooms: how packets go between nodes, and which of them fit.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::ROUTER_MAC;
use openflow::message::{PacketIn, packet_fields};
use openflow::{Action, Field, Mac, port};
use policy::Edit;
use support::lan::{attach, key, overlay, problems, started, world};
use support::model::{Model, Room};

#[test]
fn tunnels_are_told_by_their_kind_and_have_flows_once_a_network_wants_them() {
    let mut model = started();
    let before = model.flows.len();
    let row = PortRow {
        name: "x".into(),
        kind: "geneve".into(),
        ofport: Some(8),
        ..model.rows["fabric-vxlan"].clone()
    };
    model.change_row(row);
    let arrives =
        |model: &Model| model.flows.iter().filter(|f| f.matches.exact(Field::IN_PORT) == Some(8)).count();
    assert_eq!((arrives(&model), model.flows.len()), (0, before), "nobody wants Geneve");
    model.handle(Event::World(vec![Edit::Put(overlay("geneve"))]));
    assert_eq!(arrives(&model), 1);
    model.handle(Event::World(vec![Edit::Put(overlay("vxlan"))]));
    assert_eq!(arrives(&model), 1, "other nodes may have heard of it later");
    model.rows.remove("x");
    model.handle(Event::Ports(PortsEvent::Gone { name: "x".into() }));
    assert_eq!((arrives(&model), model.flows.len()), (0, before));
}

#[test]
fn packets_fit_into_every_encapsulation() {
    for (encap, mtu) in [("vxlan", 1450), ("geneve", 1450), ("gre", 1458), ("none", 1500)] {
        let mut model = started();
        model.handle(Event::World(vec![Edit::Put(overlay(encap))]));
        assert_eq!(attach(&mut model, "over").mtu, mtu, "{encap}");
        assert_eq!(model.host.mtu, mtu, "{encap}");
    }
}

#[test]
fn running_pods_follow_the_encapsulation_of_their_network() {
    let mut model = started();
    let over = attach(&mut model, "over");
    let in_vlan = attach(&mut model, "a");
    model.resized.clear();
    for (encap, mtu) in [("gre", 1458), ("none", 1500), ("geneve", 1450)] {
        model.handle(Event::World(vec![Edit::Put(overlay(encap))]));
        assert_eq!(std::mem::take(&mut model.resized), [(over.host_name.clone(), mtu)], "{encap}");
        assert_eq!(model.rows[&over.host_name].external_ids["fabric.mtu"], mtu.to_string());
        let again = attach(&mut model, "over");
        assert_eq!((again.mtu, again.addresses), (mtu, over.addresses.clone()));
    }
    assert_eq!(attach(&mut model, "a"), in_vlan);
    model.pass(Duration::from_secs(1000));
    assert!(model.resized.is_empty());
}

#[test]
fn an_mtu_that_did_not_come_about_is_tried_again() {
    let mut model = started();
    let over = attach(&mut model, "over");
    model.silent.insert(Room::Wire);
    model.handle(Event::World(vec![Edit::Put(overlay("none"))]));
    model.silent.clear();
    let mut changed = world();
    changed.push(overlay("none"));
    model.restart(8, &changed);
    assert_eq!(std::mem::take(&mut model.resized), [(over.host_name.clone(), 1500)], "by the next agent");
    model.refuse_changes = true;
    model.handle(Event::World(vec![Edit::Put(overlay("gre"))]));
    assert!(problems(&model).iter().any(|p| p.contains("MTU 1458")), "{:?}", problems(&model));
    model.refuse_changes = false;
    model.pass(Duration::from_secs(301));
    assert_eq!(model.resized, [(over.host_name, 1458)], "at the next compare");
    assert!(problems(&model).is_empty());
}

#[test]
fn a_pod_that_goes_while_it_is_resized_goes() {
    let mut model = started();
    attach(&mut model, "over");
    model.silent.insert(Room::Wire);
    model.handle(Event::World(vec![Edit::Put(overlay("none"))]));
    let del = model.request(Request::Detach(key("over")));
    model.wake(Room::Wire);
    assert_eq!(model.replies.remove(&del), Some(Ok(Reply::Done)));
    assert!(model.wires.is_empty() && model.store.borrow().is_empty());
    assert!(!model.rows.keys().any(|name| name.starts_with("fab0")), "{:?}", model.rows);
}

/// A packet that Output found too big for its way.
fn too_big(model: &mut Model, in_port: u32, frame: Vec<u8>, mtu: u32) -> Option<(Vec<u8>, Vec<Action>)> {
    let metadata = openflow::Match::new().with(Field::IN_PORT, in_port).with(Field::REG4, mtu);
    let packet_in = PacketIn { packet: frame, metadata, userdata: vec![4], ..PacketIn::default() };
    model.sent.clear();
    model.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
    model.sent.pop().map(|out| (out.packet, out.actions))
}

#[test]
fn a_packet_that_is_too_big_is_answered_by_the_pods_router() {
    let mut model = started();
    let a = attach(&mut model, "a");
    let port = model.rows[&a.host_name].ofport.unwrap();
    let IpAddr::V4(source) = a.addresses[0].addr() else { panic!() };
    let router = [0x52, 0x54, 0, 0, 0, 0xfe];
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(a.mac.0, router)
        .ipv4(source.octets(), [10, 244, 0, 1], 63)
        .udp(1, 2)
        .write(&mut frame, &[7; 1400])
        .unwrap();
    let (answer, actions) = too_big(&mut model, port, frame.clone(), 1400).unwrap();
    assert_eq!(actions, [Action::Output { port, max_len: 0 }]);
    let fields = packet_fields(&answer);
    assert_eq!(fields.exact(Field::IPV4_SRC), Some(u32::from_be_bytes([10, 100, 0, 254]).into()));
    assert_eq!(fields.exact(Field::ETH_SRC), Some(Mac(router).to_u64().into()));
    assert_eq!(fields.exact(Field::ETH_DST), Some(a.mac.to_u64().into()));
    // On its way to a pod of this node it was given the hardware addresses of the last hop.
    let mut delivered = frame.clone();
    delivered[..6].copy_from_slice(&[0x0e, 0, 0, 0, 0, 9]);
    delivered[6..12].copy_from_slice(&ROUTER_MAC.0);
    let fields = packet_fields(&too_big(&mut model, port, delivered, 1400).unwrap().0);
    assert_eq!(fields.exact(Field::ETH_SRC), Some(ROUTER_MAC.to_u64().into()));
    assert_eq!(fields.exact(Field::ETH_DST), Some(a.mac.to_u64().into()));
    let from_nowhere = too_big(&mut model, 99, frame.clone(), 1400);
    assert_eq!(from_nowhere, None);
    let by_host = too_big(&mut model, port::LOCAL, frame, 1400).unwrap();
    assert_eq!(
        packet_fields(&by_host.0).exact(Field::IPV4_SRC),
        Some(u32::from_be_bytes([169, 254, 1, 1]).into())
    );
}
