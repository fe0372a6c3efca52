//! The node on a model of its rooms: what others do to ports, claims and flows is put right.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::{Cookie, Kind as FlowKind, Origin, RETRY, Table};
use policy::manifest::{Source, admit};
use policy::{Edit, Kind, Object, ObjectRef};
use support::model::{Model, Room, Store};

fn cluster() -> Vec<Object> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/idle/world.yaml");
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    documents.into_iter().map(|d| admit(&Source::file("world", 1), d).object.unwrap()).collect()
}

fn started() -> Model {
    let mut model = Model::new("n1", 7, &Store::default());
    model.start(&cluster());
    model
}

fn key(container: &str) -> AttachmentKey {
    AttachmentKey { container_id: container.into(), ifname: "eth0".into() }
}

fn request(container: &str) -> Request {
    Request::Attach(AttachRequest {
        key: key(container),
        netns: format!("/run/netns/{container}"),
        network: "fabric".into(),
        pod: None,
        ips: vec![],
        ipam: None,
        mac: None,
        mtu: None,
        rates: fabric_core::pipeline::site::Rates::default(),
    })
}

fn attach(model: &mut Model, container: &str) -> Attached {
    let id = model.request(request(container));
    match model.replies.remove(&id) {
        Some(Ok(Reply::Attached(attached))) => attached,
        other => panic!("ADD of {container}: {other:?}"),
    }
}

fn say(model: &mut Model, from: &Attached, to: IpAddr) {
    let port = model.rows[&from.host_name].ofport.unwrap();
    let reg0 = Origin::Pod.bit() | RETRY | u32::from(Table::Egress.id()) << 20;
    model.punt(reg0, port, from.addresses[0].addr(), to);
}

fn of_kind(model: &Model, kind: FlowKind) -> usize {
    model.flows.iter().filter(|flow| Cookie(flow.cookie).kind() == Some(kind)).count()
}

#[test]
fn a_late_word_of_a_deletion_does_not_make_the_node_forget_what_it_learned_again() {
    let mut model = started();
    let a = attach(&mut model, "a");
    say(&mut model, &a, "1.1.1.1".parse().unwrap());
    let row = model.rows[&a.host_name].clone();
    model.handle(Event::Ports(PortsEvent::Changed(PortRow { ofport: None, ..row.clone() })));
    assert_eq!(of_kind(&model, FlowKind::Egress), 0);
    model.handle(Event::Ports(PortsEvent::Changed(row)));
    say(&mut model, &a, "1.1.1.1".parse().unwrap());
    assert_eq!(of_kind(&model, FlowKind::Egress), 1);
    model.pass(Duration::from_millis(1));
    let id = model.request(Request::Detach(key("a")));
    assert_eq!(model.replies[&id], Ok(Reply::Done));
    assert_eq!(of_kind(&model, FlowKind::Egress), 0, "the node knew the flow and took it along");
}

#[test]
fn a_number_that_another_port_gets_takes_its_flows_along() {
    let mut model = started();
    let (a, b) = (attach(&mut model, "a"), attach(&mut model, "b"));
    say(&mut model, &a, b.addresses[0].addr());
    let (of_a, of_b) = (model.rows[&a.host_name].clone(), model.rows[&b.host_name].clone());
    let swapped = |row: &PortRow, other: &PortRow| PortRow { ofport: other.ofport, ..row.clone() };
    for row in [swapped(&of_b, &of_a), swapped(&of_a, &of_b)] {
        model.rows.insert(row.name.clone(), row.clone());
        model.handle(Event::Ports(PortsEvent::Changed(row)));
    }
    assert_eq!(
        of_kind(&model, FlowKind::Egress) + of_kind(&model, FlowKind::Ingress),
        0,
        "verdicts of old numbers"
    );
    let before = model.flows.clone();
    model.restart(8, &cluster());
    assert!(model.flow_mods.is_empty(), "{:?}", model.flow_mods);
    assert_eq!(model.flows, before);
}

#[test]
fn a_tunnel_that_gets_another_number_takes_the_ways_along() {
    let mut model = started();
    let a = attach(&mut model, "a");
    say(&mut model, &a, "192.168.77.2".parse().unwrap());
    let tunnel = PortRow { ofport: Some(9), ..model.rows["fabric-vxlan"].clone() };
    model.handle(Event::Ports(PortsEvent::Changed(tunnel)));
    let way = model.flows.iter().find(|f| Cookie(f.cookie).kind() == Some(FlowKind::Route)).unwrap();
    assert!(way.to_string().contains("set_field:0x9->reg2"), "{way}");
}

#[test]
fn a_port_that_went_while_the_database_was_away_is_put_back() {
    let mut model = started();
    let a = attach(&mut model, "a");
    model.handle(Event::Ports(PortsEvent::Down));
    let lost = model.rows.remove(&a.host_name).unwrap();
    model.pass(Duration::from_secs(1000));
    let rows = model.rows.values().cloned().collect();
    model.handle(Event::Ports(PortsEvent::Ready(rows)));
    assert_eq!(model.rows.get(&a.host_name), Some(&lost));
}

#[test]
fn a_running_pod_keeps_its_connections_when_its_port_is_put_back() {
    let mut model = started();
    let a = attach(&mut model, "a");
    let flushed = model.flushed.len();
    model.rows.remove(&a.host_name);
    model.handle(Event::Ports(PortsEvent::Gone { name: a.host_name }));
    assert_eq!(model.flushed.len(), flushed);
}

