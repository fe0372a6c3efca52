//! Random NetworkPolicies.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::pieces::{ip_block, namespace_selector, port, selector};

/// A NetworkPolicy.
pub(super) fn policy(dice: &mut Dice, namespaces: &[&str], namespace: &str, name: &str) -> Value {
    let name = if dice.slips(3) { json!(dice.pick(&["Bad_Name", "-", ""])) } else { json!(name) };
    let mut metadata = json!({"namespace": namespace, "name": name});
    if dice.percent(12) {
        metadata = json!({"namespace": namespace, "name": name, "annotations": {"fabric.io/mode": dice.word(&["audit", "audit", "enforce", "loud"])}});
    }
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec(dice, namespaces)})
}

fn spec(dice: &mut Dice, namespaces: &[&str]) -> Value {
    let mut spec = Map::new();
    if dice.percent(92) {
        spec.insert("podSelector".to_owned(), selector(dice));
    }
    if dice.percent(70) {
        spec.insert("ingress".to_owned(), rules(dice, namespaces, "from"));
    }
    if dice.percent(55) {
        spec.insert("egress".to_owned(), rules(dice, namespaces, "to"));
    }
    if dice.percent(60) {
        let types = match dice.below(7) {
            0 => json!([]),
            1 | 2 => json!(["Ingress"]),
            3 | 4 => json!(["Egress"]),
            5 => json!(["Ingress", "Egress"]),
            _ if dice.slips(30) => json!(["Ingress", "Sideways"]),
            _ => json!(["Egress", "Ingress"]),
        };
        spec.insert("policyTypes".to_owned(), types);
    }
    if dice.slips(2) {
        spec.insert("endpointSelector".to_owned(), json!({}));
    }
    Value::Object(spec)
}

fn rules(dice: &mut Dice, namespaces: &[&str], field: &str) -> Value {
    if dice.slips(2) {
        return json!("everything");
    }
    let count = if dice.percent(15) { 0 } else { dice.between(1, 3) };
    json!((0..count).map(|_| rule(dice, namespaces, field)).collect::<Vec<Value>>())
}

fn rule(dice: &mut Dice, namespaces: &[&str], field: &str) -> Value {
    let mut rule = Map::new();
    if dice.percent(70) {
        let count = if dice.percent(10) { 0 } else { dice.between(1, 3) };
        let peers: Vec<Value> = (0..count).map(|_| peer(dice, namespaces)).collect();
        rule.insert(field.to_owned(), if dice.percent(2) { Value::Null } else { json!(peers) });
    }
    if dice.percent(65) {
        let count = if dice.percent(10) { 0 } else { dice.between(1, 3) };
        let ports: Vec<Value> = (0..count).map(|_| port(dice)).collect();
        rule.insert("ports".to_owned(), json!(ports));
    }
    if dice.slips(2) {
        rule.insert("priority".to_owned(), json!(1));
    }
    Value::Object(rule)
}

fn peer(dice: &mut Dice, namespaces: &[&str]) -> Value {
    match dice.below(7) {
        0 | 1 => json!({"podSelector": selector(dice)}),
        2 => json!({"namespaceSelector": namespace_selector(dice, namespaces)}),
        3 => json!({
            "namespaceSelector": namespace_selector(dice, namespaces),
            "podSelector": selector(dice),
        }),
        4 if dice.slips(15) => json!({}),
        4 if dice.slips(15) => json!({"podSelector": {}, "ipBlock": {"cidr": "0.0.0.0/0"}}),
        _ => json!({"ipBlock": ip_block(dice)}),
    }
}
