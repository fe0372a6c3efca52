//! Pieces of policies: selectors, prefixes, ports.

use serde_json::{Map, Value, json};

use super::dice::Dice;

pub(super) const KEYS: [&str; 3] = ["app", "env", "tier"];
pub(super) const VALUES: [&str; 3] = ["x", "y", "z"];
pub(super) const PORT_NAMES: [&str; 3] = ["web", "dns", "metrics"];
/// Ports, at the edges of blocks and in their midst.
pub(super) const PORTS: [u16; 14] =
    [1, 53, 80, 81, 255, 256, 443, 1024, 4095, 4096, 8080, 9090, 30000, 65535];
const PREFIXES: [&str; 18] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.10.0.0/16",
    "10.10.0.77/16",
    "10.10.0.0/24",
    "10.10.1.0/24",
    "10.10.0.8/29",
    "10.10.0.4/30",
    "10.10.0.3/32",
    "10.10.1.5/31",
    "192.168.77.0/24",
    "203.0.113.9/25",
    "172.16.0.0/12",
    "::/0",
    "fd00:10::/32",
    "fd00:10::5/64",
    "fd00:10::4/126",
    "fd00:77::/64",
];

/// Labels, few of few.
pub(super) fn labels(dice: &mut Dice) -> Value {
    let mut labels = Map::new();
    for key in KEYS {
        if dice.percent(55) {
            labels.insert(key.to_owned(), json!(dice.word(&VALUES)));
        }
    }
    Value::Object(labels)
}

/// A selector of pods or nodes.
pub(super) fn selector(dice: &mut Dice) -> Value {
    if dice.slips(2) {
        return broken_selector(dice);
    }
    let mut selector = Map::new();
    if dice.percent(35) {
        let mut wanted = Map::new();
        for _ in 0..dice.between(0, 2) {
            wanted.insert(dice.word(&KEYS).to_owned(), json!(dice.word(&VALUES)));
        }
        selector.insert("matchLabels".to_owned(), Value::Object(wanted));
    }
    if dice.percent(45) {
        let count = dice.between(0, 2);
        let expressions: Vec<Value> = (0..count).map(|_| expression(dice)).collect();
        selector.insert("matchExpressions".to_owned(), json!(expressions));
    }
    Value::Object(selector)
}

/// A selector of namespaces.
pub(super) fn namespace_selector(dice: &mut Dice, namespaces: &[&str]) -> Value {
    match dice.below(4) {
        0 => json!({"matchLabels": {"kubernetes.io/metadata.name": dice.word(namespaces)}}),
        _ => selector(dice),
    }
}

fn expression(dice: &mut Dice) -> Value {
    let key = dice.word(&KEYS);
    let count = dice.between(1, 2);
    let values: Vec<&str> = (0..count).map(|_| dice.word(&VALUES)).collect();
    match dice.below(4) {
        0 => json!({"key": key, "operator": "In", "values": values}),
        1 => json!({"key": key, "operator": "NotIn", "values": values}),
        2 => json!({"key": key, "operator": "Exists"}),
        _ => json!({"key": key, "operator": "DoesNotExist", "values": []}),
    }
}

fn broken_selector(dice: &mut Dice) -> Value {
    match dice.below(6) {
        0 => json!({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}),
        1 => json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
        2 => json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}),
        3 => json!({"matchLabels": {"app": 7}}),
        4 => json!({"matchNames": ["x"]}),
        _ => json!("app=x"),
    }
}

/// An `ipBlock`.
pub(super) fn ip_block(dice: &mut Dice) -> Value {
    let whole = prefix(dice);
    if dice.slips(4) {
        return match dice.below(4) {
            0 => json!({"cidr": "10.10.0.0/33"}),
            1 => json!({"cidr": whole, "except": [whole]}),
            2 => json!({"cidr": "10.10.0.0/16", "except": ["10.10.0.0/30", "10.11.0.0/24"]}),
            _ => json!({"cidr": whole, "except": ["10.10.0.300/32"]}),
        };
    }
    let mut excepts = Vec::new();
    for _ in 0..dice.below(4) {
        excepts.push(part_of(dice, &whole));
    }
    if excepts.is_empty() { json!({"cidr": whole}) } else { json!({"cidr": whole, "except": excepts}) }
}

/// A prefix, of this world's addresses most of the time.
pub(super) fn prefix(dice: &mut Dice) -> String {
    match dice.below(10) {
        0 => {
            let length = dice.between(0, 32);
            format!("10.{}.{}.{}/{length}", dice.between(9, 11), dice.below(3), dice.below(14))
        }
        1 => {
            let length = dice.between(0, 128);
            format!("fd00:10::{:x}:{:x}/{length}", dice.below(2), dice.below(14))
        }
        _ => dice.word(&PREFIXES).to_owned(),
    }
}

/// A prefix within another one, by lengthening it; the bits between are those of an address that may be in
/// use.
fn part_of(dice: &mut Dice, whole: &str) -> String {
    let (base, length) = whole.split_once('/').unwrap_or((whole, "0"));
    let length: usize = length.parse().unwrap_or(0);
    let size = if base.contains(':') { 128 } else { 32 };
    let longer = match dice.below(3) {
        0 => size,
        1 => (length + 1).min(size),
        _ => dice.between((length + 1).min(size), size),
    };
    let inside = if size == 32 {
        format!("10.10.{}.{}", dice.below(2), dice.below(14))
    } else {
        format!("fd00:10::{:x}", dice.below(14))
    };
    let fits = crate::oracle::Prefix::parse(whole)
        .zip(inside.parse().ok())
        .is_some_and(|(whole, inside)| whole.contains(inside));
    format!("{}/{longer}", if fits { &inside } else { base })
}

/// One element of `ports`.
pub(super) fn port(dice: &mut Dice) -> Value {
    if dice.slips(4) {
        return match dice.below(5) {
            0 => json!({"port": 443, "endPort": 80}),
            1 => json!({"port": "web", "endPort": 9000}),
            2 => json!({"endPort": 80}),
            3 => json!({"protocol": "ICMP", "port": 80}),
            _ => json!({"port": 0}),
        };
    }
    let mut port = Map::new();
    if dice.percent(60) {
        port.insert("protocol".to_owned(), json!(dice.word(&["TCP", "TCP", "UDP", "SCTP"])));
    }
    match dice.below(6) {
        0 => {}
        1 | 2 => drop(port.insert("port".to_owned(), json!(dice.word(&PORT_NAMES)))),
        3 => {
            let (first, last) = range(dice);
            port.insert("port".to_owned(), json!(first));
            port.insert("endPort".to_owned(), json!(last));
        }
        _ => drop(port.insert("port".to_owned(), json!(dice.pick(&PORTS)))),
    }
    Value::Object(port)
}

/// A range of ports of at least one.
pub(super) fn range(dice: &mut Dice) -> (u16, u16) {
    let a = if dice.percent(70) { dice.pick(&PORTS).unwrap_or(80) } else { dice.port().max(1) };
    let b = if dice.percent(70) { dice.pick(&PORTS).unwrap_or(80) } else { dice.port().max(1) };
    let b = if dice.percent(30) { a.saturating_add(u16::try_from(dice.below(300)).unwrap_or(0)) } else { b };
    (a.min(b), a.max(b))
}
