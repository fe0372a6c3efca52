//! The ports of the bridge: the book after a restart, and numbers that change.
//!
//! A number is the switch's to give and to take, at any time; rows are told apart by
//! name. Whatever depends on a number goes with it.

use std::time::Instant;

use super::book::{Attachment, Stage, container_of};
use super::{AttachmentKey, Node, PortRow, PortsEvent};
use crate::pipeline::learned::Pods;

/// Whether an attachment that has come so far has a row in the database.
fn has_port(stage: &Stage) -> bool {
    matches!(stage, Stage::Installing | Stage::Waiting | Stage::Ready)
}

impl Node {
    pub(super) fn handle_ports(&mut self, event: PortsEvent, now: Instant) {
        match event {
            PortsEvent::Ready(rows) => self.ports_came(rows, now),
            PortsEvent::Changed(row) => {
                self.port_changed(row, now);
                self.refresh_site(now);
            }
            PortsEvent::Gone { name } => {
                self.port_gone(&name, now);
                self.refresh_site(now);
            }
            PortsEvent::Down => self.ports_ready = false,
        }
    }

    /// A row went. If the agent did not ask for it, somebody else took the port of a running container: it is put back.
    fn port_gone(&mut self, name: &str, now: Instant) {
        self.ports.remove(name);
        if self.damaged.remove(name).is_some() {
            self.missing_since.remove(name);
        }
        let settled = self.book.by_host_name(name).filter(|a| has_port(&a.stage) && !a.busy);
        let Some(key) = settled.map(|a| a.key.clone()) else { return };
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
        self.refresh_rates();
        self.refresh_exits();
        self.damaged.retain(|name, _| self.ports.contains_key(name));
        let expected = self.book.iter().filter(|a| has_port(&a.stage)).map(|a| a.host_name.clone());
        let missing: Vec<String> = expected.filter(|name| !self.ports.contains_key(name)).collect();
        for name in missing {
            self.port_gone(&name, now);
        }
        self.refresh_site(now);
        self.start_if_complete(now);
        if self.up {
            self.next_reconcile = Some(now);
        }
        self.remove_orphans();
        self.serve_held(now);
    }

    /// A row appeared or changed: an attachment of an earlier run enters the book, a port gets another number.
    pub(super) fn port_changed(&mut self, row: PortRow, now: Instant) {
        let name = row.name.clone();
        if self.book.by_host_name(&name).is_none() && !self.orphans.contains(&name) && !self.book_read {
            self.read_row(&row, now);
        }
        let port = row.ofport;
        let lost = row.ofport.is_none() && row.error.is_some();
        self.ports.insert(name.clone(), row);
        if self.damaged.contains_key(&name) {
            return self.note_missing(name, lost, now);
        }
        let Some(attachment) = self.book.by_host_name(&name) else { return };
        if !has_port(&attachment.stage) || attachment.is_leaving() {
            return;
        }
        let key = attachment.key.clone();
        self.note_missing(name, lost, now);
        if self.book_port(&key) != port {
            self.renumber(&key, port);
        }
    }

    /// The row of an earlier run: an attachment, or what is left of one.
    fn read_row(&mut self, row: &PortRow, now: Instant) {
        if let Some(attachment) = Attachment::read(row) {
            self.note_waiting(&attachment, now);
            self.book.insert(attachment);
        } else if let Some(container) = container_of(row) {
            let what = format!(
                "the external_ids of interface {} in the database of Open vSwitch are damaged: container \
                 {container} has no network; make the container anew",
                row.name
            );
            self.damaged.insert(row.name.clone(), what);
        }
    }

    fn note_missing(&mut self, name: String, lost: bool, now: Instant) {
        if lost {
            self.missing_since.entry(name).or_insert(now);
        } else {
            self.missing_since.remove(&name);
        }
    }

    /// The container of a damaged row is gone: so is its port to be.
    pub(super) fn forget_damaged(&mut self, name: &str) {
        if self.damaged.remove(name).is_some() {
            self.orphans.insert(name.to_owned());
            self.remove_orphans();
        }
    }

    /// The switch gave a pod's port another number, or none.
    pub(super) fn renumber(&mut self, key: &AttachmentKey, port: Option<u32>) {
        self.vacate(key);
        self.assign_port(key, port);
        self.install(key);
    }

    /// Notes a port for an attachment; whoever had the number before has it no longer, nor anything learned with it.
    pub(super) fn assign_port(&mut self, key: &AttachmentKey, port: Option<u32>) {
        let holder = port.and_then(|port| self.book.by_port(port)).map(|pod| pod.zone);
        let displaced =
            holder.and_then(|zone| self.book.of_zone(zone)).filter(|other| *other != key).cloned();
        if let Some(other) = displaced {
            self.vacate(&other);
        }
        self.book.set_port(key, port);
    }

    /// Takes what depends on an attachment's port out of the switch, and the number from it.
    fn vacate(&mut self, key: &AttachmentKey) {
        let Some(zone) = self.book.get(key).map(|a| a.zone) else { return };
        let flows = self.forget_flows(key, zone);
        self.commit(flows);
        // Its connections may live on, and nothing is remembered of what let them in.
        self.want_walk([zone]);
    }
}
