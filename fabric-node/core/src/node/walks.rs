//! Connections that were allowed and are forbidden: found, and ended.
//!
//! ```text
//!   a verdict that allowed is gone --> its flows are committed --> read the zone's connections --> judge each
//!                                             |                           ^                            |
//!                                             '-- the switch settles -----'          cut, then end the forbidden
//! ```
//!
//! Established packets ask nobody, so what a change forbids has to be looked for. First the flows: from there on a
//! packet cannot open what the world forbids, except by what the switch still remembers of flows that are gone. So a
//! zone is read at once, some times while the switch settles, and once more when it has. Each connection is judged by the world as it is
//! when it is judged; changes meanwhile ask for another walk. A conversation of TCP or UDP is cut by a flow
//! first ([`Query::Ended`]): connection tracking would take what the receiver still sends for a conversation that the
//! receiver opens. Connections that stay allowed are not touched.
//!
//! A switch whose connections cannot be read or ended has the zones concerned emptied by OpenFlow. That ends what is
//! forbidden for now; without a list nothing can be cut, and a receiver that goes on sending, and may, opens anew.

mod endings;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::{Conversation, Direction, PortBlock, Question, Region, Traffic, Verdict};

use endings::Forbidden;

use super::memory::{Dormant, Id};
use super::{Command, Connection, Detail, Errand, Node, SwitchCommand, Task, Tuple};
use crate::pipeline::learned::{Part, Pods, Query};
use crate::pipeline::protocols::{SCTP, TCP, UDP};
use crate::pipeline::site::LocalPod;
use crate::pipeline::statics::OWN_NODE;
use crate::pipeline::vocabulary::{JUDGED, MARKS};

/// Connections judged before others get a turn.
const SLICE: usize = 512;
/// How often a read that failed is tried before the zones are emptied.
const TRIES: u32 = 3;
/// When connections are read once more after an edit that other nodes judge.
const ECHOES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];
/// Time before a read that failed is tried again.
const AGAIN: Duration = Duration::from_millis(150);
/// How often connections are read while the switch settles: what it opens meanwhile by flows that are gone lives no
/// longer than this.
const PEEK: Duration = Duration::from_millis(150);
/// At most one part in this many of the time is spent reading: a userspace datapath forwards nothing while it lists.
const PEEK_SHARE: u32 = 6;

/// What is to be read, and how far that is.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// Zones to be read.
    wanted: BTreeSet<u16>,
    /// The switch is to settle, and these zones are to be read once more when it has.
    unsettled: Option<BTreeSet<u16>>,
    /// The switch is asked to settle for these zones.
    settling: Option<(Task, BTreeSet<u16>)>,
    /// When they are read once more while it does.
    peek: Option<Instant>,
    /// When a read was last asked for, and how long the last one took.
    asked: Option<Instant>,
    took: Duration,
    stage: Stage,
    /// Walks begun; a dormant verdict of the walk under way says nothing to it.
    pub number: u64,
    /// Reads in a row that failed, and when to try again.
    failed: u32,
    again: Option<Instant>,
    /// When all zones are to be read once more, since another node may have heard of an edit later than this one.
    echoes: [Option<Instant>; ECHOES.len()],
    /// Why connections could not be read or ended.
    problem: Option<String>,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// The switch lists its connections.
    Reading { task: Task, zones: BTreeSet<u16> },
    /// They are judged, a slice at a time.
    Judging(Judging),
    /// The flows that cut are on their way.
    Cutting { task: Task, forbidden: Vec<Connection> },
    /// The switch forgets the forbidden.
    Ending { task: Task, zones: BTreeSet<u16> },
}

#[derive(Debug)]
struct Judging {
    zones: BTreeSet<u16>,
    connections: Vec<Connection>,
    next: usize,
    forbidden: Forbidden,
    /// Entries that allow a connection that was seen.
    needed: BTreeSet<Id>,
    /// When the next slice is due.
    due: Instant,
}

impl Stage {
    fn awaits(&self, outcome: Task) -> bool {
        match self {
            Stage::Reading { task, .. } | Stage::Cutting { task, .. } | Stage::Ending { task, .. } => {
                *task == outcome
            }
            Stage::Idle | Stage::Judging(_) => false,
        }
    }
}

impl Walks {
    /// Leaves the stage, if it is such a one; idle otherwise.
    fn take(&mut self, fits: impl FnOnce(&Stage) -> bool) -> Stage {
        if fits(&self.stage) { std::mem::take(&mut self.stage) } else { Stage::Idle }
    }

