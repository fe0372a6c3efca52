//! An agent's core without its rooms: a [`Node`] of a large cluster with ten pods of its own, which have talked.
//!
//! Every command succeeds at once; what changes flows is handed to whoever runs the rig. So the time from an edit to
//! its commands is that of the core alone, and with a real switch behind it that of everything after the edit was read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fabric_core::node::{
    Clock, Command, Event, Node, NodeConfig, Outcome, PortRow, PortsEvent, SwitchCommand, SwitchEvent, Task,
};
use fabric_core::pipeline::vocabulary::{Cookie, Kind};
use openflow::message::MeterMod;
use openflow::{FlowMod, Mac, port};
use policy::{Edit, IpClaim, Object, PodIdent};
use serde_json::{Value, json};

use super::cluster::{Cluster, address, object};
use super::rules;
use crate::bench::packets::{PORT, paused};
use crate::lab::LabError;

/// Local pods.
pub const LOCAL: u16 = 10;
/// Each talks to so many other local pods; both ends are judged here.
const NEIGHBOURS: u16 = 3;
/// Each talks to so many pods of other nodes.
const REMOTE: u16 = 4;
/// A namespace that no policy speaks of: its pods have no rules of their own.
const FREE: usize = 9;
/// Namespace of the local pods.
pub const NAMESPACE: &str = "local";

/// What takes meters and flows.
pub type Sink<'a> = dyn FnMut(Vec<MeterMod>, Vec<FlowMod>) -> Result<(), LabError> + 'a;

/// The core and its time.
pub struct Rig {
    node: Node,
    now: Instant,
    /// Verdicts that it has learned.
    pub decisions: usize,
}

/// What an edit came to.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Until the last command was out.
    pub commands: Duration,
    /// Until the last change of flows was taken.
    pub committed: Duration,
    /// Changes of flows.
    pub flows: usize,
}

impl Rig {
    /// A node that is up, and has judged.
    ///
    /// # Errors
    /// Where the gate finds fault with a manifest, or the sink fails.
    pub fn start(cluster: Cluster, sink: &mut Sink<'_>) -> Result<Self, LabError> {
        let mut rig = Self { node: Node::new(config()), now: Instant::now(), decisions: 0 };
        let mut objects = cluster.objects()?;
        for manifest in local_base().into_iter().chain((0..LOCAL).map(local_pod)).chain([toggled(PORT)]) {
            objects.push(object(manifest)?);
        }
        objects.extend((0..LOCAL).map(claim).map(Object::IpClaim));
        rig.tell(Event::World(objects.into_iter().map(Edit::Put).collect()), sink)?;
        rig.tell(Event::WorldSynced, sink)?;
        let own = [own_row("br-fabric", "internal", port::LOCAL), own_row("fabric-vxlan", "vxlan", 1)];
        let rows = own.into_iter().chain((0..LOCAL).map(row)).collect();
        rig.tell(Event::Ports(PortsEvent::Ready(rows)), sink)?;
        rig.tell(Event::Switch(SwitchEvent::Connected), sink)?;
        rig.talk(cluster, sink)?;
        Ok(rig)
    }

    /// The pods talk.
    fn talk(&mut self, cluster: Cluster, sink: &mut Sink<'_>) -> Result<(), LabError> {
        let free = cluster.first_of(FREE);
        for pod in 0..LOCAL {
            let near = (1..=NEIGHBOURS).map(|step| local((pod + step) % LOCAL));
            let far = (0..REMOTE).filter_map(|step| match address(free + usize::from(pod * REMOTE + step)) {
                IpAddr::V4(v4) => Some(v4),
                IpAddr::V6(_) => None,
            });
            for to in near.chain(far) {
                let packet_in = Box::new(paused(port_of(pod), local(pod), to));
                self.tell(Event::Switch(SwitchEvent::PacketIn(packet_in)), sink)?;
            }
        }
        Ok(())
    }

    /// Makes an edit.
    ///
    /// # Errors
    /// Where the sink fails.
    pub fn edit(&mut self, edit: Edit, sink: &mut Sink<'_>) -> Result<Took, LabError> {
        self.tell(Event::World(vec![edit]), sink)
    }

    /// Tells the node something, and carries out what it wants.
    fn tell(&mut self, event: Event, sink: &mut Sink<'_>) -> Result<Took, LabError> {
        let start = Instant::now();
        self.node.handle(event, self.now);
        let mut commands: Vec<Command> = std::iter::from_fn(|| self.node.poll_command()).collect();
        let out = start.elapsed();
        let mut took = Took { commands: out, committed: out, flows: 0 };
        while !commands.is_empty() {
            let mut outcomes = Vec::new();
            for command in commands {
                if let Command::Switch(command) = command {
                    outcomes.extend(self.switch(command, sink, &mut took.flows)?);
                    took.committed = start.elapsed();
                } else {
                    outcomes.extend(done(command));
                }
            }
            for outcome in outcomes {
                self.node.handle(outcome, self.now);
            }
            commands = std::iter::from_fn(|| self.node.poll_command()).collect();
        }
        Ok(took)
    }

