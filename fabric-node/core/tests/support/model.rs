//! A node with rooms of make-believe: a switch that is a table of flows, a database that is a map, one store for all.
//!
//! It exists to try orders of events; what the real rooms do is tested on the real things.

mod rooms;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fabric_core::node::*;
use openflow::message::{FlowRemoved, PacketIn, PacketOut, RemovedReason};
use openflow::table::Connections;
use openflow::{Field, Flow, FlowKey, FlowMod, FlowTable, Match, port};
use policy::{Edit, IpClaim, Object};

use super::meters::Meters;
use rooms::removed;

/// The store that all nodes share.
pub type Store = Rc<RefCell<BTreeMap<IpAddr, IpClaim>>>;

/// One node.
pub struct Model {
    pub name: String,
    /// Address of its end of the tunnels.
    pub tunnel: IpAddr,
    pub node: Node,
    pub now: Instant,
    /// When the first life of the node began.
    began: Instant,
    pub store: Store,
    /// The switch.
    pub flows: FlowTable,
    pub meters: Meters,
    pub connected: bool,
    /// It takes no changes of flows.
    pub stubborn: bool,
    /// The database.
    pub rows: BTreeMap<String, PortRow>,
    /// Numbers that the switch gives in place of those asked for.
    pub other_numbers: BTreeMap<u16, u32>,
    pub wires: BTreeSet<String>,
    pub replies: BTreeMap<RequestId, Result<Reply, RequestError>>,
    /// Flow changes that reached the switch.
    pub flow_mods: Vec<FlowMod>,
    /// Packets that flows have taken, as the switch counts them.
    pub took: BTreeMap<FlowKey, u64>,
    /// The switch's connection tracking.
    pub connections: Connections,
    /// How often it was read, and what it was told to forget.
    pub reads: usize,
    pub ended: Vec<Connection>,
    /// The control socket does not answer.
    pub deaf: bool,
    pub resumed: usize,
    pub flushed: Vec<u16>,
    pub host: HostState,
    /// Connections that zones may have.
    pub limits: BTreeMap<u16, u32>,
    /// How often it was asked for those, where it does not set any.
    pub limitless: Option<usize>,
    /// VLANs in use.
    pub uplinks: BTreeMap<policy::Name, BTreeSet<u16>>,
    /// Pods that leave under another address, as the host was told.
    pub readdressed: Vec<BTreeMap<IpAddr, Option<IpAddr>>>,
    /// Paths that are looked after.
    pub paths_in_use: BTreeSet<IpAddr>,
    /// Packets of the agent's own.
    pub sent: Vec<PacketOut>,
    /// MTUs that running containers were given.
    pub resized: Vec<(String, u32)>,
    /// Devices that got their addresses later, with those.
    pub addressed: Vec<(String, Vec<ipnet::IpNet>)>,
    pub denials: Vec<Denial>,
    pub dumps: usize,
    /// Learned flows that one pod may be the cause of.
    pub limit: usize,
    /// Every address that is asked for is somebody else's.
    pub refuse_claims: bool,
    /// No device that there is can be changed.
    pub refuse_changes: bool,
    /// Rooms that do not answer.
    pub silent: BTreeSet<Room>,
    held: VecDeque<Command>,
    /// What the switch has to say of flows that the agent deleted: it comes late.
    removed: Vec<FlowRemoved>,
    next_request: u64,
    news: VecDeque<Edit>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    Ports,
    Store,
    Wire,
    /// Reading connections.
    Reads,
    /// Ending connections.
    Ends,
    /// Waiting for the switch to settle.
    Settling,
}

/// The time of day at which nodes start; whole hours of it pass as they pass for the node.
const EPOCH: Duration = Duration::from_secs(1_000_000_000);
/// Small, so that tests meet it.
const LEARNED_PER_POD: usize = 64;

fn config(name: &str, seed: u64, now: Instant) -> NodeConfig {
    NodeConfig {
        node: name.into(),
        bridge: "br-fabric".into(),
        carrier_mtu: 1500,
        physical: [("lan".into(), 1500)].into(),
        software_checksums: true,
        punts_per_second: 1000,
        connections_per_pod: 65_536,
        learned_per_pod: LEARNED_PER_POD,
        shared_namespaces: ["kube-system".into()].into(),
        claim_rest: Duration::from_secs(30),
        claim_retention: Duration::from_secs(3600),
        reconcile_every: Duration::from_secs(300),
        egress: true,
        seed,
        clock: Clock::new(now, EPOCH),
    }
}

fn own_row(name: &str, kind: &str, ofport: u32) -> PortRow {
    PortRow {
        name: name.into(),
        kind: kind.into(),
        ofport: Some(ofport),
        error: None,
        external_ids: BTreeMap::new(),
        mac: Some(openflow::Mac([2, 0, 0, 0, 0, 0xfe])),
    }
}

