//! The node on a model of its rooms: hardware addresses that the runtime asks for.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use fabric_core::node::*;
use openflow::Mac;
use policy::{Edit, IpClaim, Object, PodIdent};
use support::lan::{add, detach, request, started};
use support::model::Model;

const ASKED: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn with_mac(name: &str) -> AttachRequest {
    AttachRequest { mac: Some(ASKED), ..request(name) }
}

/// A pod of another node has the MAC, with an address of some Network.
fn elsewhere(model: &mut Model, of: &str, pod: &str) -> IpClaim {
    let claim = IpClaim {
        ip: "10.100.0.200".parse().unwrap(),
        network: of.into(),
        mac: ASKED.0,
        node: "n2".into(),
        pod: Some(PodIdent {
            namespace: "default".into(),
            name: pod.into(),
            uid: format!("u-{pod}").as_str().into(),
        }),
        owner: "elsewhere/eth0".into(),
        retain: false,
        since: None,
    };
    model.handle(Event::World(vec![Edit::Put(Object::IpClaim(claim.clone()))]));
    claim
}

#[test]
fn a_mac_that_a_pod_of_this_node_has_is_refused_by_its_name() {
    let mut model = started();
    assert_eq!(add(&mut model, with_mac("a")).unwrap().mac, ASKED);
    let refused = add(&mut model, with_mac("b"));
    let Err(RequestError::Invalid(what)) = refused else { panic!("{refused:?}") };
    assert!(what.contains(&format!("the MAC {ASKED}")) && what.contains("pod default/a"), "{what}");
    assert_eq!(model.store.borrow().len(), 2, "nothing is claimed for the other");
    assert_eq!(add(&mut model, with_mac("a")).unwrap().mac, ASKED, "the same one again");
    assert_eq!(add(&mut model, with_mac("over")).unwrap().mac, ASKED, "of another Network");
    detach(&mut model, "a");
    assert_eq!(add(&mut model, with_mac("b")).unwrap().mac, ASKED);
}

#[test]
fn a_mac_that_a_pod_of_another_node_has_is_refused_by_its_name_and_node() {
    let mut model = started();
    elsewhere(&mut model, "lan100", "far");
    let refused = add(&mut model, with_mac("a"));
    let Err(RequestError::Invalid(what)) = refused else { panic!("{refused:?}") };
    assert!(what.contains("pod default/far on node n2"), "{what}");
    assert!(model.store.borrow().is_empty());
    assert_ne!(add(&mut model, request("a")).unwrap().mac, ASKED, "nobody asks for it");
}

#[test]
fn a_mac_of_another_network_is_no_matter_unless_both_are_in_one_vlan() {
    let mut model = started();
    elsewhere(&mut model, "overlay", "far");
    assert_eq!(add(&mut model, with_mac("a")).unwrap().mac, ASKED);
    detach(&mut model, "a");
    let beside = "{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: beside}, spec: {mode: underlay, \
        physicalNetwork: lan, vlan: 100, cidrs: [10.110.0.0/24]}}";
    model.handle(Event::World(vec![Edit::Put(support::cluster::object(beside))]));
    elsewhere(&mut model, "beside", "far");
    assert!(matches!(add(&mut model, with_mac("a")), Err(RequestError::Invalid(_))));
}

#[test]
fn a_pod_that_moves_waits_for_its_own_mac() {
    let mut model = started();
    let claim = elsewhere(&mut model, "lan100", "a");
    let Err(RequestError::TryAgain(what)) = add(&mut model, with_mac("a")) else {
        panic!("it may not wait?")
    };
    assert!(what.contains("not gone yet"), "{what}");
    // Its container has gone, and the address is kept for it.
    let idle = IpClaim { owner: String::new(), retain: true, ..claim };
    model.handle(Event::World(vec![Edit::Put(Object::IpClaim(idle))]));
    assert_eq!(add(&mut model, with_mac("a")).unwrap().mac, ASKED);
}
