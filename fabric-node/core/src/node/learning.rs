//! A punted packet: answered once, for every table that it still has to cross.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::message::{FlowRemoved, PacketIn, RemovedReason};
use openflow::{FlowKey, FlowMod};
use policy::{Direction, Question, Resident};

use super::memory::Learned;
use super::parked::Parked;
use super::{Command, Node, SwitchCommand};
use crate::pipeline::learned::{Answer, Denied, Pods, Punt, Tuple, Verdict, answer};
use crate::pipeline::vocabulary::{CLAIMED, Cookie, OVERSIZE, Origin, PROBED, Table, octets, stable_id};

/// How long a packet waits for the claim of its other end.
const PARKED_FOR: Duration = Duration::from_millis(300);
/// Packets that may wait for the agent to be up; the oldest makes room.
const MOST_HELD: usize = 1024;
/// A flow sent so recently need not be sent again for another packet of the same conversation.
const JUST_SENT: Duration = Duration::from_secs(1);

impl Node {
    pub(super) fn handle_packet_in(&mut self, packet_in: Box<PacketIn>, now: Instant) {
        if Denied::is_copy(&packet_in) {
            match Denied::read(&packet_in) {
                Ok(denied) => self.tell_of_copy(&denied),
                Err(error) => self.counts.unreadable(error),
            }
            return;
        }
        match packet_in.userdata.first() {
            Some(&PROBED) => return self.heard(&packet_in, now),
            Some(&CLAIMED) => return self.claimed_on_wire(&packet_in, now),
            Some(&OVERSIZE) => return self.tell_too_big(&packet_in),
            _ => {}
        }
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
        let Answer { learned, mut verdict } = answer(&punt, &self.context(), patient);
        if let Verdict::Wait(_) = verdict {
            return self.park(punt, packet_in, now);
        }
        let past_egress = punt.asks_peer || matches!(punt.table, Table::Route | Table::Ingress);
        match punt.origin {
            _ if verdict != Verdict::Resume => {}
            // Its end allowed it before, and the packet would commit the conversation.
            Origin::Pod if past_egress && self.sender_forbids(&punt) => verdict = Verdict::Drop,
            // Its node has not heard yet of what it will end.
            Origin::Tunnel | Origin::Physical if self.sender_forbids(&punt) => self.want_echoes(now),
            _ => {}
        }
        let asker = self.asker(&punt);
        let mut flows = Vec::with_capacity(learned.len());
        for (query, decision) in learned {
            let reasons = self.tallies.reasons(&decision);
            let known = self.memory.get_same(&decision.flow);
            let current = known.is_some_and(|known| {
                known.flow == decision.flow && known.sent.is_some_and(|sent| sent + JUST_SENT > now)
            });
            // A further packet of a conversation that was allowed is no further conversation.
            if !(current && reasons.allows) {
                self.count_answer(&query, &reasons, verdict);
            }
            let counted = !current && reasons.audit.is_some() && verdict == Verdict::Resume;
            let flow = decision.flow.clone();
            if !current {
                let learned = Learned::sent(query, decision, reasons, asker, now);
                flows.extend(self.make_room(learned.asker));
                self.memory.insert(learned, &self.world);
                flows.push(FlowMod::add(flow.clone()));
            }
            if counted {
                self.memory.expect_packet(&flow);
            }
        }
        self.counts.answered(punt.table, verdict);
        let resume = (verdict == Verdict::Resume).then(|| packet_in.into_resume());
        self.deletions.note(&flows);
        if resume.is_some() || !flows.is_empty() {
            self.command(Command::Switch(SwitchCommand::Learn { flows, resume }));
        }
    }

    /// Whether the sender's end forbids by now what some flow or node has let pass there.
    fn sender_forbids(&self, punt: &Punt) -> bool {
        let Tuple { source, destination, traffic, .. } = punt.tuple;
        let question = Question { direction: Direction::Egress, subject: source, peer: destination, traffic };
        let opens = !punt.tracked.reply && !punt.tracked.related;
        let has_rules = !matches!(self.world.resident(source), Resident::Nobody | Resident::Node(_));
        opens && has_rules && self.world.judge(&question).verdict == policy::Verdict::Deny
    }

