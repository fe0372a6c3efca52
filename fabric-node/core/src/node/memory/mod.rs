//! The learned flows that the switch should hold, with the query that each answers.
//!
//! A verdict whose flow has gone from the switch unused may still have let in connections that live: those that allow
//! stay as *dormant*, without a flow, so that a change of the world finds them.
//!
//! A node may hold 100,000 flows, and every edit of the world asks which of them it concerns. So entries have numbers,
//! and the indices hold numbers: by flow (a hash of what makes a flow the same in a switch), by the addresses that an
//! answer depends on, by the prefix that a verdict covers, by the pod whose limit an entry counts against.

mod concerned;
mod dormant;
mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use openflow::{Flow, FlowKey, Match};
use policy::{Because, Direction, Question, Region, World};

use crate::pipeline::learned::{Decision, Part, Query};

pub(super) use concerned::Concerned;
use concerned::Subjects;
pub(super) use dormant::Dormant;
use peers::Peers;

/// Number of an entry; another one has it once the entry is gone.
pub(super) type Id = u32;

/// One learned flow.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    pub query: Query,
    pub flow: Flow,
    pub reasons: Reasons,
    /// Packets for which the answer is the same, where policy gave it.
    pub region: Option<Region>,
    /// Zone of the pod whose packets made the agent ask, and whose limit it counts against.
    pub asker: Option<u16>,
    /// When it was last sent to the switch; `None` for one that was found there.
    pub sent: Option<Instant>,
    /// Packets at the last dump.
    pub packets: u64,
    /// When a dump last showed that packets had come, or it was made.
    pub used: Instant,
}

/// What was answered, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reasons {
    pub allows: bool,
    /// Shared by all flows for this reason.
    pub because: Option<Arc<Because>>,
    /// Why it would be denied if audit counted.
    pub audit: Option<Arc<Because>>,
}

impl Learned {
    /// A flow that goes to the switch now.
    pub fn sent(
        query: Query,
        decision: Decision,
        reasons: Reasons,
        asker: Option<u16>,
        now: Instant,
    ) -> Learned {
        let asker = zone(&query).or(asker);
        let Decision { flow, region, .. } = decision;
        Learned { query, flow, reasons, region, asker, sent: Some(now), packets: 0, used: now }
    }

    /// A flow that was found in the switch.
    pub fn found(query: Query, decision: Decision, reasons: Reasons, packets: u64, now: Instant) -> Learned {
        Learned { sent: None, packets, ..Learned::sent(query, decision, reasons, None, now) }
    }

    /// Whether it cuts a conversation.
    fn is_cut(&self) -> bool {
        matches!(self.query, Query::Ended { .. })
    }

    /// Whether it goes with its pod: a way or the source behind a tunnel serves others too.
    fn is_of_pod(&self) -> bool {
        !matches!(
            self.query,
            Query::Route { .. } | Query::Wire { .. } | Query::TunnelSource { .. } | Query::Gate { .. }
        )
    }
}

/// An entry of the memory.
#[derive(Debug)]
pub(super) enum Entry {
    /// A flow of the switch.
    Flow(Box<Learned>),
    /// A verdict without one.
    Dormant(Dormant),
}

impl Entry {
    pub fn query(&self) -> &Query {
        match self {
            Entry::Flow(learned) => &learned.query,
            Entry::Dormant(dormant) => &dormant.query,
        }
    }

    /// The packets that it allows by policy.
    pub fn allowed(&self) -> Option<&Region> {
        match self {
            Entry::Flow(learned) if learned.reasons.allows => learned.region.as_ref(),
            Entry::Flow(_) => None,
            Entry::Dormant(dormant) => Some(&dormant.region),
        }
    }

    fn region(&self) -> Option<&Region> {
        match self {
            Entry::Flow(learned) => learned.region.as_ref(),
            Entry::Dormant(dormant) => Some(&dormant.region),
        }
    }
}

/// All learned flows, and the dormant verdicts.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: Vec<Option<Entry>>,
    free: Vec<Id>,
    by_flow: BTreeSet<(u64, Id)>,
    by_address: BTreeSet<(IpAddr, Id)>,
    by_region: BTreeSet<(IpNet, IpAddr, Id)>,
    /// Flows by the zone of the asking pod, the longest unused first.
    by_zone: BTreeMap<u16, BTreeSet<(Instant, Id)>>,
    /// Flows that cut a conversation, by the zone of the pod: they count against no limit, and make no room.
    cuts: BTreeMap<u16, BTreeSet<Id>>,
    dormant: dormant::Index,
    subjects: Subjects,
    /// Addresses that flows say the way to.
    ways: BTreeMap<IpAddr, Way>,
    peers: Peers,
}

