//! A cluster as companies have them: workloads of ten pods, a hundred pods in a namespace, one large namespace, and a
//! claim for each address.
//!
//! Everything follows from the number of pods: nodes, namespaces, policies (a tenth of the pods), Services (a tenth).
//! The same number gives the same cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use policy::manifest::{Source, admit};
use policy::{Object, PodIdent};
use serde_json::{Value, json};

use super::rules;
use crate::lab::LabError;

/// Pods of a workload, which share their labels but for one workload in ten.
const REPLICAS: usize = 10;
/// Pods of a namespace, but for those below.
const PER_NAMESPACE: usize = 100;
/// Namespaces of the cluster's own: kube-system, monitoring, ingress.
pub const OWN: usize = 3;
/// Pods of each of them.
const PER_OWN: usize = 10;
/// Most pods of the large namespace.
const MOST_IN_LARGE: usize = 1_000;
/// Pods of a node.
const PER_NODE: usize = 200;
/// Most nodes; above, they have more pods.
const MOST_NODES: usize = 100;
/// One pod in so many has an IPv6 address too.
const DUAL_EVERY: usize = 10;
/// The Network of these pods.
const NETWORK: &str = "cluster";

/// A cluster.
#[derive(Debug, Clone, Copy)]
pub struct Cluster {
    /// How many pods it has.
    pub pods: usize,
}

/// A pod's place.
#[derive(Debug, Clone, Copy)]
struct Place {
    namespace: usize,
    workload: usize,
    replica: usize,
}

impl Cluster {
    /// Policies, beside the few that are cluster-wide.
    pub fn policies(self) -> usize {
        self.pods / 10
    }

    /// Services, each with one EndpointSlice.
    pub fn services(self) -> usize {
        self.pods / REPLICAS
    }

    /// Pods of the large namespace.
    pub fn in_large(self) -> usize {
        (self.pods / 10).min(MOST_IN_LARGE)
    }

    /// Namespaces.
    pub fn namespaces(self) -> usize {
        OWN + 1 + (self.pods.saturating_sub(self.first_usual())).div_ceil(PER_NAMESPACE)
    }

    /// The number of the first pod that is in none of the special namespaces.
    fn first_usual(self) -> usize {
        OWN * PER_OWN + self.in_large()
    }

    fn place(self, pod: usize) -> Place {
        let (namespace, within) = if pod < OWN * PER_OWN {
            (pod / PER_OWN, pod % PER_OWN)
        } else if pod < self.first_usual() {
            (OWN, pod - OWN * PER_OWN)
        } else {
            let usual = pod - self.first_usual();
            (OWN + 1 + usual / PER_NAMESPACE, usual % PER_NAMESPACE)
        };
        Place { namespace, workload: within / REPLICAS, replica: within % REPLICAS }
    }

    /// The namespace of a pod.
    pub fn namespace_of(self, pod: usize) -> usize {
        self.place(pod).namespace
    }

    /// The first pod of a namespace.
    pub fn first_of(self, namespace: usize) -> usize {
        match namespace.checked_sub(OWN) {
            None => namespace * PER_OWN,
            Some(0) => OWN * PER_OWN,
            Some(usual) => self.first_usual() + (usual - 1) * PER_NAMESPACE,
        }
    }

    /// The name of a pod.
    pub fn pod_name(self, pod: usize) -> String {
        let Place { workload, replica, .. } = self.place(pod);
        format!("app-{workload}-{:08x}-{replica}", workload * 0x9e37 + 0x1357)
    }

