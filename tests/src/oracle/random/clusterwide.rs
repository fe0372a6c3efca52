//! Random ClusterNetworkPolicies.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::pieces::{PORT_NAMES, PORTS, namespace_selector, prefix, range, selector};

/// A ClusterNetworkPolicy.
pub(super) fn policy(dice: &mut Dice, namespaces: &[&str], name: &str) -> Value {
    let name = if dice.slips(3) { "Bad_Name" } else { name };
    let mut metadata = json!({"name": name});
    if dice.percent(12) {
        metadata = json!({"name": name, "annotations": {"fabric.io/mode": "audit"}});
    }
    let mut spec = Map::new();
    let tier = if dice.slips(3) { "Middle" } else { dice.word(&["Admin", "Admin", "Baseline"]) };
    spec.insert("tier".to_owned(), json!(tier));
    let priority = if dice.slips(3) { json!(1001) } else { json!(dice.below(3)) };
    spec.insert("priority".to_owned(), priority);
    spec.insert("subject".to_owned(), subject(dice, namespaces));
    if dice.percent(75) {
        spec.insert("ingress".to_owned(), rules(dice, namespaces, "from"));
    }
    if dice.percent(75) {
        spec.insert("egress".to_owned(), rules(dice, namespaces, "to"));
    }
    json!({"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": metadata, "spec": spec})
}

fn subject(dice: &mut Dice, namespaces: &[&str]) -> Value {
    match dice.below(8) {
        0..4 => json!({"namespaces": namespace_selector(dice, namespaces)}),
        4 if dice.slips(25) => json!({}),
        _ => json!({"pods": pods(dice, namespaces)}),
    }
}

fn pods(dice: &mut Dice, namespaces: &[&str]) -> Value {
    if dice.percent(20) {
        return json!({"podSelector": selector(dice)});
    }
    json!({"namespaceSelector": namespace_selector(dice, namespaces), "podSelector": selector(dice)})
}

fn rules(dice: &mut Dice, namespaces: &[&str], field: &str) -> Value {
    if dice.slips(2) {
        return json!({"action": "Deny"});
    }
    let count = dice.below(5);
    json!((0..count).map(|_| rule(dice, namespaces, field)).collect::<Vec<Value>>())
}

fn rule(dice: &mut Dice, namespaces: &[&str], field: &str) -> Value {
    let mut rule = Map::new();
    if dice.percent(30) {
        rule.insert("name".to_owned(), json!(dice.word(&["one", "two", "one"])));
    }
    let action = if dice.slips(1) { "Log" } else { dice.word(&["Accept", "Accept", "Deny", "Deny", "Pass"]) };
    rule.insert("action".to_owned(), json!(action));
    let count = if dice.slips(1) { 0 } else { dice.between(1, 2) };
    let peers: Vec<Value> = (0..count).map(|_| peer(dice, namespaces, field == "to")).collect();
    rule.insert(field.to_owned(), json!(peers));
    if dice.percent(60) {
        let count = if dice.percent(10) { 0 } else { dice.between(1, 3) };
        let protocols: Vec<Value> = (0..count).map(|_| protocol(dice)).collect();
        rule.insert("protocols".to_owned(), json!(protocols));
    }
    Value::Object(rule)
}

fn peer(dice: &mut Dice, namespaces: &[&str], outward: bool) -> Value {
    if dice.slips(1) {
        return json!({"domainNames": ["example.com"]});
    }
    match dice.below(if outward { 7 } else { 3 }) {
        0 | 1 => json!({"pods": pods(dice, namespaces)}),
        2 => json!({"namespaces": namespace_selector(dice, namespaces)}),
        3 => json!({"nodes": selector(dice)}),
        _ => {
            let count = if dice.slips(2) { 0 } else { dice.between(1, 3) };
            json!({"networks": (0..count).map(|_| prefix(dice)).collect::<Vec<String>>()})
        }
    }
}

fn protocol(dice: &mut Dice) -> Value {
    if dice.slips(1) {
        return dice.pick(&[0, 1, 2]).map_or(Value::Null, |which| match which {
            0 => json!({"tcp": {}}),
            1 => json!({"tcp": {"destinationPort": {"range": {"start": 90, "end": 80}}}}),
            _ => json!({"icmp": {}}),
        });
    }
    if dice.percent(25) {
        return json!({"destinationNamedPort": dice.word(&PORT_NAMES)});
    }
    let number = dice.pick(&PORTS).unwrap_or(80);
    let (start, end) = range(dice);
    let ports = if dice.percent(60) || start == end {
        json!({"number": number})
    } else {
        json!({"range": {"start": start, "end": end}})
    };
    json!({dice.word(&["tcp", "tcp", "udp", "sctp"]): {"destinationPort": ports}})
}
