//! What `lint` finds.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use serde_json::Value;
use support::{Folder, cases, pods, run, text};

fn policy(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{namespace: a, name: {name}}}\nspec: {spec}\n"
    )
}

#[test]
fn good_clusters_are_clean() {
    let folder = Folder::new();
    folder.write(
        "a.yaml",
        pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")])
            + &policy("fine", "{podSelector: {matchLabels: {app: x}}, ingress: [{from: [{podSelector: {matchLabels: {app: y}}}], ports: [{port: 80}]}]}"),
    );
    let ran = run(&["lint", "--manifests", &folder.path()]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "nothing found\n", ""));
    let json = run(&["lint", "-o", "json", "--manifests", &folder.path()]).json();
    assert_eq!(json, serde_json::json!({"findings": [], "problems": []}));
}

#[test]
fn policies_that_do_nothing_are_found() {
    let folder = Folder::new();
    folder.write("a.yaml", pods("a", &[("x", "10.0.0.1"), ("y", "10.0.0.2")]));
    folder.write(
        "policies.yaml",
        policy("nobody", "{podSelector: {matchLabels: {app: z}}}")
            + &policy(
                "never",
                "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: z}}}]}]}",
            )
            + &policy("name", "{podSelector: {}, ingress: [{ports: [{port: nosuch}]}]}"),
    );
    let ran = run(&["lint", "--manifests", &folder.path()]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    for says in [
        "policies.yaml#1: NetworkPolicy a/nobody: spec.podSelector: ",
        "policies.yaml#2: NetworkPolicy a/never: spec.ingress[0]",
        "policies.yaml#3: NetworkPolicy a/name: spec.ingress[0].ports[0]",
    ] {
        assert!(ran.out.contains(says), "{says}\n{}", ran.out);
    }
    let json = run(&["lint", "-o", "json", "--manifests", &folder.path()]).json();
    let kinds: Vec<&Value> =
        json["findings"].as_array().unwrap().iter().map(|finding| &finding["kind"]).collect();
    for kind in ["selects-nothing", "never-matches", "unknown-port-name"] {
        assert!(kinds.iter().any(|found| *found == kind), "{kind}: {json}");
    }
    assert!(json["findings"].as_array().unwrap().iter().all(|found| {
        found["source"].is_string()
            && found["object"].is_string()
            && found["field"].is_string()
            && found["message"].is_string()
    }));
}

#[test]
fn the_cases_have_no_problems() {
    for case in cases() {
        let json = run(&["lint", "-o", "json", "--manifests", &text(&case)]).json();
        assert_eq!(json["problems"], serde_json::json!([]), "{}", case.display());
    }
}
