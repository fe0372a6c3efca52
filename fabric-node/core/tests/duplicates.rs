//! The node on a model of its rooms: an address in a VLAN is looked for on the wire before it is used.

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
use fabric_core::pipeline::vocabulary::PROBED;
use openflow::message::packet_fields;
use openflow::{Field, FlowTable, Mac};
use policy::{Edit, Kind, Object, ObjectRef};
use support::lan::{
    FOREIGN, LOOKED_FOR, ask, attach, claim, detach, pod, refusal, sent, show, started, vlans, world,
};
use support::model::Model;

/// Somebody in the VLAN uses an address that is looked for.
fn claim_on_the_wire(model: &mut Model, address: IpAddr, mac: Mac) {
    show(model, PROBED, claim(address, mac));
}

#[test]
fn the_group_of_an_ipv6_address_is_joined_before_the_first_question() {
    let mut model = started();
    ask(&mut model, "a");
    model.pass(LOOKED_FOR);
    let kind = |frame: &[u8]| packet_fields(frame).exact(Field::ICMPV6_TYPE);
    let of_v6: Vec<&Vec<u8>> =
        model.sent.iter().map(|out| &out.packet).filter(|frame| kind(frame).is_some()).collect();
    let kinds: Vec<u128> = of_v6.iter().filter_map(|frame| kind(frame)).take(4).collect();
    assert_eq!(kinds, [143, 135, 135, 135], "once");
    let (report, question) = (of_v6[0], of_v6[1]);
    assert_eq!(report[6..12], question[6..12], "by the same sender");
    assert_eq!(report[74..90], question[38..54], "the group that the question goes to");
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
