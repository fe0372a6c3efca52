//! Policies as companies write them, and two that are harder than anybody's.

use serde_json::{Value, json};

/// A policy of a namespace. The first ten rounds give it the usual set; later ones open single workloads to others.
pub fn namespaced(namespace: &str, round: usize) -> Value {
    let spec = match round {
        0 => json!({ "podSelector": {}, "policyTypes": ["Ingress"] }),
        1 => json!({
            "podSelector": {}, "policyTypes": ["Egress"],
            "egress": [
                {
                    "to": [{
                        "namespaceSelector": named("kube-system"),
                        "podSelector": { "matchLabels": { "k8s-app": "kube-dns" } },
                    }],
                    "ports": [{ "protocol": "UDP", "port": 53 }, { "port": 53 }],
                },
                { "to": [{ "podSelector": {} }] },
            ],
        }),
        2 => json!({
            "podSelector": tier("frontend"),
            "ingress": [
                { "from": [{ "namespaceSelector": named("ingress") }], "ports": [{ "port": "http" }] },
                { "from": [public()], "ports": [{ "port": "http" }] },
            ],
        }),
        3 => json!({
            "podSelector": tier("backend"),
            "ingress": [{ "from": [{ "podSelector": tier("frontend") }], "ports": [{ "port": 8080 }] }],
        }),
        4 => json!({
            "podSelector": tier("db"),
            "ingress": [{
                "from": [{ "podSelector": { "matchExpressions": [in_tiers(&["backend", "worker"])] } }],
                "ports": [{ "port": "db" }],
            }],
        }),
        5 => json!({
            "podSelector": { "matchExpressions": [in_tiers(&["backend", "worker"])] }, "policyTypes": ["Egress"],
            "egress": [
                { "to": [{ "podSelector": tier("db") }], "ports": [{ "port": 5432 }] },
                { "to": [public()], "ports": [{ "port": 443 }] },
            ],
        }),
        6 => json!({
            "podSelector": {},
            "ingress": [{ "from": [{ "namespaceSelector": named("monitoring") }], "ports": [{ "port": "metrics" }] }],
        }),
        7 => json!({
            "podSelector": { "matchExpressions": [{ "key": "version", "operator": "Exists" }, not_in("tier", "db")] },
            "ingress": [{
                "from": [{ "namespaceSelector": { "matchExpressions": [not_in("env", "dev")] },
                           "podSelector": { "matchLabels": { "gateway": "yes" } } }],
            }],
        }),
        8 => json!({
            "podSelector": tier("worker"),
            "ingress": [{
                "from": [{ "namespaceSelector": { "matchLabels": { "team": "team-7" } } }],
                "ports": [{ "port": 30000, "endPort": 32767 }, { "protocol": "UDP", "port": 30000, "endPort": 32767 }],
            }],
        }),
        9 => json!({
            "podSelector": tier("stateful"),
            "ingress": [{
                "from": [
                    { "podSelector": tier("stateful") },
                    { "ipBlock": { "cidr": "172.16.0.0/12", "except": ["172.17.0.0/16", "172.18.0.0/16"] } },
                    { "ipBlock": { "cidr": "fd00:99::/32", "except": ["fd00:99:1::/48"] } },
                ],
            }],
        }),
        _ => json!({
            "podSelector": { "matchLabels": { "app": format!("app-{}", round % 10) } },
            "ingress": [{
                "from": [{ "podSelector": { "matchLabels": { "app": format!("app-{}", (round + 3) % 10) } } }],
                "ports": [{ "port": 8000 + round }],
            }],
        }),
    };
    network_policy(namespace, &format!("policy-{round}"), &spec)
}

/// A NetworkPolicy.
pub fn network_policy(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "name": name, "namespace": namespace }, "spec": spec,
    })
}

