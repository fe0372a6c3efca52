//! The node on a model of its rooms: orders of events, and what must hold after each.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::{Cookie, Kind as FlowKind, Origin, RETRY, Table};
use openflow::{FlowKey, FlowTable};
use policy::manifest::{Source, admit};
use policy::{Edit, Object};
use support::model::{Model, Room, Store};

const WORLD: &str = "tests/golden/overlay/world.yaml";

fn objects() -> Vec<Object> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(WORLD)).unwrap();
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    documents.into_iter().map(|d| admit(&Source::file("world", 1), d).object.unwrap()).collect()
}

/// The world without the pods that have addresses already: these nodes hand them out.
fn empty_cluster() -> Vec<Object> {
    objects().into_iter().filter(|object| !matches!(object, Object::Pod(_))).collect()
}

fn started(name: &str, store: &Store) -> Model {
    let mut model = Model::new(name, 7, store);
    model.start(&empty_cluster());
    model
}

fn store() -> Store {
    Rc::new(RefCell::new(BTreeMap::new()))
}

fn request(container: &str) -> AttachRequest {
    AttachRequest {
        key: key(container),
        netns: format!("/run/netns/{container}"),
        network: "fabric".into(),
        pod: None,
        ips: vec![],
        ipam: None,
        mac: None,
        mtu: None,
        rates: fabric_core::pipeline::site::Rates::default(),
    }
}

fn key(container: &str) -> AttachmentKey {
    AttachmentKey { container_id: container.into(), ifname: "eth0".into() }
}

fn attach(model: &mut Model, container: &str) -> Attached {
    let id = model.request(Request::Attach(request(container)));
    match model.replies.remove(&id) {
        Some(Ok(Reply::Attached(attached))) => attached,
        other => panic!("ADD of {container}: {other:?}"),
    }
}

fn detach(model: &mut Model, container: &str) {
    let id = model.request(Request::Detach(key(container)));
    assert_eq!(model.replies.remove(&id), Some(Ok(Reply::Done)));
}

fn address(attached: &Attached) -> IpAddr {
    attached.addresses[0].addr()
}

/// A pod's first packet to an address, punted by Egress.
fn say(model: &mut Model, from: &Attached, to: IpAddr) {
    let port = model.rows[&from.host_name].ofport.unwrap();
    let reg0 = Origin::Pod.bit() | RETRY | u32::from(Table::Egress.id()) << 20;
    model.punt(reg0, port, address(from), to);
}

fn learned(model: &Model) -> BTreeSet<FlowKey> {
    let is_learned = |cookie: u64| Cookie(cookie).kind().is_some_and(FlowKind::is_learned);
    model.flows.iter().filter(|flow| is_learned(flow.cookie)).map(|flow| flow.key()).collect()
}

#[test]
fn an_attachment_comes_and_goes_without_a_trace() {
    let store = store();
    let mut model = started("n1", &store);
    let before = model.flows.clone();
    let attached = attach(&mut model, "a");
    assert_eq!(attached.addresses.len(), 2, "one address a family");
    assert_eq!(attached.mtu, 1450);
    assert_eq!(store.borrow().len(), 2);
    assert!(model.flows.len() > before.len() && model.flows.len() <= before.len() + 16);
    detach(&mut model, "a");
    assert!(FlowTable::diff(&model.flows, &before).is_empty(), "flows are as before");
    assert!(store.borrow().is_empty() && model.wires.is_empty() && model.rows.len() == 2);
    assert_eq!(model.flushed.len(), 2, "the zone is emptied before use and after");
}

/// Flows of a port.
fn of_port(model: &Model, port: u32) -> usize {
    model
        .flows
        .iter()
        .filter(|flow| flow.matches.exact(openflow::Field::IN_PORT) == Some(port.into()))
        .count()
}

#[test]
fn flows_are_there_before_the_port_is() {
    let mut model = started("n1", &store());
    model.silent.insert(Room::Ports);
    let add = model.request(Request::Attach(request("a")));
    assert!(model.rows.len() == 2 && model.replies.is_empty());
    assert!(of_port(&model, 32_769) > 0);
    let before = model.flows.clone();
    model.wake(Room::Ports);
    assert!(matches!(model.replies[&add], Ok(Reply::Attached(_))));
    assert_eq!(model.flows, before);
}

