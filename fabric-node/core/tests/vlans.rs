//! The node on a model of its rooms: pods in VLANs of a physical network.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::site::Rates;
use fabric_core::pipeline::vocabulary::{ROUTER_MAC, Table};
use openflow::message::{PacketIn, packet_fields};
use openflow::{Action, Field, FlowTable, Mac, port};
use policy::{Edit, Kind, Object, ObjectRef};
use support::cluster::object;
use support::model::{Model, Room, Store};

const UPLINK: u32 = 5;
/// Longer than an address is looked for.
const LOOKED_FOR: Duration = Duration::from_millis(700);
const FOREIGN: Mac = Mac([0x52, 0x54, 0, 0, 0, 7]);

const LAN: &str = "{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: lan100}, spec: {mode: underlay, \
    physicalNetwork: lan, vlan: 100, cidrs: [10.100.0.0/24, 'fd64::/64'], gateway: [10.100.0.254, 'fd64::fe']}}";
const OFFICE: &str = "{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: office}, spec: {mode: underlay, \
    physicalNetwork: office, cidrs: [10.101.0.0/24]}}";

fn overlay(encap: &str) -> Object {
    object(&format!(
        "{{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {{name: overlay}}, spec: {{mode: overlay, \
         default: true, encap: {encap}, cidrs: [10.244.0.0/16]}}}}"
    ))
}

fn pod(name: &str, annotations: &str) -> Object {
    object(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: u-{name}, \
         annotations: {{{annotations}}}}}, spec: {{nodeName: n1}}}}"
    ))
}

fn world() -> Vec<Object> {
    let node = |n: u8| {
        object(&format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: n{n}}}, status: {{addresses: [{{type: InternalIP, \
             address: 192.168.77.{n}}}]}}}}"
        ))
    };
    let namespace = object("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
    let lan = ["a", "b", "c"].map(|name| pod(name, "fabric.io/network: lan100"));
    let fixed = pod("fixed", "fabric.io/network: lan100, fabric.io/ip: '10.100.0.9,fd64::9'");
    let others = [pod("over", ""), pod("strange", "fabric.io/network: office"), fixed];
    let networks = [overlay("vxlan"), object(LAN), object(OFFICE)];
    let rest = [node(1), node(2), namespace];
    rest.into_iter().chain(networks).chain(lan).chain(others).collect()
}

fn started() -> Model {
    let mut model = Model::new("n1", 7, &Store::default()).with_uplink(UPLINK);
    model.start(&world());
    model
}

fn key(name: &str) -> AttachmentKey {
    AttachmentKey { container_id: name.into(), ifname: "eth0".into() }
}

fn request(name: &str) -> AttachRequest {
    let uid = format!("u-{name}").as_str().into();
    AttachRequest {
        key: key(name),
        netns: format!("/run/netns/{name}"),
        network: "fabric".into(),
        pod: Some(policy::PodIdent { namespace: "default".into(), name: name.into(), uid }),
        ips: vec![],
        ipam: None,
        mac: None,
        mtu: None,
        rates: Rates::default(),
    }
}

fn ask(model: &mut Model, name: &str) -> RequestId {
    model.request(Request::Attach(request(name)))
}

fn attach(model: &mut Model, name: &str) -> Attached {
    let id = ask(model, name);
    model.pass(LOOKED_FOR);
    match model.replies.remove(&id) {
        Some(Ok(Reply::Attached(attached))) => attached,
        other => panic!("ADD of {name}: {other:?}"),
    }
}

fn detach(model: &mut Model, name: &str) {
    let id = model.request(Request::Detach(key(name)));
    assert_eq!(model.replies.remove(&id), Some(Ok(Reply::Done)));
}