/// What the administrators say.
pub fn cluster_wide() -> Vec<Value> {
    let policy = |name: &str, spec: Value| {
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": { "name": name }, "spec": spec,
        })
    };
    let monitoring = json!({ "namespaces": named("monitoring") });
    vec![
        policy(
            "metrics",
            json!({
                "tier": "Admin", "priority": 10, "subject": { "namespaces": {} },
                "ingress": [{
                    "action": "Accept", "from": [monitoring], "protocols": [{ "destinationNamedPort": "metrics" }],
                }],
            }),
        ),
        policy(
            "no-metadata-service",
            json!({
                "tier": "Admin", "priority": 20, "subject": { "namespaces": {} },
                "egress": [{ "action": "Deny", "to": [{ "networks": ["169.254.169.254/32"] }] }],
            }),
        ),
        policy(
            "prod-from-dev",
            json!({
                "tier": "Admin", "priority": 30, "subject": { "namespaces": { "matchLabels": { "env": "prod" } } },
                "ingress": [
                    { "action": "Deny", "from": [{ "namespaces": { "matchLabels": { "env": "dev" } } }] },
                ],
            }),
        ),
        policy(
            "staging",
            json!({
                "tier": "Baseline", "priority": 10, "subject": { "namespaces": { "matchLabels": { "env": "staging" } } },
                "ingress": [{ "action": "Deny", "from": [{ "namespaces": { "matchExpressions": [not_in("env", "staging")] } }] }],
            }),
        ),
    ]
}

/// A policy of 500 IPv4 prefixes and 500 IPv6 prefixes, each with an exception, and of one wide prefix of each family
/// with 500 exceptions.
pub fn many_blocks(namespace: &str, app: &str) -> Value {
    let of = |number: usize, six: bool| {
        let (high, low) = (number / 250, number % 250);
        let (cidr, except) = if six {
            (format!("2001:db8:{number:x}::/48"), format!("2001:db8:{number:x}:1::/64"))
        } else {
            (format!("11.{high}.{low}.0/24"), format!("11.{high}.{low}.128/28"))
        };
        json!({ "ipBlock": { "cidr": cidr, "except": [except] } })
    };
    let excepts = |six: bool| -> Vec<String> {
        let except = |n: usize| match six {
            true => format!("2001:db9:{n:x}::/48"),
            false => format!("12.{}.{}.0/26", n / 250, n % 250),
        };
        (0..500).map(except).collect()
    };
    let mut blocks: Vec<Value> = (0..500).flat_map(|number| [of(number, false), of(number, true)]).collect();
    blocks.push(json!({ "ipBlock": { "cidr": "12.0.0.0/8", "except": excepts(false) } }));
    blocks.push(json!({ "ipBlock": { "cidr": "2001:db9::/32", "except": excepts(true) } }));
    network_policy(
        namespace,
        "many-blocks",
        &json!({
            "podSelector": { "matchLabels": { "app": app } },
            "ingress": [{ "from": blocks, "ports": [{ "port": 443 }, { "port": 8000, "endPort": 8999 }] }],
        }),
    )
}

/// One of many policies that select the same pod, each opening it to one workload.
pub fn one_of_many(namespace: &str, app: &str, number: usize) -> Value {
    network_policy(
        namespace,
        &format!("one-of-many-{number}"),
        &json!({
            "podSelector": { "matchLabels": { "app": app } },
            "ingress": [{
                "from": [{ "podSelector": { "matchLabels": { "app": format!("client-{number}") } } }],
                "ports": [{ "port": 10_000 + number }],
            }],
        }),
    )
}

fn tier(value: &str) -> Value {
    json!({ "matchLabels": { "tier": value } })
}

fn named(namespace: &str) -> Value {
    json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } })
}

fn in_tiers(values: &[&str]) -> Value {
    json!({ "key": "tier", "operator": "In", "values": values })
}

fn not_in(key: &str, value: &str) -> Value {
    json!({ "key": key, "operator": "NotIn", "values": [value] })
}

/// Everything but the addresses that companies use within.
fn public() -> Value {
    json!({ "ipBlock": { "cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"] } })
}
