//! The node on a model of its rooms: interfaces that wait for an address from a DHCP server, and then have it.

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
use openflow::FlowTable;
use openflow::message::PacketIn;
use policy::Object;
use support::cluster::object;
use support::lan::{LOOKED_FOR, UPLINK, detach, expire_momentary, key, overlay, pod};
use support::model::{Model, Room, Store};

/// Longer than an interface waits for its address.
const TOO_LONG: Duration = Duration::from_secs(121);
const LEASE: &str = "10.100.0.9";

const LAN: &str = "mode: underlay, physicalNetwork: lan, vlan: 100, cidrs: [10.100.0.0/24]";

fn network(name: &str, spec: &str) -> Object {
    object(&format!(
        "{{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {{name: {name}}}, spec: {{{spec}}}}}"
    ))
}

fn world() -> Vec<Object> {
    vec![
        object(
            "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, \
             address: 192.168.77.1}]}}",
        ),
        object("{apiVersion: v1, kind: Namespace, metadata: {name: default}}"),
        overlay("vxlan"),
        network("lan", &format!("{LAN}, gateway: 10.100.0.254")),
        pod("a", "fabric.io/network: lan"),
        pod("b", "fabric.io/network: lan"),
        pod("over", ""),
    ]
}

fn started() -> Model {
    let mut model = Model::new("n1", 7, &Store::default()).with_uplink(UPLINK);
    model.start(&world());
    model
}

fn request(name: &str, ips: &[&str]) -> AttachRequest {
    let ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    AttachRequest { ips, ipam: Some("dhcp".into()), ..support::lan::request(name) }
}

fn attached(model: &mut Model, id: RequestId) -> Attached {
    match model.replies.remove(&id) {
        Some(Ok(Reply::Attached(attached))) => attached,
        other => panic!("{other:?}"),
    }
}

