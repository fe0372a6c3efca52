//! Forbidden connections are cut and ended.
//!
//! A conversation of TCP or UDP is cut by a flow first ([`Query::Ended`]): connection tracking would take what the
//! receiver still sends for a conversation that the receiver opens. Then the switch forgets the connections, in the zones
//! of both ends. What it cannot forget one by one goes with its whole zone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use openflow::FlowMod;
use policy::{Direction, Question};

use super::{AGAIN, Ends, Fate, Stage};
use crate::node::memory::Learned;
use crate::node::{Command, Connection, Errand, Node, SwitchCommand, Task};
use crate::pipeline::learned::{Pods, Query, decide};
use crate::pipeline::protocols::{ICMPV6, TCP, UDP};

/// Conversations of a pod that are cut at once, and ended one by one: with more its zone is emptied, or the switch would
/// do nothing else for seconds.
const MOST_CUTS: usize = 1024;

/// Connections that are to end: of a zone no more than tell that it is to be emptied, since each is judged again before
/// it ends.
#[derive(Debug, Default)]
pub(super) struct Forbidden {
    connections: Vec<Connection>,
    of_zones: BTreeMap<u16, usize>,
}

impl Forbidden {
    pub fn note(&mut self, connection: Connection) {
        let count = self.of_zones.entry(connection.zone).or_default();
        if *count <= MOST_CUTS {
            *count += 1;
            self.connections.push(connection);
        }
    }
}

impl Node {
    /// Cuts what is forbidden, and then ends it.
    pub(super) fn cut_connections(&mut self, forbidden: Forbidden, now: Instant) {
        // The world may have changed since they were judged.
        let forbidden = self.still_forbidden(forbidden.connections);
        let mut flows = Vec::new();
        for connection in &forbidden {
            if self.memory.cut_in(connection.zone) < MOST_CUTS
                && let Some(query) = self.cut(connection)
                && let Some(decision) = decide(&query, &self.context())
            {
                let reasons = self.tallies.reasons(&decision);
                let flow = decision.flow.clone();
                let learned = Learned::sent(query, decision, reasons, None, now);
                self.memory.insert(learned, &self.world);
                flows.push(FlowMod::add(flow));
            }
        }
        if flows.is_empty() || !self.up {
            return self.end_connections(forbidden);
        }
        self.deletions.note(&flows);
        let task = self.errand(Errand::Cut);
        self.walks.stage = Stage::Cutting { task, forbidden };
        self.command(Command::Switch(SwitchCommand::Commit { task, meters: vec![], flows }));
    }

    /// The flows that cut are in place.
    pub(in crate::node) fn connections_cut(&mut self, task: Task, result: Result<(), String>, now: Instant) {
        let Stage::Cutting { forbidden, .. } = self.walks.take(|stage| stage.awaits(task)) else { return };
        if result.is_err() {
            self.doubt(now);
        }
        let forbidden = self.still_forbidden(forbidden);
        self.end_connections(forbidden);
    }

    fn still_forbidden(&mut self, connections: Vec<Connection>) -> Vec<Connection> {
        let before = crowded(&connections);
        let still = |connection: &Connection| matches!(self.judge_connection(connection), Fate::Forbidden);
        let forbidden: Vec<Connection> = connections.into_iter().filter(still).collect();
        // Not all that are forbidden in these were noted.
        let unsure: Vec<u16> = before.difference(&crowded(&forbidden)).copied().collect();
        self.want_walk(unsure);
        forbidden
    }

    fn end_connections(&mut self, forbidden: Vec<Connection>) {
        let crowded = crowded(&forbidden);
        let alone =
            |connection: &Connection| !crowded.contains(&connection.zone) && self.can_end_alone(connection);
        let (alone, with_zone): (Vec<_>, Vec<_>) = forbidden.into_iter().partition(alone);
        self.empty_zones(with_zone.into_iter().map(|connection| connection.zone).collect());
        if alone.is_empty() {
            return;
        }
        let other_ends: Vec<Connection> =
            alone.iter().filter_map(|connection| self.at_the_other_end(connection)).collect();
        let connections: BTreeSet<Connection> = alone.into_iter().chain(other_ends).collect();
        let zones = connections.iter().map(|connection| connection.zone).collect();
        let task = self.errand(Errand::EndConnections);
        self.walks.stage = Stage::Ending { task, zones };
        let connections = connections.into_iter().collect();
        self.command(Command::Switch(SwitchCommand::EndConnections { task, connections }));
    }

