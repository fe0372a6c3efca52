//! The node on a model of its rooms: pods in VLANs of a physical network.

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
use fabric_core::pipeline::site::Rates;
use fabric_core::pipeline::vocabulary::Table;
use openflow::{Action, Field, FlowTable};
use policy::{Edit, Object};
use support::cluster::object;
use support::lan::*;
use support::model::{Model, Room, Store};

#[test]
fn a_pod_of_a_vlan_comes_and_goes_without_a_trace() {
    let mut model = started();
    assert_eq!(model.uplinks, vlans(&[]));
    let before = (model.flows.clone(), model.host.clone());
    let id = ask(&mut model, "a");
    assert_eq!(model.uplinks, vlans(&[100]), "before the first probe");
    model.pass(Duration::from_millis(599));
    assert!(model.replies.is_empty() && model.wires.is_empty());
    let probes = sent(&mut model);
    assert_eq!(probes.len(), 6, "three for each address: {probes:?}");
    model.pass(Duration::from_millis(1));
    let Some(Ok(Reply::Attached(attached))) = model.replies.remove(&id) else {
        panic!("{:?}", model.replies)
    };
    assert_eq!(attached.addresses.iter().map(|net| net.prefix_len()).collect::<Vec<_>>(), [24, 64]);
    assert_eq!(attached.gateways, ["10.100.0.254".parse::<IpAddr>().unwrap(), "fd64::fe".parse().unwrap()]);
    assert_eq!(attached.mtu, 1500);
    assert!(probes.iter().all(|(_, mac, ports)| *mac == attached.mac && *ports == [UPLINK]));
    for net in &attached.addresses {
        assert!(model.host.routes.contains(&net.addr().into()), "{:?}", model.host.routes);
    }
    model.pass(Duration::from_secs(2));
    let told: Vec<IpAddr> = sent(&mut model).into_iter().map(|(address, ..)| address).collect();
    let addresses: Vec<IpAddr> = attached.addresses.iter().map(|net| net.addr()).collect();
    assert_eq!(told, [addresses.clone(), addresses].concat(), "announced twice");
    detach(&mut model, "a");
    model.pass(Duration::from_secs(2));
    expire_momentary(&mut model);
    assert!(FlowTable::diff(&model.flows, &before.0).is_empty(), "flows are as before");
    assert_eq!((&model.host, &model.uplinks), (&before.1, &vlans(&[])));
    assert!(model.store.borrow().is_empty() && model.sent.is_empty());
}

#[test]
fn other_pods_of_the_vlan_hear_of_a_new_one() {
    let mut model = started();
    let a = attach(&mut model, "a");
    model.pass(Duration::from_secs(2));
    model.sent.clear();
    attach(&mut model, "b");
    let port = model.rows[&a.host_name].ofport.unwrap();
    assert!(sent(&mut model).iter().all(|(_, _, ports)| *ports == [port, UPLINK]));
}

#[test]
fn a_restart_remembers_the_vlan_even_of_a_network_that_went() {
    let mut model = started();
    let a = attach(&mut model, "a");
    model.pass(Duration::from_secs(10));
    model.sent.clear();
    model.uplinks.clear();
    expire_momentary(&mut model);
    model.restart(8, &world());
    assert!(model.flow_mods.is_empty(), "{:?}", model.flow_mods);
    assert_eq!(model.uplinks, vlans(&[100]));
    model.pass(Duration::from_secs(10));
    assert!(model.sent.is_empty(), "nothing has moved");
    let without: Vec<Object> = world()
        .into_iter()
        .filter(|o| !matches!(o, Object::Network(n) if n.name.as_str() == "lan100"))
        .collect();
    model.restart(9, &without);
    assert_eq!(model.uplinks, vlans(&[100]));
    assert_eq!(attach(&mut model, "a"), a, "the same answer again");
}

#[test]
fn a_network_that_this_node_is_not_on_is_named() {
    let mut model = started();
    let id = ask(&mut model, "strange");
    let RequestError::Invalid(what) = refusal(&mut model, id) else { panic!("it may succeed later?") };
    assert!(what.contains("Network office is on physical network office"), "{what}");
    assert!(what.contains("file does not map to a NIC"), "{what}");
    let mut model = Model::new("n1", 7, &Store::default());
    model.start(&world());
    let id = ask(&mut model, "a");
    let RequestError::TryAgain(what) = refusal(&mut model, id) else { panic!("it may not succeed later?") };
    assert!(what.contains("br-lan"), "{what}");
    assert!(model.store.borrow().is_empty() && model.uplinks.is_empty());
}