    /// Everything that is neither pod, policy nor Service: nodes, namespaces, the Network. Nodes that are nowhere must not
    /// have addresses where a real host looks for them.
    pub fn base(self, addressed: bool) -> Vec<Value> {
        let nodes = (0..MOST_NODES.min(self.pods.div_ceil(PER_NODE))).map(|number| node(number, addressed));
        let network = json!({
            "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": NETWORK },
            "spec": { "mode": "overlay", "vni": 128, "cidrs": ["10.32.0.0/12", "fd00:128::/64"] },
        });
        let namespaces = (0..self.namespaces()).map(|number| namespace(number, false));
        nodes.chain([network]).chain(namespaces).collect()
    }

    /// The manifest of a pod; `relabelled` gives it another value of one label.
    pub fn pod(self, pod: usize, relabelled: bool) -> Value {
        let Place { namespace, workload, replica } = self.place(pod);
        let mut labels = json!({
            "app": format!("app-{workload}"), "tier": tier(workload),
            "version": if relabelled { "v2" } else { "v1" },
            "pod-template-hash": format!("{:08x}", workload * 0x9e37 + 0x1357),
        });
        if namespace == 0 {
            labels["k8s-app"] = json!("kube-dns");
        }
        if tier(workload) == "stateful" {
            labels["statefulset.kubernetes.io/pod-name"] = json!(self.pod_name(pod));
            labels["apps.kubernetes.io/pod-index"] = json!(replica.to_string());
        }
        let mut ports = vec![
            json!({ "name": "http", "containerPort": 8080 }),
            json!({ "name": "metrics", "containerPort": 9090 }),
        ];
        if tier(workload) == "db" {
            ports.push(json!({ "name": "db", "containerPort": 5432 }));
        }
        let ips: Vec<Value> = addresses(pod).map(|ip| json!({ "ip": ip })).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.pod_name(pod), "namespace": namespace_name(namespace), "uid": uid(pod), "labels": labels,
            },
            "spec": { "nodeName": node_name(pod), "containers": [{ "name": "main", "ports": ports }] },
            "status": { "phase": "Running", "podIPs": ips },
        })
    }

    /// The policies: those of the namespaces, then the cluster-wide ones.
    pub fn every_policy(self) -> Vec<Value> {
        let isolated: Vec<usize> = (OWN..self.namespaces()).filter(|n| is_isolated(*n)).collect();
        let each = (0..self.policies()).map(|number| {
            let namespace = isolated.get(number % isolated.len().max(1)).copied().unwrap_or(OWN);
            rules::namespaced(&namespace_name(namespace), number / isolated.len().max(1))
        });
        each.chain(rules::cluster_wide()).collect()
    }

    /// The Service of a workload, and its EndpointSlice.
    pub fn service(self, number: usize) -> [Value; 2] {
        let first = number * REPLICAS;
        let Place { namespace, .. } = self.place(first);
        let (name, namespace) = (format!("svc-{number}"), namespace_name(namespace));
        let [_, _, high, low] = u32::try_from(number).unwrap_or(0).to_be_bytes();
        let endpoint = |pod: usize| {
            json!({
                "addresses": [address(pod)], "conditions": { "ready": true }, "nodeName": node_name(pod),
                "targetRef": { "kind": "Pod", "namespace": namespace, "name": self.pod_name(pod) },
            })
        };
        let endpoints: Vec<Value> = (first..self.pods.min(first + REPLICAS)).map(endpoint).collect();
        let port = json!({ "name": "http", "protocol": "TCP", "port": 80, "targetPort": "http" });
        [
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": namespace },
                "spec": { "clusterIP": Ipv4Addr::new(10, 96, high, low), "ports": [port] },
            }),
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {
                    "name": format!("{name}-1"), "namespace": namespace,
                    "labels": { "kubernetes.io/service-name": name },
                },
                "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }], "endpoints": endpoints,
            }),
        ]
    }

    /// The claims of a pod's addresses.
    pub fn claims(self, pod: usize) -> impl Iterator<Item = policy::IpClaim> {
        let [.., a, b, c, d] = pod.to_be_bytes();
        let ident = PodIdent {
            namespace: namespace_name(self.place(pod).namespace).as_str().into(),
            name: self.pod_name(pod).as_str().into(),
            uid: uid(pod).as_str().into(),
        };
        addresses(pod).map(move |ip| policy::IpClaim {
            ip,
            network: NETWORK.into(),
            mac: [0x0e, 0, a, b, c, d],
            node: node_name(pod).as_str().into(),
            pod: Some(ident.clone()),
            owner: format!("{:064x}/eth0", pod),
            retain: false,
            since: None,
        })
    }

    /// Everything, as the gate lets it in.
    ///
    /// # Errors
    /// Where the gate finds fault with a manifest.
    pub fn objects(self) -> Result<Vec<Object>, LabError> {
        let services = (0..self.services()).flat_map(|number| self.service(number));
        let manifests = self.base(true).into_iter().chain((0..self.pods).map(|pod| self.pod(pod, false)));
        let manifests = manifests.chain(self.every_policy()).chain(services);
        let mut objects = manifests.map(object).collect::<Result<Vec<Object>, LabError>>()?;
        objects.extend((0..self.pods).flat_map(|pod| self.claims(pod)).map(Object::IpClaim));
        Ok(objects)
    }
}

