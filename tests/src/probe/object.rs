//! Manifests of tests, as JSON.

use std::net::IpAddr;

use serde_json::{Value, json};

/// The default overlay Network of these prefixes.
#[must_use]
pub fn network(cidrs: &[&str]) -> Value {
    json!({
        "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": "pods" },
        "spec": { "mode": "overlay", "default": true, "encap": "vxlan", "vni": 77, "cidrs": cidrs },
    })
}

/// A Namespace.
#[must_use]
pub fn namespace(name: &str, labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
    })
}

/// A Pod (`NAMESPACE/NAME`) that runs on a node with these addresses.
#[must_use]
pub fn pod(reference: &str, node: &str, labels: Value, ips: &[IpAddr]) -> Value {
    let (namespace, name) = reference.split_once('/').unwrap_or(("default", reference));
    let listed: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"), "labels": labels },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "x" }] },
        "status": { "phase": "Running", "podIP": ips.first(), "podIPs": listed },
    })
}

/// A NetworkPolicy (`NAMESPACE/NAME`).
#[must_use]
pub fn policy(reference: &str, spec: Value) -> Value {
    let (namespace, name) = reference.split_once('/').unwrap_or(("default", reference));
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "namespace": namespace, "name": name },
        "spec": spec,
    })
}

/// A ClusterNetworkPolicy.
#[must_use]
pub fn cluster_policy(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
        "metadata": { "name": name },
        "spec": spec,
    })
}