impl Model {
    pub fn new(name: &str, seed: u64, store: &Store) -> Model {
        let now = Instant::now();
        let rows = [own_row("br-fabric", "internal", port::LOCAL), own_row("fabric-vxlan", "vxlan", 1)];
        Model {
            name: name.into(),
            tunnel: format!("192.168.77.{}", name.trim_start_matches('n')).parse().unwrap(),
            node: Node::new(config(name, seed, now)),
            now,
            began: now,
            store: store.clone(),
            flows: FlowTable::new(),
            meters: Meters::default(),
            connected: false,
            stubborn: false,
            rows: rows.into_iter().map(|row| (row.name.clone(), row)).collect(),
            other_numbers: BTreeMap::new(),
            wires: BTreeSet::new(),
            replies: BTreeMap::new(),
            flow_mods: Vec::new(),
            took: BTreeMap::new(),
            connections: Connections::new(),
            reads: 0,
            ended: Vec::new(),
            deaf: false,
            resumed: 0,
            flushed: Vec::new(),
            host: HostState::default(),
            limits: BTreeMap::new(),
            limitless: None,
            uplinks: BTreeMap::new(),
            readdressed: Vec::new(),
            paths_in_use: BTreeSet::new(),
            sent: Vec::new(),
            resized: Vec::new(),
            addressed: Vec::new(),
            denials: Vec::new(),
            dumps: 0,
            limit: LEARNED_PER_POD,
            refuse_claims: false,
            refuse_changes: false,
            silent: BTreeSet::new(),
            held: VecDeque::new(),
            removed: Vec::new(),
            next_request: 0,
            news: VecDeque::new(),
        }
    }

    /// The bridge has a patch to that of the physical network `lan`.
    pub fn with_uplink(mut self, ofport: u32) -> Model {
        let mut row = own_row("to-lan", "patch", ofport);
        row.external_ids.insert(PHYSICAL.into(), "lan".into());
        self.rows.insert(row.name.clone(), row);
        self
    }

    /// The limits of a container.
    pub fn rates(&self, container: &str) -> fabric_core::pipeline::site::Rates {
        let attachments = self.node.status(self.now).attachments;
        attachments.iter().find(|a| a.key.container_id == container).unwrap().rates
    }

    /// A row of the database is as given.
    pub fn change_row(&mut self, row: PortRow) {
        self.rows.insert(row.name.clone(), row.clone());
        self.handle(Event::Ports(PortsEvent::Changed(row)));
    }

    /// Everything that an agent gets at its start.
    pub fn start(&mut self, world: &[Object]) {
        let claims: Vec<Edit> =
            self.store.borrow().values().map(|claim| Edit::Put(Object::IpClaim(claim.clone()))).collect();
        let objects = world.iter().cloned().map(Edit::Put).chain(claims).collect();
        self.handle(Event::World(objects));
        self.handle(Event::WorldSynced);
        let rows = self.rows.values().cloned().collect();
        self.handle(Event::Ports(PortsEvent::Ready(rows)));
        self.connect();
    }

    pub fn connect(&mut self) {
        self.connected = true;
        self.handle(Event::Switch(SwitchEvent::Connected));
    }

    /// The agent ends without a word and another one starts.
    pub fn restart(&mut self, seed: u64, world: &[Object]) {
        let mut config = config(&self.name, seed, self.now);
        config.clock.since_epoch += self.now - self.began;
        self.node = Node::new(config);
        self.held.clear();
        self.flow_mods.clear();
        self.start(world);
    }

    pub fn handle(&mut self, event: Event) {
        self.node.handle(event, self.now);
        self.settle();
    }

    /// Lets time pass, with everything that falls due.
    pub fn pass(&mut self, time: Duration) {
        for removed in std::mem::take(&mut self.removed) {
            self.handle(Event::Switch(SwitchEvent::FlowRemoved(Box::new(removed))));
        }
        let end = self.now + time;
        while let Some(due) = self.node.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.node.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    pub fn request(&mut self, request: Request) -> RequestId {
        self.next_request += 1;
        let id = RequestId(self.next_request);
        self.handle(Event::Request { id, request });
        id
    }

    /// Commands that silent rooms have not taken.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// A room speaks again, and answers what it was asked meanwhile.
    pub fn wake(&mut self, room: Room) {
        self.silent.remove(&room);
        self.settle();
    }

    /// Carries out commands until the node is content.
    pub fn settle(&mut self) {
        loop {
            while let Some(command) = self.node.poll_command() {
                self.held.push_back(command);
            }
            let ready = self.held.iter().position(|command| !self.is_silent(command));
            let Some(command) = ready.and_then(|at| self.held.remove(at)) else { break };
            self.carry_out(command);
            if let Some(edit) = self.news.pop_front() {
                self.node.handle(Event::World(vec![edit]), self.now);
            }
        }
    }

    /// A flow times out.
    pub fn expire(&mut self, flow: &Flow) {
        self.flows.remove(&flow.key());
        let removed = removed(flow, RemovedReason::Idle);
        self.handle(Event::Switch(SwitchEvent::FlowRemoved(Box::new(removed))));
    }

    /// Another hand deletes a flow.
    pub fn delete_as_somebody_else(&mut self, flow: &Flow) {
        self.flows.remove(&flow.key());
        let removed = removed(flow, RemovedReason::Delete);
        self.handle(Event::Switch(SwitchEvent::FlowRemoved(Box::new(removed))));
    }

    /// A packet that the switch hands to the agent; whether it goes on.
    pub fn hand_up(&mut self, packet_in: PacketIn) -> bool {
        let before = self.resumed;
        self.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
        self.resumed > before
    }

    /// A UDP packet that a table has no flow for.
    pub fn punt(&mut self, reg0: u32, in_port: u32, from: IpAddr, to: IpAddr) {
        let metadata = Match::new().with(Field::REG0, reg0).with(Field::IN_PORT, in_port);
        let packet_in =
            PacketIn { packet: udp(from, to), metadata, continuation: Some(vec![1]), ..PacketIn::default() };
        self.handle(Event::Switch(SwitchEvent::PacketIn(Box::new(packet_in))));
    }
}

/// A UDP packet in an Ethernet frame, IPv4.
fn udp(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { panic!("IPv4 only") };
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4(from.octets(), to.octets(), 64)
        .udp(1000, 2000);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"x").unwrap();
    frame
}