    /// Whose limit a punt counts against: the pod that sends, or the one that a tunnel brings something to; for what leaves
    /// here of other nodes' pods, each of those.
    fn asker(&self, punt: &Punt) -> Option<u16> {
        let sender = self.book.by_port(punt.in_port);
        let pod = sender.or_else(|| self.book.by_address(punt.tuple.destination)).map(|pod| pod.zone);
        pod.or_else(|| (punt.origin == Origin::Tunnel).then(|| remote_asker(punt.tuple.source)))
    }

    /// A pod at its limit gives up the flow that it has used least recently.
    pub(super) fn make_room(&mut self, asker: Option<u16>) -> Option<FlowMod> {
        let zone = asker?;
        if self.memory.asked_by(zone) < self.config.learned_per_pod {
            return None;
        }
        let oldest = self.memory.least_recent(zone)?;
        let learned = self.memory.retire(oldest, self.walks.number, &self.world)?;
        Some(FlowMod::delete_strict(learned.flow.key()))
    }

    /// Lets a packet wait. A pod that has many waiting gets the answer for the oldest at once.
    fn park(&mut self, punt: Punt, packet_in: Box<PacketIn>, now: Instant) {
        self.counts.waiting(punt.table);
        let asker = self.asker(&punt).ok_or(punt.in_port);
        let evicted = self.parked.park(Parked { asker, until: now + PARKED_FOR, punt, packet_in });
        if let Some(Parked { punt, packet_in, .. }) = evicted {
            self.handle_punt(punt, packet_in, false, now);
        }
    }

    /// The world changed: those that waited for it are asked again.
    pub(super) fn retry_parked(&mut self, now: Instant) {
        for parked in std::mem::take(&mut self.parked) {
            match answer(&parked.punt, &self.context(), true).verdict {
                // As many as have waited before: nobody makes room.
                Verdict::Wait(_) => drop(self.parked.park(parked)),
                Verdict::Resume | Verdict::Drop => self.handle_punt(parked.punt, parked.packet_in, true, now),
            }
        }
    }

    pub(super) fn expire_parked(&mut self, now: Instant) {
        while let Some(Parked { punt, packet_in, .. }) = self.parked.take_due(now) {
            self.handle_punt(punt, packet_in, false, now);
        }
    }

    /// Serves the packets that came before the agent was up.
    pub(super) fn serve_held_punts(&mut self, now: Instant) {
        for packet_in in std::mem::take(&mut self.held_punts) {
            self.handle_packet_in(packet_in, now);
        }
    }

    /// A learned flow is gone: it timed out, or somebody deleted it. What the agent deletes it forgets by itself.
    pub(super) fn handle_flow_removed(&mut self, removed: &FlowRemoved, now: Instant) {
        if Cookie(removed.cookie).kind().is_none_or(|kind| !kind.is_learned()) {
            return;
        }
        let key =
            FlowKey { table: removed.table, priority: removed.priority, matches: removed.matches.clone() };
        let timed_out = matches!(removed.reason, RemovedReason::Idle | RemovedReason::Hard);
        if !timed_out && self.deletions.confirm(&key) {
            return;
        }
        let Some(id) = self.memory.find(&key) else { return };
        if self.memory.get(&key).is_some_and(|learned| learned.flow.cookie == removed.cookie) {
            self.count_packets(id, removed.packets, now);
            self.memory.retire(id, self.walks.number, &self.world);
        }
    }
}

/// Stands for a pod of another node where the zones of this node's pods stand, above all of them.
fn remote_asker(source: IpAddr) -> u16 {
    let [.., high, low] = stable_id(&[b"remote", &octets(source)]).to_be_bytes();
    u16::from_be_bytes([high, low]) | 0x8000
}
