//! What is told of bad policies, of those in audit mode, and of what is denied.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::time::Duration;

use fabric_tests::frames::segment::TCP;
use fabric_tests::lab::Node;
use fabric_tests::oracle::Answer;
use fabric_tests::probe::ask::UDP;
use fabric_tests::probe::village::{OPEN, asked, assert_all, ips, lab, lab_with, pod, question};
use fabric_tests::probe::{Outcome, Question, bed, object, serve};
use fabric_tests::trial::holds_within;
use serde_json::{Value, json};

/// Bad policies: a name, the rules, and what is to be named as wrong.
fn bad() -> Vec<(&'static str, Value, &'static str)> {
    let open = json!({ "port": OPEN });
    vec![
        (
            "cidr",
            json!([{ "from": [{ "ipBlock": { "cidr": "10.70.0.0/33" } }], "ports": [open] }]),
            "ipBlock.cidr",
        ),
        ("end-port", json!([{ "ports": [{ "port": OPEN, "endPort": OPEN - 1 }] }]), "endPort"),
        (
            "except",
            json!([{ "from": [{ "ipBlock": { "cidr": "10.70.0.0/16", "except": ["10.71.0.0/24"] } }] }]),
            "except",
        ),
        (
            "operator",
            json!([{ "from": [{ "podSelector": { "matchExpressions": [{ "key": "app", "operator": "Like", "values": ["free"] }] } }] }]),
            "operator",
        ),
        ("named-end", json!([{ "ports": [{ "port": "web", "endPort": 9000 }] }]), "endPort"),
    ]
}

#[test]
fn bad_policies_are_named_and_open_nothing() {
    let bad = bad();
    let mut objects = vec![pod("free", "n1", 10, json!({ "app": "free" }))];
    for (n, (name, rules, _)) in (20u16..).zip(&bad) {
        let mut pod = pod(name, if n % 2 == 0 { "n1" } else { "n2" }, n, json!({ "app": name }));
        pod["spec"]["containers"][0]["ports"] = json!([{ "name": "web", "containerPort": OPEN }]);
        objects.push(pod);
        let spec = json!({ "podSelector": { "matchLabels": { "app": name } }, "ingress": rules });
        objects.push(object::policy(&format!("f/bad-{name}"), spec));
    }
    let bed = lab("swbad", 2, objects);
    let questions: Vec<Question> = bad
        .iter()
        .flat_map(|(name, ..)| {
            [true, false].map(|v4| question(&bed, "f/free", &format!("f/{name}"), v4, TCP, OPEN))
        })
        .collect();
    serve(&bed, &questions);
    assert_all(&bed, &questions, Answer::Deny);
    for node in bed.lab().nodes() {
        let problems = bed::status(node)["problems"].clone();
        let (metrics, log) = (metrics(node), fs::read_to_string(node.agent_log()).unwrap());
        for (name, _, field) in &bad {
            let object = format!("NetworkPolicy f/bad-{name}");
            let named = |problem: &&Value| {
                let text = |key: &str| problem[key].as_str().unwrap_or_default();
                let says = text("field").contains(field) || text("message").contains(field);
                problem["object"] == object && text("field").starts_with("spec.ingress[0].") && says
            };
            let found = problems.as_array().unwrap().iter().find(named);
            let found = found.unwrap_or_else(|| panic!("{}: {object}, {field}, in {problems:#}", node.name));
            let field = found["field"].as_str().unwrap();
            let words = ["NetworkPolicy", &format!("f/bad-{name}"), field];
            let told = |text: &str| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
            assert!(told(&metrics), "{}: no metric names {object} and {field}:\n{metrics}", node.name);
            assert!(told(&log), "{}: the log does not name {object} and {field}:\n{log}", node.name);
        }
    }
}

/// What an agent tells Prometheus.
fn metrics(node: &Node) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(fabric_api::client::get(&node.agent_socket(), "/metrics")).unwrap();
    String::from_utf8(answer.to_vec()).unwrap()
}

