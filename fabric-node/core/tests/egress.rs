//! Egress addresses on models of two nodes: who holds one, how long, and what follows for flows and hosts.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use fabric_core::node::Event;
use fabric_core::pipeline::vocabulary::{Cookie, Kind as FlowKind, egress_mac};
use policy::{Edit, IpClaim, Kind, Object, ObjectRef, claim_name};
use support::cluster::{Cluster, Pod, UDP};
use support::net::{Sent, send};

const FIRST: &str = "192.168.77.200";
const SECOND: &str = "192.168.77.201";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn second() -> Duration {
    Duration::from_secs(1)
}

/// Two nodes on the network of the addresses, and a namespace that asks for one.
fn cluster(asked: &str) -> Cluster {
    let mut cluster = Cluster::new();
    for node in &mut cluster.nodes {
        node.handle(Event::Links(BTreeSet::from(["192.168.77.0/24".parse().unwrap()])));
    }
    ask(&mut cluster, "shop", asked);
    cluster
}

fn ask(cluster: &mut Cluster, namespace: &str, asked: &str) {
    let annotation =
        if asked.is_empty() { String::new() } else { format!("fabric.io/egress-ip: \"{asked}\"") };
    cluster.put(&format!(
        "{{kind: Namespace, apiVersion: v1, metadata: {{name: {namespace}, annotations: {{{annotation}}}}}}}"
    ));
}

fn claim(cluster: &Cluster, address: &str) -> Option<IpClaim> {
    cluster.store.borrow().get(&ip(address)).cloned()
}

fn holder(cluster: &Cluster, address: &str) -> Option<String> {
    claim(cluster, address).map(|claim| claim.node.to_string())
}

/// Everybody but those who are `dead` lives on for some seconds, and hears of every claim.
fn pass(cluster: &mut Cluster, seconds: u32, dead: &[usize]) {
    for _ in 0..seconds {
        for at in (0..cluster.nodes.len()).filter(|at| !dead.contains(at)) {
            cluster.nodes[at].pass(second());
            hear(cluster, dead);
        }
    }
}

fn hear(cluster: &mut Cluster, dead: &[usize]) {
    let edits: Vec<Edit> = [FIRST, SECOND]
        .into_iter()
        .map(|address| match claim(cluster, address) {
            Some(claim) => Edit::Put(Object::IpClaim(claim)),
            None => Edit::Remove(ObjectRef::cluster(Kind::IpClaim, claim_name(ip(address)))),
        })
        .collect();
    for at in (0..cluster.nodes.len()).filter(|at| !dead.contains(at)) {
        cluster.nodes[at].handle(Event::World(edits.clone()));
    }
}

fn index(holder: &str) -> usize {
    usize::from(holder == "n2")
}

/// The addresses that a node's host is to have.
fn on_host(cluster: &Cluster, at: usize) -> Vec<IpAddr> {
    cluster.nodes[at].host.egress.keys().copied().collect()
}

/// A pod sends something out of the cluster.
fn send_out(cluster: &mut Cluster, pod: &Pod) {
    let sent = Sent { from: pod.address, to: ip("1.1.1.1"), protocol: UDP, source_port: 4000, port: 53 };
    // Where it goes is the flows' matter.
    let _ = send(&mut cluster.nodes, pod.place, sent);
}

fn problems(cluster: &Cluster, at: usize) -> String {
    let node = &cluster.nodes[at];
    let status = node.node.status(node.now);
    let world = status.world.problems().into_iter().map(|problem| problem.to_string());
    status.problems.iter().cloned().chain(world).collect::<Vec<_>>().join("\n")
}

