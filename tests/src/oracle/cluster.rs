//! The cluster as its manifests, and who is where in it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::field::{all, annotation, below, own_name, text};
use super::words::Who;

/// The objects of a cluster, as they are written.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// By kind, namespace (empty for objects of the cluster) and name.
    objects: BTreeMap<(String, String, String), Value>,
    shared: BTreeSet<String>,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster { objects: BTreeMap::new(), shared: BTreeSet::from(["kube-system".to_owned()]) }
    }
}

impl Cluster {
    /// The cluster of these objects; of two with one name the later stands.
    pub fn from_manifests(manifests: Vec<Value>) -> Cluster {
        let mut cluster = Cluster::default();
        for manifest in manifests {
            cluster.put(manifest);
        }
        cluster
    }

    /// Puts an object in place.
    pub fn put(&mut self, manifest: Value) {
        self.objects.insert(key(&manifest), manifest);
    }

    /// Takes an object away; the namespace of an object of the cluster is empty.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        self.objects.remove(&(kind.to_owned(), namespace.to_owned(), name.to_owned()));
    }

    /// Which namespaces are shared among tenants when they do not say otherwise; kube-system unless set.
    pub fn set_shared_namespaces(&mut self, shared: BTreeSet<String>) {
        self.shared = shared;
    }

    /// Every object, in the order of kind, namespace and name.
    pub fn manifests(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// The objects of a kind, in the order of namespace and name.
    pub fn objects<'c>(&'c self, kind: &'c str) -> impl Iterator<Item = &'c Value> {
        let lowest = (kind.to_owned(), String::new(), String::new());
        self.objects.range(lowest..).take_while(move |(key, _)| key.0 == kind).map(|(_, object)| object)
    }

    /// A namespace.
    pub fn namespace(&self, name: &str) -> Option<&Value> {
        self.objects("Namespace").find(|object| text(object, &["metadata", "name"]) == Some(name))
    }

    /// The pods that have an address, as `NAMESPACE/NAME`, with each of their addresses.
    pub fn pods(&self) -> BTreeSet<(String, IpAddr)> {
        let mut pods = BTreeSet::new();
        for address in self.addresses_of_pods() {
            if let Who::Pod { pod, .. } = self.who(address) {
                pods.insert((pod_name(pod), address));
            }
        }
        pods
    }

    fn addresses_of_pods(&self) -> BTreeSet<IpAddr> {
        let claimed = self.objects("IPClaim").filter_map(claimed_address);
        let reported = self.objects("Pod").flat_map(reported_addresses);
        claimed.chain(reported).collect()
    }

    /// Who has an address: whoever claimed it; else the first live pod that reports it; else a node.
    pub fn who(&self, address: IpAddr) -> Who<'_> {
        for claim in self.objects("IPClaim") {
            if claimed_address(claim) == Some(address) {
                return self.claimant(claim);
            }
        }
        for pod in self.objects("Pod") {
            let node = text(pod, &["spec", "nodeName"]).filter(|node| !node.is_empty());
            if is_live(pod) && node.is_some() && reported_addresses(pod).contains(&address) {
                return self.pod_of_namespace(pod, node);
            }
        }
        for node in self.objects("Node") {
            if node_addresses(node).contains(&address) {
                return Who::Node(node);
            }
        }
        Who::Outside
    }

    fn claimant<'c>(&'c self, claim: &'c Value) -> Who<'c> {
        let node = text(claim, &["spec", "node"]);
        let Some(wanted) = below(claim, &["spec", "pod"]) else { return Who::Container { node } };
        for pod in self.objects("Pod") {
            let own = text(pod, &["metadata", "namespace"]).unwrap_or("default");
            let same = Some(own) == text(wanted, &["namespace"])
                && text(pod, &["metadata", "name"]) == text(wanted, &["name"]);
            let (uid, wanted) = (text(pod, &["metadata", "uid"]), text(wanted, &["uid"]));
            let (uid, wanted) = (uid.unwrap_or_default(), wanted.unwrap_or_default());
            // A uid that one of them does not know is not held against it.
            if same && is_live(pod) && (uid.is_empty() || wanted.is_empty() || uid == wanted) {
                return self.pod_of_namespace(pod, node);
            }
        }
        Who::Unknown
    }

    fn pod_of_namespace<'c>(&'c self, pod: &'c Value, node: Option<&'c str>) -> Who<'c> {
        match self.namespace(text(pod, &["metadata", "namespace"]).unwrap_or("default")) {
            Some(namespace) => Who::Pod { pod, namespace, node },
            None => Who::Unknown,
        }
    }

    pub(super) fn is_shared(&self, namespace: &str) -> bool {
        self.shared.contains(namespace)
    }

    /// Ports such that every other port is treated as one of these: all numbers that occur in pods and
    /// policies, those before and after, the lowest and the highest.
    pub fn ports_that_matter(&self) -> BTreeSet<u16> {
        let mut ports = BTreeSet::from([0, u16::MAX]);
        for kind in ["Pod", "NetworkPolicy", "ClusterNetworkPolicy"] {
            for object in self.objects(kind) {
                for number in numbers(below(object, &["spec"]).unwrap_or(&Value::Null)) {
                    ports.extend([number.saturating_sub(1), number, number.saturating_add(1)]);
                }
            }
        }
        ports
    }
}

