//! Policies in another order, which say the same.

use fabric_tests::oracle::key;
use fabric_tests::oracle::random::Dice;
use serde_json::Value;

/// The lists within a policy whose order means nothing. The rules of a ClusterNetworkPolicy are taken in
/// order.
const FREE: [&str; 8] =
    ["from", "to", "ports", "protocols", "values", "except", "networks", "matchExpressions"];
const FREE_OF_NAMESPACED: [&str; 3] = ["ingress", "egress", "policyTypes"];

/// The policy with every list shuffled whose order means nothing; other objects as they are, and a policy without a
/// readable name, since it goes by all that it says.
pub fn shuffle(dice: &mut Dice, mut manifest: Value) -> Value {
    let kind = manifest["kind"].as_str().unwrap_or_default().to_owned();
    let named = manifest["metadata"]["name"] == key(&manifest).2;
    if named && kind.ends_with("NetworkPolicy") {
        let namespaced = kind == "NetworkPolicy";
        manifest.get_mut("spec").into_iter().for_each(|spec| within(dice, spec, "", namespaced));
    }
    manifest
}

fn within(dice: &mut Dice, value: &mut Value, field: &str, namespaced: bool) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(field, value)| within(dice, value, field, namespaced));
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| within(dice, value, "", namespaced));
            let free = FREE.contains(&field) || namespaced && FREE_OF_NAMESPACED.contains(&field);
            for last in (1..values.len()).rev().filter(|_| free) {
                values.swap(last, dice.below(last + 1));
            }
        }
        _ => {}
    }
}
