//! Compare with a dump: the one path for start, restart, reconnect and repair.
//!
//! What the switch should hold is the static flows and the learned ones that the agent
//! remembers. A learned flow in the dump that it does not remember is from an earlier
//! run: it is judged again, and kept untouched where the answer is the same flow.

use std::time::{Duration, Instant};

use openflow::{Flow, FlowMod, FlowStats, FlowTable};

use super::book::Stage;
use super::memory::{Entry, Id, Learned};
use super::wires::Resize;
use super::{Command, Errand, Node, SwitchCommand, Task};
use crate::pipeline::learned::{decide, revive};
use crate::pipeline::statics::{forget_meters_of, node_flows, pod_flows, static_meters};
use crate::pipeline::vocabulary::VERDICT_IDLE_SECONDS;

/// How long after a first doubt the switch is read again; the delay doubles while it does not help.
const DOUBT_DELAY: Duration = Duration::from_millis(200);
/// How often it doubles: 25.6 s at most.
const MOST_DOUBLINGS: u32 = 7;
/// How often a compare that is due waits for the one under way.
const BUSY_DELAY: Duration = Duration::from_secs(1);

/// Whether the switch is known to hold what it should.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// It does, as far as is known.
    #[default]
    Sure,
    /// Something may be other than it should, and no compare has begun since.
    Doubted,
    /// The compare that has begun will tell.
    Comparing,
}

impl Node {
    /// Starts the first compare once everything that it needs is there.
    pub(super) fn start_if_complete(&mut self, now: Instant) {
        let known = self.world.node(&self.config.node).is_some();
        if !self.up && self.world_synced && known && self.ports_ready && self.switch_connected {
            self.request_dump(now);
        }
    }

    /// Something may be other than it should: the switch is to be read again soon.
    pub(super) fn doubt(&mut self, now: Instant) {
        if self.switch_connected {
            let soon = now + DOUBT_DELAY * (1 << self.failures.min(MOST_DOUBLINGS));
            self.next_reconcile = Some(self.next_reconcile.map_or(soon, |at| at.min(soon)));
            self.trust = Trust::Doubted;
        }
    }

    /// A compare has brought the switch in line.
    pub(super) fn in_line(&mut self) {
        self.failures = 0;
        if self.trust == Trust::Comparing && self.dumping.is_none() {
            self.trust = Trust::Sure;
        }
    }