/// Kind, namespace and name of an object. A policy that has no name, or none that can be read, goes by what it
/// says.
pub fn key(manifest: &Value) -> (String, String, String) {
    let kind = text(manifest, &["kind"]).unwrap_or_default().to_owned();
    let namespace = match text(manifest, &["metadata", "namespace"]) {
        Some(namespace) => namespace,
        None if kind == "Pod" || kind == "NetworkPolicy" => "default",
        None => "",
    };
    let name = match own_name(manifest) {
        Some(name) => name.to_owned(),
        None => manifest.to_string(),
    };
    (kind, namespace.to_owned(), name)
}

/// All numbers within a value that could be ports.
fn numbers(value: &Value) -> Vec<u16> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|n| u16::try_from(n).ok()).into_iter().collect(),
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Object(fields) => fields.values().flat_map(numbers).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => Vec::new(),
    }
}

/// A pod as `NAMESPACE/NAME`.
fn pod_name(pod: &Value) -> String {
    let namespace = text(pod, &["metadata", "namespace"]).unwrap_or("default");
    format!("{namespace}/{}", text(pod, &["metadata", "name"]).unwrap_or_default())
}

/// Whether the pod has a network of its own and may still use it.
fn is_live(pod: &Value) -> bool {
    let host = below(pod, &["spec", "hostNetwork"]).and_then(Value::as_bool) == Some(true);
    let finished = matches!(text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"));
    !host && !finished
}

fn claimed_address(claim: &Value) -> Option<IpAddr> {
    text(claim, &["spec", "ip"])?.parse().ok()
}

/// `status.podIPs`, else `status.podIP`.
fn reported_addresses(pod: &Value) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for entry in all(pod, &["status", "podIPs"]) {
        addresses.extend(text(entry, &["ip"]).and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    if addresses.is_empty() {
        addresses.extend(text(pod, &["status", "podIP"]).and_then(|ip| ip.parse::<IpAddr>().ok()));
    }
    addresses
}

/// The addresses of a node: those of its status, and that of its tunnels.
fn node_addresses(node: &Value) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for entry in all(node, &["status", "addresses"]) {
        if matches!(text(entry, &["type"]), Some("InternalIP" | "ExternalIP")) {
            addresses.extend(text(entry, &["address"]).and_then(|ip| ip.parse::<IpAddr>().ok()));
        }
    }
    let tunnel = annotation(node, "fabric.io/tunnel-address").and_then(Value::as_str);
    addresses.extend(tunnel.and_then(|ip| ip.parse::<IpAddr>().ok()));
    addresses
}
