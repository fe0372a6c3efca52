//! What the agent says of itself: status for people and tools, and changes of state for the log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fabric_api::{
    Attachment, Conflict, Flows, Lease, LeaseState, Path, PolicyState, Pool, Problem, Punts, Rates, Segment,
    State, Status, Store, StoreKind, Switch as SwitchStatus, TableFlows, Tally, World as WorldReport,
    WorldCounts, verdict,
};
use fabric_core::node::{AttachmentStatus, Conflict as CoreConflict, NarrowPath, Node, PoolUse, StatusView};
use fabric_core::pipeline::site::Segment as CoreSegment;
use fabric_core::pipeline::vocabulary::Cookie;
use fabric_node::config::NodeConfig;
use fabric_node::serve::Ask;
use openflow::FlowStats;
use openflow::message::FlowRequest;
use policy::World;
use tokio::time::timeout;
use tracing::{info, warn};

use super::{Rooms, since_epoch};

/// How long a status waits for the counters of a switch that does not answer: it is told without them, since just
/// then somebody wants to know.
const SWITCH_PATIENCE: Duration = Duration::from_secs(1);

/// Remembers since when the agent is as it is.
pub struct Reporter {
    bridge: String,
    directory: String,
    node: String,
    state: State,
    since: u64,
    was_running: bool,
    misfits: Misfits,
}

/// What does not fit together although each object is good by itself, and what the agent itself complains of: looked
/// at from time to time, and logged when it comes and when it goes. What a room cannot read or do the room logs.
struct Misfits {
    known: BTreeSet<String>,
    /// Edits of the world and changes of conflicts as of the last look, and when that was.
    seen: (u64, u64),
    looked: Instant,
}

/// Time between two looks at what does not fit together.
const LOOK: Duration = Duration::from_secs(1);

impl Reporter {
    /// A reporter for an agent that has just started.
    pub fn new(config: &NodeConfig) -> Reporter {
        Reporter {
            bridge: config.bridge.clone(),
            directory: config.store.directory.display().to_string(),
            node: config.node.clone(),
            state: State::Starting,
            since: since_epoch().as_secs(),
            was_running: false,
            misfits: Misfits { known: BTreeSet::new(), seen: (0, 0), looked: Instant::now() },
        }
    }

    /// When the reporter wants to look again, if it does.
    pub fn due(&self, node: &Node) -> Option<Instant> {
        (Misfits::seen(node) != self.misfits.seen).then(|| self.misfits.looked + LOOK)
    }

    /// Notes and logs a change of state.
    pub fn watch(&mut self, node: &Node) {
        if self.due(node).is_some_and(|due| due <= Instant::now()) {
            self.misfits.look(node);
        }
        let lack = node.lacks();
        let state = match (&lack, self.was_running) {
            (None, _) => State::Running,
            (Some(_), true) => State::Degraded,
            (Some(_), false) => State::Starting,
        };
        if state == self.state {
            return;
        }
        match lack {
            None => info!("containers can be attached"),
            Some(lack) => warn!(%lack, "containers cannot be attached; what runs goes on"),
        }
        self.was_running |= state == State::Running;
        self.state = state;
        self.since = since_epoch().as_secs();
    }

    /// Answers a question. What has to be read from the switch is read beside the loop.
    pub fn answer(&self, question: Ask, node: &Node, rooms: &Rooms) {
        match question {
            Ask::World(reply) => {
                let view = node.status(Instant::now());
                let report = WorldReport {
                    synced: view.world_synced,
                    counts: counts(view.world),
                    problems: problems(&view, rooms),
                };
                let _ = reply.send(report);
            }
            Ask::Look(look) => {
                if let Some(world) = node.world() {
                    look.at(world);
                }
            }
            Ask::Lint(reply) => {
                let lint = |world| verdict::lint(world, rooms.intake.problems(), |_| None);
                let _ = reply.send(node.world().map(lint));
            }
            Ask::Brief(reply) => {
                let _ = reply.send(self.status(node, rooms));
            }
            Ask::Status(reply) => {
                let mut status = self.status(node, rooms);
                let reads = rooms.switch.reads().clone();
                tokio::spawn(async move {
                    let dump = timeout(SWITCH_PATIENCE, reads.dump_flows(FlowRequest::default())).await;
                    if let Ok(Ok(dump)) = dump {
                        status.drops = drops(&dump);
                    }
                    let _ = reply.send(status);
                });
            }
        }
    }

