//! The agent as a state machine: events in, commands out, time passed in.
//!
//! ```text
//!   world synced ─┐
//!   ports ready ──┼─► dump ─► compare, adopt, commit ─► up ─► (every few minutes, and after any doubt) dump ...
//!   switch up ────┘                                     │
//!                                                       └─ switch or database away: what is there goes on;
//!                                                          back: from the top
//! ```
//!
//! [`Node::handle`] takes an event, [`Node::handle_timeout`] the passing of time;
//! [`Node::poll_command`] gives what is to be done and [`Node::poll_timeout`] when to
//! come back. Start, restart, reconnect and repair are one path: a dump of the switch
//! is compared with what it should hold (`reconcile`). An attachment's way is in
//! `attach` and `detach`, by `probes` where it is in a VLAN, by `dhcp` where a server
//! there gives its address; a packet's is in `learning`, the world's in `edits`, and that
//! of a connection that is forbidden in `walks`.

mod announcements;
mod attach;
mod book;
mod choice;
mod claims;
mod clock;
mod conflicts;
mod connection;
mod deletions;
mod denial;
mod denials;
mod detach;
mod dhcp;
mod edits;
mod egress;
mod errands;
mod exits;
mod fading;
mod frames;
mod host;
mod io;
mod learning;
mod leases;
mod limits;
mod macs;
mod memory;
mod parked;
mod paths;
mod pools;
mod ports;
mod probes;
mod rates;
mod reconcile;
mod requests;
mod segments;
mod status;
mod tallies;
mod too_big;
mod upkeep;
mod walks;
mod wires;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::FlowTable;
use openflow::message::PacketIn;
use policy::{Name, World};

use announcements::{Announcement, KnownUplinks};
use book::Book;
use conflicts::Conflicts;
use deletions::Deletions;
use egress::Egress;
use errands::Errand;
use leases::Leases;
use limits::Limits;
use memory::Memory;
use parked::ParkedPackets;
use paths::PathsInUse;
use probes::{Former, Probe};
use reconcile::Trust;
use requests::Held;
use upkeep::Upkeep;
use walks::Walks;

pub use clock::Clock;
pub use conflicts::Conflict;
pub use connection::{Connection, Detail, Tuple};
pub use denial::{Denial, End};
pub use frames::announcement;
pub use host::HostState;
pub use io::*;
pub use paths::NarrowPath;
pub use pools::PoolUse;
pub use status::{AttachmentStatus, PuntCounts, PuntOutcome, StatusView};
pub use tallies::Tallies;

use crate::pipeline::learned::Context;
use crate::pipeline::site::{Site, Tunnel};

/// What the node is told once.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Name of this node.
    pub node: Name,
    /// The bridge, which is also the name of its LOCAL device.
    pub bridge: String,
    /// MTU of the interface that carries tunnels, bytes.
    pub carrier_mtu: u32,
    /// The physical networks that this node is on, with the MTU of the NIC of each, bytes.
    pub physical: BTreeMap<Name, u32>,
    /// Whether containers must compute transmit checksums themselves (userspace datapath).
    pub software_checksums: bool,
    /// New conversations a second that one pod may ask about.
    pub punts_per_second: u32,
    /// Learned flows that one pod may be the cause of.
    pub learned_per_pod: usize,
    /// Connections that are tracked for one pod.
    pub connections_per_pod: u32,
    /// Namespaces that are shared where they have no tenant of their own.
    pub shared_namespaces: BTreeSet<Name>,
    /// How long a freed address rests.
    pub claim_rest: Duration,
    /// How long an address is kept for the successor of a pod that keeps its addresses.
    pub claim_retention: Duration,
    /// How often the switch is compared with what it should hold.
    pub reconcile_every: Duration,
    /// Whether the node may hold egress addresses.
    pub egress: bool,
    /// Anything that differs between agents and runs.
    pub seed: u64,
    /// What time it is.
    pub clock: Clock,
}

