//! The node on a model of its rooms: a Network becomes of another kind under its running pods.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;

use fabric_core::node::*;
use fabric_core::pipeline::site::Segment;
use fabric_core::pipeline::vocabulary::{Cookie, Kind};
use openflow::table::Packet;
use openflow::{Field, Flow, FlowKey, FlowTable, port};
use policy::{Edit, Object};
use support::cluster::object;
use support::lan::{self, FOREIGN, UPLINK, add, detach, expire_momentary, problems, request};
use support::model::{Model, Store};
use support::net::{Sent, cross};

/// The tunnel, and the host as a register holds it.
const TUNNEL: u32 = 1;
const HOST: u32 = 0xfffe;

/// The Network that the pods ask for; machines have the rest of its prefix.
fn network(spec: &str) -> Object {
    object(&format!(
        "{{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {{name: lan100}}, spec: {{cidrs: [10.100.0.0/24, \
         'fd64::/64'], ranges: [10.100.0.64-10.100.0.127], {spec}}}}}"
    ))
}

fn overlay() -> Object {
    network("mode: overlay")
}

fn vlan(number: u16) -> Object {
    network(&format!("mode: underlay, physicalNetwork: lan, vlan: {number}"))
}

/// The world with that Network.
fn world(of_pods: &Object) -> Vec<Object> {
    let others = lan::world().into_iter().filter(|object| object.reference() != of_pods.reference());
    others.chain([of_pods.clone()]).collect()
}

fn started(of_pods: &Object) -> Model {
    let mut model = Model::new("n1", 7, &Store::default()).with_uplink(UPLINK);
    model.start(&world(of_pods));
    model
}

/// A pod as tests send from it and to it.
#[derive(Clone)]
struct Pod {
    attached: Attached,
    port: u32,
    address: IpAddr,
}

fn attach(model: &mut Model, name: &str) -> Pod {
    let attached = add(model, request(name)).unwrap();
    let port = model.rows[&attached.host_name].ofport.unwrap();
    let address = attached.addresses.iter().map(|net| net.addr()).find(IpAddr::is_ipv4).unwrap();
    Pod { attached, port, address }
}

/// Where a pod is.
fn segment(model: &Model, name: &str) -> Option<Segment> {
    let attachments = model.node.status(model.now).attachments;
    attachments.into_iter().find(|a| a.key.container_id == name).unwrap().segment
}

fn in_vlan(number: u16) -> Option<Segment> {
    Some(Segment { physical: "lan".into(), vlan: Some(number) })
}

/// What the static flows of a pod's own match. What they do about sizes depends on the other pods, as do those that tell
/// of packets that are too big.
fn own_flows(model: &Model, pod: &Pod) -> Vec<FlowKey> {
    let attachments = model.node.status(model.now).attachments;
    let zone = attachments.into_iter().find(|a| a.port == Some(pod.port)).unwrap().zone;
    let own = |flow: &&Flow| Cookie(flow.cookie) == Cookie::new(Kind::Pod, zone.into());
    model.flows.iter().filter(own).map(Flow::key).collect()
}

fn udp(from: IpAddr, to: IpAddr) -> Sent {
    Sent { from, to, protocol: 17, source_port: 1000, port: 2000 }
}

/// Where a packet of a pod leaves, with the tag that it has then.
fn sends(model: &mut Model, from: &Pod, to: IpAddr) -> Vec<(u32, u128)> {
    let sent = udp(from.address, to);
    leaves(cross(model, sent, sent.packet(from.port, from.attached.mac).with(Field::ETH_DST, FOREIGN)))
}

/// Where a packet goes that comes by another port.
fn brings(model: &mut Model, in_port: u32, tag: u16, from: IpAddr, to: &Pod) -> Vec<(u32, u128)> {
    let sent = udp(from, to.address);
    let packet = sent.packet(in_port, FOREIGN).with(Field::VLAN_TCI, tag);
    leaves(cross(model, sent, packet.with(Field::ETH_DST, to.attached.mac)))
}

fn leaves(outputs: Vec<(u32, Packet)>) -> Vec<(u32, u128)> {
    outputs.into_iter().map(|(port, packet)| (port, packet.get(Field::VLAN_TCI))).collect()
}