    fn status(&self, node: &Node, rooms: &Rooms) -> Status {
        let view = node.status(Instant::now());
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: self.node.clone(),
            state: self.state,
            since: self.since,
            waiting_for: view.lacks.iter().cloned().collect(),
            switch: SwitchStatus {
                connected: view.switch_connected,
                database_connected: view.ports_ready,
                bridge: self.bridge.clone(),
                ovs_version: rooms.ports.ovs_version(),
                datapath: Some(rooms.ports.datapath_type()),
            },
            store: Store {
                kind: StoreKind::Directory,
                location: self.directory.clone(),
                synced: view.world_synced,
            },
            world: counts(view.world),
            attachments: view.attachments.iter().map(attachment).collect(),
            leases: leases(&view),
            pools: view.pools.iter().map(pool).collect(),
            conflicts: view.conflicts.iter().map(conflict).collect(),
            defences: view.defences,
            flows: flows(&view),
            punts: punts(&view),
            denied: tallies(view.tallies.denied()),
            audited: tallies(view.tallies.audited()),
            policy: PolicyState {
                edits: view.edits,
                settled: view.settled,
                judged_again: view.judged,
                dormant: count(view.dormant),
            },
            drops: BTreeMap::new(),
            paths: view.paths.iter().map(path).collect(),
            problems: problems(&view, rooms),
        }
    }
}

impl Misfits {
    /// What changes with whatever there is to look at.
    fn seen(node: &Node) -> (u64, u64) {
        (node.edits(), node.conflict_changes())
    }

    fn look(&mut self, node: &Node) {
        let view = node.status(Instant::now());
        let misfits = view.world.problems().into_iter().map(|problem| problem.to_string());
        let found: BTreeSet<String> = misfits.chain(view.problems).collect();
        for misfit in found.difference(&self.known) {
            warn!("{misfit}");
        }
        for gone in self.known.difference(&found) {
            info!("resolved: {gone}");
        }
        (self.known, self.seen, self.looked) = (found, Misfits::seen(node), Instant::now());
    }
}

fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

fn counts(world: &World) -> WorldCounts {
    let of = |kind: policy::Kind| count(world.count(kind));
    WorldCounts {
        namespaces: of(policy::Kind::Namespace),
        pods: of(policy::Kind::Pod),
        nodes: of(policy::Kind::Node),
        networks: of(policy::Kind::Network),
        claims: of(policy::Kind::IpClaim),
        network_policies: of(policy::Kind::NetworkPolicy),
        cluster_network_policies: of(policy::Kind::ClusterNetworkPolicy),
        services: of(policy::Kind::Service),
        endpoint_slices: of(policy::Kind::EndpointSlice),
    }
}

fn attachment(attachment: &AttachmentStatus) -> Attachment {
    Attachment {
        container: attachment.key.container_id.clone(),
        ifname: attachment.key.ifname.clone(),
        pod: attachment.pod.clone(),
        network: attachment.network.clone(),
        segment: attachment.segment.as_ref().map(segment),
        addresses: attachment.addresses.clone(),
        mtu: attachment.mtu,
        rates: Rates { egress: attachment.rates.out, ingress: attachment.rates.into },
        mac: attachment.mac.to_string(),
        port: attachment.host_name.clone(),
        ofport: attachment.port,
        zone: attachment.zone,
        ready: attachment.ready,
    }
}