/// The agent.
pub struct Node {
    config: NodeConfig,
    /// The moment of the last event.
    clock: Clock,
    world: World,
    world_synced: bool,
    site: Site,
    ports: BTreeMap<String, PortRow>,
    ports_ready: bool,
    /// Whether the book was read from the database since the start.
    book_read: bool,
    switch_connected: bool,
    /// Whether the switch holds what it should, as far as is known; changes go out as they come.
    up: bool,
    /// The dump under way, and when it was asked for.
    dumping: Option<(Task, Instant)>,
    /// Compares in a row that did not bring the switch in line.
    failures: u32,
    trust: Trust,
    next_reconcile: Option<Instant>,
    book: Book,
    leases: Leases,
    upkeep: Upkeep,
    egress: Egress,
    memory: Memory,
    deletions: Deletions,
    /// The node's own static flows, as last sent.
    node_flows: FlowTable,
    parked: ParkedPackets,
    held_punts: VecDeque<Box<PacketIn>>,
    held_requests: Vec<Held>,
    /// Collections, each with the attachments that it still waits for.
    collecting: Vec<(RequestId, BTreeSet<AttachmentKey>)>,
    /// Ports that could not be removed when their container went.
    orphans: BTreeSet<String>,
    /// Ports of containers whose rows in the database cannot be read, in words: they carry nothing.
    damaged: BTreeMap<String, String>,
    /// Pods that went while the switch was away: their meters are still there.
    stale_meters: BTreeSet<u16>,
    /// Addresses of running containers that somebody else has claimed meanwhile, in words.
    disputes: BTreeMap<IpAddr, String>,
    /// Running containers that could not be given the MTU that they should have, in words.
    unsized_pods: BTreeMap<AttachmentKey, String>,
    /// Since when a port's device is missing.
    missing_since: BTreeMap<String, Instant>,
    host: HostState,
    /// VLANs in use, as last told.
    uplinks: Option<BTreeMap<Name, BTreeSet<u16>>>,
    known_uplinks: KnownUplinks,
    probes: Vec<Probe>,
    former: Former,
    conflicts: Conflicts,
    announcements: Vec<Announcement>,
    peers_settled: bool,
    paths_in_use: PathsInUse,
    /// Attachments that wait only for the tunnel peers, with the time that is enough.
    warming: Vec<(AttachmentKey, Instant)>,
    /// Attachments that wait for their lease, with the time when nobody is going to bring it any more.
    waiting: Vec<(AttachmentKey, Instant)>,
    errands: BTreeMap<Task, Errand>,
    next_task: u64,
    commands: VecDeque<Command>,
    counts: PuntCounts,
    tallies: Tallies,
    walks: Walks,
    limits: Limits,
    /// Who lived at the addresses of this node's pods when that last changed, as a hash.
    identities: BTreeMap<IpAddr, u64>,
    /// Encapsulations that some Network has had since the start: other nodes may go on with one for a while.
    encapsulations: BTreeSet<Tunnel>,
    /// Edits of the world taken.
    edits: u64,
    /// Learned decisions judged again.
    judged: u64,
}

impl Node {
    /// An agent that knows nothing yet.
    #[must_use]
    pub fn new(config: NodeConfig) -> Node {
        let site = Site { node: config.node.clone(), ..Site::default() };
        let mut world = World::new();
        // Nothing is judged yet.
        let _ = world.set_shared_namespaces(config.shared_namespaces.clone());
        Node {
            leases: Leases::new(config.claim_rest, config.seed),
            upkeep: Upkeep::default(),
            egress: Egress::default(),
            clock: config.clock,
            config,
            world,
            world_synced: false,
            site,
            ports: BTreeMap::new(),
            ports_ready: false,
            book_read: false,
            switch_connected: false,
            up: false,
            dumping: None,
            failures: 0,
            trust: Trust::default(),
            next_reconcile: None,
            book: Book::default(),
            memory: Memory::default(),
            deletions: Deletions::default(),
            node_flows: FlowTable::new(),
            parked: ParkedPackets::default(),
            held_punts: VecDeque::new(),
            held_requests: Vec::new(),
            collecting: Vec::new(),
            orphans: BTreeSet::new(),
            damaged: BTreeMap::new(),
            stale_meters: BTreeSet::new(),
            disputes: BTreeMap::new(),
            unsized_pods: BTreeMap::new(),
            missing_since: BTreeMap::new(),
            host: HostState::default(),
            uplinks: None,
            known_uplinks: None,
            probes: Vec::new(),
            former: Former::default(),
            conflicts: Conflicts::default(),
            announcements: Vec::new(),
            peers_settled: true,
            paths_in_use: PathsInUse::default(),
            warming: Vec::new(),
            waiting: Vec::new(),
            errands: BTreeMap::new(),
            next_task: 0,
            commands: VecDeque::new(),
            counts: PuntCounts::default(),
            tallies: Tallies::default(),
            walks: Walks::default(),
            limits: Limits::default(),
            identities: BTreeMap::new(),
            encapsulations: BTreeSet::from([Tunnel::Vxlan]),
            edits: 0,
            judged: 0,
        }
    }