/// A manifest through the gate.
///
/// # Errors
/// Where the gate finds fault with it.
pub fn object(manifest: Value) -> Result<Object, LabError> {
    let admission = admit(&Source::file("cluster", 1), manifest);
    match (admission.object, admission.problems.first()) {
        (Some(object), None) => Ok(object),
        (_, problem) => Err(LabError::NotReady(format!("a manifest of the benchmark is bad: {problem:?}"))),
    }
}

/// The addresses of a pod.
pub fn addresses(pod: usize) -> impl Iterator<Item = IpAddr> {
    let six = pod.is_multiple_of(DUAL_EVERY).then(|| {
        let number = u128::try_from(pod + 16).unwrap_or(0);
        IpAddr::from(Ipv6Addr::from(0xfd00_0128_u128 << 96 | number))
    });
    std::iter::once(address(pod)).chain(six)
}

/// The IPv4 address of a pod: a /24 for 200.
pub fn address(pod: usize) -> IpAddr {
    let number = u32::try_from(pod / PER_NODE * 256 + pod % PER_NODE + 10).unwrap_or(0);
    IpAddr::from(Ipv4Addr::from(0x0a20_0000 + number))
}

/// The manifest of a namespace; `relabelled` gives it another value of one label.
pub fn namespace(number: usize, relabelled: bool) -> Value {
    let name = namespace_name(number);
    let environment = if relabelled { "blue" } else { ["prod", "staging", "dev"][number % 3] };
    let mut metadata = json!({
        "name": name,
        "labels": {
            "kubernetes.io/metadata.name": name, "team": format!("team-{}", number % 20), "env": environment,
        },
    });
    if number > OWN && number % 4 == 3 {
        metadata["annotations"] = json!({ "fabric.io/tenant": format!("tenant-{}", number % 40) });
    }
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

/// The name of a namespace.
pub fn namespace_name(number: usize) -> String {
    match number {
        0 => "kube-system".to_owned(),
        1 => "monitoring".to_owned(),
        2 => "ingress".to_owned(),
        _ => format!("project-{number}"),
    }
}

/// Whether policies speak of the pods of a namespace.
pub fn is_isolated(namespace: usize) -> bool {
    namespace >= OWN && namespace % 5 != 4
}

/// What the pods of a workload are.
fn tier(workload: usize) -> &'static str {
    match workload % 10 {
        0..3 => "frontend",
        3..7 => "backend",
        7 => "db",
        8 => "worker",
        _ => "stateful",
    }
}

fn uid(pod: usize) -> String {
    format!("{:08x}-7a51-4c3e-9d2b-{:012x}", pod.wrapping_mul(0x9e37_79b1) & 0xffff_ffff, pod)
}

fn node_name(pod: usize) -> String {
    format!("worker-{}", pod / PER_NODE % MOST_NODES)
}

fn node(number: usize, addressed: bool) -> Value {
    let name = format!("worker-{number}");
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" } },
    });
    if addressed {
        let low = u8::try_from(number + 100).unwrap_or(u8::MAX);
        let address = json!({ "type": "InternalIP", "address": Ipv4Addr::new(192, 168, 77, low) });
        node["status"] = json!({ "addresses": [address] });
    }
    node
}
