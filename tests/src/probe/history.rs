//! Edits of a cluster, one after another, out of a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::object::{cluster_policy, namespace, pod, policy};
use crate::oracle::random::Dice;

/// Namespaces that are edited; policies of the whole cluster are about these only.
pub const NAMESPACES: [&str; 3] = ["red", "blue", "plain"];
/// TCP ports that are probed.
pub const TCP_PORTS: [u16; 2] = [80, 443];
/// UDP ports that are probed.
pub const UDP_PORTS: [u16; 2] = [53, 123];
/// Prefixes of the Network.
pub const CIDRS: [&str; 2] = ["10.50.0.0/24", "fd50::/64"];
/// Pods at the beginning, and at most.
const PODS: (usize, usize) = (7, 9);
const APPS: [&str; 3] = ["web", "db", "job"];
const TEAMS: [&str; 2] = ["x", "y"];
const NODES: [&str; 2] = ["n1", "n2"];

/// Ways to write the policy of [`steady_policy`].
pub const STEADY: usize = 5;

/// The policy of pods of the namespace `steady`, which are always allowed to talk to each other, in one of several forms.
#[must_use]
pub fn steady_policy(form: usize) -> Value {
    let [v4, v6] = CIDRS;
    let pods = json!([{ "podSelector": {} }]);
    let ingress = match form {
        0 => json!([{ "from": pods }]),
        1 => json!([{ "from": [{ "ipBlock": { "cidr": v4 } }, { "ipBlock": { "cidr": v6 } }] }]),
        2 => json!([{}]),
        3 => json!([{ "from": pods, "ports": [{ "port": 1, "endPort": 65535 }, { "protocol": "UDP" }] }]),
        _ => {
            json!([{ "from": [{ "namespaceSelector": { "matchLabels": { "name": "steady" } } }] }, { "ports": [{ "port": 9 }] }])
        }
    };
    policy("steady/own", json!({ "podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress }))
}

/// One edit.
#[derive(Debug, Clone)]
pub enum Edit {
    /// An object comes or changes.
    Put(Value),
    /// An object goes: kind, namespace, name.
    Remove(&'static str, String, String),
    /// A pod comes.
    Born(Value),
    /// A pod goes.
    Dead(String),
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(object) => write!(f, "put {object}"),
            Self::Remove(kind, namespace, name) => write!(f, "remove {kind} {namespace}/{name}"),
            Self::Born(object) => write!(f, "born {object}"),
            Self::Dead(pod) => write!(f, "dead {pod}"),
        }
    }
}

/// Writes a history.
#[derive(Debug)]
pub struct Author {
    dice: Dice,
    pods: BTreeMap<String, Value>,
    policies: BTreeSet<(String, String)>,
    cluster_policies: BTreeSet<String>,
    /// Places of addresses in the Network that pods have had.
    used: BTreeSet<u16>,
    born: usize,
}

impl Author {
    /// The author of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            pods: BTreeMap::new(),
            policies: BTreeSet::new(),
            cluster_policies: BTreeSet::new(),
            used: BTreeSet::new(),
            born: 0,
        }
    }

    /// The cluster at the beginning: namespaces, pods, a policy.
    pub fn beginning(&mut self) -> Vec<Value> {
        let mut objects: Vec<Value> = NAMESPACES.iter().map(|name| self.namespace(name, None)).collect();
        for _ in 0..PODS.0 {
            objects.push(self.birth());
        }
        objects.push(self.policy());
        objects
    }

    /// The next edit.
    pub fn edit(&mut self) -> Edit {
        loop {
            match self.dice.below(100) {
                0..30 => return Edit::Put(self.policy()),
                30..37 => {
                    let form = self.dice.below(STEADY);
                    return Edit::Put(steady_policy(form));
                }
                37..48 => {
                    if let Some((namespace, name)) = self.pick_policy() {
                        self.policies.remove(&(namespace.clone(), name.clone()));
                        return Edit::Remove("NetworkPolicy", namespace, name);
                    }
                }
                48..58 => return Edit::Put(self.cluster_policy()),
                58..63 => {
                    let place = self.dice.below(self.cluster_policies.len().max(1));
                    if let Some(name) = self.cluster_policies.iter().nth(place).cloned() {
                        self.cluster_policies.remove(&name);
                        return Edit::Remove("ClusterNetworkPolicy", String::new(), name);
                    }
                }
                63..74 => {
                    let name = self.dice.word(&NAMESPACES);
                    let tenant = self.dice.pick(&[None, None, Some("a"), Some("b"), Some("*")]).flatten();
                    return Edit::Put(self.namespace(name, tenant));
                }
                74..84 => return Edit::Put(self.relabelled()),
                84..92 if self.pods.len() < PODS.1 => return Edit::Born(self.birth()),
                92.. if self.pods.len() > PODS.0 - 2 => {
                    let place = self.dice.below(self.pods.len());
                    let name = self.pods.keys().nth(place).cloned().unwrap_or_default();
                    self.pods.remove(&name);
                    return Edit::Dead(name);
                }
                _ => {}
            }
        }
    }

    fn namespace(&mut self, name: &str, tenant: Option<&str>) -> Value {
        let team = self.dice.word(&TEAMS);
        let labels = json!({ "kubernetes.io/metadata.name": name, "team": team, "group": "play" });
        let annotations = tenant.map_or(json!({}), |tenant| json!({ "fabric.io/tenant": tenant }));
        namespace(name, labels, annotations)
    }

    /// A pod, half of the time with an address that another one had.
    fn birth(&mut self) -> Value {
        let taken: BTreeSet<u16> =
            self.pods.values().filter_map(|pod| place(&pod["status"]["podIP"])).collect();
        let free: Vec<u16> = self.used.difference(&taken).copied().collect();
        let fresh = 10 + u16::try_from(self.used.len()).unwrap_or_default();
        let reused = self.dice.pick(&free).filter(|_| self.dice.percent(70));
        let place = reused.unwrap_or(fresh);
        self.used.insert(place);
        self.born += 1;
        let reference = format!("{}/p{}", self.dice.word(&NAMESPACES), self.born);
        let node = self.dice.word(&NODES);
        let mut pod = pod(&reference, node, labels(self.dice.word(&APPS)), &addresses(place));
        let web = self.dice.pick(&TCP_PORTS).unwrap_or_default();
        pod["spec"]["containers"][0]["ports"] = json!([{ "name": "web", "containerPort": web }, { "name": "dns", "containerPort": 53, "protocol": "UDP" }]);
        self.pods.insert(reference, pod.clone());
        pod
    }

    fn relabelled(&mut self) -> Value {
        let place = self.dice.below(self.pods.len());
        let app = self.dice.word(&APPS);
        let Some(pod) = self.pods.values_mut().nth(place) else { return Value::Null };
        pod["metadata"]["labels"] = labels(app);
        pod.clone()
    }

    fn pick_policy(&mut self) -> Option<(String, String)> {
        let place = self.dice.below(self.policies.len().max(1));
        self.policies.iter().nth(place).cloned()
    }

    fn policy(&mut self) -> Value {
        let namespace = self.dice.word(&NAMESPACES).to_owned();
        let name = self.dice.word(&["one", "two"]).to_owned();
        let mut spec = json!({ "podSelector": self.selector() });
        let types = [json!(["Ingress"]), json!(["Egress"]), json!(["Ingress", "Egress"])];
        let types = types[self.dice.below(3)].clone();
        for (kind, rules, peers) in [("Ingress", "ingress", "from"), ("Egress", "egress", "to")] {
            if types.as_array().into_iter().flatten().any(|wanted| wanted == kind) {
                let count = self.dice.between(0, 2);
                spec[rules] = (0..count).map(|_| self.rule(peers)).collect();
            }
        }
        spec["policyTypes"] = types;
        self.policies.insert((namespace.clone(), name.clone()));
        policy(&format!("{namespace}/{name}"), spec)
    }

    fn selector(&mut self) -> Value {
        let app = self.dice.word(&APPS);
        match self.dice.below(4) {
            0 => json!({}),
            1 => json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": [app] }] }),
            _ => json!({ "matchLabels": { "app": app } }),
        }
    }

    fn namespaces(&mut self) -> Value {
        match self.dice.below(3) {
            0 => json!({}),
            1 => json!({ "matchLabels": { "team": self.dice.word(&TEAMS) } }),
            _ => json!({ "matchLabels": { "kubernetes.io/metadata.name": self.dice.word(&NAMESPACES) } }),
        }
    }

    fn rule(&mut self, peers: &str) -> Value {
        let mut rule = json!({});
        if self.dice.percent(80) {
            let count = self.dice.between(1, 2);
            rule[peers] = (0..count).map(|_| self.peer()).collect();
        }
        if self.dice.percent(60) {
            let count = self.dice.between(1, 2);
            rule["ports"] = (0..count).map(|_| self.port()).collect();
        }
        rule
    }

    fn peer(&mut self) -> Value {
        match self.dice.below(5) {
            0 => json!({ "podSelector": self.selector() }),
            1 => json!({ "namespaceSelector": self.namespaces() }),
            2 => json!({ "namespaceSelector": self.namespaces(), "podSelector": self.selector() }),
            n => json!({ "ipBlock": self.block(n == 3) }),
        }
    }

    fn block(&mut self, v4: bool) -> Value {
        let [four, six] = CIDRS;
        let cidr = if v4 { four } else { six };
        let some: Vec<u16> = self.used.iter().copied().collect();
        let mut one = || {
            let place = self.dice.pick(&some).unwrap_or(10);
            let [four, six] = addresses(place);
            if v4 { format!("{four}/32") } else { format!("{six}/128") }
        };
        let (first, second) = (one(), one());
        match self.dice.below(3) {
            0 => json!({ "cidr": cidr }),
            1 => json!({ "cidr": first }),
            _ => json!({ "cidr": cidr, "except": [first, second] }),
        }
    }

    fn port(&mut self) -> Value {
        match self.dice.below(7) {
            0 => json!({ "port": "web" }),
            1 => json!({ "port": "dns", "protocol": "UDP" }),
            2 => json!({ "port": 79, "endPort": 81 }),
            3 => json!({ "protocol": "UDP" }),
            4 => json!({ "port": self.dice.pick(&UDP_PORTS), "protocol": "UDP" }),
            _ => json!({ "port": self.dice.pick(&TCP_PORTS) }),
        }
    }

    fn cluster_policy(&mut self) -> Value {
        let name = self.dice.word(&["c1", "c2"]).to_owned();
        let play = json!({ "matchLabels": { "group": "play" } });
        let subject = if self.dice.percent(50) {
            json!({ "namespaces": play })
        } else {
            json!({ "pods": { "namespaceSelector": play, "podSelector": self.selector() } })
        };
        let mut spec = json!({
            "tier": self.dice.word(&["Admin", "Baseline"]),
            "priority": self.dice.below(4),
            "subject": subject,
        });
        let (rules, peers) = if self.dice.percent(50) { ("ingress", "from") } else { ("egress", "to") };
        let count = self.dice.between(1, 2);
        spec[rules] = (0..count).map(|_| self.cluster_rule(peers)).collect();
        self.cluster_policies.insert(name.clone());
        cluster_policy(&name, spec)
    }

    fn cluster_rule(&mut self, peers: &str) -> Value {
        let peer = match self.dice.below(3) {
            0 => json!({ "namespaces": self.namespaces() }),
            1 if peers == "to" => {
                let [v4, v6] = CIDRS;
                json!({ "networks": [self.dice.word(&[v4, v6, "10.50.0.8/30"])] })
            }
            _ => {
                json!({ "pods": { "namespaceSelector": self.namespaces(), "podSelector": self.selector() } })
            }
        };
        let mut rule = json!({ "action": self.dice.word(&["Accept", "Deny", "Pass"]), peers: [peer] });
        if self.dice.percent(50) {
            rule["protocols"] = json!([match self.dice.below(3) {
                0 => json!({ "destinationNamedPort": "web" }),
                1 => json!({ "udp": { "destinationPort": { "number": self.dice.pick(&UDP_PORTS) } } }),
                _ => json!({ "tcp": { "destinationPort": { "range": { "start": 80, "end": 100 } } } }),
            }]);
        }
        rule
    }
}

fn labels(app: &str) -> Value {
    json!({ "app": app })
}

/// The addresses of a place in the Network; both show the same digits.
#[must_use]
pub fn addresses(place: u16) -> [IpAddr; 2] {
    let digits = place / 100 * 256 + place / 10 % 10 * 16 + place % 10;
    let last = u8::try_from(place).unwrap_or(u8::MAX);
    [Ipv4Addr::new(10, 50, 0, last).into(), Ipv6Addr::new(0xfd50, 0, 0, 0, 0, 0, 0, digits).into()]
}

fn place(address: &Value) -> Option<u16> {
    address.as_str()?.parse::<Ipv4Addr>().ok().map(|address| u16::from(address.octets()[3]))
}
