//! What is kept for the sake of fast verdicts is what would be found afresh: after any history of edits a world answers
//! as one that is built of the same objects at once.

mod common;

use std::collections::BTreeMap;

use common::{Result, address, traffic, world};
use policy::manifest::{Source, admit};
use policy::{Direction, Edit, Family, Object, ObjectRef, Question, World};
use proptest::prelude::*;
use serde_json::{Value, json};

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn namespace() -> impl Strategy<Value = Value> {
    let annotations =
        one_of(&[json!({}), json!({"fabric.io/tenant": "red"}), json!({"fabric.io/tenant": "*"})]);
    (one_of(&["a", "b"]), one_of(&["x", "y"]), annotations).prop_map(|(name, team, annotations)| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}, "annotations": annotations}})
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let place = (one_of(&["a", "b"]), one_of(&["p", "q", "r"]));
    let state = (
        one_of(&["web", "api"]),
        1u8..5,
        one_of(&["Running", "Running", "Running", "Failed"]),
        one_of(&[80, 81]),
    );
    (place, state).prop_map(|((namespace, name), (app, host, phase, port))| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": app}},
            "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": port}]}]},
            "status": {"phase": phase, "podIP": format!("10.1.0.{host}")}})
    })
}

fn claim() -> impl Strategy<Value = Value> {
    let pod = prop::option::of((one_of(&["a", "b"]), one_of(&["p", "q", "none"])));
    (1u8..5, pod).prop_map(|(host, pod)| {
        let pod = pod.map(|(namespace, name)| json!({"namespace": namespace, "name": name, "uid": ""}));
        json!({"apiVersion": "fabric.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": format!("0a0100{host:02x}")},
            "spec": {"ip": format!("10.1.0.{host}"), "network": "d", "mac": "02:00:00:00:00:01", "node": "n1", "owner": "c/e", "retain": false, "pod": pod}})
    })
}

fn selector() -> impl Strategy<Value = Value> {
    one_of(&[json!({}), json!({"matchLabels": {"app": "web"}}), json!({"matchLabels": {"app": "api"}})])
}

fn network_policy() -> impl Strategy<Value = Value> {
    let peers = one_of(&[
        json!([]),
        json!([{"podSelector": {"matchLabels": {"app": "web"}}}]),
        json!([{"namespaceSelector": {"matchLabels": {"team": "x"}}}]),
        json!([{"ipBlock": {"cidr": "10.1.0.0/30"}}]),
    ]);
    let ports = one_of(&[json!([]), json!([{"port": 80}]), json!([{"port": "web"}])]);
    let mode = one_of(&["enforce", "enforce", "audit"]);
    (one_of(&["a", "b"]), one_of(&["one", "two"]), selector(), peers, ports, mode).prop_map(
        |(namespace, name, subject, peers, ports, mode)| {
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                "metadata": {"namespace": namespace, "name": name, "annotations": {"fabric.io/mode": mode}},
                "spec": {"podSelector": subject, "policyTypes": ["Ingress", "Egress"],
                    "ingress": [{"from": peers, "ports": ports}], "egress": [{"to": peers, "ports": ports}]}})
        },
    )
}

fn cluster_policy() -> impl Strategy<Value = Value> {
    let action = one_of(&["Accept", "Deny", "Pass"]);
    (one_of(&["one", "two"]), one_of(&["Admin", "Baseline"]), 0u8..3, one_of(&["x", "y"]), action).prop_map(
        |(name, tier, priority, team, action)| {
            json!({"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
                "spec": {"tier": tier, "priority": priority, "subject": {"namespaces": {"matchLabels": {"team": team}}},
                    "ingress": [{"action": action, "from": [{"pods": {"podSelector": {"matchLabels": {"app": "web"}}}}]}]}})
        },
    )
}

fn edit() -> impl Strategy<Value = Edit> {
    let value =
        prop_oneof![1 => namespace(), 3 => pod(), 1 => claim(), 2 => network_policy(), 1 => cluster_policy()];
    (value, 0u8..4).prop_filter_map("every manifest is good", |(value, lot)| {
        let object = admit(&Source::api(), value).object?;
        Some(if lot == 0 { Edit::Remove(object.reference()) } else { Edit::Put(object) })
    })
}

fn questions() -> Result<Vec<Question>> {
    let empty = world("")?;
    let mut questions = Vec::new();
    for subject in 1..5 {
        for peer in 1..6 {
            for sent in ["TCP 80", "TCP 81", "UDP later", "1"] {
                for direction in [Direction::Ingress, Direction::Egress] {
                    let end = |host: i32| address(&empty, &format!("10.1.0.{host}"), Family::V4);
                    questions.push(Question {
                        direction,
                        subject: end(subject)?,
                        peer: end(peer)?,
                        traffic: traffic(sent)?,
                    });
                }
            }
        }
    }
    Ok(questions)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn a_world_answers_as_one_that_is_built_afresh(edits in prop::collection::vec(edit(), 1..40)) {
        let questions = questions().unwrap();
        let (mut world, mut objects) = (World::new(), BTreeMap::<ObjectRef, Object>::new());
        for edit in edits {
            match &edit {
                Edit::Put(object) => drop(objects.insert(object.reference(), object.clone())),
                Edit::Remove(reference) => drop(objects.remove(reference)),
            }
            world.apply(edit);
            let mut afresh = World::new();
            for object in objects.values() {
                afresh.apply(Edit::Put(object.clone()));
            }
            for question in &questions {
                let judgement = world.judge(question);
                prop_assert_eq!(&judgement, &afresh.judge(question), "{:?}", question);
                prop_assert_eq!(&world.explain(question).judgement, &judgement);
                let programs = [&world, &afresh].map(|world| world.program(question.subject, question.direction));
                prop_assert_eq!(programs[0], programs[1]);
                prop_assert_eq!(world.is_guarded(question.subject), afresh.is_guarded(question.subject));
            }
            prop_assert_eq!(world.lint(), afresh.lint());
        }
    }
}