#[test]
fn one_node_holds_an_address_and_goes_on_holding_it() {
    let mut cluster = cluster(FIRST);
    pass(&mut cluster, 4, &[]);
    let first = claim(&cluster, FIRST).expect("somebody holds it");
    assert!(first.is_egress() && first.pod.is_none());
    let (own, other) = (index(&first.node), 1 - index(&first.node));
    assert_eq!((on_host(&cluster, own), on_host(&cluster, other)), (vec![ip(FIRST)], vec![]));
    assert_eq!(cluster.nodes[own].host.egress[&ip(FIRST)], egress_mac(ip(FIRST)));
    pass(&mut cluster, 120, &[]);
    let later = claim(&cluster, FIRST).expect("still");
    assert_eq!(later.node, first.node);
    assert!(later.since >= first.since.map(|since| policy::Timestamp(since.0 + 100)), "{later:?}");
    assert_eq!(problems(&cluster, other), "");
}

#[test]
fn a_holder_that_is_not_heard_of_loses_the_address_and_gives_it_up() {
    let mut cluster = cluster(FIRST);
    pass(&mut cluster, 4, &[]);
    let own = index(&holder(&cluster, FIRST).expect("a holder"));
    let other = 1 - own;
    pass(&mut cluster, 25, &[own]);
    assert_eq!(holder(&cluster, FIRST).map(|name| index(&name)), Some(own), "not before its time");
    pass(&mut cluster, 12, &[own]);
    assert_eq!(holder(&cluster, FIRST).map(|name| index(&name)), Some(other));
    assert_eq!(on_host(&cluster, other), [ip(FIRST)]);
    // The other one comes back, and hears of it.
    hear(&mut cluster, &[]);
    assert_eq!(on_host(&cluster, own), Vec::<IpAddr>::new());
    pass(&mut cluster, 60, &[]);
    assert_eq!(holder(&cluster, FIRST).map(|name| index(&name)), Some(other), "and lets the other have it");
}

#[test]
fn a_node_whose_object_is_gone_loses_the_address_at_once() {
    let mut cluster = cluster(FIRST);
    pass(&mut cluster, 4, &[]);
    let own = index(&holder(&cluster, FIRST).expect("a holder"));
    cluster.remove("Node", None, if own == 0 { "n1" } else { "n2" });
    pass(&mut cluster, 2, &[own]);
    assert_eq!(holder(&cluster, FIRST).map(|name| index(&name)), Some(1 - own));
}

#[test]
fn what_nobody_asks_for_is_given_back_and_another_one_taken() {
    let mut cluster = cluster(FIRST);
    pass(&mut cluster, 4, &[]);
    ask(&mut cluster, "shop", SECOND);
    pass(&mut cluster, 4, &[]);
    assert_eq!((holder(&cluster, FIRST), holder(&cluster, SECOND).is_some()), (None, true));
    ask(&mut cluster, "shop", "");
    pass(&mut cluster, 4, &[]);
    assert_eq!(holder(&cluster, SECOND), None);
    assert!((0..2).all(|at| on_host(&cluster, at).is_empty()));
}

#[test]
fn only_a_node_that_can_carry_an_address_takes_it() {
    let mut cluster = cluster(FIRST);
    for node in &mut cluster.nodes {
        node.handle(Event::Links(BTreeSet::from(["10.1.0.0/16".parse().unwrap()])));
    }
    pass(&mut cluster, 10, &[]);
    assert_eq!(holder(&cluster, FIRST), None);
    let told = problems(&cluster, 0);
    assert!(told.contains(FIRST) && told.contains("no node holds it"), "{told}");
    cluster.nodes[1].handle(Event::Links(BTreeSet::from(["192.168.77.0/24".parse().unwrap()])));
    pass(&mut cluster, 4, &[]);
    assert_eq!(holder(&cluster, FIRST).as_deref(), Some("n2"));
    // It loses the network for a moment, and then for good.
    cluster.nodes[1].handle(Event::Links(BTreeSet::new()));
    pass(&mut cluster, 5, &[]);
    assert_eq!(holder(&cluster, FIRST).as_deref(), Some("n2"));
    pass(&mut cluster, 10, &[]);
    assert_eq!(holder(&cluster, FIRST), None);
}