#[test]
fn a_port_that_gets_another_number_takes_its_flows_along() {
    let mut model = started("n1", &store());
    model.other_numbers.insert(32_769, 40_000);
    attach(&mut model, "a");
    assert_eq!(of_port(&model, 32_769), 0);
    assert!(of_port(&model, 40_000) > 0);
    // Another's number is not even tried.
    model.other_numbers.insert(32_770, 32_771);
    attach(&mut model, "b");
    let before = of_port(&model, 32_771);
    model.silent.insert(Room::Ports);
    model.request(Request::Attach(request("c")));
    assert_eq!(of_port(&model, 32_771), before);
}

#[test]
fn attaching_and_detaching_twice_is_the_same_as_once() {
    let mut model = started("n1", &store());
    let first = attach(&mut model, "a");
    assert_eq!(attach(&mut model, "a"), first);
    detach(&mut model, "a");
    detach(&mut model, "a");
    detach(&mut model, "never-was-here");
}

#[test]
fn one_punt_serves_both_ends_on_one_node() {
    let mut model = started("n1", &store());
    let (a, b) = (attach(&mut model, "a"), attach(&mut model, "b"));
    say(&mut model, &a, address(&b));
    assert_eq!(model.resumed, 1);
    let tables: BTreeSet<u8> = learned(&model).iter().map(|key| key.table).collect();
    assert_eq!(tables, BTreeSet::from([Table::Egress.id(), Table::Ingress.id()]));
    detach(&mut model, "a");
    detach(&mut model, "b");
    assert!(learned(&model).is_empty(), "verdicts go with their pods");
}

#[test]
fn a_packet_waits_for_a_claim_that_is_on_its_way() {
    let store = store();
    let mut near = started("n1", &store);
    let mut far = started("n2", &store);
    let a = attach(&mut near, "a");
    let b = attach(&mut far, "b");
    say(&mut near, &a, address(&b));
    assert_eq!(near.resumed, 0, "n1 has not heard of b");
    let claim = store.borrow()[&address(&b)].clone();
    near.handle(Event::World(vec![Edit::Put(Object::IpClaim(claim))]));
    assert_eq!(near.resumed, 1);
}

#[test]
fn nobody_is_asked_about_for_a_moment_only() {
    let mut model = started("n1", &store());
    let a = attach(&mut model, "a");
    say(&mut model, &a, "10.244.99.99".parse().unwrap());
    model.pass(Duration::from_millis(400));
    assert_eq!(model.resumed, 0);
    let vacant: Vec<_> =
        model.flows.iter().filter(|f| Cookie(f.cookie).kind() == Some(FlowKind::Vacant)).cloned().collect();
    assert_eq!(vacant.len(), 1);
    assert!(vacant[0].actions.is_empty() && vacant[0].hard_timeout > 0);
    model.expire(&vacant[0]);
    model.pass(Duration::from_secs(301));
    let left = learned(&model).into_iter().filter(|key| key.table == Table::Route.id()).count();
    assert_eq!(left, 0, "the compare does not bring it back");
}

#[test]
fn a_restart_touches_nothing_that_holds() {
    let mut model = started("n1", &store());
    let (a, b) = (attach(&mut model, "a"), attach(&mut model, "b"));
    say(&mut model, &a, address(&b));
    say(&mut model, &a, "192.168.77.2".parse().unwrap());
    say(&mut model, &a, "1.1.1.1".parse().unwrap());
    let before = model.flows.clone();
    model.restart(8, &empty_cluster());
    assert!(model.flow_mods.is_empty(), "flow-mods at a restart: {:?}", model.flow_mods);
    assert_eq!(model.flows, before);
    detach(&mut model, "a");
    detach(&mut model, "b");
    let of_pods: Vec<_> = learned(&model).into_iter().filter(|key| key.table == Table::Egress.id()).collect();
    assert!(of_pods.is_empty(), "what was adopted goes with its pod as well");
}

#[test]
fn a_restart_repairs_what_does_not_hold() {
    let mut model = started("n1", &store());
    let a = attach(&mut model, "a");
    say(&mut model, &a, "192.168.77.2".parse().unwrap());
    let good = model.flows.clone();
    let mut stray = good.iter().find(|f| Cookie(f.cookie).kind() == Some(FlowKind::Route)).unwrap().clone();
    model.flows.remove(&good.iter().next().unwrap().key());
    stray.matches = stray.matches.with(openflow::Field::IPV4_DST, std::net::Ipv4Addr::new(10, 244, 7, 7));
    model.flows.insert(stray);
    model.restart(8, &empty_cluster());
    assert_eq!(model.flows, good);
}