fn segment(segment: &CoreSegment) -> Segment {
    Segment { physical_network: segment.physical.to_string(), vlan: segment.vlan }
}

fn conflict(conflict: &CoreConflict) -> Conflict {
    Conflict {
        ip: conflict.address,
        holder: conflict.holder.clone(),
        network: conflict.network.to_string(),
        segment: segment(&conflict.segment),
        mac: conflict.machine.to_string(),
    }
}

fn leases(view: &StatusView<'_>) -> Vec<Lease> {
    let held = view.claims.iter().map(|claim| Lease {
        ip: claim.ip,
        network: claim.network.to_string(),
        owner: claim.owner.clone(),
        state: if claim.is_idle() { LeaseState::Retained } else { LeaseState::Held },
    });
    let nobody = |ip, state| Lease {
        ip,
        network: view.world.network_of(ip).map(|network| network.name.to_string()).unwrap_or_default(),
        owner: String::new(),
        state,
    };
    let claiming = view.claiming.iter().map(|ip| nobody(*ip, LeaseState::Claiming));
    let resting = view.resting.iter().map(|ip| nobody(*ip, LeaseState::Resting));
    let mut leases: Vec<Lease> = held.chain(claiming).chain(resting).collect();
    leases.sort_by_key(|lease| lease.ip);
    leases
}

fn pool(pool: &PoolUse) -> Pool {
    let bounded = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    Pool {
        network: pool.network.to_string(),
        family: fabric_api::ipam::number(pool.family),
        size: bounded(pool.size),
        claimed: pool.claimed,
        retained: pool.retained,
        pending: pool.pending,
        resting: pool.resting,
        disputed: pool.disputed,
        free: bounded(pool.free),
    }
}

fn path(path: &NarrowPath) -> Path {
    let node = path.node.as_ref().map(ToString::to_string).unwrap_or_default();
    Path { node, address: path.address, mtu: path.mtu }
}

fn flows(view: &StatusView<'_>) -> Flows {
    let learned = view.learned_flows.iter();
    Flows {
        r#static: count(view.static_flows),
        learned: learned
            .map(|(table, n)| TableFlows { table: (*table).to_owned(), flows: count(*n) })
            .collect(),
    }
}

fn punts(view: &StatusView<'_>) -> Vec<Punts> {
    view.punts
        .iter()
        .map(|(table, outcome, packets)| Punts {
            table: table.to_owned(),
            outcome: outcome.to_owned(),
            packets,
        })
        .collect()
}

fn tallies<'a>(by_reason: impl Iterator<Item = (&'a str, u64)>) -> Vec<Tally> {
    by_reason.map(|(because, count)| Tally { because: because.to_owned(), count }).collect()
}

/// Packets dropped by cause, of the flows that are in the switch.
fn drops(dump: &[FlowStats]) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for stats in dump {
        if let Some(cause) = Cookie(stats.flow.cookie).dropped_for() {
            *drops.entry(cause.name().to_owned()).or_default() += stats.packets;
        }
    }
    drops
}

fn problems(view: &StatusView<'_>, rooms: &Rooms) -> Vec<Problem> {
    let mut problems = rooms.intake.problems();
    problems.extend(view.world.problems().into_iter().map(Problem::from));
    let here = |room: &str, message: &String| Problem {
        source: room.to_owned(),
        object: None,
        field: String::new(),
        message: message.clone(),
    };
    problems.extend(view.problems.iter().map(|message| here("agent", message)));
    problems.extend(rooms.host.problems().borrow().iter().map(|message| here("host", message)));
    problems.extend(rooms.ports.problems().iter().map(|message| here("ports", message)));
    problems.extend(rooms.uplinks.problems().borrow().iter().map(|message| here("uplinks", message)));
    problems.extend(rooms.connections.problem().iter().map(|message| here("connections", message)));
    problems.sort();
    problems
}