/// What is known of the ways to an address.
#[derive(Debug, Default)]
struct Way {
    /// Whether they lead through a gate.
    gated: bool,
    /// Flows that lead there: one for the fabric, one for each segment.
    flows: u32,
}

impl Memory {
    /// The learned flows.
    pub fn iter(&self) -> impl Iterator<Item = &Learned> {
        self.entries.iter().flatten().filter_map(|entry| match entry {
            Entry::Flow(learned) => Some(&**learned),
            Entry::Dormant(_) => None,
        })
    }

    /// Every entry's number.
    pub fn ids(&self) -> impl Iterator<Item = Id> + '_ {
        (0..).zip(&self.entries).filter(|(_, entry)| entry.is_some()).map(|(id, _)| id)
    }

    pub fn entry(&self, id: Id) -> Option<&Entry> {
        self.entries.get(usize::try_from(id).ok()?)?.as_ref()
    }

    fn entry_mut(&mut self, id: Id) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(id).ok()?)?.as_mut()
    }

    fn flow(&self, id: Id) -> Option<&Learned> {
        match self.entry(id)? {
            Entry::Flow(learned) => Some(learned),
            Entry::Dormant(_) => None,
        }
    }

    fn flow_mut(&mut self, id: Id) -> Option<&mut Learned> {
        match self.entry_mut(id)? {
            Entry::Flow(learned) => Some(learned),
            Entry::Dormant(_) => None,
        }
    }

    /// The number of the flow of this key.
    pub fn find(&self, key: &FlowKey) -> Option<Id> {
        self.find_flow(key.table, key.priority, &key.matches)
    }

    /// The number of the flow that is the same in a switch as this one.
    pub fn find_same(&self, flow: &Flow) -> Option<Id> {
        self.find_flow(flow.table, flow.priority, &flow.matches)
    }

    fn find_flow(&self, table: u8, priority: u16, matches: &Match) -> Option<Id> {
        let hash = hash(table, priority, matches);
        let same = |flow: &Flow| flow.table == table && flow.priority == priority && flow.matches == *matches;
        let mut candidates = self.by_flow.range((hash, 0)..=(hash, Id::MAX)).map(|(_, id)| *id);
        candidates.find(|id| self.flow(*id).is_some_and(|learned| same(&learned.flow)))
    }

    pub fn get(&self, key: &FlowKey) -> Option<&Learned> {
        self.flow(self.find(key)?)
    }

    /// The flow that is the same in a switch as this one.
    pub fn get_same(&self, flow: &Flow) -> Option<&Learned> {
        self.flow(self.find_same(flow)?)
    }

    /// Notes what a dump shows of a flow: how many packets have come since the last one, and when it was last known to
    /// be used.
    pub fn note_packets(&mut self, id: Id, packets: u64, now: Instant) -> Option<(u64, Instant)> {
        let learned = self.flow_mut(id)?;
        if learned.packets == packets {
            return Some((0, learned.used));
        }
        let more = packets.saturating_sub(learned.packets);
        let (asker, used) = (learned.asker, learned.used);
        (learned.packets, learned.used) = (packets, now);
        if let Some(asked) = asker.and_then(|zone| self.by_zone.get_mut(&zone)) {
            // What cuts a conversation is not listed.
            if asked.remove(&(used, id)) {
                asked.insert((now, id));
            }
        }
        Some((more, now))
    }

    /// A packet that was counted by itself goes on by this flow.
    pub fn expect_packet(&mut self, flow: &Flow) {
        if let Some(learned) = self.find_same(flow).and_then(|id| self.flow_mut(id)) {
            learned.packets += 1;
        }
    }

    /// The flow is the same as before, and so is the answer but for its words.
    pub fn set_reasons(&mut self, id: Id, reasons: Reasons) {
        if let Some(learned) = self.flow_mut(id) {
            learned.reasons = reasons;
        }
    }

    /// Remembers a flow in place of the one that is the same in a switch, whose counter it takes over as the switch
    /// does.
    pub fn insert(&mut self, mut learned: Learned, world: &World) {
        if let Some(id) = self.find_same(&learned.flow)
            && let Some(Entry::Flow(before)) = self.remove(id)
        {
            learned.packets = learned.packets.max(before.packets);
        }
        self.supersede(&learned);
        let hash = hash(learned.flow.table, learned.flow.priority, &learned.flow.matches);
        let (asker, used) = (learned.asker, learned.used);
        let cuts = learned.is_cut();
        if let Query::Route { destination } | Query::Wire { destination, .. } = learned.query {
            let way = self.ways.entry(destination).or_default();
            way.gated = concerned::is_gated(destination, world);
            way.flows += 1;
        }
        self.peers.enter(&learned.flow);
        let id = self.put(Entry::Flow(Box::new(learned)), world);
        self.by_flow.insert((hash, id));
        if let Some(zone) = asker.filter(|_| cuts) {
            self.cuts.entry(zone).or_default().insert(id);
        } else if let Some(zone) = asker {
            self.by_zone.entry(zone).or_default().insert((used, id));
        }
    }

    fn put(&mut self, entry: Entry, world: &World) -> Id {
        let next = Id::try_from(self.entries.len()).unwrap_or(Id::MAX);
        let id = self.free.pop().unwrap_or(next);
        for (subject, direction) in subjects(entry.query()) {
            self.subjects.enter(subject, direction, world);
        }
        self.by_address.extend(addresses(entry.query()).map(|address| (address, id)));
        self.by_region.extend(covered(&entry).map(|(peer, subject)| (peer, subject, id)));
        match usize::try_from(id).ok().and_then(|at| self.entries.get_mut(at)) {
            Some(slot) => *slot = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        id
    }

    pub fn remove(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.get_mut(usize::try_from(id).ok()?)?.take()?;
        self.free.push(id);
        for (subject, direction) in subjects(entry.query()) {
            self.subjects.leave(subject, direction);
        }
        for address in addresses(entry.query()) {
            self.by_address.remove(&(address, id));
        }
        if let Some((peer, subject)) = covered(&entry) {
            self.by_region.remove(&(peer, subject, id));
        }
        match &entry {
            Entry::Flow(learned) => self.unlist(id, learned),
            Entry::Dormant(dormant) => self.dormant.remove(dormant),
        }
        Some(entry)
    }

    fn unlist(&mut self, id: Id, learned: &Learned) {
        let Flow { table, priority, matches, .. } = &learned.flow;
        self.peers.leave(&learned.flow);
        self.by_flow.remove(&(hash(*table, *priority, matches), id));
        if let Query::Route { destination } | Query::Wire { destination, .. } = learned.query
            && let Some(way) = self.ways.get_mut(&destination)
        {
            way.flows = way.flows.saturating_sub(1);
            if way.flows == 0 {
                self.ways.remove(&destination);
            }
        }
        if let Some(zone) = learned.asker.filter(|_| learned.is_cut())
            && let Some(cuts) = self.cuts.get_mut(&zone)
        {
            cuts.remove(&id);
            if cuts.is_empty() {
                self.cuts.remove(&zone);
            }
        }
        if let Some(zone) = learned.asker
            && let Some(asked) = self.by_zone.get_mut(&zone)
        {
            asked.remove(&(learned.used, id));
            if asked.is_empty() {
                self.by_zone.remove(&zone);
            }
        }
    }

    /// Forgets what goes with the pod of a zone, and gives its flows.
    pub fn forget(&mut self, zone: u16) -> Vec<FlowKey> {
        self.forget_dormant(zone);
        let asked = self.by_zone.get(&zone).into_iter().flatten().map(|(_, id)| *id);
        let cuts = self.cuts.get(&zone).into_iter().flatten().copied();
        let asked: Vec<Id> = asked.chain(cuts).collect();
        let mut keys = Vec::with_capacity(asked.len());
        for id in asked {
            if self.flow(id).is_some_and(Learned::is_of_pod)
                && let Some(Entry::Flow(learned)) = self.remove(id)
            {
                keys.push(learned.flow.key());
            }
        }
        keys
    }

    /// How many flows the pod of a zone has made the agent learn.
    pub fn asked_by(&self, zone: u16) -> usize {
        self.by_zone.get(&zone).map_or(0, BTreeSet::len)
    }

    /// How many conversations of the pod of a zone are cut.
    pub fn cut_in(&self, zone: u16) -> usize {
        self.cuts.get(&zone).map_or(0, BTreeSet::len)
    }

    /// Of the flows that the pod of a zone has made the agent learn, the one whose last known use is the longest ago;
    /// what cuts a conversation stays.
    pub fn least_recent(&self, zone: u16) -> Option<Id> {
        self.by_zone.get(&zone)?.first().map(|(_, id)| *id)
    }
}

