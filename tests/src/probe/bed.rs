//! A lab whose manifests the oracle reads as well: an edit goes to both, and is waited for
//! until every agent has put it into its switch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::place::Place;
use crate::lab::cni::{self, Attachment};
use crate::lab::node::{BRIDGE_FABRIC, OUTSIDE, addresses};
use crate::lab::office::{Lan, SERVER_NIC};
use crate::lab::world::{Pod, pods};
use crate::lab::{Lab, Node, Wiring, netns};
use crate::oracle::Cluster;
use crate::trial::Trial;

/// How long an agent may take to take an edit.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two questions whether it has.
const LOOK: Duration = Duration::from_millis(2);
/// The file that comes and goes to tell that what was written before it was read.
const CANARY: &str = "zz-canary.yaml";
/// Bridge of the wire.
const WIRE: &str = "wire";

/// A lab, its places, and the cluster as the oracle reads it.
#[derive(Debug)]
pub struct Bed {
    /// The lab.
    pub trial: Trial,
    /// What was written to it.
    pub cluster: Cluster,
    /// Pods by `NAMESPACE/NAME`, nodes by `node/nN`, and the `wire`.
    pub places: BTreeMap<String, Place>,
    canary: bool,
    claims: u64,
}

impl Bed {
    /// Makes a lab of `nodes` nodes with these objects, and attaches its pods. A Network is among the objects, and
    /// Namespaces and Pods; Nodes may be left out.
    #[must_use]
    pub fn up(purpose: &str, nodes: usize, config: Value, objects: Vec<Value>) -> Self {
        Self::wired(purpose, nodes, None, config, objects)
    }

    /// As [`Bed::up`], with an office beside the nodes, whose servers are places as well.
    #[must_use]
    pub fn in_office(purpose: &str, nodes: usize, config: Value, objects: Vec<Value>) -> Self {
        let mut bed = Self::wired(purpose, nodes, Some(Wiring::SecondNic), config, objects);
        for lan in Lan::ALL {
            let Some(server) = lan.server() else { continue };
            let netns = bed.lab().layout().name.office(server);
            let place = Place::open(server, &netns, SERVER_NIC, None, lan.host(10).to_vec());
            bed.places.insert(server.to_owned(), place);
        }
        bed
    }