    fn switch(
        &mut self,
        command: SwitchCommand,
        sink: &mut Sink<'_>,
        flows_changed: &mut usize,
    ) -> Result<Option<Event>, LabError> {
        let committed = |task| Some(Event::Done { task, outcome: Outcome::Committed(Ok(())) });
        Ok(match command {
            SwitchCommand::Commit { task, meters, flows } => {
                *flows_changed += flows.len();
                sink(meters, flows)?;
                committed(task)
            }
            SwitchCommand::Learn { flows, .. } => {
                self.decisions += flows.iter().filter(|change| is_verdict(change)).count();
                sink(Vec::new(), flows)?;
                None
            }
            SwitchCommand::FlushZone { task, .. }
            | SwitchCommand::Settle { task }
            | SwitchCommand::EndConnections { task, .. }
            | SwitchCommand::LimitConnections { task, .. } => committed(task),
            SwitchCommand::Send { .. } => None,
            SwitchCommand::Dump { task } => Some(finished(task, Outcome::Dump(Ok(Vec::new())))),
            SwitchCommand::ReadConnections { task, .. } => {
                Some(finished(task, Outcome::Connections(Ok(Vec::new()))))
            }
        })
    }
}

fn finished(task: Task, outcome: Outcome) -> Event {
    Event::Done { task, outcome }
}

/// The event that a command of another room comes back with.
fn done(command: Command) -> Option<Event> {
    match command {
        Command::Ports { task, .. } => Some(finished(task, Outcome::Port(Ok(None)))),
        Command::Claim { task, .. } => Some(finished(task, Outcome::Claim(Ok(())))),
        Command::Wire { task, .. } => Some(finished(task, Outcome::Wire(Ok(())))),
        Command::Host(state) => Some(Event::PeersSettled(state.peers)),
        _ => None,
    }
}

/// Whether a flow carries a verdict on what a local pod sends or receives.
fn is_verdict(change: &FlowMod) -> bool {
    matches!(Cookie(change.flow.cookie).kind(), Some(Kind::Egress | Kind::Ingress))
}

fn config() -> NodeConfig {
    NodeConfig {
        node: "n1".into(),
        bridge: "br-fabric".into(),
        carrier_mtu: 1500,
        physical: BTreeMap::new(),
        software_checksums: true,
        punts_per_second: 1000,
        connections_per_pod: 65_536,
        learned_per_pod: 4096,
        shared_namespaces: BTreeSet::from(["kube-system".into()]),
        claim_rest: Duration::from_secs(30),
        claim_retention: Duration::from_secs(3_600),
        clock: Clock::new(Instant::now(), Duration::ZERO),
        reconcile_every: Duration::from_secs(86_400),
        egress: true,
        seed: 7,
    }
}

/// The node's namespace, its Network, and itself.
fn local_base() -> Vec<Value> {
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({
            "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": "default" },
            "spec": { "mode": "overlay", "default": true, "vni": 77, "cidrs": ["10.244.0.0/16"] },
        }),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
            "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.77.1" }] },
        }),
    ]
}

/// The policy of all local pods: pods, on one UDP port, both ways.
pub fn toggled(port: u16) -> Value {
    let (everybody, ports) =
        (json!([{ "namespaceSelector": {} }]), json!([{ "protocol": "UDP", "port": port }]));
    let spec = json!({
        "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{ "from": everybody, "ports": ports }], "egress": [{ "to": everybody, "ports": ports }],
    });
    rules::network_policy(NAMESPACE, "toggled", &spec)
}

/// The manifest of a local pod.
pub fn local_pod(number: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("l{number}"), "namespace": NAMESPACE, "uid": format!("uid-{number}") },
        "spec": { "nodeName": "n1" },
    })
}

fn local(number: u16) -> Ipv4Addr {
    let [_, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 244, 1, low + 1)
}

fn port_of(number: u16) -> u32 {
    32_769 + u32::from(number)
}

fn mac(number: u16) -> [u8; 6] {
    let [high, low] = number.to_be_bytes();
    [0x0e, 0, 0, 1, high, low]
}

fn claim(number: u16) -> IpClaim {
    let pod = PodIdent {
        namespace: NAMESPACE.into(),
        name: format!("l{number}").as_str().into(),
        uid: format!("uid-{number}").as_str().into(),
    };
    IpClaim {
        ip: local(number).into(),
        network: "default".into(),
        mac: mac(number),
        node: "n1".into(),
        pod: Some(pod),
        owner: format!("c{number}/eth0"),
        retain: false,
        since: None,
    }
}

/// The row of a local pod's interface, as the agent writes it.
fn row(number: u16) -> PortRow {
    let ids = [
        ("container", format!("c{number}")),
        ("ifname", "eth0".to_owned()),
        ("netns", format!("/run/netns/l{number}")),
        ("network", "default".to_owned()),
        ("pod", format!("{NAMESPACE}/l{number}")),
        ("pod-uid", format!("uid-{number}")),
        ("zone", (number + 1).to_string()),
        ("mac", Mac(mac(number)).to_string()),
        ("mtu", "1450".to_owned()),
        ("addresses", local(number).to_string()),
        ("gateways", "169.254.1.1".to_owned()),
    ];
    let external_ids = ids.map(|(key, value)| (format!("fabric.{key}"), value)).into();
    PortRow { external_ids, ..own_row(&format!("fab{number:011x}"), "", port_of(number)) }
}

fn own_row(name: &str, kind: &str, ofport: u32) -> PortRow {
    PortRow {
        name: name.into(),
        kind: kind.into(),
        ofport: Some(ofport),
        error: None,
        external_ids: BTreeMap::new(),
        mac: Some(Mac([2, 0, 0, 0, 0, 0xfe])),
    }
}