#[test]
fn an_empty_switch_is_filled_again() {
    let mut model = started("n1", &store());
    let a = attach(&mut model, "a");
    say(&mut model, &a, "1.1.1.1".parse().unwrap());
    let before = model.flows.clone();
    model.handle(Event::Switch(SwitchEvent::Disconnected));
    model.flows = FlowTable::new();
    model.connect();
    assert_eq!(model.flows, before);
}

#[test]
fn two_nodes_never_give_one_address_away_twice() {
    let store = store();
    let mut nodes = [started("n1", &store), started("n2", &store)];
    let mut seen = BTreeSet::new();
    for turn in 0..200 {
        let attached = attach(&mut nodes[turn % 2], &format!("c{turn}"));
        for net in attached.addresses {
            assert!(seen.insert(net.addr()), "{net} twice");
        }
    }
}

#[test]
fn a_taken_fixed_address_names_its_holder() {
    let mut model = started("n1", &store());
    let first = attach(&mut model, "a");
    let id = model.request(Request::Attach(AttachRequest { ips: vec![address(&first)], ..request("b") }));
    let Some(Err(RequestError::NoAddress(message))) = model.replies.get(&id) else { panic!() };
    assert!(
        message.contains(&address(&first).to_string()) && message.contains("container a/eth0"),
        "{message}"
    );
    assert_eq!(model.wires.len(), 1, "nothing is left of the failed one");
    assert_eq!(model.store.borrow().len(), 2);
}

#[test]
fn what_the_database_does_not_answer_can_still_be_detached() {
    let mut model = started("n1", &store());
    model.silent.insert(Room::Ports);
    let add = model.request(Request::Attach(request("a")));
    let del = model.request(Request::Detach(key("a")));
    assert!(model.replies.is_empty());
    model.wake(Room::Ports);
    assert!(matches!(model.replies[&add], Err(RequestError::TryAgain(_))));
    assert_eq!(model.replies[&del], Ok(Reply::Done));
    assert!(model.store.borrow().is_empty() && model.wires.is_empty() && model.rows.len() == 2);
}

#[test]
fn claims_of_an_agent_that_died_are_given_back() {
    let store = store();
    let mut model = started("n1", &store);
    attach(&mut model, "a");
    model.silent.insert(Room::Wire);
    model.request(Request::Attach(request("b")));
    assert_eq!(store.borrow().len(), 4);
    model.silent.clear();
    model.restart(8, &empty_cluster());
    assert_eq!(store.borrow().len(), 2, "the running container keeps its own");
}

#[test]
fn a_freed_address_rests() {
    let mut objects = empty_cluster();
    for object in &mut objects {
        if let Object::Network(network) = object {
            network.cidrs = vec!["10.244.0.0/30".parse().unwrap()];
        }
    }
    let mut model = Model::new("n1", 7, &store());
    model.start(&objects);
    let only = address(&attach(&mut model, "a"));
    let full = model.request(Request::Attach(request("b")));
    let Some(Err(RequestError::NoAddress(message))) = model.replies.remove(&full) else { panic!() };
    assert!(message.contains("overlay") && message.contains("no free address"), "{message}");
    detach(&mut model, "a");
    let early = model.request(Request::Attach(request("c")));
    assert!(matches!(model.replies.remove(&early), Some(Err(RequestError::NoAddress(_)))));
    model.pass(Duration::from_secs(31));
    assert_eq!(address(&attach(&mut model, "d")), only);
}

#[test]
fn requests_wait_for_the_agent_and_then_are_told() {
    let mut model = Model::new("n1", 7, &store());
    let add = model.request(Request::Attach(request("a")));
    let status = model.request(Request::Ready);
    assert!(matches!(&model.replies[&status], Err(RequestError::NotReady(why)) if why.contains("store")));
    model.pass(Duration::from_secs(11));
    assert!(matches!(model.replies[&add], Err(RequestError::TryAgain(_))));
    let add = model.request(Request::Attach(request("a")));
    model.start(&empty_cluster());
    assert!(matches!(model.replies[&add], Ok(Reply::Attached(_))));
}

#[test]
fn a_port_that_somebody_took_is_put_back() {
    let mut model = started("n1", &store());
    let a = attach(&mut model, "a");
    let before = model.flows.clone();
    model.rows.remove(&a.host_name);
    model.handle(Event::Ports(PortsEvent::Gone { name: a.host_name.clone() }));
    assert!(model.rows.contains_key(&a.host_name));
    assert_eq!(model.flows, before);
    model.pass(Duration::from_secs(60));
    assert_eq!(model.store.borrow().len(), 2, "the container keeps its addresses");
}