#[test]
fn a_claim_that_is_lost_is_made_again() {
    let mut model = started();
    let a = attach(&mut model, "a");
    let ip = a.addresses[0].addr();
    model.store.borrow_mut().remove(&ip);
    let name = policy::claim_name(ip).as_str().into();
    let gone = Edit::Remove(ObjectRef { kind: Kind::IpClaim, namespace: None, name });
    model.handle(Event::World(vec![gone]));
    model.pass(Duration::from_secs(301));
    assert_eq!(model.store.borrow()[&ip].owner, "a/eth0");
}

#[test]
fn a_network_that_goes_in_the_middle_of_a_claim_fails_the_attachment() {
    let mut model = started();
    model.silent.insert(Room::Store);
    let add = model.request(request("a"));
    let network = ObjectRef { kind: Kind::Network, namespace: None, name: "overlay".into() };
    model.handle(Event::World(vec![Edit::Remove(network)]));
    model.refuse_claims = true;
    model.wake(Room::Store);
    assert!(matches!(&model.replies[&add], Err(RequestError::TryAgain(why)) if why.contains("overlay")));
}

#[test]
fn one_pod_cannot_make_the_node_learn_without_end() {
    let mut model = started();
    let a = attach(&mut model, "a");
    for n in 1..=200u8 {
        say(&mut model, &a, IpAddr::from([n, 1, 1, 1]));
    }
    let few = model.limit + 1;
    assert!(of_kind(&model, FlowKind::Route) <= few, "{} ways", of_kind(&model, FlowKind::Route));
}

#[test]
fn while_the_database_is_away_the_switch_is_left_alone() {
    let mut model = started();
    attach(&mut model, "a");
    model.handle(Event::Ports(PortsEvent::Down));
    let dumps = model.dumps;
    model.pass(Duration::from_secs(3600));
    assert!(model.dumps <= dumps + 1, "{} dumps in an hour", model.dumps - dumps);
}

#[test]
fn a_verdict_that_somebody_deletes_is_learned_again_at_the_next_packet() {
    let mut model = started();
    let a = attach(&mut model, "a");
    say(&mut model, &a, "1.1.1.1".parse().unwrap());
    let verdict =
        model.flows.iter().find(|f| Cookie(f.cookie).kind() == Some(FlowKind::Egress)).cloned().unwrap();
    model.delete_as_somebody_else(&verdict);
    assert_eq!(of_kind(&model, FlowKind::Egress), 0);
    say(&mut model, &a, "1.1.1.1".parse().unwrap());
    assert_eq!(
        of_kind(&model, FlowKind::Egress),
        1,
        "not trusted to be there because it was sent a moment ago"
    );
}

#[test]
fn a_collection_is_answered_when_all_is_gone() {
    let mut model = started();
    attach(&mut model, "a");
    attach(&mut model, "b");
    model.silent.insert(Room::Wire);
    let valid = [key("b")].into();
    let gc = model.request(Request::Collect { network: "fabric".into(), valid });
    assert!(!model.replies.contains_key(&gc));
    model.wake(Room::Wire);
    assert_eq!(model.replies[&gc], Ok(Reply::Done));
    assert_eq!((model.wires.len(), model.store.borrow().len()), (1, 2), "b stays");
    let again = model.request(Request::Collect { network: "fabric".into(), valid: [key("b")].into() });
    assert_eq!(model.replies[&again], Ok(Reply::Done));
}

#[test]
fn pauses_between_compares_grow_with_compares_that_fail_and_not_with_doubts() {
    let mut model = started();
    model.pass(Duration::from_secs(5));
    assert!(model.node.is_settled());
    let lost = model.flows.iter().next().unwrap().key();
    model.flows.remove(&lost);
    model.stubborn = true;
    for _ in 0..10 {
        model.handle(Event::Switch(SwitchEvent::Refused));
    }
    assert!(!model.node.is_settled(), "what it holds is in doubt");
    let mut at = Vec::new();
    let mut dumps = model.dumps;
    for tenth in 1..=20 {
        model.pass(Duration::from_millis(100));
        at.extend((dumps..model.dumps).map(|_| tenth));
        dumps = model.dumps;
        assert!(!model.node.is_settled());
    }
    assert_eq!(at, [2, 4, 8, 16], "tenths of a second");
    model.stubborn = false;
    model.pass(Duration::from_secs(2));
    assert!(model.node.is_settled() && model.flows.get(&lost).is_some());
}

#[test]
fn a_damaged_row_is_told_and_goes_with_its_container() {
    let mut model = started();
    let (a, b) = (attach(&mut model, "a"), attach(&mut model, "b"));
    for name in [&a.host_name, &b.host_name] {
        let row = model.rows.get_mut(name).unwrap();
        row.external_ids.insert("fabric.zone".into(), "99999".into());
    }
    model.restart(8, &cluster());
    let told = |model: &Model| {
        let problems = model.node.problems();
        ["a", "b"].map(|c| problems.iter().any(|problem| problem.contains(&format!("container {c} "))))
    };
    assert_eq!(told(&model), [true, true]);
    model.pass(Duration::from_secs(600));
    assert!(model.rows.contains_key(&a.host_name), "another version of the agent may read it");
    let id = model.request(Request::Detach(key("a")));
    assert_eq!(model.replies[&id], Ok(Reply::Done));
    assert!(!model.rows.contains_key(&a.host_name) && !model.wires.contains(&a.host_name));
    assert_eq!(told(&model), [false, true]);
    // The other one's container ends without a word.
    let row =
        PortRow { ofport: None, error: Some("no such device".into()), ..model.rows[&b.host_name].clone() };
    model.change_row(row);
    model.pass(Duration::from_secs(31));
    assert!(!model.rows.contains_key(&b.host_name));
    assert_eq!(told(&model), [false, false]);
}
