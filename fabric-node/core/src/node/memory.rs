//! The learned flows that the switch should hold, with the query that each answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use openflow::{Flow, FlowKey};
use policy::Change;

use crate::pipeline::learned::Query;
use crate::pipeline::vocabulary::Kind;

/// One learned flow.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    pub query: Query,
    pub flow: Flow,
    /// Zone of the pod whose packets made the agent ask, and whose limit it counts against.
    pub asker: Option<u16>,
    /// When it was last sent to the switch; `None` for one that was found there.
    pub sent: Option<Instant>,
    /// Packets at the last dump.
    pub packets: u64,
    /// When a dump last showed that packets had come, or it was made.
    pub used: Instant,
}

impl Learned {
    /// A flow that goes to the switch now.
    pub fn sent(query: Query, flow: Flow, asker: Option<u16>, now: Instant) -> Learned {
        let asker = zone(&query).or(asker);
        Learned { query, flow, asker, sent: Some(now), packets: 0, used: now }
    }

    /// A flow that was found in the switch.
    pub fn found(query: Query, flow: Flow, packets: u64, now: Instant) -> Learned {
        let asker = zone(&query);
        Learned { query, flow, asker, sent: None, packets, used: now }
    }

    /// Whether it goes with its pod: a way or the source behind a tunnel serves others too.
    fn is_of_pod(&self) -> bool {
        !matches!(self.query, Query::Route { .. } | Query::TunnelSource { .. } | Query::Gate { .. })
    }
}

/// All learned flows. A node may hold 100,000: their keys are kept once for all indices.
#[derive(Debug, Default)]
pub(super) struct Memory {
    flows: BTreeMap<Arc<FlowKey>, Learned>,
    by_address: BTreeMap<IpAddr, BTreeSet<Arc<FlowKey>>>,
    /// By the zone of the asking pod, the longest unused first.
    by_zone: BTreeMap<u16, BTreeSet<(Instant, Arc<FlowKey>)>>,
}

impl Memory {
    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, &Learned)> {
        self.flows.iter().map(|(key, learned)| (&**key, learned))
    }

    pub fn get(&self, key: &FlowKey) -> Option<&Learned> {
        self.flows.get(key)
    }

    /// Notes what a dump shows of a flow, and when it was last known to be used; `None` for one that is not remembered.
    pub fn note_packets(&mut self, key: &FlowKey, packets: u64, now: Instant) -> Option<Instant> {
        let (shared, learned) = self.flows.get_key_value(key)?;
        if learned.packets == packets {
            return Some(learned.used);
        }
        let (shared, asker, used) = (Arc::clone(shared), learned.asker, learned.used);
        if let Some(asked) = asker.and_then(|zone| self.by_zone.get_mut(&zone)) {
            asked.remove(&(used, Arc::clone(&shared)));
            asked.insert((now, shared));
        }
        let learned = self.flows.get_mut(key)?;
        learned.packets = packets;
        learned.used = now;
        Some(now)
    }

    pub fn keys(&self) -> Vec<FlowKey> {
        self.flows.keys().map(|key| FlowKey::clone(key)).collect()
    }

    pub fn insert(&mut self, learned: Learned) {
        let key = Arc::new(learned.flow.key());
        self.remove(&key);
        for address in addresses(&learned.query) {
            self.by_address.entry(address).or_default().insert(key.clone());
        }
        if let Some(zone) = learned.asker {
            self.by_zone.entry(zone).or_default().insert((learned.used, Arc::clone(&key)));
        }
        self.flows.insert(key, learned);
    }

    pub fn remove(&mut self, key: &FlowKey) -> Option<Learned> {
        let (shared, learned) = self.flows.remove_entry(key)?;
        for address in addresses(&learned.query) {
            unlist(&mut self.by_address, &address, &shared);
        }
        if let Some(zone) = learned.asker {
            unlist(&mut self.by_zone, &zone, &(learned.used, shared));
        }
        Some(learned)
    }

    /// The flows that go with the pod of a zone.
    pub fn of_zone(&self, zone: u16) -> Vec<FlowKey> {
        let asked = self.by_zone.get(&zone).into_iter().flatten();
        asked
            .filter(|(_, key)| self.flows.get(key).is_some_and(Learned::is_of_pod))
            .map(|(_, key)| FlowKey::clone(key))
            .collect()
    }

    /// How many flows the pod of a zone has made the agent learn.
    pub fn asked_by(&self, zone: u16) -> usize {
        self.by_zone.get(&zone).map_or(0, BTreeSet::len)
    }

    /// Of the flows that the pod of a zone has made the agent learn, the one whose last known use is the longest ago.
    pub fn least_recent(&self, zone: u16) -> Option<FlowKey> {
        let (_, oldest) = self.by_zone.get(&zone)?.first()?;
        Some(FlowKey::clone(oldest))
    }

    /// The flows whose answer a change may alter.
    pub fn concerned(&self, change: &Change) -> Vec<FlowKey> {
        match change {
            Change::Address(address) => self.by_address.get(address).map(copies).unwrap_or_default(),
            Change::Node(_) | Change::Network(_) => self.keys(),
            Change::Pod(_) | Change::Namespace(_) | Change::Policy(_) | Change::Tenants => {
                self.of_kinds(&[Kind::Egress, Kind::Ingress])
            }
            Change::Service(_) | Change::Trace(_) => Vec::new(),
        }
    }

    fn of_kinds(&self, kinds: &[Kind]) -> Vec<FlowKey> {
        self.flows
            .iter()
            .filter(|(_, l)| kinds.contains(&l.query.kind()))
            .map(|(key, _)| FlowKey::clone(key))
            .collect()
    }
}

fn copies(keys: &BTreeSet<Arc<FlowKey>>) -> Vec<FlowKey> {
    keys.iter().map(|key| FlowKey::clone(key)).collect()
}

/// The addresses that the answer to a query depends on.
fn addresses(query: &Query) -> impl Iterator<Item = IpAddr> {
    let (one, other) = match *query {
        Query::TunnelSource { source: address, .. }
        | Query::Route { destination: address }
        | Query::Gate { destination: address }
        | Query::Vacant { destination: address, .. } => (Some(address), None),
        Query::Egress { question, .. }
        | Query::Ingress { question, .. }
        | Query::Peer { question, .. }
        | Query::Ended { question, .. } => (Some(question.subject), Some(question.peer)),
        Query::Related { .. } => (None, None),
    };
    one.into_iter().chain(other)
}

fn zone(query: &Query) -> Option<u16> {
    match *query {
        Query::Egress { zone, .. }
        | Query::Ingress { zone, .. }
        | Query::Peer { zone, .. }
        | Query::Related { zone, .. }
        | Query::Ended { zone, .. } => Some(zone),
        Query::TunnelSource { .. } | Query::Route { .. } | Query::Gate { .. } | Query::Vacant { .. } => None,
    }
}

fn unlist<K: Ord, E: Ord>(index: &mut BTreeMap<K, BTreeSet<E>>, at: &K, entry: &E) {
    if let Some(entries) = index.get_mut(at) {
        entries.remove(entry);
        if entries.is_empty() {
            index.remove(at);
        }
    }
}