    /// Whether nothing is under way and nothing asked for.
    pub fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
            && self.wanted.is_empty()
            && self.unsettled.is_none()
            && self.settling.is_none()
    }

    /// When there is something to do without a cause from outside.
    pub fn due(&self) -> Option<Instant> {
        let own = match &self.stage {
            Stage::Judging(judging) => Some(judging.due),
            Stage::Idle => self.again.filter(|_| !self.wanted.is_empty()),
            _ => None,
        };
        own.into_iter().chain(self.echoes.iter().flatten().copied()).chain(self.peek).min()
    }

    /// Asks for another read of the zones that the switch settles for, if one is due.
    fn peek(&mut self, now: Instant) {
        if let Some((_, zones)) = self.settling.as_ref().filter(|_| self.peek.is_some_and(|at| at <= now)) {
            if matches!(self.stage, Stage::Idle) {
                self.wanted.extend(zones);
            }
            self.peek = Some(now + self.pause());
        }
    }

    /// A read is over.
    fn note_read(&mut self, now: Instant) {
        self.took = self.asked.map_or(Duration::ZERO, |asked| now.saturating_duration_since(asked));
        self.peek = self.peek.map(|at| at.max(now + self.pause()));
    }

    /// Between two reads while the switch settles.
    fn pause(&self) -> Duration {
        PEEK.max(self.took * PEEK_SHARE)
    }

    pub fn problem(&self) -> Option<String> {
        self.problem.as_ref().map(|problem| {
            format!("connections that policies forbid cannot be ended one by one, so all of a pod's are: {problem}")
        })
    }
}

impl Node {
    /// Connections of these zones may be forbidden.
    pub(super) fn want_walk(&mut self, zones: impl IntoIterator<Item = u16>) {
        for zone in zones {
            self.walks.wanted.insert(zone);
            self.walks.unsettled.get_or_insert_default().insert(zone);
        }
    }

    /// Verdicts are others: what the switch remembers of those that are gone is to go. What it forbade by them stays
    /// shut until then, as what it allowed stays open.
    pub(super) fn want_settled(&mut self) {
        self.walks.unsettled.get_or_insert_default();
    }

    pub(super) fn want_whole_walk(&mut self) {
        let zones: Vec<u16> = self.book.pods().map(|pod| pod.zone).collect();
        self.want_walk(zones);
    }

    /// What pods of other nodes may send here is another. Their nodes judge that, and may hear of it later: until then a
    /// connection that this node ends is opened again.
    pub(super) fn want_echoes(&mut self, now: Instant) {
        for (echo, after) in self.walks.echoes.iter_mut().zip(ECHOES) {
            echo.get_or_insert(now + after);
        }
    }

    pub(super) fn take_echoes(&mut self, now: Instant) {
        let mut due = false;
        for echo in &mut self.walks.echoes {
            due |= echo.take_if(|at| *at <= now).is_some();
        }
        if due {
            self.look_at_all();
        }
    }

    /// All zones are to be read, without a cause.
    pub(super) fn look_at_all(&mut self) {
        self.walks.wanted.extend(self.book.pods().map(|pod| pod.zone));
    }

    /// Begins what is asked for, once the flows that it is about are in place.
    pub(super) fn begin_walk(&mut self, now: Instant) {
        self.walks.peek(now);
        let asked = !self.walks.wanted.is_empty() || self.walks.unsettled.is_some();
        if !asked || !self.up || self.is_committing() {
            // What this waits for brings it back here.
            self.walks.again = self.walks.again.filter(|at| *at > now);
            return;
        }
        if self.walks.settling.is_none()
            && let Some(zones) = self.walks.unsettled.take()
        {
            let task = self.errand(Errand::Settle);
            self.walks.peek = (!zones.is_empty()).then_some(now + self.walks.pause());
            self.walks.settling = Some((task, zones));
            self.command(Command::Switch(SwitchCommand::Settle { task }));
        }
        let due = self.walks.again.is_none_or(|at| at <= now);
        if due && matches!(self.walks.stage, Stage::Idle) {
            let wanted = std::mem::take(&mut self.walks.wanted);
            let zones: BTreeSet<u16> =
                wanted.into_iter().filter(|zone| self.book.by_zone(*zone).is_some()).collect();
            if zones.is_empty() {
                return;
            }
            self.walks.again = None;
            self.walks.number += 1;
            self.walks.asked = Some(now);
            let task = self.errand(Errand::ReadConnections);
            self.walks.stage = Stage::Reading { task, zones: zones.clone() };
            self.command(Command::Switch(SwitchCommand::ReadConnections { task, zones }));
        }
    }

    /// The switch has settled: what it decided by flows that are gone has been decided by then.
    pub(super) fn switch_settled(&mut self, task: Task) {
        if let Some((_, zones)) = self.walks.settling.take_if(|(asked, _)| *asked == task) {
            self.walks.peek = None;
            self.walks.wanted.extend(zones);
        }
    }

    pub(super) fn connections_read(
        &mut self,
        task: Task,
        result: Result<Vec<Connection>, String>,
        now: Instant,
    ) {
        let Stage::Reading { zones, .. } = self.walks.take(|stage| stage.awaits(task)) else { return };
        self.walks.note_read(now);
        match result {
            Ok(connections) => {
                (self.walks.failed, self.walks.problem) = (0, None);
                for zone in &zones {
                    self.memory.fill(*zone);
                }
                self.walks.stage = Stage::Judging(Judging {
                    zones,
                    connections,
                    next: 0,
                    forbidden: Forbidden::default(),
                    needed: BTreeSet::new(),
                    due: now,
                });
                self.judge_connections(now);
            }
            Err(error) => {
                self.walks.problem = Some(error);
                self.walks.failed += 1;
                if self.walks.failed < TRIES {
                    self.walks.wanted.extend(zones);
                    self.walks.again = Some(now + AGAIN);
                } else {
                    self.walks.failed = 0;
                    self.empty_zones(zones);
                }
            }
        }
    }

