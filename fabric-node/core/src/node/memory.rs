//! The learned flows that the switch should hold, with the query that each answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
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
    /// When it was last sent to the switch.
    pub sent: Instant,
    /// Packets at the last dump.
    pub packets: u64,
    /// When a dump last showed that packets had come, or it was made.
    pub used: Instant,
}

/// All learned flows.
#[derive(Debug, Default)]
pub(super) struct Memory {
    flows: BTreeMap<FlowKey, Learned>,
    by_address: BTreeMap<IpAddr, BTreeSet<FlowKey>>,
    by_zone: BTreeMap<u16, BTreeSet<FlowKey>>,
}

impl Memory {
    pub fn iter(&self) -> impl Iterator<Item = (&FlowKey, &Learned)> {
        self.flows.iter()
    }

    pub fn get(&self, key: &FlowKey) -> Option<&Learned> {
        self.flows.get(key)
    }

    pub fn get_mut(&mut self, key: &FlowKey) -> Option<&mut Learned> {
        self.flows.get_mut(key)
    }

    pub fn keys(&self) -> Vec<FlowKey> {
        self.flows.keys().cloned().collect()
    }

    pub fn insert(&mut self, query: Query, flow: Flow, now: Instant) {
        let key = flow.key();
        self.remove(&key);
        for address in addresses(&query) {
            self.by_address.entry(address).or_default().insert(key.clone());
        }
        if let Some(zone) = zone(&query) {
            self.by_zone.entry(zone).or_default().insert(key.clone());
        }
        self.flows.insert(key, Learned { query, flow, sent: now, packets: 0, used: now });
    }

    pub fn remove(&mut self, key: &FlowKey) -> Option<Learned> {
        let learned = self.flows.remove(key)?;
        for address in addresses(&learned.query) {
            unlist(&mut self.by_address, &address, key);
        }
        if let Some(zone) = zone(&learned.query) {
            unlist(&mut self.by_zone, &zone, key);
        }
        Some(learned)
    }

    /// The verdicts of the pod of a zone.
    pub fn of_zone(&self, zone: u16) -> Vec<FlowKey> {
        self.by_zone.get(&zone).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
    }

    /// How many verdicts the pod of a zone holds.
    pub fn verdicts(&self, zone: u16) -> usize {
        self.by_zone.get(&zone).map_or(0, BTreeSet::len)
    }

    /// The verdict of the pod of a zone whose last known use is the longest ago.
    pub fn least_recent(&self, zone: u16) -> Option<FlowKey> {
        let keys = self.by_zone.get(&zone)?;
        keys.iter().min_by_key(|key| self.flows.get(*key).map(|learned| learned.used)).cloned()
    }

    /// The flows whose answer a change may alter.
    pub fn concerned(&self, change: &Change) -> Vec<FlowKey> {
        match change {
            Change::Address(address) => {
                self.by_address.get(address).map(|keys| keys.iter().cloned().collect()).unwrap_or_default()
            }
            Change::Node(_) | Change::Network(_) => self.keys(),
            Change::Pod(_) | Change::Namespace(_) | Change::Policy(_) => {
                self.of_kinds(&[Kind::Egress, Kind::Ingress])
            }
            Change::Service(_) | Change::Trace(_) => Vec::new(),
        }
    }

    fn of_kinds(&self, kinds: &[Kind]) -> Vec<FlowKey> {
        self.flows
            .iter()
            .filter(|(_, l)| kinds.contains(&l.query.kind()))
            .map(|(key, _)| key.clone())
            .collect()
    }
}

/// The addresses that the answer to a query depends on.
fn addresses(query: &Query) -> BTreeSet<IpAddr> {
    match *query {
        Query::TunnelSource { source: address, .. }
        | Query::Route { destination: address }
        | Query::Vacant { destination: address, .. } => BTreeSet::from([address]),
        Query::Egress { question, .. } | Query::Ingress { question, .. } => {
            BTreeSet::from([question.subject, question.peer])
        }
    }
}

fn zone(query: &Query) -> Option<u16> {
    match *query {
        Query::Egress { zone, .. } | Query::Ingress { zone, .. } => Some(zone),
        Query::TunnelSource { .. } | Query::Route { .. } | Query::Vacant { .. } => None,
    }
}

fn unlist<K: Ord>(index: &mut BTreeMap<K, BTreeSet<FlowKey>>, at: &K, key: &FlowKey) {
    if let Some(keys) = index.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}
