//! Where a pod is asked, and what a question says in JSON.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use fabric_api::verdict::{
    AskError, CHECK_MOST, CheckQuery, End, MATRIX_MOST, MatrixQuery, PODS_MOST, Protocol, Query, Traffic,
    pods,
};
use policy::manifest::{Source, admit};
use policy::{Edit, Family, PodRef, Verdict, World};
use serde_json::{Value, json};

fn world(manifests: &str) -> World {
    let mut world = World::new();
    let manifests: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
    for manifest in manifests {
        let admission = admit(&Source::api(), manifest);
        assert_eq!(admission.problems, []);
        world.apply(Edit::Put(admission.object.unwrap()));
    }
    world
}

const CLUSTER: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}}
---
{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: pods}, spec: {mode: overlay, cidrs: [10.0.0.0/16], default: true}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: plain}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: moved, uid: u1}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.2}]}}
---
{apiVersion: fabric.io/v1alpha1, kind: IPClaim, metadata: {name: 0a000003}, spec: {network: pods, ip: 10.0.0.3, mac: "02:00:00:00:00:03", node: n1, owner: c/eth0, pod: {namespace: a, name: moved, uid: u1}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: robbed}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.3}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: host}, spec: {nodeName: n1, hostNetwork: true}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: waiting}, status: {podIPs: [{ip: 10.0.0.4}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: a, name: done}, spec: {nodeName: n1}, status: {phase: Failed, podIPs: [{ip: 10.0.0.5}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: lost, name: pod}, spec: {nodeName: n1}, status: {podIPs: [{ip: 10.0.0.6}]}}
"#;

#[test]
fn a_pod_is_asked_at_the_addresses_that_are_its_own() {
    let world = world(CLUSTER);
    let of = |end: &str| {
        let found = end.parse::<End>().unwrap().addresses(&world);
        found.map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(of("a/plain").as_deref(), Ok("10.0.0.1 fd00::1"));
    assert_eq!(of("a/moved").as_deref(), Ok("10.0.0.2 10.0.0.3"), "its claim's and its status'");
    assert_eq!(of("a/robbed"), Err(AskError::NoAddress(PodRef::new("a", "robbed"))), "another pod claims it");
    assert_eq!(of("a/host").as_deref(), Ok("192.168.0.1"), "its node's");
    assert_eq!(of("a/waiting"), Err(AskError::NoAddress(PodRef::new("a", "waiting"))), "no node runs it");
    assert_eq!(of("a/done"), Err(AskError::Finished(PodRef::new("a", "done"))));
    assert_eq!(of("a/gone"), Err(AskError::UnknownPod(PodRef::new("a", "gone"))));
    assert_eq!(
        of("lost/pod").as_deref(),
        Ok("10.0.0.6"),
        "its verdict is a denial until its namespace is known"
    );
    assert_eq!(of("203.0.113.9").as_deref(), Ok("203.0.113.9"));
}

#[test]
fn a_question_reads_as_it_is_written() {
    let query = Query {
        from: "a/plain".parse().unwrap(),
        to: "fd00::9".parse().unwrap(),
        traffic: Traffic::new(Protocol::Tcp, Some(80)).unwrap(),
        family: Some(Family::V6),
    };
    let json = json!({"from": "a/plain", "to": "fd00::9", "protocol": "TCP", "port": 80, "family": 6});
    assert_eq!(serde_json::to_value(&query).unwrap(), json);
    assert_eq!(serde_json::from_value::<Query>(json).unwrap(), query);
    let icmp = json!({"from": "10.0.0.1", "to": "10.0.0.2", "protocol": "ICMP"});
    let read: Query = serde_json::from_value(icmp.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), icmp);
    for (field, value, says) in [
        ("family", json!(5), "family is 4 or 6"),
        ("port", json!(0), "0 is no port"),
        ("port", Value::Null, "TCP wants a port"),
        ("protocol", json!("GRE"), "unknown variant"),
        ("to", json!("a/b/c"), "neither a pod nor an address"),
    ] {
        let mut wrong = json!({"from": "a/plain", "to": "a/host", "protocol": "TCP", "port": 80});
        wrong[field] = value;
        let error = serde_json::from_value::<Query>(wrong).unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
}

#[test]
fn answers_come_over_the_family_that_both_have() {
    let world = world(CLUSTER);
    let ask = |from: &str, to: &str, family| {
        let traffic = Traffic::new(Protocol::Icmp, None).unwrap();
        Query { from: from.parse().unwrap(), to: to.parse().unwrap(), traffic, family }.answer(&world)
    };
    let answer = ask("a/plain", "2001:db8::1", None).unwrap();
    assert_eq!((answer.from.to_string().as_str(), answer.verdict), ("fd00::1", Verdict::Allow));
    assert_eq!(answer.ingress, None, "the outside has no rules");
    let error = ask("a/plain", "a/moved", Some(Family::V6)).unwrap_err();
    assert_eq!(error.to_string(), "a/plain and a/moved do not both have an IPv6 address: they cannot talk");
    let lost = ask("lost/pod", "a/plain", None).unwrap();
    assert_eq!(lost.verdict, Verdict::Deny, "never open");
}

#[test]
fn too_much_at_once_is_refused() {
    let world = world(CLUSTER);
    let icmp = Traffic::new(Protocol::Icmp, None).unwrap();
    let ip = "10.0.0.1".parse().unwrap();
    let many = MatrixQuery { from: vec![ip; 2], to: vec![ip; MATRIX_MOST / 2], traffic: vec![icmp] };
    assert!(many.answer(&world).is_ok());
    let more = MatrixQuery { traffic: vec![icmp; 2], ..many };
    let refused = AskError::TooMany { asked: 2 * MATRIX_MOST, most: MATRIX_MOST };
    assert_eq!(more.answer(&world), Err(refused));
    let query = Query { from: End::Address(ip), to: End::Address(ip), traffic: icmp, family: None };
    assert!(CheckQuery { questions: vec![query.clone(); CHECK_MOST] }.answer(&world).is_ok());
    assert!(CheckQuery { questions: vec![query; CHECK_MOST + 1] }.answer(&world).is_err());
}

#[test]
fn pages_of_pods_have_each_once() {
    let mut world = World::new();
    // `a-b` sorts behind `a` as a namespace, but before `a/` as a text.
    for (namespace, number) in [("a", 700), ("a-b", 700), ("b", 601)] {
        for pod in 0..number {
            let manifest = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": format!("p{pod:04}")},
            });
            world.apply(Edit::Put(admit(&Source::api(), manifest).object.unwrap()));
        }
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = pods(&world, after.as_ref());
        assert!(page.pods.len() <= PODS_MOST);
        seen.extend(page.pods.into_iter().map(|pod| pod.pod));
        match page.next {
            Some(next) => after = Some(next.parse().unwrap()),
            None => break,
        }
    }
    let all: Vec<_> = world.pods().map(|pod| pod.reference.to_string()).collect();
    assert_eq!(seen, all);
}