    /// Judges the next slice of what was read.
    pub(super) fn judge_connections(&mut self, now: Instant) {
        let is_judging = |stage: &Stage| matches!(stage, Stage::Judging(_));
        let Stage::Judging(mut judging) = self.walks.take(is_judging) else { return };
        let end = judging.connections.len().min(judging.next + SLICE);
        for connection in judging.connections.get(judging.next..end).unwrap_or_default() {
            match self.judge_connection(connection) {
                Fate::Stays(conversation) => self.cover(connection, &conversation, &mut judging.needed),
                Fate::Exempt => {}
                Fate::Forbidden => judging.forbidden.note(*connection),
            }
        }
        judging.next = end;
        judging.due = now;
        if end < judging.connections.len() {
            self.walks.stage = Stage::Judging(judging);
        } else {
            self.judged_all(judging, now);
        }
    }

    fn judged_all(&mut self, judging: Judging, now: Instant) {
        for zone in &judging.zones {
            self.memory.clear_dormant(*zone, &judging.needed, self.walks.number);
        }
        self.cut_connections(judging.forbidden, now);
    }

    fn judge_connection(&self, connection: &Connection) -> Fate {
        let Some(pod) = self.book.by_zone(connection.zone) else { return Fate::Exempt };
        let Ends { from, to, traffic } = Ends::of(connection);
        let own_node = connection.label & u128::from(u64::MAX) == u128::from(OWN_NODE);
        if connection.mark & MARKS == 0 || own_node || self.site.addresses.contains(&from) {
            return Fate::Exempt;
        }
        if !is_of(pod, from) && !is_of(pod, to) {
            return Fate::Forbidden;
        }
        let conversation = self.world.converse(from, to, traffic);
        if conversation.verdict() == Verdict::Deny {
            return Fate::Forbidden;
        }
        // Tracked without its ports, and passed without being asked about: that is for associations that may have any.
        let any_port = |region: &Region| region.ports == PortBlock::All;
        let blind = traffic.protocol == SCTP && traffic.port.is_none() && connection.mark & JUDGED != 0;
        let ends = [&conversation.egress, &conversation.ingress];
        if blind && !ends.into_iter().flatten().all(|judgement| any_port(&judgement.region)) {
            return Fate::Forbidden;
        }
        Fate::Stays(Box::new(conversation))
    }

    /// Notes the verdicts that allow a connection, and remembers those that are missing.
    fn cover(&mut self, connection: &Connection, conversation: &Conversation, needed: &mut BTreeSet<Id>) {
        let Ends { from, to, traffic } = Ends::of(connection);
        let Some(pod) = self.book.by_zone(connection.zone) else { return };
        let (zone, sends, receives) = (pod.zone, is_of(pod, from), is_of(pod, to));
        let part = Part::Whole;
        if sends && let Some(judgement) = &conversation.egress {
            let question = Question { direction: Direction::Egress, subject: from, peer: to, traffic };
            self.cover_end(Query::Egress { zone, question, part }, question, judgement.region, needed);
        }
        let Some(judgement) = &conversation.ingress else { return };
        let question = Question { direction: Direction::Ingress, subject: to, peer: from, traffic };
        if receives {
            self.cover_end(Query::Ingress { zone, question, part }, question, judgement.region, needed);
        } else if self.book.by_address(to).is_none() && self.world.is_guarded(to) {
            self.cover_end(Query::Peer { zone, question, part }, question, judgement.region, needed);
        }
    }

    fn cover_end(&mut self, query: Query, question: Question, region: Region, needed: &mut BTreeSet<Id>) {
        let before = needed.len();
        needed.extend(self.memory.allowing(&question));
        let covered = needed.len() > before || self.memory.allowing(&question).next().is_some();
        if !covered {
            self.memory.sleep(Dormant { query, region, since: self.walks.number }, &self.world);
        }
    }
}

/// What becomes of a connection.
enum Fate {
    /// It is allowed.
    Stays(Box<Conversation>),
    /// Policy has no say in it.
    Exempt,
    /// It is not.
    Forbidden,
}

/// The ends that policy speaks of: a connection whose addresses are changed goes to its real end.
struct Ends {
    from: IpAddr,
    to: IpAddr,
    traffic: Traffic,
}

impl Ends {
    fn of(connection: &Connection) -> Ends {
        let Tuple { protocol, detail, .. } = connection.reply;
        let port = match (protocol, detail) {
            (TCP | UDP, Detail::Ports { source, .. }) => Some(source),
            // The tracker may not know it.
            (SCTP, Detail::Ports { source, .. }) => Some(source).filter(|port| *port != 0),
            _ => None,
        };
        Ends {
            from: connection.original.source,
            to: connection.reply.source,
            traffic: Traffic { protocol, port },
        }
    }
}

fn is_of(pod: &LocalPod, address: IpAddr) -> bool {
    pod.addresses.contains(&address)
}