    /// A compare has not.
    pub(super) fn not_in_line(&mut self, now: Instant) {
        self.doubt(now);
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn request_dump(&mut self, now: Instant) {
        if !self.ports_ready {
            // Comes back with the database.
            self.next_reconcile = None;
            return;
        }
        if self.dumping.is_some() {
            self.next_reconcile = self.up.then(|| now + BUSY_DELAY);
            return;
        }
        self.next_reconcile = None;
        let task = self.errand(Errand::Dump);
        self.dumping = Some((task, now));
        if self.trust == Trust::Doubted {
            self.trust = Trust::Comparing;
        }
        self.command(Command::Switch(SwitchCommand::Dump { task }));
    }

    pub(super) fn dumped(&mut self, task: Task, result: Result<Vec<FlowStats>, String>, now: Instant) {
        let Some((_, asked)) = self.dumping.filter(|(under_way, _)| *under_way == task) else { return };
        self.dumping = None;
        let Ok(dump) = result else { return self.not_in_line(now) };
        if !self.ports_ready {
            return;
        }
        self.deletions.next_round();
        self.remember(&dump, now);
        let first = !self.up;
        self.bring_in_line(dump, asked, now);
        self.next_reconcile = Some(now + self.config.reconcile_every);
        self.sweep_claims();
        self.remove_orphans();
        if first {
            self.serve_held(now);
            self.serve_held_punts(now);
        }
    }

    /// Adopts the learned flows of the dump that still hold, and forgets those without a timeout that are long unused.
    fn remember(&mut self, dump: &[FlowStats], now: Instant) {
        let idle = Duration::from_secs(u64::from(VERDICT_IDLE_SECONDS));
        if !self.up {
            // What was remembered while the switch was away is judged again before it goes back.
            self.judge_all(now);
        }
        for stats in dump {
            let flow = &stats.flow;
            if let Some(id) = self.memory.find_same(flow) {
                let used = self.count_packets(id, stats.packets, now);
                let stays = flow.idle_timeout > 0 || flow.hard_timeout > 0;
                if !stays && used.is_some_and(|used| used + idle <= now) {
                    self.memory.remove(id);
                }
                continue;
            }
            let Some(query) = revive(flow, &self.book) else { continue };
            if let Some(decision) = decide(&query, &self.context()).filter(|decision| decision.flow == *flow)
            {
                let reasons = self.tallies.reasons(&decision);
                let learned = Learned::found(query, decision, reasons, stats.packets, now);
                self.memory.insert(learned, &self.world);
            }
        }
    }

    /// Counts the packets that a flow has taken since it was last looked at; when it was last known to be used.
    pub(super) fn count_packets(&mut self, id: Id, packets: u64, now: Instant) -> Option<Instant> {
        let (more, used) = self.memory.note_packets(id, packets, now)?;
        if let Some(Entry::Flow(learned)) = self.memory.entry(id) {
            self.tallies.count(&learned.reasons, more);
        }
        Some(used)
    }

    /// Sends the difference between the dump and what should be there, and is up.
    fn bring_in_line(&mut self, dump: Vec<FlowStats>, asked: Instant, now: Instant) {
        let installed: FlowTable = dump.into_iter().map(|stats| stats.flow).collect();
        self.forget_expired(&installed, asked);
        self.node_flows = node_flows(&self.site, &self.world, self.book.pods()).into_iter().collect();
        let pods: Vec<Flow> = self.book.pods().flat_map(|pod| pod_flows(&self.site, pod)).collect();
        let probes = [self.flows_of_probes(), self.flows_of_conflicts(now)].concat();
        let learned = self.memory.iter().map(|learned| &learned.flow);
        let flows = installed.to_become(self.node_flows.iter().chain(&pods).chain(&probes).chain(learned));
        let first = !self.up;
        self.up = true;
        if first {
            self.limit_all();
        }
        if first || !flows.is_empty() {
            // Flows that nobody knows of may have let connections in.
            self.want_whole_walk();
            self.commit_with_meters(flows);
        } else {
            self.in_line();
            self.look_at_all();
        }
        self.forget_stale_meters();
        self.confirm_installing(now);
        self.refresh_uplinks();
        self.announce_moved(now);
        self.resize_pods(Resize::All, now);
    }

    /// A flow with a meter needs its meter, and somebody else may have taken it.
    fn commit_with_meters(&mut self, flows: Vec<FlowMod>) {
        self.deletions.note(&flows);
        let task = self.errand(Errand::Compare);
        let meters = static_meters(self.book.pods(), self.config.punts_per_second);
        self.command(Command::Switch(SwitchCommand::Commit { task, meters, flows }));
    }

    /// For after the commit that removes the flows of pods that went while the switch was away.
    fn forget_stale_meters(&mut self) {
        let stale = std::mem::take(&mut self.stale_meters);
        let free = stale.into_iter().filter(|zone| self.book.of_zone(*zone).is_none());
        let meters: Vec<_> = free.flat_map(forget_meters_of).collect();
        if !meters.is_empty() {
            let task = self.errand(Errand::Commit);
            self.command(Command::Switch(SwitchCommand::Commit { task, meters, flows: vec![] }));
        }
    }

    /// A momentary drop that is gone from the switch has done its work.
    fn forget_expired(&mut self, installed: &FlowTable, asked: Instant) {
        let gone = |learned: &&Learned| {
            learned.flow.hard_timeout > 0
                && learned.sent.is_none_or(|sent| sent < asked)
                && installed.get(&learned.flow.key()).is_none()
        };
        let expired: Vec<Id> = self
            .memory
            .iter()
            .filter(gone)
            .filter_map(|learned| self.memory.find_same(&learned.flow))
            .collect();
        for id in expired {
            self.memory.remove(id);
        }
    }

    /// Attachments whose own commit failed or never went out are in place with this one.
    fn confirm_installing(&mut self, now: Instant) {
        for key in self.book.keys() {
            let waits = self.book.get(&key).is_some_and(|a| a.stage == Stage::Installing);
            if waits && self.book_port(&key).is_some() && !self.warming.iter().any(|(warm, _)| *warm == key) {
                self.install(&key);
            }
        }
        self.finish_warm(now);
    }
}