    pub(in crate::node) fn connections_ended(&mut self, task: Task, result: Result<(), String>) {
        let Stage::Ending { zones, .. } = self.walks.take(|stage| stage.awaits(task)) else { return };
        if let Err(error) = result {
            self.walks.problem = Some(error);
            self.empty_zones(zones);
        }
    }

    /// Ends every connection of these zones.
    pub(super) fn empty_zones(&mut self, zones: BTreeSet<u16>) {
        for zone in zones {
            let task = self.errand(Errand::EmptyZone { zone });
            self.command(Command::Switch(SwitchCommand::FlushZone { task, zone }));
        }
    }

    /// A zone that could not be emptied is read again, and so on.
    pub(in crate::node) fn zone_emptied(&mut self, zone: u16, result: Result<(), String>, now: Instant) {
        if let Err(error) = result {
            self.walks.problem = Some(error);
            self.walks.again = Some(now + AGAIN);
            self.want_walk([zone]);
        }
    }

    /// The userspace datapath of Open vSwitch 3.1 dies when one ICMPv6 connection is to be forgotten: it takes the type
    /// for one of ICMP.
    fn can_end_alone(&self, connection: &Connection) -> bool {
        connection.original.protocol != ICMPV6 || !self.config.software_checksums
    }

    /// The same conversation in the zone of the other pod, where that is of this node as well.
    fn at_the_other_end(&self, connection: &Connection) -> Option<Connection> {
        let ends = Ends::of(connection);
        let zones = [ends.from, ends.to].map(|end| self.book.by_address(end).map(|pod| pod.zone));
        let zone = zones.into_iter().flatten().find(|zone| *zone != connection.zone)?;
        Some(Connection { zone, ..*connection })
    }

    /// The query of the flow that keeps what the receiver still sends from opening the conversation anew.
    fn cut(&self, connection: &Connection) -> Option<Query> {
        let pod = self.book.by_zone(connection.zone)?;
        let Ends { from, to, traffic } = Ends::of(connection);
        let cuts = matches!(traffic.protocol, TCP | UDP);
        let source_port = connection.original.source_port().filter(|_| cuts)?;
        let (direction, subject, peer) = if pod.addresses.contains(&from) {
            (Direction::Egress, from, to)
        } else if pod.addresses.contains(&to) {
            (Direction::Ingress, to, from)
        } else {
            return None;
        };
        let question = Question { direction, subject, peer, traffic };
        Some(Query::Ended { zone: pod.zone, question, source_port })
    }
}

/// The zones with more connections here than are ended one by one.
fn crowded(connections: &[Connection]) -> BTreeSet<u16> {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for connection in connections {
        *counts.entry(connection.zone).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > MOST_CUTS).map(|(zone, _)| zone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Detail, Tuple};

    #[test]
    fn of_a_zone_no_more_are_noted_than_tell_that_it_is_crowded() {
        let mut forbidden = Forbidden::default();
        for n in 0..65_536_u32 {
            let source = std::net::Ipv4Addr::from(n).into();
            let detail = Detail::Ports { source: 1, destination: 2 };
            let tuple = Tuple { source, destination: source, protocol: TCP, detail };
            let zone = if n < 3 { 2 } else { 1 };
            forbidden.note(Connection { zone, original: tuple, reply: tuple, mark: 1, label: 0 });
        }
        assert_eq!(forbidden.connections.len(), 3 + MOST_CUTS + 1);
        assert_eq!(crowded(&forbidden.connections), BTreeSet::from([1]));
    }
}
