//! A lab with an office, and the places in it that talk.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::frames::Tap;
use crate::lab::node::BRIDGE_PHYSICAL;
use crate::lab::office::{Lan, PHYSICAL, SERVER_NIC};
use crate::lab::world::{Pod, documents, pods};
use crate::lab::{Lab, LabError, Spec, Wiring};

/// How long a pod may take until the agent has read of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a place's addresses are part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Net {
    /// The overlay Network.
    Overlay,
    /// A network of the office.
    Lan(Lan),
    /// The wire that joins the nodes.
    Wire,
}

/// A place that can talk.
#[derive(Debug, Clone)]
pub struct Place {
    /// `NAMESPACE/NAME` of a pod, `nN`, or `server100`.
    pub name: String,
    /// Its network namespace.
    pub netns: String,
    /// Its interface there.
    pub device: String,
    /// Where its addresses are from.
    pub net: Net,
    /// The node that it is on, or is.
    pub node: Option<String>,
    /// Its addresses, IPv4 first.
    pub addresses: [IpAddr; 2],
}

impl Place {
    /// Whether it is a pod.
    #[must_use]
    pub fn is_pod(&self) -> bool {
        self.name.contains('/')
    }

    /// What it is, for people.
    #[must_use]
    pub fn kind(&self) -> String {
        let net = match self.net {
            Net::Overlay => "overlay".to_owned(),
            Net::Lan(lan) => lan.vlan().map_or("untagged".to_owned(), |vlan| format!("VLAN {vlan}")),
            Net::Wire => "host".to_owned(),
        };
        match (&self.node, self.is_pod()) {
            (Some(node), true) => format!("pod {net} {node}"),
            (Some(node), false) => format!("host {node}"),
            (None, _) => format!("server {net}"),
        }
    }

    /// Its interface, for frames made by hand.
    #[must_use]
    pub fn tap(&self) -> Tap {
        Tap::open(&self.netns, &self.device).unwrap()
    }
}

/// A lab with an office.
#[derive(Debug)]
pub struct OfficeBed {
    /// The lab.
    pub lab: Lab,
}

impl OfficeBed {
    /// Makes the lab with the manifests of a folder, `config` added to the node files, and attaches its pods.
    #[must_use]
    pub fn of_folder(purpose: &str, wiring: Wiring, folder: &Path, config: Map<String, Value>) -> Self {
        let spec = Spec {
            office: Some(wiring),
            source: Some(folder.to_owned()),
            config,
            ..Spec::for_test(purpose, 2).unwrap()
        };
        let mut bed = Self { lab: Lab::up(&spec).unwrap() };
        for pod in crate::lab::world::pods_of(&bed.lab.layout().world()) {
            bed.attach(&pod).unwrap();
        }
        bed
    }

    /// Makes the lab with the Networks of the folder that shows an office, a Namespace `shop`, and no pods.
    #[must_use]
    pub fn bare(purpose: &str, wiring: Wiring, nodes: usize, config: Map<String, Value>) -> Self {
        let spec = Spec { office: Some(wiring), config, ..Spec::for_test(purpose, nodes).unwrap() };
        let lab = Lab::up_without_agents(&spec).unwrap();
        for file in ["networks.yaml", "namespaces.yaml"] {
            let text = std::fs::read_to_string(Self::example().join(file)).unwrap();
            lab.write_manifest(file, &text).unwrap();
        }
        // What the lab writes where no manifest has a Network would be a second default.
        lab.remove_manifest("fabric-lab-network.yaml").unwrap();
        lab.start_agents().unwrap();
        Self { lab }
    }

    /// The folder of manifests that shows an office.
    #[must_use]
    pub fn example() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/office")
    }

    /// Attaches a pod, as a runtime does: again for as long as the agent asks for that.
    ///
    /// # Errors
    /// As [`Lab::add_pod`].
    pub fn attach(&mut self, pod: &Pod) -> Result<Value, LabError> {
        self.lab.attach(pod, PATIENCE)
    }

    /// Writes the manifest of a pod and attaches it.
    ///
    /// # Errors
    /// As [`Lab::add_pod`].
    pub fn add(&mut self, reference: &str, node: &str, annotations: Value) -> Result<Value, LabError> {
        let (namespace, name) = reference.split_once('/').unwrap();
        let mut pod = crate::probe::object::pod(reference, node, Value::Null, &[]);
        pod["metadata"] =
            serde_json::json!({ "namespace": namespace, "name": name, "annotations": annotations });
        pod["status"] = Value::Null;
        let text = pod.to_string();
        self.lab.write_manifest(&format!("pod-{namespace}-{name}.yaml"), &text).unwrap();
        self.attach(&pods(&documents(&text)).pop().unwrap())
    }

    /// A pod of the namespace `shop`.
    #[must_use]
    pub fn pod(&self, name: &str) -> Place {
        let record = self.lab.pod(&format!("shop/{name}")).unwrap();
        let addresses: [IpAddr; 2] = record.ips().try_into().unwrap();
        Place {
            name: record.pod.clone(),
            netns: record.netns.clone(),
            device: "eth0".to_owned(),
            net: net_of(addresses[0]),
            node: Some(record.node.clone()),
            addresses,
        }
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> Place {
        let node = self.lab.node(name).unwrap();
        let device = match node.wiring {
            Some(Wiring::OneNic) => format!("br-{PHYSICAL}"),
            _ => BRIDGE_PHYSICAL.to_owned(),
        };
        Place {
            name: name.to_owned(),
            netns: node.namespace.clone(),
            device,
            net: Net::Wire,
            node: Some(name.to_owned()),
            addresses: node.addresses(),
        }
    }

    /// The server of a VLAN.
    #[must_use]
    pub fn server(&self, lan: Lan) -> Place {
        let name = lan.server().unwrap();
        Place {
            name: name.to_owned(),
            netns: self.lab.layout().name.office(name),
            device: SERVER_NIC.to_owned(),
            net: Net::Lan(lan),
            node: None,
            addresses: lan.host(10),
        }
    }

    /// Packets that the switch of a node has dropped, by cause.
    #[must_use]
    pub fn drops(&self, node: &str) -> BTreeMap<&'static str, u64> {
        let mut drops = BTreeMap::new();
        for stats in self.lab.dump_flows(node).unwrap() {
            if let Some(cause) = fabric_core::pipeline::vocabulary::Cookie(stats.flow.cookie).dropped_for() {
                *drops.entry(cause.name()).or_default() += stats.packets;
            }
        }
        drops
    }

    /// Packets that the switch of a node has asked its agent about: by its flows, and by the agent's own count.
    #[must_use]
    pub fn punts(&self, node: &str) -> (u64, u64) {
        let table = fabric_core::pipeline::vocabulary::Table::Punt as u8;
        let flows = self.lab.dump_flows(node).unwrap();
        let by_flows =
            flows.iter().filter(|stats| stats.flow.table == table).map(|stats| stats.packets).sum();
        let status = self.lab.agent_status(node).unwrap();
        (by_flows, status.punts.iter().map(|punts| punts.packets).sum())
    }
}

/// The network of an address, where it is none of the wire.
fn net_of(address: IpAddr) -> Net {
    let of = |lan: &Lan| match (lan.host(0)[0], address) {
        (IpAddr::V4(net), IpAddr::V4(own)) => net.octets()[..2] == own.octets()[..2],
        _ => false,
    };
    Lan::ALL.into_iter().find(of).map_or(Net::Overlay, Net::Lan)
}