fn refusal(model: &mut Model, id: RequestId) -> RequestError {
    match model.replies.remove(&id) {
        Some(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The addresses that frames of the agent's own were about, in order, with the ports that they went to.
fn sent(model: &mut Model) -> Vec<(IpAddr, Mac, Vec<u32>)> {
    let about = |frame: &[u8]| -> IpAddr {
        let fields = packet_fields(frame);
        match fields.exact(Field::ARP_TPA) {
            Some(v4) => IpAddr::V4(u32::try_from(v4).unwrap().into()),
            None => IpAddr::V6(fields.exact(Field::ND_TARGET).unwrap().into()),
        }
    };
    let ports = |actions: &[Action]| -> Vec<u32> {
        let port =
            |action: &Action| if let Action::Output { port, .. } = action { Some(*port) } else { None };
        actions.iter().filter_map(port).collect()
    };
    std::mem::take(&mut model.sent)
        .iter()
        .map(|out| {
            assert!(out.actions.contains(&Action::PushVlan(0x8100)), "{:?}", out.actions);
            let source = packet_fields(&out.packet).exact(Field::ETH_SRC).unwrap();
            let [_, _, mac @ ..] = u64::try_from(source).unwrap().to_be_bytes();
            (about(&out.packet), Mac(mac), ports(&out.actions))
        })
        .collect()
}

/// Somebody in the VLAN uses an address.
fn claim_on_the_wire(model: &mut Model, address: IpAddr, mac: Mac) {
    let mut packet = vec![0xff; 6];
    packet.extend(mac.0);
    match address {
        IpAddr::V4(v4) => {
            packet.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
            packet.extend(mac.0);
            packet.extend(v4.octets());
            packet.extend([0; 6]);
            packet.extend([10, 100, 0, 1]);
        }
        IpAddr::V6(v6) => {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
            packet.extend(v6.octets());
            packet.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            packet.extend([136, 0, 0, 0, 0x20, 0, 0, 0]);
            packet.extend(v6.octets());
            packet.extend([2, 1]);
            packet.extend(mac.0);
        }
    }
    let packet_in = PacketIn { packet, userdata: vec![3], ..PacketIn::default() };
    model.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
}

fn expire_momentary(model: &mut Model) {
    let momentary: Vec<_> = model.flows.iter().filter(|f| f.hard_timeout > 0).cloned().collect();
    momentary.iter().for_each(|flow| model.expire(flow));
}

fn vlans(numbers: &[u16]) -> BTreeMap<policy::Name, BTreeSet<u16>> {
    let used = (!numbers.is_empty()).then(|| ("lan".into(), numbers.iter().copied().collect()));
    used.into_iter().collect()
}

fn problems(model: &Model) -> Vec<String> {
    model.node.status(model.now).problems
}

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
fn a_picked_address_that_a_machine_has_is_given_back_and_rests() {
    for family in 0..2 {
        let mut model = started();
        let id = ask(&mut model, "a");
        let taken = sent(&mut model)[family].0;
        claim_on_the_wire(&mut model, taken, FOREIGN);
        model.pass(LOOKED_FOR);
        let Some(Ok(Reply::Attached(attached))) = model.replies.remove(&id) else { panic!() };
        assert_eq!(attached.addresses.len(), 2);
        assert!(attached.addresses.iter().all(|net| net.addr() != taken));
        assert_eq!(model.store.borrow().len(), 2);
        assert!(model.node.status(model.now).resting.contains(&taken));
    }
}

#[test]
fn a_fixed_address_that_a_machine_has_names_the_machine() {
    for address in ["10.100.0.9", "fd64::9"] {
        let mut model = started();
        let id = ask(&mut model, "fixed");
        claim_on_the_wire(&mut model, address.parse().unwrap(), FOREIGN);
        let RequestError::NoAddress(what) = refusal(&mut model, id) else { panic!() };
        assert!(what.contains(address) && what.contains(&FOREIGN.to_string()), "{what}");
        assert!(what.contains("VLAN 100 of physical network lan"), "{what}");
        assert!(model.store.borrow().is_empty() && model.wires.is_empty(), "nothing is left");
    }
}

#[test]
fn a_pool_that_machines_have_whole_is_given_up_in_the_end() {
    let mut model = started();
    let id = ask(&mut model, "a");
    for _ in 0..80 {
        for (address, ..) in sent(&mut model) {
            claim_on_the_wire(&mut model, address, FOREIGN);
        }
    }
    let RequestError::NoAddress(what) = refusal(&mut model, id) else { panic!() };
    assert!(what.contains("spec.exclude"), "{what}");
    assert!(model.store.borrow().is_empty());
}

#[test]
fn neither_the_pods_own_mac_nor_that_of_the_last_holder_is_in_the_way() {
    let mut model = started();
    let holder = policy::IpClaim {
        ip: "10.100.0.9".parse().unwrap(),
        network: "lan100".into(),
        mac: FOREIGN.0,
        node: "n2".into(),
        pod: None,
        owner: "elsewhere/eth0".into(),
        ..claim_of(&mut model)
    };
    let name = policy::claim_name(holder.ip).as_str().into();
    model.handle(Event::World(vec![Edit::Put(Object::IpClaim(holder.clone()))]));
    model.handle(Event::World(vec![Edit::Remove(ObjectRef { kind: Kind::IpClaim, namespace: None, name })]));
    let id = ask(&mut model, "fixed");
    let own = sent(&mut model)[0].1;
    claim_on_the_wire(&mut model, holder.ip, own);
    claim_on_the_wire(&mut model, holder.ip, FOREIGN);
    model.pass(LOOKED_FOR);
    assert!(matches!(model.replies.remove(&id), Some(Ok(_))));
}

/// Some claim, of which the fields that matter are set otherwise.
fn claim_of(model: &mut Model) -> policy::IpClaim {
    attach(model, "over");
    let claim = model.store.borrow().values().next().unwrap().clone();
    model.sent.clear();
    claim
}

#[test]
fn what_is_claimed_later_or_elsewhere_is_no_conflict() {
    let mut model = started();
    let id = ask(&mut model, "a");
    claim_on_the_wire(&mut model, "10.100.0.77".parse().unwrap(), FOREIGN);
    model.pass(LOOKED_FOR);
    let Some(Ok(Reply::Attached(attached))) = model.replies.remove(&id) else { panic!() };
    claim_on_the_wire(&mut model, attached.addresses[0].addr(), FOREIGN);
    assert_eq!(attach(&mut model, "a"), attached);
}

#[test]
fn a_pod_that_goes_while_its_address_is_looked_for_leaves_nothing() {
    let mut model = started();
    let add = ask(&mut model, "a");
    model.pass(Duration::from_millis(300));
    detach(&mut model, "a");
    assert!(matches!(model.replies.remove(&add), Some(Err(RequestError::TryAgain(_)))));
    model.sent.clear();
    model.pass(LOOKED_FOR);
    assert!(model.sent.is_empty() && model.store.borrow().is_empty() && model.wires.is_empty());
    assert_eq!(model.uplinks, vlans(&[]));
}

#[test]
fn an_agent_that_dies_while_it_looks_for_an_address_loses_none() {
    let mut model = started();
    ask(&mut model, "a");
    model.pass(Duration::from_millis(300));
    assert_eq!(model.store.borrow().len(), 2);
    model.restart(8, &world());
    attach(&mut model, "a");
    detach(&mut model, "a");
    model.handle(Event::World(vec![Edit::Remove(pod("a", "").reference())]));
    model.pass(Duration::from_secs(301));
    assert!(model.store.borrow().is_empty());
}

#[test]
fn a_look_at_the_wire_begins_anew_when_the_switch_was_away() {
    let mut model = started();
    let id = ask(&mut model, "a");
    model.pass(Duration::from_millis(450));
    model.connected = false;
    model.handle(Event::Switch(SwitchEvent::Disconnected));
    model.flows = FlowTable::new();
    model.pass(Duration::from_secs(1));
    assert!(model.replies.is_empty());
    model.sent.clear();
    model.connect();
    let shows = model.flows.iter().filter(|f| f.hard_timeout > 0).count();
    assert!(shows >= 2, "who claims the addresses is seen again");
    model.pass(Duration::from_millis(900));
    assert!(matches!(model.replies.remove(&id), Some(Ok(_))));
}

#[test]
fn an_uplink_that_goes_while_an_address_is_looked_for_is_told() {
    let mut model = started();
    let id = ask(&mut model, "a");
    model.rows.remove("to-lan");
    model.handle(Event::Ports(PortsEvent::Gone { name: "to-lan".into() }));
    model.pass(LOOKED_FOR);
    assert!(matches!(refusal(&mut model, id), RequestError::TryAgain(_)));
    assert!(model.store.borrow().is_empty());
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
    model.refuse_mtu = true;
    model.handle(Event::World(vec![Edit::Put(overlay("gre"))]));
    assert!(problems(&model).iter().any(|p| p.contains("MTU 1458")), "{:?}", problems(&model));
    model.refuse_mtu = false;
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