#[test]
fn an_address_that_cannot_be_one_is_named_and_not_taken() {
    for (asked, other, fault) in [
        ("10.244.9.9", "", "cidrs of Network"),
        ("192.168.77.2", "", "an address of node n2"),
        (FIRST, "tenant", "both ask for it"),
    ] {
        let mut cluster = cluster(asked);
        if !other.is_empty() {
            cluster.put(&format!(
                "{{kind: Namespace, apiVersion: v1, metadata: {{name: other, annotations: {{fabric.io/tenant: x, \
                 fabric.io/egress-ip: \"{asked}\"}}}}}}"
            ));
        }
        pass(&mut cluster, 10, &[]);
        assert_eq!(claim(&cluster, asked), None, "{asked}");
        let told = problems(&cluster, 0);
        assert!(told.contains(fault) && told.contains(asked), "{told}");
    }
}

#[test]
fn a_restarted_holder_has_the_address_at_once() {
    let mut cluster = cluster(FIRST);
    pass(&mut cluster, 4, &[]);
    let own = index(&holder(&cluster, FIRST).expect("a holder"));
    let objects: Vec<Object> = cluster.objects.values().cloned().collect();
    cluster.nodes[own].restart(99, &objects);
    assert_eq!(on_host(&cluster, own), [ip(FIRST)], "the first that the host hears of");
}

#[test]
fn ways_out_follow_the_holder() {
    let mut cluster = cluster("");
    cluster.attach(0, "shop", "a");
    cluster.attach(1, "shop", "b");
    let exits = |cluster: &Cluster, at: usize| {
        let is_exit = |kind| matches!(kind, Some(FlowKind::Exit | FlowKind::Return));
        cluster.nodes[at].flows.iter().filter(|flow| is_exit(Cookie(flow.cookie).kind())).count()
    };
    let a = cluster.pods["a"].clone();
    send_out(&mut cluster, &a);
    assert_eq!(exits(&cluster, 0), 0, "by its own node");
    ask(&mut cluster, "shop", FIRST);
    let told = cluster.nodes[0].readdressed.last().expect("the host forgets the source").clone();
    assert_eq!(told.get(&a.address), Some(&Some(ip(FIRST))));
    send_out(&mut cluster, &a);
    assert_eq!(exits(&cluster, 0), 1, "a drop while nobody holds the address");
    pass(&mut cluster, 4, &[]);
    send_out(&mut cluster, &a);
    let own = index(&holder(&cluster, FIRST).expect("a holder"));
    let way = if own == 0 { 1 } else { 2 };
    assert_eq!(exits(&cluster, 0), way, "out, and back where another node holds the address");
    ask(&mut cluster, "shop", "");
    assert_eq!(exits(&cluster, 0), 0);
    let told = cluster.nodes[0].readdressed.last().expect("the host forgets the source").clone();
    assert_eq!(told.get(&a.address), Some(&None));
}

#[test]
fn a_pod_of_another_node_that_scans_the_world_costs_the_holder_no_more_than_its_own_node() {
    let mut cluster = cluster(FIRST);
    cluster.attach(0, "shop", "a");
    cluster.attach(1, "shop", "b");
    pass(&mut cluster, 4, &[]);
    let own = index(&holder(&cluster, FIRST).expect("a holder"));
    let far = cluster.pods[if own == 0 { "b" } else { "a" }].clone();
    for first in 1..=126 {
        let sent = Sent {
            from: far.address,
            to: IpAddr::from([first, 1, 1, 1]),
            protocol: UDP,
            source_port: 4000,
            port: 53,
        };
        let _ = send(&mut cluster.nodes, far.place, sent);
        cluster.pass(Duration::from_millis(10));
    }
    let by_tunnel = |flow: &&openflow::Flow| Cookie(flow.cookie).kind() == Some(FlowKind::Exit);
    let flows = cluster.nodes[own].flows.iter().filter(by_tunnel).count();
    assert!((32..=cluster.nodes[own].limit).contains(&flows), "{flows}");
}