fn change(model: &mut Model, to: &Object) {
    model.handle(Event::World(vec![Edit::Put(to.clone())]));
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Whatever becomes of the Network, the pod that was there keeps its flows over a restart of the agent, the pod that comes
/// then is of the new kind, people are told which pods to create again, and nothing stays behind when that is done.
fn holds(before: &Object, after: &Object, kinds: [Option<Segment>; 2], said: &str) -> (Model, [Pod; 2]) {
    let mut model = started(before);
    let old = attach(&mut model, "a");
    let flows = own_flows(&model, &old);
    assert!(problems(&model).is_empty());
    change(&mut model, after);
    let [problem] = &problems(&model)[..] else { panic!("{:?}", problems(&model)) };
    assert!(problem.contains(said) && problem.ends_with("Create them again: pod default/a"), "{problem}");
    let new = attach(&mut model, "b");
    assert_eq!([segment(&model, "a"), segment(&model, "b")], kinds);
    let kept = own_flows(&model, &old);
    assert!(flows.iter().all(|flow| kept.contains(flow)), "{kept:?}");
    assert_eq!(add(&mut model, request("a")).unwrap(), old.attached, "the same answer again");
    expire_momentary(&mut model);
    model.restart(8, &world(after));
    let changed: Vec<String> =
        model.flow_mods.iter().map(|m| format!("{:?} {}", m.command, m.flow)).collect();
    assert!(changed.is_empty(), "{}", changed.join("\n"));
    assert_eq!([segment(&model, "a"), segment(&model, "b")], kinds);
    assert_eq!(problems(&model).len(), 1);
    (model, [old, new])
}

/// The pods go, and what is left is what an agent has that knows only the Network as it is.
fn leaves_nothing(mut model: Model, after: &Object) {
    detach(&mut model, "a");
    assert!(problems(&model).is_empty());
    detach(&mut model, "b");
    expire_momentary(&mut model);
    let fresh = started(after);
    let is_static = |flow: &&Flow| Cookie(flow.cookie).kind().is_some_and(|kind| !kind.is_learned());
    let left: FlowTable = model.flows.iter().filter(is_static).cloned().collect();
    let differ = FlowTable::diff(&left, &fresh.flows);
    assert!(differ.is_empty(), "{differ:?}");
    assert_eq!(model.host, fresh.host);
}

#[test]
fn from_one_vlan_to_another() {
    let after = vlan(200);
    let kinds = [in_vlan(100), in_vlan(200)];
    let said =
        "Network lan100 is in VLAN 200 of physical network lan, but was in VLAN 100 of physical network lan";
    let (mut model, [old, new]) = holds(&vlan(100), &after, kinds, said);
    let machine = ip("10.100.0.250");
    assert_eq!(sends(&mut model, &old, machine), [(UPLINK, 0x1064)]);
    assert_eq!(sends(&mut model, &new, machine), [(UPLINK, 0x10c8)]);
    assert_eq!(sends(&mut model, &old, new.address), [(UPLINK, 0x1064)], "to where it was");
    assert_eq!(brings(&mut model, UPLINK, 0x1064, machine, &old), [(old.port, 0)]);
    assert_eq!(brings(&mut model, UPLINK, 0x10c8, machine, &new), [(new.port, 0)]);
    for (tag, pod) in [(0x10c8, &old), (0x1064, &new), (0, &old), (0, &new)] {
        assert!(brings(&mut model, UPLINK, tag, machine, pod).is_empty(), "{tag:#x} to {}", pod.address);
    }
    assert_eq!(brings(&mut model, port::LOCAL, 0, ip("192.168.77.1"), &old), [(old.port, 0)], "the own node");
    leaves_nothing(model, &after);
}

#[test]
fn from_an_overlay_onto_a_wire() {
    let after = vlan(100);
    let said = "Network lan100 is in VLAN 100 of physical network lan, but was an overlay";
    let (mut model, [old, new]) = holds(&overlay(), &after, [None, in_vlan(100)], said);
    let outside = ip("203.0.113.9");
    assert_eq!(sends(&mut model, &new, outside), [(UPLINK, 0x1064)]);
    assert_eq!(sends(&mut model, &old, outside), [(HOST, 0)], "never by the wire");
    assert_eq!(sends(&mut model, &old, new.address), [(new.port, 0)]);
    assert_eq!(brings(&mut model, port::LOCAL, 0, ip("192.168.77.1"), &old), [(old.port, 0)], "the own node");
    assert!(
        model.host.routes.contains(&old.address.into())
            && model.host.masquerade.contains(&old.address.into())
    );
    assert!(brings(&mut model, UPLINK, 0x1064, ip("10.100.0.250"), &old).is_empty(), "it is not on the wire");
    // Nobody else has its address, by whichever way.
    assert!(brings(&mut model, UPLINK, 0x1064, old.address, &new).is_empty());
    assert!(brings(&mut model, port::LOCAL, 0, old.address, &new).is_empty());
    leaves_nothing(model, &after);
}

#[test]
fn from_a_wire_into_an_overlay() {
    let after = overlay();
    let said = "Network lan100 is an overlay, but was in VLAN 100 of physical network lan";
    let (mut model, [old, new]) = holds(&vlan(100), &after, [in_vlan(100), None], said);
    assert_eq!(sends(&mut model, &old, ip("203.0.113.9")), [(UPLINK, 0x1064)], "by its router, still");
    assert_eq!(sends(&mut model, &new, ip("203.0.113.9")), [(HOST, 0)]);
    assert_eq!(sends(&mut model, &old, new.address), [(new.port, 0)], "as to any overlay");
    assert_eq!(sends(&mut model, &new, old.address), [(old.port, 0)]);
    assert!(
        sends(&mut model, &old, ip("10.100.0.250")).is_empty(),
        "an address of the overlay that nobody has"
    );
    assert!(
        brings(&mut model, UPLINK, 0x1064, ip("10.100.0.250"), &old).is_empty(),
        "it is one of the overlay"
    );
    assert!(brings(&mut model, UPLINK, 0x1064, ip("203.0.113.9"), &new).is_empty(), "it is not on the wire");
    assert_eq!(brings(&mut model, port::LOCAL, 0, ip("192.168.77.1"), &old), [(old.port, 0)], "the own node");
    leaves_nothing(model, &after);
}

#[test]
fn onto_a_physical_network_that_this_node_is_not_on() {
    let after = network("mode: underlay, physicalNetwork: office, vlan: 100");
    let mut model = started(&vlan(100));
    let old = attach(&mut model, "a");
    change(&mut model, &after);
    let said = "is in VLAN 100 of physical network office, but was in VLAN 100 of physical network lan";
    assert!(problems(&model)[0].contains(said), "{:?}", problems(&model));
    let Err(RequestError::Invalid(what)) = add(&mut model, request("b")) else { panic!("where is it?") };
    assert!(what.contains("physical network office"), "{what}");
    assert_eq!(sends(&mut model, &old, ip("10.100.0.250")), [(UPLINK, 0x1064)]);
}

#[test]
fn a_network_that_is_not_in_force_any_more() {
    let before = overlay();
    let mut model = started(&before);
    let old = attach(&mut model, "a");
    model.handle(Event::World(vec![Edit::Remove(before.reference())]));
    assert!(
        problems(&model).iter().all(|p| p.contains("Network lan100 is not in force")),
        "{:?}",
        problems(&model)
    );
    assert_eq!(brings(&mut model, port::LOCAL, 0, ip("192.168.77.1"), &old), [(old.port, 0)], "the own node");
    assert!(model.host.routes.contains(&old.address.into()));
    assert_ne!(sends(&mut model, &old, ip("10.244.0.77")), [(TUNNEL, 0)], "nobody has that");
    detach(&mut model, "a");
    assert!(!model.host.routes.contains(&old.address.into()));
}

#[test]
fn many_pods_are_named_in_part() {
    let mut model = started(&vlan(100));
    for name in ["a", "b", "c"] {
        attach(&mut model, name);
    }
    change(&mut model, &vlan(200));
    let [problem] = &problems(&model)[..] else { panic!("{:?}", problems(&model)) };
    assert!(problem.ends_with("pod default/a, pod default/b, pod default/c"), "{problem}");
}
