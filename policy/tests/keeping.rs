//! Which pods keep their addresses, and who lives at one that waits for its pod.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use policy::manifest::{Source, admit};
use policy::{Edit, IpClaim, Location, Object, Pod, PodIdent, Resident, World};
use serde_json::{Value, json};

fn pod(metadata: Value) -> Pod {
    let manifest =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1"}});
    let admission = admit(&Source::api(), manifest);
    match admission.object {
        Some(Object::Pod(pod)) => pod,
        other => unreachable!("{other:?}: {:?}", admission.problems),
    }
}

fn owned(kind: &str, controller: bool, annotations: &Value) -> bool {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": kind, "name": "db", "uid": "u", "controller": controller});
    pod(json!({"name": "db-0", "ownerReferences": [owner], "annotations": annotations})).keeps_addresses
}

#[test]
fn pods_of_stateful_sets_keep_their_addresses_and_others_where_they_say_so() {
    assert!(owned("StatefulSet", true, &json!({})));
    assert!(!owned("StatefulSet", false, &json!({})), "one that does not control the pod");
    assert!(!owned("ReplicaSet", true, &json!({})));
    assert!(!pod(json!({"name": "a"})).keeps_addresses);
    assert!(owned("ReplicaSet", true, &json!({"fabric.io/keep-ip": "true"})));
    assert!(!owned("StatefulSet", true, &json!({"fabric.io/keep-ip": "false"})));
    let unreadable = pod(json!({"name": "a", "annotations": {"fabric.io/keep-ip": "perhaps"}}));
    assert_eq!(unreadable.annotations.unreadable, ["fabric.io/keep-ip"]);
}

#[test]
fn a_pod_that_is_told_to_end_says_so() {
    assert!(pod(json!({"name": "a", "deletionTimestamp": "2026-11-30T19:16:32Z"})).terminating);
    assert!(!pod(json!({"name": "a"})).terminating);
}

#[test]
fn the_pods_of_a_namespace_are_those_and_no_others() {
    let mut world = World::new();
    for (namespace, name) in [("a", "z"), ("ab", "a"), ("ab", "b"), ("abc", "a"), ("b", "a")] {
        let pod = pod(json!({"namespace": namespace, "name": name}));
        let _ = world.apply(Edit::Put(Object::Pod(pod)));
    }
    let names = |namespace: &str| -> Vec<String> {
        world.pods_of(&namespace.into()).map(|pod| pod.reference.to_string()).collect()
    };
    assert_eq!(names("ab"), ["ab/a", "ab/b"]);
    assert_eq!(names("aa"), Vec::<String>::new());
}

#[test]
fn nobody_lives_at_an_address_that_waits_for_its_pod() {
    let mut world = World::new();
    let manifest = json!({"apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": {"name": "pods"},
        "spec": {"mode": "overlay", "cidrs": ["10.1.0.0/24"]}});
    let _ = world.apply(Edit::Put(admit(&Source::api(), manifest).object.unwrap()));
    let ip = "10.1.0.7".parse().unwrap();
    let pod = PodIdent { namespace: "default".into(), name: "db-0".into(), uid: "u1".into() };
    let held = IpClaim {
        ip,
        network: "pods".into(),
        mac: [2, 0, 0, 0, 0, 1],
        node: "n1".into(),
        pod: Some(pod),
        owner: "c/eth0".into(),
        retain: true,
        since: None,
    };
    let _ = world.apply(Edit::Put(Object::IpClaim(held.clone())));
    assert!(matches!(world.locate(ip), Location::Pod { .. }));
    let changes = world.apply(Edit::Put(Object::IpClaim(IpClaim { owner: String::new(), ..held })));
    assert!(!changes.is_empty());
    assert!(matches!(world.locate(ip), Location::Vacant { .. }));
    assert!(matches!(world.resident(ip), Resident::Nobody));
    assert!(world.claim(ip).is_some_and(IpClaim::is_idle), "and yet it is taken");
}
