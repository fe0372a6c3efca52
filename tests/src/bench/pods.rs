//! The pods that converse, and their manifests.
//!
//! A NetworkPolicy lets pods with one label talk to each other, so that verdicts depend
//! on who the peer is wherever policies are judged.

use std::fs;

use serde_json::{Value, json};

use super::way::Way;
use crate::lab::world::{documents, pods};
use crate::lab::{Lab, LabError, Node};

/// Pods of node n1 of which every ordered pair converses.
pub const TALKERS: usize = 10;

/// Reference of a talker, from 1.
pub fn talker(number: usize) -> String {
    format!("default/p{number}")
}

/// Two pods of node n1 that converse after the agent was killed.
pub const WITNESSES: [&str; 2] = ["default/k1", "default/k2"];
/// Reference of the pod that comes and goes, in a namespace whose Network has IPv4 only.
pub const SINGLE_STACK: &str = "single/pod";
/// Reference of the pod that comes and goes, with an address of each family.
pub const DUAL_STACK: &str = "default/dual";

/// Writes the manifests and attaches the pods that converse.
///
/// # Errors
/// With the first one that cannot be attached.
pub fn attach(lab: &mut Lab) -> Result<(), LabError> {
    let mut objects: Vec<Value> = (1..=TALKERS).map(|n| pod(&talker(n), "n1")).collect();
    objects.extend(WITNESSES.iter().map(|reference| pod(reference, "n1")));
    objects.extend(Way::ALL.into_iter().flat_map(at_both_ends));
    let conversing = text(&objects);
    lab.write_manifest("pods.yaml", &(conversing.clone() + &text(&others())))?;
    pods(&documents(&conversing)).iter().try_for_each(|pod| lab.add_pod(pod).map(drop))
}

/// Policy, Networks, and the pods that are attached one at a time.
fn others() -> Vec<Value> {
    let peers = json!([{ "podSelector": { "matchLabels": { "bench": "pod" } } }]);
    let mut objects = vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": { "name": "identity", "namespace": "default" },
            "spec": {
                "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{ "from": peers }], "egress": [{ "to": peers }],
            },
        }),
        json!({
            "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": "single" },
            "spec": { "mode": "overlay", "vni": 99, "cidrs": ["10.99.0.0/16"] },
        }),
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": "single", "annotations": { "fabric.io/network": "single" } },
        }),
        pod(SINGLE_STACK, "n1"),
        pod(DUAL_STACK, "n1"),
    ];
    objects.extend(Way::ALL.iter().map(|way| way.network()));
    objects
}

/// The manifest of a pod.
pub fn pod(reference: &str, node: &str) -> Value {
    let (namespace, name) = reference.split_once('/').unwrap_or(("default", reference));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": { "bench": "pod" } },
        "spec": { "nodeName": node },
    })
}

/// The manifests of the pods of a way, one on each node.
fn at_both_ends(way: Way) -> [Value; 2] {
    [1, 2].map(|node| {
        let mut pod = pod(&way.pod(node), &format!("n{node}"));
        pod["metadata"]["annotations"] = json!({ "fabric.io/network": way.word() });
        pod
    })
}

/// Manifests as a file; JSON is YAML.
pub fn text(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

/// Memory of a node's agent that is resident, MiB.
///
/// # Errors
/// Where the agent does not run.
pub fn resident(node: &Node) -> Result<f64, LabError> {
    let config = node.config().display().to_string();
    let pids = crate::lab::process::with_words(&["run", "--config", &config]);
    let resident = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let sizes: Option<f64> = pids.iter().filter_map(resident).reduce(f64::max);
    let none = || LabError::NotReady(format!("the agent of {} does not run", node.name));
    Ok(sizes.ok_or_else(none)? / 1024.0)
}