#[test]
fn a_container_whose_device_stays_missing_is_gone() {
    let mut model = started("n1", &store());
    let a = attach(&mut model, "a");
    let lost =
        PortRow { ofport: None, error: Some("no such device".into()), ..model.rows[&a.host_name].clone() };
    model.handle(Event::Ports(PortsEvent::Changed(lost)));
    model.pass(Duration::from_secs(29));
    assert_eq!(model.store.borrow().len(), 2);
    model.pass(Duration::from_secs(2));
    assert!(model.store.borrow().is_empty() && model.rows.len() == 2);
}

#[test]
fn the_host_knows_routes_and_peers() {
    let model = started("n1", &store());
    assert_eq!(model.host.peers, BTreeSet::from(["192.168.77.2".parse().unwrap()]));
    assert_eq!(model.host.routes.len(), 2);
    assert_eq!(model.host.sources.len(), 2);
}

/// A request for the pod `default/late`, which the world does not have.
fn request_for_late_pod() -> AttachRequest {
    let pod =
        policy::PodIdent { namespace: "default".into(), name: "late".into(), uid: policy::Name::default() };
    AttachRequest { pod: Some(pod), ..request("late") }
}

#[test]
fn a_pod_that_the_runtime_knows_first_is_waited_for() {
    let mut model = started("n1", &store());
    let id = model.request(Request::Attach(request_for_late_pod()));
    assert!(model.replies.is_empty());
    let manifest =
        "{apiVersion: v1, kind: Pod, metadata: {name: late, namespace: default}, spec: {nodeName: n1}}";
    let document = serde_saphyr::from_str(manifest).unwrap();
    let pod = admit(&Source::file("late", 1), document).object.unwrap();
    model.handle(Event::World(vec![Edit::Put(pod)]));
    assert!(matches!(model.replies[&id], Ok(Reply::Attached(_))), "{:?}", model.replies);
}

#[test]
fn a_pod_that_stays_unknown_is_named() {
    let mut model = started("n1", &store());
    let id = model.request(Request::Attach(request_for_late_pod()));
    model.pass(Duration::from_secs(4));
    let Some(Err(RequestError::TryAgain(message))) = model.replies.get(&id) else { panic!() };
    assert!(message.contains("default/late"), "{message}");
    assert!(model.wires.is_empty() && model.rows.len() == 2);
}

#[test]
fn a_request_that_waits_ends_with_its_del() {
    let mut model = started("n1", &store());
    let add = model.request(Request::Attach(request_for_late_pod()));
    let del = model.request(Request::Detach(key("late")));
    assert!(matches!(model.replies[&add], Err(RequestError::TryAgain(_))));
    assert_eq!(model.replies[&del], Ok(Reply::Done));
}

#[test]
fn the_gateways_address_is_no_pods() {
    let mut model = started("n1", &store());
    let gateway = attach(&mut model, "a").gateways[0];
    let id = model.request(Request::Attach(AttachRequest { ips: vec![gateway], ..request("b") }));
    let Some(Err(RequestError::NoAddress(message))) = model.replies.get(&id) else { panic!() };
    assert!(message.contains(&format!("{gateway} is the gateway of Network")), "{message}");
    assert_eq!((model.wires.len(), model.store.borrow().len()), (1, 2), "nothing is left of the failed one");
}

#[test]
fn what_is_tracked_for_a_pod_is_limited_from_the_start_and_by_a_switch_that_comes_back() {
    let store = store();
    let mut model = started("n1", &store);
    attach(&mut model, "a");
    attach(&mut model, "b");
    let limits = std::mem::take(&mut model.limits);
    assert_eq!(limits.len(), 2, "a zone for each");
    model.handle(Event::Switch(SwitchEvent::Disconnected));
    model.connect();
    assert_eq!(model.limits, limits);
}

#[test]
fn a_limit_that_could_not_be_set_is_tried_again_and_told_until_then() {
    let mut model = started("n1", &store());
    model.limitless = Some(0);
    attach(&mut model, "a");
    attach(&mut model, "b");
    model.pass(Duration::from_secs(60));
    let asked = model.limitless.take().unwrap();
    assert!((5..20).contains(&asked), "{asked} times in a minute");
    let problems = model.node.status(model.now).problems;
    assert!(problems.iter().any(|problem| problem.contains("ovs-vswitchd does not answer")), "{problems:?}");
    model.pass(Duration::from_secs(60));
    assert_eq!(model.limits.len(), 2);
    assert_eq!(model.node.status(model.now).problems, Vec::<String>::new());
}