/// The sum of the samples whose line has all these words.
fn samples(node: &Node, words: &[&str]) -> f64 {
    let metrics = metrics(node);
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let wanted = lines.filter(|line| words.iter().all(|word| line.contains(word)));
    wanted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn what_is_only_watched_passes_and_is_told() {
    let mut audit = object::policy(
        "f/watched",
        json!({ "podSelector": { "matchLabels": { "app": "target" } }, "policyTypes": ["Ingress"] }),
    );
    audit["metadata"]["annotations"] = json!({ "fabric.io/mode": "audit" });
    let objects = vec![
        object::namespace("g", json!({}), json!({ "fabric.io/log-denied": "true" })),
        object::pod("g/target", "n1", json!({ "app": "target" }), &ips(10)),
        object::pod("g/shut", "n1", json!({ "app": "shut" }), &ips(13)),
        pod("near", "n1", 11, json!({ "app": "near" })),
        pod("far", "n2", 12, json!({ "app": "far" })),
        {
            audit["metadata"]["namespace"] = json!("g");
            audit
        },
        object::policy(
            "g/closed",
            json!({ "podSelector": { "matchLabels": { "app": "shut" } }, "policyTypes": ["Ingress"] }),
        ),
    ];
    // What flows have dropped is counted when they are compared.
    let bed = lab_with("swaudit", 2, json!({ "reconcileSeconds": 1 }), objects);
    let watched: Vec<Question> = ["f/near", "f/far"]
        .iter()
        .flat_map(|from| [TCP, UDP].map(|protocol| question(&bed, from, "g/target", true, protocol, OPEN)))
        .collect();
    let denied: Vec<Question> = ["f/near", "f/far"]
        .iter()
        .flat_map(|from| [TCP, UDP].map(|protocol| question(&bed, from, "g/shut", true, protocol, OPEN)))
        .collect();
    serve(&bed, &watched);
    assert_all(&bed, &watched, Answer::Allow);
    assert_all(&bed, &denied, Answer::Deny);
    // A verdict is of the node that judges: of a pod elsewhere, the sender's node judges as well.
    let logs = || -> String {
        bed.lab().nodes().iter().map(|node| fs::read_to_string(node.agent_log()).unwrap()).collect()
    };
    let (tcp, udp) = (["TCP", "protocol=6"], ["UDP", "protocol=17"]);
    // In audit mode every verdict that is learned is told, which may hold for several protocols.
    let some = [tcp, udp].concat();
    for (from, to, policy, protocols) in [
        ("f/near", "g/target", "g/watched", &some[..]),
        ("f/far", "g/target", "g/watched", &some[..]),
        ("f/near", "g/shut", "g/closed", &tcp[..]),
        ("f/near", "g/shut", "g/closed", &udp[..]),
        ("f/far", "g/shut", "g/closed", &tcp[..]),
        ("f/far", "g/shut", "g/closed", &udp[..]),
    ] {
        let told = |line: &str| {
            protocols.iter().any(|protocol| line.contains(protocol))
                && [from, to, policy, "8080"].iter().all(|word| line.contains(word))
        };
        let told = holds_within(Duration::from_secs(5), || logs().lines().any(told));
        assert!(told, "no log tells of {from}, {to}, {policy}, {protocols:?}:\n{}", logs());
    }
    let counted = |words: &[&str]| bed.lab().nodes().iter().map(|node| samples(node, words)).sum::<f64>();
    let mut counts = [0.0; 2];
    let all = holds_within(Duration::from_secs(8), || {
        counts = [counted(&["audit", "g/watched"]), counted(&["denied", "g/closed"])];
        counts[0] >= 2.0 && counts[1] >= 4.0
    });
    println!("counted by rule: {} audited conversations, {} denied packets", counts[0], counts[1]);
    assert!(all, "{counts:?}: at least 2 audited conversations and 4 denied packets were to be counted");
    let slowest = asked(&bed, &watched).into_iter().filter_map(|finding| match finding.outcome {
        Outcome::Reached(after) => Some(after),
        _ => None,
    });
    println!("audited conversations took at most {:?}", slowest.max());
}
