//! Generated histories of two nodes: whatever the order of events, the switches end up holding what they should.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use fabric_core::node::*;
use fabric_core::pipeline::vocabulary::{Cookie, Kind as FlowKind, Origin, PROBED, RETRY, Table};
use openflow::message::PacketIn;
use openflow::{FlowTable, port};
use policy::manifest::{Source, admit};
use policy::{Edit, IpClaim, Kind, Mode, Object, ObjectRef};
use proptest::prelude::*;
use support::model::{Model, Room, Store};

/// One thing that happens. Numbers choose among what is there.
#[derive(Debug, Clone)]
enum Step {
    Attach {
        node: usize,
        container: u8,
    },
    Detach {
        node: usize,
        container: u8,
    },
    /// A pod speaks to the pod of a container anywhere, to a node, to the outside, or to nobody.
    Say {
        node: usize,
        from: u8,
        to: u8,
    },
    /// The node hears what happened to claims elsewhere.
    Hear {
        node: usize,
    },
    Restart {
        node: usize,
        seed: u64,
    },
    /// The switch forgets everything.
    SwitchRestart {
        node: usize,
    },
    Disconnect {
        node: usize,
    },
    Silence {
        node: usize,
        room: Room,
    },
    Wake {
        node: usize,
    },
    Pass {
        seconds: u64,
    },
    /// Less than an address is looked for.
    Moment {
        millis: u64,
    },
    /// Somebody in the VLAN has the address that the node looked for last.
    Conflict {
        node: usize,
    },
    /// The patch to the bridge of the physical network gets another number, or none.
    Uplink {
        node: usize,
        ofport: Option<u32>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..2usize;
    let container = 0..6u8;
    let room = prop_oneof![Just(Room::Ports), Just(Room::Store), Just(Room::Wire)];
    prop_oneof![
        6 => (node.clone(), container.clone()).prop_map(|(node, container)| Step::Attach { node, container }),
        4 => (node.clone(), container.clone()).prop_map(|(node, container)| Step::Detach { node, container }),
        10 => (node.clone(), container.clone(), 0..16u8).prop_map(|(node, from, to)| Step::Say { node, from, to }),
        6 => node.clone().prop_map(|node| Step::Hear { node }),
        2 => (node.clone(), any::<u64>()).prop_map(|(node, seed)| Step::Restart { node, seed }),
        1 => node.clone().prop_map(|node| Step::SwitchRestart { node }),
        1 => node.clone().prop_map(|node| Step::Disconnect { node }),
        2 => (node.clone(), room).prop_map(|(node, room)| Step::Silence { node, room }),
        2 => node.clone().prop_map(|node| Step::Wake { node }),
        3 => (0..700u64).prop_map(|millis| Step::Moment { millis }),
        2 => node.clone().prop_map(|node| Step::Conflict { node }),
        1 => (node, prop_oneof![Just(None), Just(Some(5)), Just(Some(6))])
            .prop_map(|(node, ofport)| Step::Uplink { node, ofport }),
        2 => (0..400u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

struct Cluster {
    world: Vec<Object>,
    store: Store,
    nodes: Vec<Model>,
    /// The claims that each node has heard of.
    heard: Vec<BTreeMap<IpAddr, IpClaim>>,
}

fn world() -> Vec<Object> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/idle/world.yaml");
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    documents.into_iter().map(|d| admit(&Source::file("world", 1), d).object.unwrap()).collect()
}

fn key(container: u8) -> AttachmentKey {
    AttachmentKey { container_id: format!("c{container}"), ifname: "eth0".into() }
}

/// The same, where pods are in a VLAN.
fn world_of_a_vlan() -> Vec<Object> {
    let lan = support::cluster::object(
        "{apiVersion: fabric.io/v1alpha1, kind: Network, metadata: {name: lan}, spec: {mode: underlay, default: true, \
         physicalNetwork: lan, vlan: 100, cidrs: [10.100.0.0/24, 'fd64::/64']}}",
    );
    let others = world().into_iter().filter(|object| !matches!(object, Object::Network(_)));
    others.chain([lan]).collect()
}

impl Cluster {
    fn new(world: Vec<Object>) -> Cluster {
        let store = Store::default();
        let node = |name: &str, seed| Model::new(name, seed, &store).with_uplink(5);
        let mut nodes = vec![node("n1", 1), node("n2", 2)];
        nodes.iter_mut().for_each(|node| node.start(&world));
        Cluster { world, store, nodes, heard: vec![BTreeMap::new(); 2] }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Attach { node, container } => {
                let request = AttachRequest {
                    key: key(*container),
                    netns: format!("/run/netns/{node}-{container}"),
                    network: "fabric".into(),
                    pod: None,
                    ips: vec![],
                    ipam: None,
                    mac: None,
                    mtu: None,
                    rates: fabric_core::pipeline::site::Rates::default(),
                };
                self.nodes[*node].request(Request::Attach(request));
            }
            Step::Detach { node, container } => {
                self.nodes[*node].request(Request::Detach(key(*container)));
            }
            Step::Say { node, from, to } => self.say(*node, *from, *to),
            Step::Hear { node } => self.hear(*node),
            Step::Restart { node, seed } => {
                self.nodes[*node].silent.clear();
                let world = self.world.clone();
                self.nodes[*node].restart(*seed, &world);
                self.heard[*node] = self.store.borrow().clone();
            }
            Step::SwitchRestart { node } => {
                self.nodes[*node].handle(Event::Switch(SwitchEvent::Disconnected));
                self.nodes[*node].flows = FlowTable::new();
                self.nodes[*node].connect();
            }
            Step::Disconnect { node } => {
                self.nodes[*node].connected = false;
                self.nodes[*node].handle(Event::Switch(SwitchEvent::Disconnected));
                self.nodes[*node].pass(Duration::from_millis(300));
                self.nodes[*node].connect();
            }
            Step::Silence { node, room } => drop(self.nodes[*node].silent.insert(*room)),
            Step::Wake { node } => self.wake(*node),
            Step::Moment { millis } => {
                self.nodes.iter_mut().for_each(|node| node.pass(Duration::from_millis(*millis)));
            }
            Step::Conflict { node } => self.conflict(*node),
            Step::Uplink { node, ofport } => {
                let row = PortRow { ofport: *ofport, ..self.nodes[*node].rows["to-lan"].clone() };
                self.nodes[*node].change_row(row);
            }
            Step::Pass { seconds } => {
                self.nodes.iter_mut().for_each(|node| node.pass(Duration::from_secs(*seconds)));
            }
        }
    }

    fn conflict(&mut self, node: usize) {
        let Some(mut packet) = self.nodes[node].sent.last().map(|out| out.packet.clone()) else { return };
        // The same question from somebody else.
        let stranger = [0x52, 0x54, 0, 0, 0, 7];
        packet[6..12].copy_from_slice(&stranger);
        if packet[12..14] == [8, 6] {
            packet[22..28].copy_from_slice(&stranger);
        }
        let packet_in = PacketIn { packet, userdata: vec![PROBED], ..PacketIn::default() };
        self.nodes[node].handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
    }

    fn wake(&mut self, node: usize) {
        for room in [Room::Ports, Room::Store, Room::Wire] {
            self.nodes[node].wake(room);
        }
    }

    fn hear(&mut self, node: usize) {
        let current = self.store.borrow().clone();
        let mut edits = Vec::new();
        for (ip, claim) in &current {
            if self.heard[node].get(ip) != Some(claim) {
                edits.push(Edit::Put(Object::IpClaim(claim.clone())));
            }
        }
        for ip in self.heard[node].keys().filter(|ip| !current.contains_key(ip)) {
            let name = policy::claim_name(*ip).as_str().into();
            edits.push(Edit::Remove(ObjectRef { kind: Kind::IpClaim, namespace: None, name }));
        }
        self.heard[node] = current;
        self.nodes[node].handle(Event::World(edits));
    }

    /// The IPv4 address and the port of a container on a node, once it is attached.
    fn pod(&self, node: usize, container: u8) -> Option<(IpAddr, u32)> {
        let name = Node::port_name(&key(container));
        let row = self.nodes[node].rows.get(&name)?;
        let address = row.external_ids["fabric.addresses"].split(',').next()?.parse().ok()?;
        Some((address, row.ofport?))
    }

    fn say(&mut self, node: usize, from: u8, to: u8) {
        let Some((source, in_port)) = self.pod(node, from) else { return };
        let destination = match to {
            0..6 => self.pod(0, to).or_else(|| self.pod(1, to)).map(|(address, _)| address),
            6 => "192.168.77.1".parse().ok(),
            7 => "192.168.77.2".parse().ok(),
            8 => "8.8.8.8".parse().ok(),
            other => format!("10.244.200.{other}").parse().ok(),
        };
        let Some(destination) = destination else { return };
        let reg0 = Origin::Pod.bit() | RETRY | u32::from(Table::Egress.id()) << 20;
        self.nodes[node].punt(reg0, in_port, source, destination);
    }

    /// Everything that is under way comes to its end, and every node hears of it.
    fn calm_down(&mut self) {
        for node in 0..2 {
            self.take(&Step::Uplink { node, ofport: Some(5) });
        }
        for _ in 0..3 {
            for node in 0..2 {
                self.wake(node);
                self.hear(node);
                self.nodes[node].pass(Duration::from_secs(2));
            }
        }
    }

    fn expire_momentary(&mut self) {
        for model in &mut self.nodes {
            let flows: Vec<_> = model.flows.iter().filter(|flow| flow.hard_timeout > 0).cloned().collect();
            flows.iter().for_each(|flow| model.expire(flow));
        }
    }
}

fn check(cluster: &mut Cluster) -> Result<(), TestCaseError> {
    cluster.calm_down();
    cluster.expire_momentary();
    let mut addresses = BTreeSet::new();
    for node in 0..2 {
        for container in 0..6 {
            if let Some((address, _)) = cluster.pod(node, container) {
                prop_assert!(addresses.insert(address), "{} twice", address);
                let held = cluster.store.borrow().contains_key(&address);
                prop_assert!(held, "{} runs without a claim", address);
            }
        }
    }
    prop_assert_eq!(cluster.store.borrow().len(), 2 * addresses.len(), "claims that nobody uses");
    for (number, model) in cluster.nodes.iter_mut().enumerate() {
        let before = model.flows.clone();
        let world = cluster.world.clone();
        model.restart(99, &world);
        prop_assert!(model.flow_mods.is_empty(), "n{}: {:?}", number + 1, model.flow_mods);
        prop_assert_eq!(&model.flows, &before);
        // A device without a port is what an agent leaves that dies in the middle of ADD: DEL removes it.
        prop_assert!(model.rows.len() - 3 <= model.wires.len());
    }
    Ok(())
}

/// How flows spell the addresses of an overlay of IPv4, as far as they all begin alike; those of a VLAN may be machines'.
fn beginnings(object: &Object) -> Vec<String> {
    let Object::Network(network) = object else { return Vec::new() };
    if !matches!(network.mode, Mode::Overlay { .. }) {
        return Vec::new();
    }
    let beginning = |net: &ipnet::IpNet| {
        let octets: Vec<String> = net.addr().to_string().split('.').take(2).map(str::to_owned).collect();
        (octets.len() == 2).then(|| format!("={}.", octets.join(".")))
    };
    network.cidrs.iter().filter_map(beginning).collect()
}

fn clean_up(cluster: &mut Cluster) -> Result<(), TestCaseError> {
    for node in 0..2 {
        for container in 0..6 {
            cluster.take(&Step::Detach { node, container });
        }
    }
    cluster.calm_down();
    cluster.expire_momentary();
    prop_assert!(cluster.store.borrow().is_empty());
    let networks: Vec<String> = cluster.world.iter().flat_map(beginnings).collect();
    for model in &cluster.nodes {
        let own = |name: &str| ["br-fabric", "fabric-vxlan", "to-lan"].contains(&name);
        prop_assert!(model.rows.keys().all(|name| own(name)) && model.wires.is_empty());
        for flow in model.flows.iter() {
            let kind = Cookie(flow.cookie).kind();
            let of_a_pod = flow
                .matches
                .exact(openflow::Field::IN_PORT)
                .is_some_and(|p| p >= 32768 && p != u128::from(port::LOCAL));
            prop_assert!(kind != Some(FlowKind::Pod) && !of_a_pod, "left behind: {}", flow);
            let learned = kind.is_some_and(FlowKind::is_learned);
            let of_pods = networks.iter().any(|beginning| flow.to_string().contains(beginning));
            prop_assert!(!learned || !of_pods, "left behind: {}", flow);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_switches_end_up_as_they_should(steps in proptest::collection::vec(step(), 1..60)) {
        run(world(), &steps)?;
    }

    #[test]
    fn no_address_of_a_vlan_is_given_twice_or_lost(steps in proptest::collection::vec(step(), 1..60)) {
        run(world_of_a_vlan(), &steps)?;
    }
}

fn run(world: Vec<Object>, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::new(world);
    for step in steps {
        cluster.take(step);
    }
    check(&mut cluster)?;
    clean_up(&mut cluster)
}
