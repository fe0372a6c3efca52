//! The node on a model of its rooms: machines that take the address of a running pod.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::{CLAIMED, Table};
use openflow::Mac;
use policy::{Edit, IpClaim, Kind, Object, ObjectRef};
use support::lan::{FOREIGN, UPLINK, attach, claim, detach, expire_momentary, problems, sent, show, started};
use support::model::Model;

const SECOND: Duration = Duration::from_secs(1);

/// A node with a pod in VLAN 100 that has been announced.
fn with_pod() -> (Model, Attached) {
    let mut model = started();
    let attached = attach(&mut model, "a");
    model.pass(5 * SECOND);
    model.sent.clear();
    expire_momentary(&mut model);
    (model, attached)
}

fn addresses(attached: &Attached) -> Vec<IpAddr> {
    attached.addresses.iter().map(|net| net.addr()).collect()
}

/// A machine uses an address; how many frames that makes the agent send.
fn hear(model: &mut Model, address: IpAddr, machine: Mac) -> usize {
    show(model, CLAIMED, claim(address, machine));
    std::mem::take(&mut model.sent).len()
}

fn quiet(model: &Model) -> usize {
    model.flows.iter().filter(|flow| flow.table == Table::Punt.id() && flow.hard_timeout == 10).count()
}

#[test]
fn a_machine_that_takes_a_pods_address_is_told_of_and_the_address_is_defended() {
    for family in 0..2 {
        let (mut model, attached) = with_pod();
        let address = addresses(&attached)[family];
        show(&mut model, CLAIMED, claim(address, FOREIGN));
        assert_eq!(sent(&mut model), [(address, attached.mac, vec![UPLINK])], "announced to the wire");
        let [problem] = &problems(&model)[..] else { panic!("{:?}", problems(&model)) };
        let said = format!(
            "address {address} of pod default/a is also used in VLAN 100 of physical network lan by the machine \
             with the MAC {FOREIGN}"
        );
        assert!(problem.starts_with(&said), "{problem}");
        assert_eq!(quiet(&model), 1 + family, "an IPv6 address is claimed in two ways");
        let status = model.node.status(model.now);
        assert_eq!((status.conflicts.len(), status.defences), (1, 1));
        assert_eq!((status.conflicts[0].address, status.conflicts[0].machine), (address, FOREIGN));
    }
}

#[test]
fn an_address_is_defended_once_in_ten_seconds_and_told_of_once() {
    let (mut model, attached) = with_pod();
    let [v4, v6] = addresses(&attached)[..] else { panic!("{attached:?}") };
    let mut defended = 0;
    for _ in 0..1000 {
        defended += hear(&mut model, v4, FOREIGN);
        model.pass(Duration::from_millis(50));
    }
    assert_eq!(defended, 5, "50 s");
    assert_eq!((problems(&model).len(), model.node.conflict_changes()), (1, 1));
    assert_eq!(hear(&mut model, v6, FOREIGN), 1, "each address by itself");
    assert_eq!(problems(&model).len(), 2);
}

#[test]
fn a_machine_that_is_quiet_for_minutes_is_forgotten() {
    let (mut model, attached) = with_pod();
    let address = addresses(&attached)[0];
    hear(&mut model, address, FOREIGN);
    model.pass(200 * SECOND);
    hear(&mut model, address, FOREIGN);
    model.pass(299 * SECOND);
    assert_eq!(problems(&model).len(), 1, "it was heard again");
    model.pass(2 * SECOND);
    assert_eq!((problems(&model).len(), model.node.conflict_changes()), (0, 2));
    assert!(model.node.status(model.now).conflicts.is_empty());
}

#[test]
fn two_machines_that_take_turns_are_two_and_no_more() {
    let (mut model, attached) = with_pod();
    let address = addresses(&attached)[0];
    for turn in 0..10 {
        hear(&mut model, address, Mac([0x52, 0x54, 0, 0, 0, turn % 2]));
        model.pass(11 * SECOND);
    }
    assert_eq!((problems(&model).len(), model.node.conflict_changes()), (2, 2));
}

#[test]
fn neither_an_earlier_holder_nor_another_pod_is_in_the_way() {
    let (mut model, attached) = with_pod();
    let address = addresses(&attached)[0];
    let own = model.store.borrow()[&address].clone();
    assert_eq!(hear(&mut model, address, attached.mac), 0, "the pod itself");
    model.pass(11 * SECOND);
    // Some pod of another node, whose agent sees to what it says.
    let other = IpClaim {
        ip: "10.100.0.200".parse().unwrap(),
        mac: FOREIGN.0,
        node: "n2".into(),
        owner: "elsewhere/eth0".into(),
        ..own.clone()
    };
    model.handle(Event::World(vec![Edit::Put(Object::IpClaim(other.clone()))]));
    assert_eq!((hear(&mut model, address, FOREIGN), quiet(&model)), (0, 1), "but it is not heard again soon");
    let gone = ObjectRef::cluster(Kind::IpClaim, policy::claim_name(other.ip));
    model.handle(Event::World(vec![Edit::Remove(gone)]));
    model.pass(11 * SECOND);
    // Whoever had the address until a moment ago.
    let before = IpClaim { ip: address, ..other };
    model.handle(Event::World(vec![Edit::Put(Object::IpClaim(before))]));
    model.handle(Event::World(vec![Edit::Put(Object::IpClaim(own))]));
    assert_eq!(hear(&mut model, address, FOREIGN), 0);
    model.pass(61 * SECOND);
    assert_eq!(hear(&mut model, address, FOREIGN), 1, "it has had its time");
}

#[test]
fn a_pod_that_goes_takes_its_conflict_along() {
    let (mut model, attached) = with_pod();
    let address = addresses(&attached)[0];
    hear(&mut model, address, FOREIGN);
    detach(&mut model, "a");
    assert!(problems(&model).is_empty());
    let before = model.flow_mods.len();
    assert_eq!(hear(&mut model, address, FOREIGN), 0);
    assert_eq!(model.flow_mods.len(), before, "nothing is done about an address that is nobody's here");
}

#[test]
fn a_compare_leaves_alone_what_keeps_claims_from_the_agent() {
    let (mut model, attached) = with_pod();
    hear(&mut model, addresses(&attached)[0], FOREIGN);
    model.flow_mods.clear();
    model.connect();
    assert!(model.flow_mods.is_empty(), "{:?}", model.flow_mods);
    model.pass(11 * SECOND);
    model.connect();
    assert_eq!(quiet(&model), 0, "it has had its time");
}

#[test]
fn what_is_no_claim_changes_nothing() {
    let (mut model, attached) = with_pod();
    let before = model.flow_mods.len();
    for packet in [Vec::new(), vec![0xff; 14], claim(addresses(&attached)[1], FOREIGN)[..40].to_vec()] {
        show(&mut model, CLAIMED, packet);
    }
    let mut routed = claim(addresses(&attached)[1], FOREIGN);
    routed[21] = 254;
    show(&mut model, CLAIMED, routed);
    assert!(model.sent.is_empty() && problems(&model).is_empty());
    assert_eq!(model.flow_mods.len(), before);
}
