//! A node whose agent speaks to a switch that is played, in a cluster with many pods.
//!
//! The agent is the real program with its real database and its real pod; only the
//! bridge's OpenFlow socket belongs to [`Switch`]. Policies let the pod send to pods by their labels, so the first
//! conversation with each pod elsewhere needs three flows of its own: the verdict, the way, and the way back.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::packets::PORT;
use super::plain::wait;
use super::pods::{pod, resident, text};
use super::policy::rules::{namespaced, network_policy};
use super::switch::Switch;
use crate::lab::command::run;
use crate::lab::world::{documents, pods};
use crate::lab::{Lab, LabError, Layout, Node, Spec, switch};

/// Pods elsewhere: so many flows each make 100,000.
pub const PEERS: u16 = 33_334;
/// Flows of a conversation with one.
pub const FLOWS: u16 = 3;
/// Policies of the cluster.
const POLICIES: usize = 1_000;
/// Those that select the local pod, beside the one that lets it talk.
const OWN_POLICIES: usize = 10;
/// Objects in one file of manifests.
const FILE: usize = 2_000;
/// The local pod.
const TALKER: &str = "default/talker";

/// The node.
pub struct Bed {
    lab: Lab,
    folder: PathBuf,
    /// Its switch.
    pub switch: Switch,
    /// The local pod's address.
    pub source: Ipv4Addr,
    /// OpenFlow number of its port.
    pub port: u32,
}

impl Bed {
    /// Starts the agent and attaches the pod.
    ///
    /// # Errors
    /// With what is missing, refused or late.
    pub fn up() -> Result<Self, LabError> {
        let mut spec = Spec::for_test("load", 1)?;
        let folder = std::env::temp_dir().join(spec.name.as_str());
        fs::create_dir_all(&folder).map_err(LabError::io(format!("make {}", folder.display())))?;
        let socket = folder.join("br-fabric.mgmt");
        // What a process of the same number left behind.
        let _ = fs::remove_file(&socket);
        let switch =
            Switch::listen(&socket).map_err(LabError::io(format!("listen on {}", socket.display())))?;
        let database = Layout::new(&spec.name)?.node(1).join("db.sock");
        let ovs = json!({ "database": database, "runDir": folder, "datapath": "netdev" });
        spec.config.insert("ovs".to_owned(), ovs);
        spec.config.insert(
            "limits".to_owned(),
            json!({ "learnedFlowsPerPod": u32::from(FLOWS) * u32::from(PEERS) }),
        );
        let mut lab = Lab::up_without_agents(&spec)?;
        let local = write_world(&lab)?;
        lab.start_agents()?;
        for pod in pods(&documents(&local)) {
            lab.add_pod(&pod)?;
        }
        let addresses = lab.pod(TALKER)?.ips();
        let v4 =
            addresses.iter().find_map(|ip| if let std::net::IpAddr::V4(v4) = ip { Some(*v4) } else { None });
        let source = v4.ok_or_else(|| LabError::NotReady(format!("pod {TALKER} has no IPv4 address")))?;
        let port = port_of(lab.node("n1")?)?;
        Ok(Self { lab, folder, switch, source, port })
    }

    /// The peer of this number.
    pub fn peer(number: u16) -> Ipv4Addr {
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(10, 244, 20 + high, low)
    }

    /// Kills the agent and starts another; returns when it serves.
    ///
    /// # Errors
    /// Where it is late.
    pub fn restart_agent(&self) -> Result<(), LabError> {
        self.lab.kill_agent("n1")?;
        self.lab.start_agent("n1")?;
        self.lab.wait_agent("n1")
    }

    /// Memory of the agent that is resident, MiB.
    ///
    /// # Errors
    /// Where the agent does not run.
    pub fn agent_memory(&self) -> Result<f64, LabError> {
        resident(self.lab.node("n1")?)
    }

    /// Takes it down.
    ///
    /// # Errors
    /// With what could not be removed.
    pub fn down(self) -> Result<(), LabError> {
        self.lab.down()?;
        fs::remove_dir_all(&self.folder).map_err(LabError::io(format!("remove {}", self.folder.display())))
    }
}

/// Writes the cluster; returns the manifest of the local pod.
fn write_world(lab: &Lab) -> Result<String, LabError> {
    let peers: Vec<Value> = (0..PEERS).map(remote).collect();
    for (number, part) in peers.chunks(FILE).enumerate() {
        lab.write_manifest(&format!("peers-{number}.yaml"), &text(part))?;
    }
    lab.write_manifest("policies.yaml", &text(&policies()))?;
    let mut talker = pod(TALKER, "n1");
    talker["metadata"]["labels"]["role"] = json!("talker");
    let local = text(&[talker]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n2" },
        "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.77.2" }] },
    });
    lab.write_manifest("pods.yaml", &(local.clone() + &text(&[node])))?;
    Ok(local)
}

/// What lets the local pod talk, what else selects it, and those of other namespaces.
fn policies() -> Vec<Value> {
    let policy = |name: &str, to: Value, ports: Value| {
        let spec = json!({
            "podSelector": { "matchLabels": { "role": "talker" } }, "policyTypes": ["Ingress", "Egress"],
            "egress": [{ "to": to, "ports": ports }],
        });
        network_policy("default", name, &spec)
    };
    let peers = json!([{ "podSelector": { "matchLabels": { "bench": "pod" } } }]);
    let identity = policy("identity", peers, json!([{ "protocol": "UDP", "port": PORT }]));
    let own = (0..OWN_POLICIES).map(|number| {
        let app = json!([{ "podSelector": { "matchLabels": { "app": format!("app-{number}") } } }]);
        policy(&format!("app-{number}"), app, json!([{ "port": 8000 + number }]))
    });
    let others = (0..POLICIES - OWN_POLICIES - 1).map(|n| namespaced(&format!("other-{}", n / 10), n % 10));
    std::iter::once(identity).chain(own).chain(others).collect()
}

fn remote(number: u16) -> Value {
    let mut peer = pod(&format!("default/r{number}"), "n2");
    peer["status"] = json!({ "podIPs": [{ "ip": Bed::peer(number) }] });
    peer
}

fn port_of(node: &Node) -> Result<u32, LabError> {
    let words =
        ["--bare", "--columns=ofport", "find", "Interface", &format!("external_ids:fabric.pod={TALKER}")];
    let mut port = None;
    wait("the number of the pod's port", || {
        port = run(&mut switch::vsctl(node, &[], &words))?.trim().parse().ok();
        Ok(port.is_some())
    })?;
    port.ok_or_else(|| LabError::NotReady("the pod has no port".to_owned()))
}
