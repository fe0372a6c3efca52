//! A punted packet: answered once, for every table that it still has to cross.

use std::time::{Duration, Instant};

use openflow::message::{FlowRemoved, PacketIn};
use openflow::{FlowKey, FlowMod};

use super::{Command, Node, SwitchCommand};
use crate::pipeline::learned::{Answer, Punt, Query, Verdict, answer};
use crate::pipeline::vocabulary::Cookie;

/// A packet whose other end is not known yet: its claim may be on the way here.
#[derive(Debug)]
pub(super) struct Parked {
    pub until: Instant,
    pub punt: Punt,
    pub packet_in: Box<PacketIn>,
}

/// How long a packet waits for the claim of its other end.
const PARKED_FOR: Duration = Duration::from_millis(300);
/// Packets that may wait for claims; the oldest makes room.
const MOST_PARKED: usize = 256;
/// Packets that may wait for the agent to be up; the oldest makes room.
const MOST_HELD: usize = 1024;
/// A flow sent so recently need not be sent again for another packet of the same conversation.
const JUST_SENT: Duration = Duration::from_secs(1);

impl Node {
    pub(super) fn handle_packet_in(&mut self, packet_in: Box<PacketIn>, now: Instant) {
        if !self.up {
            if self.held_punts.len() >= MOST_HELD {
                self.held_punts.pop_front();
            }
            return self.held_punts.push_back(packet_in);
        }
        match Punt::read(&packet_in) {
            Ok(punt) => self.handle_punt(punt, packet_in, true, now),
            Err(error) => self.counts.unreadable(error),
        }
    }

    fn handle_punt(&mut self, punt: Punt, packet_in: Box<PacketIn>, patient: bool, now: Instant) {
        let Answer { learned, verdict } = answer(&punt, &self.context(), patient);
        if let Verdict::Wait(_) = verdict {
            return self.park(Parked { until: now + PARKED_FOR, punt, packet_in });
        }
        let mut flows = Vec::with_capacity(learned.len());
        for (query, decision) in learned {
            let known = self.memory.get(&decision.flow.key());
            let current = known.is_some_and(|k| k.flow == decision.flow && k.sent + JUST_SENT > now);
            if !current {
                flows.extend(self.make_room(&query));
                self.memory.insert(query, decision.flow.clone(), now);
                flows.push(FlowMod::add(decision.flow));
            }
        }
        self.counts.answered(punt.table, verdict);
        let resume = (verdict == Verdict::Resume).then(|| packet_in.into_resume());
        if resume.is_some() || !flows.is_empty() {
            self.command(Command::Switch(SwitchCommand::Learn { flows, resume }));
        }
    }

    /// A pod at its limit gives up the verdict that it has used least recently.
    fn make_room(&mut self, query: &Query) -> Option<FlowMod> {
        let (Query::Egress { zone, .. } | Query::Ingress { zone, .. }) = query else { return None };
        if self.memory.verdicts(*zone) < self.config.verdicts_per_pod {
            return None;
        }
        let oldest = self.memory.least_recent(*zone)?;
        self.memory.remove(&oldest);
        Some(FlowMod::delete_strict(oldest))
    }

    fn park(&mut self, parked: Parked) {
        if self.parked.len() >= MOST_PARKED {
            self.parked.remove(0);
        }
        self.parked.push(parked);
    }

    /// The world changed: those that waited for it are asked again.
    pub(super) fn retry_parked(&mut self, now: Instant) {
        for parked in std::mem::take(&mut self.parked) {
            match answer(&parked.punt, &self.context(), true).verdict {
                Verdict::Wait(_) => self.parked.push(parked),
                Verdict::Resume | Verdict::Drop => self.handle_punt(parked.punt, parked.packet_in, true, now),
            }
        }
    }

    pub(super) fn expire_parked(&mut self, now: Instant) {
        for parked in std::mem::take(&mut self.parked) {
            if parked.until > now {
                self.parked.push(parked);
            } else {
                self.handle_punt(parked.punt, parked.packet_in, false, now);
            }
        }
    }

    /// Serves the packets that came before the agent was up.
    pub(super) fn serve_held_punts(&mut self, now: Instant) {
        for packet_in in std::mem::take(&mut self.held_punts) {
            self.handle_packet_in(packet_in, now);
        }
    }

    /// A learned flow went by its timeout, or by a deletion of the agent's own, which forgot it already.
    pub(super) fn handle_flow_removed(&mut self, removed: &FlowRemoved) {
        if Cookie(removed.cookie).kind().is_none_or(|kind| !kind.is_learned()) {
            return;
        }
        let key =
            FlowKey { table: removed.table, priority: removed.priority, matches: removed.matches.clone() };
        if self.memory.get(&key).is_some_and(|learned| learned.flow.cookie == removed.cookie) {
            self.memory.remove(&key);
        }
    }
}