#[test]
fn an_uplink_that_moves_is_told_to_the_wire_again() {
    let mut model = started();
    attach(&mut model, "a");
    model.pass(Duration::from_secs(2));
    model.sent.clear();
    let moved = PortRow { ofport: Some(6), ..model.rows["to-lan"].clone() };
    model.change_row(moved.clone());
    model.pass(Duration::from_secs(5));
    assert_eq!(sent(&mut model).iter().filter(|(_, _, ports)| *ports == [6]).count(), 4);
    let of_uplink = |model: &Model, port: u32| {
        model
            .flows
            .iter()
            .filter(|f| f.hard_timeout == 0 && f.matches.exact(Field::IN_PORT) == Some(port.into()))
            .count()
    };
    assert_eq!(of_uplink(&model, UPLINK), 0);
    model.change_row(PortRow { ofport: None, ..moved.clone() });
    model.change_row(moved);
    model.pass(Duration::from_secs(5));
    assert_eq!(sent(&mut model).len(), 4, "it came back");
    expire_momentary(&mut model);
    model.restart(8, &world());
    assert!(model.flow_mods.is_empty(), "{:?}", model.flow_mods);
}

#[test]
fn pods_keep_what_they_were_attached_to_when_their_network_becomes_of_another_kind() {
    let mut model = started();
    let a = attach(&mut model, "a");
    let other = LAN.replace("vlan: 100", "vlan: 200");
    model.handle(Event::World(vec![Edit::Put(object(&other))]));
    assert_eq!(model.uplinks, vlans(&[100]));
    assert_eq!(attach(&mut model, "a"), a);
    let [problem] = &problems(&model)[..] else { panic!("{:?}", problems(&model)) };
    assert!(problem.contains("Network lan100 is in VLAN 200") && problem.contains("VLAN 100"), "{problem}");
    attach(&mut model, "b");
    assert_eq!(model.uplinks, vlans(&[100, 200]));
    detach(&mut model, "a");
    assert!(problems(&model).is_empty());
}

#[test]
fn rates_follow_the_annotations_of_the_pod() {
    let mut model = started();
    let asked = Rates { out: Some(5), into: Some(6) };
    let id = model.request(Request::Attach(AttachRequest { rates: asked, ..request("over") }));
    assert!(matches!(model.replies.remove(&id), Some(Ok(_))));
    let name = Node::port_name(&key("over"));
    assert_eq!(model.rows[&name].external_ids["fabric.rate-out"], "5");
    assert_eq!(model.rates("over"), asked);
    let limited = pod("over", "kubernetes.io/egress-bandwidth: 10M");
    model.handle(Event::World(vec![Edit::Put(limited.clone())]));
    assert_eq!(model.rates("over"), Rates { out: Some(10_000_000), into: Some(6) });
    let mut changed = world();
    changed.push(limited);
    model.restart(8, &changed);
    assert_eq!(model.rates("over"), Rates { out: Some(10_000_000), into: Some(6) });
    model.handle(Event::World(vec![Edit::Put(pod("over", ""))]));
    assert_eq!(model.rates("over"), asked);
}

#[test]
fn broadcasts_pass_by_pods_that_policies_speak_of() {
    let mut model = started();
    let a = attach(&mut model, "a");
    attach(&mut model, "b");
    expire_momentary(&mut model);
    let port = model.rows[&a.host_name].ofport.unwrap();
    // What lists ports copies to all of them.
    let lists = |model: &Model, table: Table| {
        let output = Action::Output { port, max_len: 0 };
        let outputs = |flow: &&openflow::Flow| {
            let outputs = flow.actions.iter().filter(|action| matches!(action, Action::Output { .. }));
            outputs.count() > 1 && flow.table == table.id()
        };
        model.flows.iter().filter(outputs).filter(|flow| flow.actions.contains(&output)).count()
    };
    let before = (lists(&model, Table::Neighbour), model.flows.clone());
    assert!(before.0 > 0 && lists(&model, Table::Route) > 0);
    let policy = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: default}, \
                  spec: {podSelector: {}}}";
    let policy = object(policy);
    model.handle(Event::World(vec![Edit::Put(policy.clone())]));
    assert_eq!((lists(&model, Table::Neighbour), lists(&model, Table::Route)), (before.0, 0));
    model.handle(Event::World(vec![Edit::Remove(policy.reference())]));
    assert_eq!(model.flows, before.1);
    detach(&mut model, "a");
    assert_eq!((lists(&model, Table::Neighbour), lists(&model, Table::Route)), (0, 0));
}

#[test]
fn a_pod_of_a_vlan_has_its_way_in_before_it_has_its_port() {
    let mut model = started();
    model.silent.insert(Room::Ports);
    ask(&mut model, "a");
    model.pass(LOOKED_FOR);
    expire_momentary(&mut model);
    let from_wire = |model: &Model| {
        model.flows.iter().filter(|f| f.matches.exact(Field::IN_PORT) == Some(UPLINK.into())).count()
    };
    assert!(from_wire(&model) > 0 && model.replies.is_empty());
    model.wake(Room::Ports);
    assert_eq!(model.replies.len(), 1);
}
