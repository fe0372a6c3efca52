//! Compare with a dump: the one path for start, restart, reconnect and repair.
//!
//! What the switch should hold is the static flows and the learned ones that the agent
//! remembers. A learned flow in the dump that it does not remember is from an earlier
//! run: it is judged again, and kept untouched where the answer is the same flow.

use std::time::{Duration, Instant};

use openflow::{Flow, FlowKey, FlowMod, FlowStats, FlowTable};

use super::book::{Attachment, Stage};
use super::{Command, Errand, Node, PortRow, PortsEvent, SwitchCommand, Task};
use crate::pipeline::learned::{decide, revive};
use crate::pipeline::statics::{node_flows, pod_flows, static_meters};
use crate::pipeline::vocabulary::VERDICT_IDLE_SECONDS;

/// How long after a doubt the switch is read again.
const DOUBT_DELAY: Duration = Duration::from_millis(200);
/// How often a compare that is due waits for the one under way.
const BUSY_DELAY: Duration = Duration::from_secs(1);

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
            let soon = now + DOUBT_DELAY;
            self.next_reconcile = Some(self.next_reconcile.map_or(soon, |at| at.min(soon)));
        }
    }

    pub(super) fn request_dump(&mut self, now: Instant) {
        if self.dumping.is_some() {
            self.next_reconcile = self.up.then(|| now + BUSY_DELAY);
            return;
        }
        self.next_reconcile = None;
        let task = self.errand(Errand::Dump);
        self.dumping = Some(task);
        self.command(Command::Switch(SwitchCommand::Dump { task }));
    }

    pub(super) fn dumped(&mut self, task: Task, result: Result<Vec<FlowStats>, String>, now: Instant) {
        if self.dumping != Some(task) {
            return;
        }
        self.dumping = None;
        let Ok(dump) = result else { return self.doubt(now) };
        if !self.ports_ready {
            return self.doubt(now);
        }
        self.remember(&dump, now);
        let first = !self.up;
        self.bring_in_line(dump, now);
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
            self.judge_all(now);
        }
        for stats in dump {
            let flow = &stats.flow;
            let key = flow.key();
            if let Some(learned) = self.memory.get_mut(&key) {
                if learned.packets != stats.packets {
                    learned.packets = stats.packets;
                    learned.used = now;
                } else if flow.idle_timeout == 0 && flow.hard_timeout == 0 && learned.used + idle <= now {
                    self.memory.remove(&key);
                }
                continue;
            }
            let Some(query) = revive(flow, &self.book) else { continue };
            if let Some(decision) = decide(&query, &self.context()).filter(|decision| decision.flow == *flow)
            {
                self.memory.insert(query, decision.flow, now);
            }
        }
    }

    /// What was remembered while the switch was away is judged again before it goes back.
    fn judge_all(&mut self, now: Instant) {
        for key in self.memory.keys() {
            let Some(query) = self.memory.get(&key).map(|learned| learned.query) else { continue };
            let decision = decide(&query, &self.context());
            let holds = decision.as_ref().zip(self.memory.get(&key)).is_some_and(|(d, l)| d.flow == l.flow);
            if !holds {
                self.memory.remove(&key);
                if let Some(decision) = decision {
                    self.memory.insert(query, decision.flow, now);
                }
            }
        }
    }

    /// Sends the difference between the dump and what should be there, and is up.
    fn bring_in_line(&mut self, dump: Vec<FlowStats>, now: Instant) {
        let installed: FlowTable = dump.into_iter().map(|stats| stats.flow).collect();
        self.forget_expired(&installed);
        self.node_flows = node_flows(&self.site, &self.world).into_iter().collect();
        let pods: Vec<Flow> = self.book.pods().flat_map(pod_flows).collect();
        let learned = self.memory.iter().map(|(_, learned)| &learned.flow);
        let flows = installed.to_become(self.node_flows.iter().chain(&pods).chain(learned));
        let first = !self.up;
        self.up = true;
        if first {
            let task = self.errand(Errand::Commit);
            let meters = static_meters(self.book.pods(), self.config.punts_per_second);
            self.command(Command::Switch(SwitchCommand::Commit { task, meters, flows }));
        } else {
            self.commit(flows);
        }
        self.confirm_installing(now);
    }

    /// A momentary drop that is gone from the switch has done its work.
    fn forget_expired(&mut self, installed: &FlowTable) {
        let gone = |key: &FlowKey, flow: &Flow| flow.hard_timeout > 0 && installed.get(key).is_none();
        let expired: Vec<FlowKey> =
            self.memory.iter().filter(|(key, l)| gone(key, &l.flow)).map(|(key, _)| key.clone()).collect();
        for key in expired {
            self.memory.remove(&key);
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

    pub(super) fn handle_ports(&mut self, event: PortsEvent, now: Instant) {
        match event {
            PortsEvent::Ready(rows) => self.ports_came(rows, now),
            PortsEvent::Changed(row) => {
                self.port_changed(row, now);
                self.refresh_site();
            }
            PortsEvent::Gone { name } => {
                self.port_gone(&name, now);
                self.refresh_site();
            }
            PortsEvent::Down => self.ports_ready = false,
        }
    }

    /// A row went. If the agent did not ask for it, somebody else took the port of a running container: it is put back.
    fn port_gone(&mut self, name: &str, now: Instant) {
        self.ports.remove(name);
        let ready = self.book.by_host_name(name).filter(|a| a.stage == Stage::Ready);
        let Some(key) = ready.map(|a| a.key.clone()) else { return };
        self.missing_since.insert(name.to_owned(), now);
        self.renumber(&key, None);
        self.add_port(&key);
    }

    /// All rows of the bridge: at the start they are the book.
    fn ports_came(&mut self, rows: Vec<PortRow>, now: Instant) {
        self.ports.clear();
        self.ports_ready = true;
        for row in rows {
            self.port_changed(row, now);
        }
        self.book_read = true;
        self.refresh_site();
        self.start_if_complete(now);
        self.remove_orphans();
        self.serve_held(now);
    }

    /// A row appeared or changed: an attachment of an earlier run enters the book, a port gets another number.
    fn port_changed(&mut self, row: PortRow, now: Instant) {
        let name = row.name.clone();
        if self.book.by_host_name(&name).is_none()
            && !self.orphans.contains(&name)
            && !self.book_read
            && let Some(attachment) = Attachment::read(&row)
        {
            self.book.insert(attachment);
        }
        let port = row.ofport;
        let lost = row.ofport.is_none() && row.error.is_some();
        self.ports.insert(name.clone(), row);
        let Some(attachment) = self.book.by_host_name(&name) else { return };
        if attachment.stage != Stage::Ready {
            return;
        }
        let key = attachment.key.clone();
        if lost {
            self.missing_since.entry(name).or_insert(now);
        } else {
            self.missing_since.remove(&name);
        }
        if self.book_port(&key) != port {
            self.renumber(&key, port);
        }
    }

    /// The switch gave a pod's port another number, or none.
    pub(super) fn renumber(&mut self, key: &super::AttachmentKey, port: Option<u32>) {
        let Some(zone) = self.book.get(key).map(|a| a.zone) else { return };
        let old = self.pod_of_zone(zone);
        let mut flows = self.forget_verdicts(zone);
        flows.extend(old.iter().flat_map(pod_flows).map(|f| FlowMod::delete_strict(f.key())));
        self.commit(flows);
        self.book.set_port(key, port);
        self.install(key);
    }
}
