//! Random worlds: how many of what.

use serde_json::Value;

use super::dice::Dice;
use super::{base, clusterwide, namespaced};
use crate::oracle::cluster::key;

const NAMESPACES: [&str; 5] = ["a", "b", "c", "kube-system", "d"];
const NAMES: [&str; 4] = ["p", "q", "r", "s"];
const POLICIES: [&str; 4] = ["one", "two", "three", "four"];

/// A random world.
#[derive(Clone, Debug)]
pub struct World {
    /// Its manifests.
    pub manifests: Vec<Value>,
    /// Whether its namespaces may belong to tenants.
    pub tenants: bool,
}

impl World {
    /// The world of a seed.
    pub fn of(seed: u64) -> World {
        let mut dice = Dice::new(seed);
        let dice = &mut dice;
        let tenants = dice.percent(40);
        let careful = dice.percent(60);
        dice.be_careful(careful);
        let mut manifests = Vec::new();
        for name in NAMESPACES.into_iter().take(dice.between(2, 5)) {
            if dice.percent(97) {
                manifests.push(base::namespace(dice, name, tenants));
            }
        }
        for name in base::NODES {
            if dice.percent(90) {
                manifests.push(base::node(dice, name));
            }
        }
        let known = namespaces(&manifests);
        for namespace in NAMESPACES {
            // Nearly every pod is of a namespace that is known.
            if !known.contains(&namespace) && !dice.percent(10) {
                continue;
            }
            for name in NAMES.into_iter().take(dice.between(1, 4)) {
                manifests.push(base::pod(dice, namespace, name));
            }
        }
        let kinds = [(base_claims(dice), "IPClaim"), (dice.between(1, 9), "NetworkPolicy")];
        let cluster = if dice.percent(60) { dice.between(1, 4) } else { 0 };
        for (count, kind) in kinds.into_iter().chain([(cluster, "ClusterNetworkPolicy")]) {
            for _ in 0..count {
                let object = object(dice, kind, &manifests, tenants);
                put(&mut manifests, object);
            }
        }
        World { manifests, tenants }
    }
}

/// The namespaces of the alphabet that there are.
fn namespaces(manifests: &[Value]) -> Vec<&'static str> {
    let is_there = |name: &&str| {
        manifests.iter().any(|object| object["kind"] == "Namespace" && object["metadata"]["name"] == **name)
    };
    NAMESPACES.into_iter().filter(is_there).collect()
}

fn base_claims(dice: &mut Dice) -> usize {
    if dice.percent(50) { dice.between(1, 6) } else { 0 }
}

/// An object for a world: another one, or another version of one that is there.
pub fn another_object(dice: &mut Dice, manifests: &[Value], tenants: bool) -> Value {
    let kinds = [
        "Namespace",
        "Node",
        "Pod",
        "Pod",
        "IPClaim",
        "NetworkPolicy",
        "NetworkPolicy",
        "NetworkPolicy",
        "ClusterNetworkPolicy",
    ];
    let kind = dice.word(&kinds);
    object(dice, kind, manifests, tenants)
}

fn object(dice: &mut Dice, kind: &str, manifests: &[Value], tenants: bool) -> Value {
    let known = namespaces(manifests);
    let among: &[&str] = if dice.percent(90) && !known.is_empty() { &known } else { &NAMESPACES };
    let namespace = dice.word(among);
    match kind {
        "Namespace" => base::namespace(dice, namespace, tenants),
        "Node" => {
            let name = dice.word(&base::NODES);
            base::node(dice, name)
        }
        "Pod" => {
            let name = dice.word(&NAMES);
            base::pod(dice, namespace, name)
        }
        "IPClaim" => {
            let pods: Vec<&Value> = manifests.iter().filter(|object| object["kind"] == "Pod").collect();
            base::claim(dice, &pods)
        }
        "NetworkPolicy" => {
            let name = dice.word(&POLICIES);
            namespaced::policy(dice, &NAMESPACES, namespace, name)
        }
        _ => {
            let name = dice.word(&POLICIES);
            clusterwide::policy(dice, &NAMESPACES, name)
        }
    }
}

/// Puts an object among the manifests, in the place of one of the same name.
fn put(manifests: &mut Vec<Value>, object: Value) {
    manifests.retain(|known| key(known) != key(&object));
    manifests.push(object);
}