fn hash(table: u8, priority: u16, matches: &Match) -> u64 {
    let mut hasher = DefaultHasher::new();
    (table, priority, matches).hash(&mut hasher);
    hasher.finish()
}

/// The addresses whose change alters the answer to a query, beside those of a verdict's region.
fn addresses(query: &Query) -> impl Iterator<Item = IpAddr> + use<> {
    let (one, other) = match *query {
        Query::TunnelSource { source: address, .. }
        | Query::Route { destination: address }
        | Query::Wire { destination: address, .. }
        | Query::Gate { destination: address }
        | Query::Vacant { destination: address, .. } => (Some(address), None),
        Query::Exit { source, destination, .. } => (Some(source), Some(destination)),
        Query::Return { source, pod, .. } => (Some(pod), Some(source)),
        Query::Egress { question, part: Part::Back(_), .. }
        | Query::Ingress { question, part: Part::Back(_), .. }
        | Query::Ended { question, .. } => (Some(question.subject), Some(question.peer)),
        Query::Egress { question, .. } | Query::Ingress { question, .. } | Query::Peer { question, .. } => {
            (Some(question.subject), None)
        }
        Query::Related { .. } => (None, None),
    };
    one.into_iter().chain(other)
}

/// Whose rules, of which direction, the answer to a query comes from. In SCTP that is of both directions, as answers look
/// like new associations; and of both ends, where the flow is for what both allow.
fn subjects(query: &Query) -> impl Iterator<Item = (IpAddr, Direction)> + use<> {
    let (question, part) = match *query {
        Query::Egress { question, part, .. }
        | Query::Ingress { question, part, .. }
        | Query::Peer { question, part, .. } => (Some(question), part),
        Query::Ended { question, .. } => (Some(question), Part::Whole),
        Query::TunnelSource { .. }
        | Query::Route { .. }
        | Query::Exit { .. }
        | Query::Return { .. }
        | Query::Wire { .. }
        | Query::Gate { .. }
        | Query::Vacant { .. }
        | Query::Related { .. } => (None, Part::Whole),
    };
    // A flow for a sender does not depend on its rules, but the connections that came by it do.
    let sender = match *query {
        Query::TunnelSource { source, .. } => Some((source, Direction::Egress)),
        _ => None,
    };
    let answers = matches!(part, Part::There(_) | Part::Back(_));
    let both = matches!(part, Part::Back(_)) || matches!(query, Query::Ended { .. });
    let of_question = question.into_iter().flat_map(move |Question { direction, subject, peer, .. }| {
        let opposite = match direction {
            Direction::Egress => Direction::Ingress,
            Direction::Ingress => Direction::Egress,
        };
        let own = answers.then_some((subject, opposite));
        let other = both.then_some((peer, opposite));
        std::iter::once((subject, direction)).chain(own).chain(other)
    });
    sender.into_iter().chain(of_question)
}

/// The prefix that a verdict covers, and of whom it is.
fn covered(entry: &Entry) -> Option<(IpNet, IpAddr)> {
    let (subject, _) = subjects(entry.query()).next()?;
    Some((entry.region()?.peer, subject))
}

/// The zone that a query is of.
pub(super) fn zone(query: &Query) -> Option<u16> {
    match *query {
        Query::Egress { zone, .. }
        | Query::Ingress { zone, .. }
        | Query::Peer { zone, .. }
        | Query::Related { zone, .. }
        | Query::Ended { zone, .. } => Some(zone),
        Query::TunnelSource { .. }
        | Query::Route { .. }
        | Query::Exit { .. }
        | Query::Return { .. }
        | Query::Wire { .. }
        | Query::Gate { .. }
        | Query::Vacant { .. } => None,
    }
}