fn refused(model: &mut Model, id: RequestId) -> RequestError {
    match model.replies.remove(&id) {
        Some(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn prepare(model: &mut Model, name: &str) -> Attached {
    let id = model.request(Request::Prepare(request(name, &[])));
    attached(model, id)
}

fn ask(model: &mut Model, name: &str, ip: &str) -> RequestId {
    model.request(Request::Complete { request: request(name, &[ip]), routers: vec![] })
}

fn complete(model: &mut Model, name: &str, ip: &str) -> Attached {
    let id = ask(model, name, ip);
    model.pass(LOOKED_FOR);
    attached(model, id)
}

fn claims(model: &Model) -> Vec<String> {
    model.store.borrow().values().map(|claim| claim.ip.to_string()).collect()
}

fn is_ready(model: &Model, name: &str) -> Option<bool> {
    let status = model.node.status(model.now);
    status.attachments.iter().find(|a| a.key == key(name)).map(|a| a.ready)
}

/// Nothing is left of any attachment: no device, port, flow or claim.
fn is_clean(model: &mut Model, before: &FlowTable) {
    model.pass(Duration::from_secs(2));
    expire_momentary(model);
    let left = FlowTable::diff(&model.flows, before);
    assert!(left.is_empty(), "{left:?}");
    assert!(model.wires.is_empty() && claims(model).is_empty() && model.uplinks.is_empty());
    assert!(!model.rows.keys().any(|name| name.starts_with("fab") && name != "fabric-vxlan"));
    assert!(model.node.status(model.now).claiming.is_empty());
}

/// A machine of the VLAN says that it has an address.
fn claim_on_the_wire(model: &mut Model, address: &str) {
    let IpAddr::V4(v4) = address.parse().unwrap() else { panic!("{address}") };
    let mac = [0x52, 0x54, 0, 0, 0, 7];
    let mut packet = [&[0xff; 6], &mac[..], &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2], &mac].concat();
    packet.extend([&v4.octets()[..], &[0; 6], &[10, 100, 0, 1]].concat());
    let packet_in = PacketIn { packet, userdata: vec![3], ..PacketIn::default() };
    model.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
}

#[test]
fn an_interface_comes_first_and_its_address_later() {
    let mut model = started();
    let before = model.flows.clone();
    let prepared = prepare(&mut model, "a");
    assert!(prepared.addresses.is_empty() && prepared.gateways.is_empty(), "{prepared:?}");
    assert_eq!((is_ready(&model, "a"), claims(&model)), (Some(false), vec![]));
    let id = ask(&mut model, "a", LEASE);
    assert_eq!(claims(&model), [LEASE]);
    assert!(model.addressed.is_empty(), "not before it was looked for on the wire");
    model.pass(LOOKED_FOR);
    let ready = attached(&mut model, id);
    assert_eq!(ready.addresses, ["10.100.0.9/24".parse().unwrap()]);
    assert_eq!(ready.gateways, ["10.100.0.254".parse::<IpAddr>().unwrap()]);
    assert_eq!((ready.mac, &ready.host_name), (prepared.mac, &prepared.host_name));
    assert_eq!(model.addressed, [(ready.host_name.clone(), ready.addresses.clone())]);
    assert_eq!(is_ready(&model, "a"), Some(true));
    assert_eq!(model.rows[&ready.host_name].external_ids["fabric.addresses"], LEASE);
    // ADD once more.
    assert_eq!(prepare(&mut model, "a"), ready);
    assert_eq!(complete(&mut model, "a", LEASE), ready);
    detach(&mut model, "a");
    is_clean(&mut model, &before);
}

#[test]
fn the_networks_gateway_goes_before_the_servers_and_that_before_a_default() {
    let own = "10.100.0.254";
    for (gateway, router, is) in [
        (Some(own), Some("10.100.0.5"), own),
        (None, Some("10.100.0.5"), "10.100.0.5"),
        (None, None, "10.100.0.1"),
    ] {
        let gateway = gateway.map(|ip| format!(", gateway: {ip}")).unwrap_or_default();
        let mut world = world();
        world[3] = network("lan", &format!("{LAN}{gateway}"));
        let mut model = Model::new("n1", 7, &Store::default()).with_uplink(UPLINK);
        model.start(&world);
        prepare(&mut model, "a");
        let routers = router.iter().map(|ip| ip.parse().unwrap()).collect();
        let id = model.request(Request::Complete { request: request("a", &[LEASE]), routers });
        model.pass(LOOKED_FOR);
        assert_eq!(attached(&mut model, id).gateways, [is.parse::<IpAddr>().unwrap()]);
    }
}

#[test]
fn an_interface_that_nobody_comes_back_for_goes() {
    let mut model = started();
    let before = model.flows.clone();
    prepare(&mut model, "a");
    model.pass(TOO_LONG);
    is_clean(&mut model, &before);
    let id = ask(&mut model, "a", LEASE);
    assert!(matches!(refused(&mut model, id), RequestError::TryAgain(what) if what.contains("begin anew")));
    // One that is removed, and one that is collected.
    prepare(&mut model, "a");
    detach(&mut model, "a");
    is_clean(&mut model, &before);
    prepare(&mut model, "a");
    let id = model.request(Request::Collect { network: "fabric".into(), valid: [].into() });
    assert_eq!(model.replies.remove(&id), Some(Ok(Reply::Done)));
    is_clean(&mut model, &before);
}

#[test]
fn a_collection_ends_also_what_is_just_being_completed() {
    let mut model = started();
    let before = model.flows.clone();
    prepare(&mut model, "a");
    model.silent.insert(Room::Store);
    let id = ask(&mut model, "a", LEASE);
    let collection = model.request(Request::Collect { network: "fabric".into(), valid: [].into() });
    model.wake(Room::Store);
    assert!(matches!(refused(&mut model, id), RequestError::TryAgain(_)));
    assert_eq!(model.replies.remove(&collection), Some(Ok(Reply::Done)));
    is_clean(&mut model, &before);
}

#[test]
fn an_address_that_cannot_be_had_leads_back_to_waiting() {
    let mut model = started();
    let before = model.flows.clone();
    prepare(&mut model, "b");
    complete(&mut model, "b", "10.100.0.8");
    prepare(&mut model, "a");
    let waiting = model.flows.clone();
    for (ip, words) in [
        ("10.100.0.8", "default/b"),
        ("10.99.0.8", "10.99.0.8 is not in Network lan (10.100.0.0/24)"),
        ("10.100.0.254", "gateway"),
    ] {
        let id = ask(&mut model, "a", ip);
        let error = refused(&mut model, id);
        assert!(matches!(&error, RequestError::NoAddress(what) if what.contains(words)), "{error:?}");
    }
    let id = ask(&mut model, "a", LEASE);
    claim_on_the_wire(&mut model, LEASE);
    let error = refused(&mut model, id).to_string();
    assert!(error.contains("52:54:00:00:00:07"), "{error}");
    assert_eq!(claims(&model), ["10.100.0.8"]);
    model.pass(LOOKED_FOR);
    assert_eq!(is_ready(&model, "a"), Some(false));
    let own = |table: &FlowTable| table.iter().filter(|f| f.hard_timeout == 0).cloned().collect::<Vec<_>>();
    assert_eq!(own(&model.flows), own(&waiting), "it still can speak with the server, and nothing else");
    complete(&mut model, "a", "10.100.0.10");
    for name in ["a", "b"] {
        detach(&mut model, name);
    }
    is_clean(&mut model, &before);
}

#[test]
fn a_device_that_takes_no_address_goes() {
    let mut model = started();
    let before = model.flows.clone();
    prepare(&mut model, "a");
    model.refuse_changes = true;
    let id = ask(&mut model, "a", LEASE);
    model.pass(LOOKED_FOR);
    assert!(matches!(refused(&mut model, id), RequestError::Failed(_)));
    is_clean(&mut model, &before);
}

#[test]
fn an_overlay_has_no_dhcp_server() {
    let mut model = started();
    let before = model.flows.clone();
    let id = model.request(Request::Prepare(request("over", &[])));
    let error = refused(&mut model, id);
    assert!(
        matches!(&error, RequestError::Invalid(what) if what.contains("Network overlay is an overlay")),
        "{error:?}"
    );
    is_clean(&mut model, &before);
}

#[test]
fn a_restart_finds_what_waits_and_what_has_its_lease() {
    let mut model = started();
    let before = model.flows.clone();
    prepare(&mut model, "a");
    let prepared = prepare(&mut model, "b");
    let ready = complete(&mut model, "a", LEASE);
    model.pass(Duration::from_secs(3));
    expire_momentary(&mut model);
    model.restart(8, &world());
    assert!(model.flow_mods.is_empty(), "{:?}", model.flow_mods);
    assert_eq!((is_ready(&model, "a"), is_ready(&model, "b")), (Some(true), Some(false)));
    assert_eq!(prepare(&mut model, "b"), prepared);
    assert_eq!(prepare(&mut model, "a"), ready);
    complete(&mut model, "b", "10.100.0.10");
    detach(&mut model, "a");
    detach(&mut model, "b");
    // One that nobody comes back for, whose address was claimed already: its look at the wire was never over.
    prepare(&mut model, "a");
    ask(&mut model, "a", LEASE);
    model.restart(9, &world());
    model.replies.clear();
    assert_eq!(claims(&model), [LEASE]);
    // The server had another address for it meanwhile.
    complete(&mut model, "a", "10.100.0.11");
    assert_eq!(claims(&model), ["10.100.0.11"]);
    detach(&mut model, "a");
    prepare(&mut model, "a");
    ask(&mut model, "a", LEASE);
    model.restart(10, &world());
    model.pass(TOO_LONG);
    is_clean(&mut model, &before);
}

#[test]
fn requests_that_do_not_fit_the_interface_are_told_so() {
    let mut model = started();
    let plain = AttachRequest { ipam: None, ..request("b", &[]) };
    let id = model.request(Request::Prepare(plain.clone()));
    assert!(matches!(refused(&mut model, id), RequestError::Invalid(_)));
    let id = model.request(Request::Attach(request("b", &[LEASE])));
    assert!(matches!(refused(&mut model, id), RequestError::Invalid(what) if what.contains("prepared")));
    let id = model.request(Request::Attach(plain));
    model.pass(LOOKED_FOR);
    attached(&mut model, id);
    let id = model.request(Request::Prepare(request("b", &[])));
    assert!(matches!(refused(&mut model, id), RequestError::Invalid(what) if what.contains("DEL")));
    prepare(&mut model, "a");
    complete(&mut model, "a", LEASE);
    let id = ask(&mut model, "a", "10.100.0.77");
    let error = refused(&mut model, id).to_string();
    assert!(error.contains("has 10.100.0.9") && error.contains("has given 10.100.0.77"), "{error}");
    // While one request is under way.
    detach(&mut model, "a");
    prepare(&mut model, "a");
    let first = ask(&mut model, "a", LEASE);
    let same = ask(&mut model, "a", LEASE);
    let other = ask(&mut model, "a", "10.100.0.77");
    let again = model.request(Request::Prepare(request("a", &[])));
    for id in [other, again] {
        assert!(matches!(refused(&mut model, id), RequestError::TryAgain(_)));
    }
    model.pass(LOOKED_FOR);
    assert_eq!(attached(&mut model, first), attached(&mut model, same));
}

#[test]
fn an_interface_that_goes_while_it_is_completed_leaves_nothing() {
    for room in [Room::Store, Room::Wire, Room::Ports] {
        let mut model = started();
        let before = model.flows.clone();
        prepare(&mut model, "a");
        model.silent.insert(room);
        let id = ask(&mut model, "a", LEASE);
        model.pass(LOOKED_FOR);
        let gone = model.request(Request::Detach(key("a")));
        model.wake(room);
        model.pass(LOOKED_FOR);
        assert_eq!(model.replies.remove(&gone), Some(Ok(Reply::Done)), "{room:?}");
        assert!(matches!(refused(&mut model, id), RequestError::TryAgain(_)), "{room:?}");
        is_clean(&mut model, &before);
    }
}