    fn wired(
        purpose: &str,
        nodes: usize,
        office: Option<Wiring>,
        config: Value,
        objects: Vec<Value>,
    ) -> Self {
        let networks = objects.iter().filter(|object| object["kind"] == "Network");
        let networks: String = networks.map(|network| format!("---\n{network}\n")).collect();
        let mut config = config;
        config["claimRestSeconds"] = json!(1);
        let trial = Trial::wired(purpose, nodes, office, &networks, config);
        // The lab's own Namespace `default` and its Nodes are told to the oracle too.
        let mut cluster = Cluster::default();
        for index in 1..=nodes {
            cluster.put(node(index));
        }
        cluster.put(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "default" } }));
        let mut bed = Self { trial, cluster, places: BTreeMap::new(), canary: false, claims: 0 };
        bed.open_ways();
        let (live, others): (Vec<Value>, Vec<Value>) =
            objects.into_iter().filter(|object| object["kind"] != "Network").partition(is_attached);
        others.into_iter().for_each(|object| bed.put(object));
        live.iter().for_each(|object| bed.put(object.clone()));
        bed.attach(&live);
        bed
    }

    /// The lab.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.trial.lab
    }

    /// A place by its name.
    #[must_use]
    pub fn place(&self, name: &str) -> &Place {
        self.places.get(name).unwrap_or_else(|| panic!("there is no place {name}"))
    }

    /// Writes an object, for the agents and the oracle.
    pub fn put(&mut self, object: Value) {
        // Nodes are the lab's own.
        if object["kind"] == "Node" {
            return;
        }
        self.trial.lab.write_manifest(&file_of(&object), &object.to_string()).unwrap();
        self.cluster.put(object);
    }

    /// Removes an object that was put; the namespace of an object of the cluster is empty.
    pub fn remove(&mut self, kind: &str, namespace: &str, name: &str) {
        self.trial.lab.remove_manifest(&file_name(kind, namespace, name)).unwrap();
        self.cluster.remove(kind, namespace, name);
    }

    /// Attaches a pod whose manifest is written with this.
    pub fn add_pod(&mut self, object: Value) {
        self.put(object.clone());
        self.attach(std::slice::from_ref(&object));
    }

    /// Detaches a pod, then removes its manifest.
    pub fn remove_pod(&mut self, pod: &str) {
        let place = self.places.remove(pod).unwrap();
        self.claims -= u64::try_from(place.addresses.len()).unwrap_or_default();
        drop(place);
        self.trial.lab.remove_pod(pod).unwrap();
        let (namespace, name) = pod.split_once('/').unwrap();
        self.remove("Pod", namespace, name);
    }

    /// Attaches a container that is no pod.
    pub fn add_container(&mut self, name: &str, node: &str, ips: &[IpAddr]) {
        let netns = self.lab().layout().name.pod(name);
        netns::add([netns.as_str()]).unwrap();
        let of = Attachment { container: name, netns: &netns, pod: "", uid: None };
        cni::add(self.trial.node(node), self.lab().programs().unwrap(), &of, ips).unwrap();
        self.claims += u64::try_from(ips.len()).unwrap_or_default();
        let place = Place::open(name, &netns, cni::IFNAME, Some(node), ips.to_vec());
        self.places.insert(name.to_owned(), place);
    }

    /// Gives the wire, which plays what is outside, further addresses; ways there lead through it.
    pub fn add_outside(&mut self, ips: &BTreeSet<IpAddr>) {
        let wire = self.lab().layout().name.wire();
        let lines = ips.iter().map(|ip| match ip {
            IpAddr::V4(v4) => format!("addr add {v4}/32 dev {WIRE}\n"),
            IpAddr::V6(v6) => format!("addr add {v6}/128 dev {WIRE} nodad\n"),
        });
        netns::batch(&wire, &lines.collect::<String>()).unwrap();
        self.places.entry("wire".to_owned()).and_modify(|place| place.addresses.extend(ips));
    }

    /// Who has an address; the wire where nobody else does.
    #[must_use]
    pub fn place_of(&self, address: IpAddr) -> &Place {
        let mut places = self.places.values();
        places.find(|place| place.addresses.contains(&address)).unwrap_or_else(|| self.place("wire"))
    }

    /// Waits until every agent has read all that was written and has put it into its switch; how long that took.
    pub fn applied(&mut self) -> Duration {
        let began = Instant::now();
        self.canary = !self.canary;
        let lab = &self.trial.lab;
        if self.canary {
            let canary = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"zz-canary"}}"#;
            lab.write_manifest(CANARY, canary).unwrap();
        } else {
            lab.remove_manifest(CANARY).unwrap();
        }
        let own = u64::try_from(self.cluster.objects("Namespace").count()).unwrap_or_default();
        let namespaces = own + u64::from(self.canary);
        for node in lab.nodes() {
            let until = began + PATIENCE;
            loop {
                let status = status(node);
                let counts = &status["world"];
                let read = counts["namespaces"] == namespaces && counts["claims"] == self.claims;
                if read && status["policy"]["settled"] == true {
                    break;
                }
                assert!(
                    Instant::now() < until,
                    "{}: {namespaces} namespaces and {} claims wanted, settled; there is {counts}, settled {}",
                    node.name,
                    self.claims,
                    status["policy"]
                );
                std::thread::sleep(LOOK);
            }
        }
        began.elapsed()
    }

    /// Attaches pods as a runtime does.
    fn attach(&mut self, objects: &[Value]) {
        for pod in pods(objects) {
            self.trial.lab.attach(&pod, PATIENCE).unwrap();
            self.note(&pod);
        }
    }

    fn note(&mut self, pod: &Pod) {
        let record = self.lab().pod(&pod.reference).unwrap().clone();
        let addresses = record.ips();
        self.claims += u64::try_from(addresses.len()).unwrap_or_default();
        let place = Place::open(&pod.reference, &record.netns, cni::IFNAME, Some(&pod.node), addresses);
        self.places.insert(pod.reference.clone(), place);
    }

    /// Places for the nodes and the wire, and ways between the pods and what is outside.
    fn open_ways(&mut self) {
        let wire = self.lab().layout().name.wire();
        let nodes = self.lab().nodes().to_vec();
        for node in &nodes {
            let [v4, v6] = addresses(OUTSIDE);
            if node.wiring.is_none() {
                let lines = format!("route add default via {v4}\nroute add default via {v6}\n");
                netns::batch(&node.namespace, &lines).unwrap();
            }
            let name = format!("node/{}", node.name);
            let place = Place::open(
                &name,
                &node.namespace,
                BRIDGE_FABRIC,
                Some(&node.name),
                node.addresses().to_vec(),
            );
            self.places.insert(name, place);
        }
        let place = Place::open("wire", &wire, WIRE, None, addresses(OUTSIDE).to_vec());
        self.places.insert("wire".to_owned(), place);
    }

    /// What is outside finds every pod by way of its node.
    pub fn lead_to_pods(&self) {
        let nodes: BTreeMap<&str, &Node> = self.lab().nodes().iter().map(|n| (n.name.as_str(), n)).collect();
        let mut lines = String::new();
        for place in self.places.values().filter(|place| !place.name.starts_with("node/")) {
            let Some(node) = place.node.as_deref().and_then(|node| nodes.get(node)) else { continue };
            let [v4, v6] = node.addresses();
            for address in &place.addresses {
                let via = if address.is_ipv4() { v4 } else { v6 };
                lines += &format!("route replace {address} via {via}\n");
            }
        }
        netns::batch(&self.lab().layout().name.wire(), &lines).unwrap();
    }
}

/// What an agent says of itself, as it says it.
#[must_use]
pub fn status(node: &Node) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(fabric_api::client::get(&node.agent_socket(), "/v1/status"));
    serde_json::from_slice(&answer.unwrap()).unwrap()
}

fn is_attached(object: &Value) -> bool {
    object["kind"] == "Pod"
        && !pods(std::slice::from_ref(object)).is_empty()
        && object["spec"]["hostNetwork"] != true
}

fn file_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    file_name(object["kind"].as_str().unwrap_or_default(), text("namespace"), text("name"))
}

fn file_name(kind: &str, namespace: &str, name: &str) -> String {
    format!("{}-{namespace}-{name}.yaml", kind.to_lowercase())
}

/// A Node as the lab writes it.
fn node(index: usize) -> Value {
    let ips = addresses(u8::try_from(index).unwrap_or(OUTSIDE));
    let ips = ips.map(|ip| json!({ "type": "InternalIP", "address": ip }));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": format!("n{index}") },
        "status": { "addresses": ips },
    })
}