    /// The switch turned out to be in userspace, or not: containers made from here on compute their checksums accordingly.
    pub fn set_software_checksums(&mut self, wanted: bool) {
        self.config.software_checksums = wanted;
    }

    /// Takes an event.
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.clock.advance(now);
        match event {
            Event::World(edits) => self.handle_edits(edits, now),
            Event::WorldSynced => {
                self.world_synced = true;
                self.refresh_rates();
                self.refresh_exits();
                self.refresh_site(now);
                self.look_after_egress(now);
                self.readdress_pods();
                self.start_if_complete(now);
            }
            Event::Ports(event) => self.handle_ports(event, now),
            Event::Switch(event) => self.handle_switch(event, now),
            Event::PeersSettled(peers) => self.handle_peers_settled(&peers, now),
            Event::Links(links) => self.links_changed(links, now),
            Event::PathMtus(paths) => self.handle_path_mtus(paths, now),
            Event::Request { id, request } => self.handle_request(id, request, now),
            Event::Done { task, outcome } => self.handle_outcome(task, outcome, now),
        }
        self.begin_walk(now);
        self.tell_paths(now);
    }

    /// Takes the passing of time; to be called when [`Node::poll_timeout`] is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.clock.advance(now);
        self.expire_parked(now);
        self.expire_held(now);
        self.finish_warm(now);
        self.expire_waiting(now);
        self.send_probes(now);
        self.send_announcements(now);
        self.conflicts.expire(now);
        self.sweep_missing(now);
        self.keep_up(now);
        if self.egress.is_due(now) {
            self.look_after_egress(now);
        }
        self.retry_limits(now);
        self.take_echoes(now);
        self.judge_connections(now);
        self.begin_walk(now);
        self.tell_paths(now);
        if self.next_reconcile.is_some_and(|at| at <= now) {
            self.request_dump(now);
        }
    }

    /// When [`Node::handle_timeout`] wants to be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let parked = self.parked.due();
        let held = self.held_requests.iter().map(|h| h.until);
        let warming = self.warming.iter().chain(&self.waiting).map(|(_, until)| *until);
        let missing = self.missing_since.values().map(|since| *since + detach::MISSING_GRACE);
        let probes = self.probes.iter().map(Probe::due);
        let announcements = self.announcements.iter().map(Announcement::due);
        let own = self.next_reconcile.into_iter().chain(self.walks.due()).chain(self.upkeep.due());
        let own = own.chain(self.egress.due()).chain(self.limits.due()).chain(self.paths_told_at());
        let own = own.chain(self.conflicts.due());
        parked
            .into_iter()
            .chain(held)
            .chain(warming)
            .chain(missing)
            .chain(probes)
            .chain(announcements)
            .chain(own)
            .min()
    }

    /// The next thing to do.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    fn handle_switch(&mut self, event: SwitchEvent, now: Instant) {
        match event {
            SwitchEvent::Connected => {
                self.switch_connected = true;
                self.up = false;
                self.dumping = None;
                self.start_if_complete(now);
            }
            SwitchEvent::Disconnected => {
                self.switch_connected = false;
                self.up = false;
                self.dumping = None;
                self.next_reconcile = None;
                self.deletions.clear();
                self.parked = ParkedPackets::default();
                self.held_punts.clear();
            }
            SwitchEvent::Refused => self.doubt(now),
            SwitchEvent::PacketIn(packet_in) => self.handle_packet_in(packet_in, now),
            SwitchEvent::FlowRemoved(removed) => self.handle_flow_removed(&removed, now),
        }
    }

    fn command(&mut self, command: Command) {
        self.commands.push_back(command);
    }

    fn reply(&mut self, id: RequestId, reply: Result<Reply, RequestError>) {
        self.command(Command::Reply { id, reply });
    }

    fn context(&self) -> Context<'_, Book> {
        Context { site: &self.site, world: &self.world, pods: &self.book }
    }
}
