//! Random namespaces, nodes, pods and claims.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::pieces::{PORT_NAMES, PORTS, labels};

pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// A namespace; of a world with tenants perhaps with an annotation.
pub(super) fn namespace(dice: &mut Dice, name: &str, tenants: bool) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    let mut own = labels(dice);
    if let Some(labels) = own.as_object_mut().filter(|_| dice.percent(4)) {
        // The API server sets this label; what a manifest says about it counts for nothing.
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!("a"));
    }
    metadata.insert("labels".to_owned(), own);
    if tenants && dice.percent(65) {
        let tenant = match dice.below(10) {
            0..4 => json!("red"),
            4..7 => json!("blue"),
            7 => json!(" red "),
            8 if dice.slips(50) => json!(""),
            _ => json!("*"),
        };
        metadata.insert("annotations".to_owned(), json!({"fabric.io/tenant": tenant}));
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

/// A node, with one address at least.
pub(super) fn node(dice: &mut Dice, name: &str) -> Value {
    let number = name.trim_start_matches('n');
    let mut addresses = vec![json!({"type": "InternalIP", "address": format!("192.168.77.{number}")})];
    if dice.percent(70) {
        addresses.push(json!({"type": "InternalIP", "address": format!("fd00:77::{number}")}));
    }
    if dice.percent(30) {
        addresses.push(json!({"type": "ExternalIP", "address": format!("203.0.113.{number}")}));
    }
    if dice.percent(5) {
        addresses.push(json!({"type": "ExternalIP", "address": "203.0.113.9"}));
    }
    addresses.push(json!({"type": "Hostname", "address": name}));
    let mut metadata = json!({"name": name, "labels": labels(dice)});
    if dice.percent(20) {
        let tunnel = format!("192.168.78.{number}");
        metadata = json!({"name": name, "labels": labels(dice), "annotations": {"fabric.io/tunnel-address": tunnel}});
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"addresses": addresses}})
}

/// One of the addresses that pods have.
pub(super) fn pod_address(dice: &mut Dice, six: bool) -> String {
    if six {
        format!("fd00:10::{:x}", dice.between(1, 12))
    } else {
        format!("10.10.{}.{}", usize::from(dice.percent(30)), dice.between(1, 12))
    }
}

/// A pod, most of the time a live one with addresses of both families.
pub(super) fn pod(dice: &mut Dice, namespace: &str, name: &str) -> Value {
    let mut spec = Map::new();
    let node = dice.word(&NODES);
    if dice.percent(96) {
        spec.insert("nodeName".to_owned(), json!(node));
    }
    spec.insert("containers".to_owned(), json!([{"name": "c", "ports": ports(dice)}]));
    if dice.percent(15) {
        let restart = dice.word(&["Always", "Never"]);
        spec.insert(
            "initContainers".to_owned(),
            json!([{"name": "i", "restartPolicy": restart, "ports": ports(dice)}]),
        );
    }
    let phase = if dice.percent(6) { dice.word(&["Succeeded", "Failed"]) } else { "Running" };
    let mut addresses = Vec::new();
    if dice.percent(6) {
        spec.insert("hostNetwork".to_owned(), json!(true));
        addresses.push(format!("192.168.77.{}", node.trim_start_matches('n')));
    } else {
        if dice.percent(2) {
            addresses.push(format!("192.168.77.{}", dice.between(1, 3)));
        }
        for six in [false, true] {
            if dice.percent(if six { 55 } else { 92 }) {
                addresses.push(pod_address(dice, six));
            }
        }
    }
    let podips: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let uid = format!("{namespace}-{name}-{}", dice.below(2));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "labels": labels(dice)},
        "spec": spec,
        "status": {"phase": phase, "podIPs": podips},
    })
}

fn ports(dice: &mut Dice) -> Value {
    let mut ports = Vec::new();
    for name in PORT_NAMES {
        if dice.percent(45) {
            let number = dice.pick(&PORTS);
            let protocol = dice.word(&["TCP", "TCP", "UDP", "SCTP"]);
            ports.push(json!({"name": name, "containerPort": number, "protocol": protocol}));
        }
    }
    if dice.percent(20) {
        ports.push(json!({"containerPort": 7}));
    }
    json!(ports)
}

/// The claim of an address: for one of the pods, for an earlier pod of its name, for a pod that nobody
/// knows, or for a container that is no pod.
pub(super) fn claim(dice: &mut Dice, pods: &[&Value]) -> Value {
    let ip = {
        let six = dice.percent(30);
        pod_address(dice, six)
    };
    let mut node = dice.word(&NODES).to_owned();
    let pod = dice.pick(pods);
    let of_pod =
        |field: &str| pod.and_then(|pod| pod["metadata"][field].as_str()).unwrap_or("gone").to_owned();
    let (namespace, name, uid) = (of_pod("namespace"), of_pod("name"), of_pod("uid"));
    let home = pod.and_then(|pod| pod["spec"]["nodeName"].as_str());
    if let Some(home) = home.filter(|_| dice.percent(90)) {
        home.clone_into(&mut node);
    }
    let ident = match dice.below(10) {
        0..5 => Some(json!({"namespace": namespace, "name": name, "uid": uid})),
        5 => Some(json!({"namespace": namespace, "name": name, "uid": ""})),
        6 => Some(json!({"namespace": namespace, "name": name, "uid": "earlier"})),
        7 => Some(json!({"namespace": "nowhere", "name": "p", "uid": "u"})),
        _ => None,
    };
    let hex = match ip.parse() {
        Ok(IpAddr::V4(four)) => format!("{:08x}", u32::from(four)),
        Ok(IpAddr::V6(six)) => format!("{:032x}", u128::from(six)),
        Err(_) => String::new(),
    };
    let mut spec =
        json!({"ip": ip, "network": "pods", "mac": "02:00:0a:0a:00:01", "node": node, "owner": "c/eth0"});
    if let (Some(ident), Some(fields)) = (ident, spec.as_object_mut()) {
        fields.insert("pod".to_owned(), ident);
    }
    json!({"apiVersion": "fabric.io/v1alpha1", "kind": "IPClaim", "metadata": {"name": hex}, "spec": spec})
}
