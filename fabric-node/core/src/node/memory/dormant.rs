//! Verdicts that allow, without a flow in the switch: connections that they let in may live.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use policy::region::prefix_lengths;
use policy::{Direction, Family, Question, Region, World};

use super::{Entry, Id, Learned, Memory, subjects, zone};
use crate::pipeline::learned::{Part, Query};

/// Dormant verdicts of one pod. A pod that has let in connections by more is walked at every change.
const MOST: usize = 1024;

/// A verdict that allows and has no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dormant {
    pub query: Query,
    /// The packets that it allowed.
    pub region: Region,
    /// The walk before which it was put to sleep: connections that a walk before that read say nothing about it.
    pub since: u64,
}

/// What two verdicts of a zone have in common that allow the same: subject, direction and packets.
type Same = (Direction, IpAddr, Region);

fn key(query: &Query, region: &Region) -> Option<(u16, Same)> {
    let (subject, direction) = subjects(query).next()?;
    Some((zone(query)?, (direction, subject, *region)))
}

/// Dormant verdicts by zone, and the zones that have more than are remembered.
#[derive(Debug, Default)]
pub(super) struct Index {
    ids: BTreeMap<u16, BTreeMap<Same, Id>>,
    overfull: BTreeSet<u16>,
}

impl Index {
    pub fn remove(&mut self, dormant: &Dormant) {
        let Some((zone, same)) = key(&dormant.query, &dormant.region) else { return };
        let Some(ids) = self.ids.get_mut(&zone) else { return };
        ids.remove(&same);
        if ids.is_empty() {
            self.ids.remove(&zone);
        }
    }

    fn find(&self, query: &Query, region: &Region) -> Option<Id> {
        let (zone, same) = key(query, region)?;
        self.ids.get(&zone)?.get(&same).copied()
    }

    fn of_zone(&self, zone: u16) -> Vec<Id> {
        self.ids.get(&zone).into_iter().flat_map(BTreeMap::values).copied().collect()
    }
}

/// Whether every packet of the conversation is judged, so that none lives on without its flow.
fn is_by_packet(query: &Query) -> bool {
    let (Query::Egress { part, .. } | Query::Ingress { part, .. } | Query::Peer { part, .. }) = query else {
        return false;
    };
    matches!(part, Part::There(_) | Part::Back(_))
}

impl Memory {
    /// A flow has gone from the switch without the agent's doing, or makes room: where it has let connections in, its
    /// verdict stays.
    pub fn retire(&mut self, id: Id, walk: u64, world: &World) -> Option<Learned> {
        let Some(Entry::Flow(learned)) = self.remove(id) else { return None };
        if learned.reasons.allows
            && let Some(region) = learned.region
            && !is_by_packet(&learned.query)
        {
            self.sleep(Dormant { query: learned.query, region, since: walk }, world);
        }
        Some(*learned)
    }

    /// Remembers a verdict without a flow.
    pub fn sleep(&mut self, dormant: Dormant, world: &World) {
        let Some((zone, same)) = key(&dormant.query, &dormant.region) else { return };
        if let Some(id) = self.dormant.find(&dormant.query, &dormant.region) {
            if let Some(Entry::Dormant(known)) = self.entry_mut(id) {
                known.since = known.since.max(dormant.since);
            }
        } else if self.dormant.ids.get(&zone).is_some_and(|ids| ids.len() >= MOST) {
            self.dormant.overfull.insert(zone);
        } else {
            let id = self.put(Entry::Dormant(dormant), world);
            self.dormant.ids.entry(zone).or_default().insert(same, id);
        }
    }

    /// A flow says the same as a dormant verdict, and takes its place.
    pub(super) fn supersede(&mut self, learned: &Learned) {
        if learned.reasons.allows
            && let Some(region) = &learned.region
            && let Some(id) = self.dormant.find(&learned.query, region)
        {
            self.remove(id);
        }
    }

    pub(super) fn forget_dormant(&mut self, zone: u16) {
        for id in self.dormant.of_zone(zone) {
            self.remove(id);
        }
        self.dormant.overfull.remove(&zone);
    }

    /// The entries that allow this conversation at the subject's end.
    pub fn allowing(&self, question: &Question) -> impl Iterator<Item = Id> + '_ {
        let question = *question;
        let (subject, direction) = (question.subject, question.direction);
        prefix_lengths(Family::of(question.peer)).into_iter().flat_map(move |length| {
            let prefix = policy::address::prefix(question.peer, length);
            let same = self.by_region.range((prefix, subject, 0)..=(prefix, subject, Id::MAX));
            same.map(|(_, _, id)| *id).filter(move |id| {
                self.entry(*id).is_some_and(|entry| {
                    entry.allowed().is_some_and(|region| region.contains(&question))
                        && subjects(entry.query()).next() == Some((subject, direction))
                })
            })
        })
    }

    /// The zones of which more verdicts allowed connections than are remembered.
    pub fn overfull(&self) -> &BTreeSet<u16> {
        &self.dormant.overfull
    }

    /// A walk begins that looks at all connections of the zone: it fills up what is missing.
    pub fn fill(&mut self, zone: u16) {
        self.dormant.overfull.remove(&zone);
    }

    /// A walk has seen all connections of a zone: the verdicts that were dormant when it began and that none of them
    /// needs go.
    pub fn clear_dormant(&mut self, zone: u16, needed: &BTreeSet<Id>, walk: u64) {
        for id in self.dormant.of_zone(zone) {
            let old = matches!(self.entry(id), Some(Entry::Dormant(dormant)) if dormant.since < walk);
            if old && !needed.contains(&id) {
                self.remove(id);
            }
        }
    }

    /// How many verdicts are dormant.
    pub fn dormant(&self) -> usize {
        self.dormant.ids.values().map(BTreeMap::len).sum()
    }
}
