//! An attachment's way out: flows and port, then the devices, then the claims.
//!
//! Every step is taken whatever became of the one before; what could not be cleaned is
//! cleaned when its room is back (ports by [`Node::remove_orphans`], flows by the
//! compare, claims by [`super::claims`]).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::FlowMod;

use super::book::{Stage, host_name, owner};
use super::{
    AttachmentKey, Command, Errand, Node, PortsCommand, Reply, RequestError, RequestId, SwitchCommand,
    WireCommand,
};
use crate::pipeline::learned::Pods;
use crate::pipeline::site::LocalPod;
use crate::pipeline::statics::{forget_meters_of, pod_flows};

/// How long a port's device may be missing before its container counts as gone.
pub(super) const MISSING_GRACE: Duration = Duration::from_secs(30);

impl Node {
    pub(super) fn detach(&mut self, id: RequestId, key: &AttachmentKey) {
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.detaching.push(id);
            return self.leave(key);
        }
        let owner = owner(key);
        let asked: Vec<IpAddr> = self.releases_under_way().into_iter().collect();
        for ip in self.claims_of(&owner, &asked) {
            self.release(ip, &owner);
        }
        self.forget_stranger(id, key);
    }

    /// Starts the way out, unless an errand is still under way: its outcome starts it then.
    ///
    /// A failed ADD is answered at the end of it, so that the next try meets a clean house.
    pub(super) fn leave(&mut self, key: &AttachmentKey) {
        let Some(attachment) = self.book.get(key) else { return };
        let claiming = matches!(attachment.stage, Stage::Claiming { open } if open > 0);
        if attachment.busy || claiming || matches!(attachment.stage, Stage::Leaving { .. }) {
            return;
        }
        let zone = attachment.zone;
        let name = attachment.host_name.clone();
        let mut open = 1;
        if self.uninstall(key, zone) {
            open += 1;
        }
        let task = self.errand(Errand::RemovePort { key: key.clone() });
        self.command(Command::Ports { task, command: PortsCommand::Remove { name } });
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.stage = Stage::Leaving { open };
        }
        self.refresh_host();
        self.warming.retain(|(warm, _)| warm != key);
    }

    /// Takes the flows, meters and connections of a pod out of the switch; false where there is nothing to wait for.
    fn uninstall(&mut self, key: &AttachmentKey, zone: u16) -> bool {
        let flows = self.forget_flows(key, zone);
        if !self.up {
            self.stale_meters.insert(zone);
            return false;
        }
        self.commit(flows);
        let task = self.errand(Errand::Flush);
        self.command(Command::Switch(SwitchCommand::FlushZone { task, zone }));
        let task = self.errand(Errand::Uninstall { key: key.clone() });
        let meters = forget_meters_of(zone);
        self.command(Command::Switch(SwitchCommand::Commit { task, meters, flows: vec![] }));
        true
    }

    /// Takes its port from a pod, with what was learned for it, and gives what has to change in the switch: the pod's
    /// flows, and those of the node that knew of it.
    pub(super) fn forget_flows(&mut self, key: &AttachmentKey, zone: u16) -> Vec<FlowMod> {
        let pod = self.pod_of_zone(zone);
        let learned = self.memory.forget(zone);
        self.book.set_port(key, None);
        let of_node = match &pod {
            Some(pod) if self.is_in_node_flows(pod) => self.node_flow_changes(),
            _ => Vec::new(),
        };
        let statics = pod.iter().flat_map(|pod| pod_flows(&self.site, pod)).map(|flow| flow.key());
        of_node.into_iter().chain(statics.chain(learned).map(FlowMod::delete_strict)).collect()
    }

    /// One of flows and port is gone.
    pub(super) fn left(&mut self, key: &AttachmentKey) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        let Stage::Leaving { open } = &mut attachment.stage else { return };
        *open = open.saturating_sub(1);
        if *open > 0 {
            return;
        }
        let host_name = attachment.host_name.clone();
        let task = self.errand(Errand::RemoveWire { key: key.clone() });
        self.command(Command::Wire { task, command: WireCommand::Remove { host_name } });
    }

    /// The devices are gone, or at least cut off: nobody can use the addresses any more.
    pub(super) fn unwired(&mut self, key: &AttachmentKey, result: Result<(), String>, now: Instant) {
        let Some(attachment) = self.book.remove(key) else { return };
        self.refresh_uplinks();
        self.refresh_largest(now);
        self.unsized_pods.remove(key);
        let owner = attachment.owner();
        let others = self.other_claims(&attachment);
        for ip in attachment.addresses.iter().chain(&others) {
            self.identities.remove(ip);
            self.conflicts.forget(*ip);
            self.release(*ip, &owner);
        }
        let removed = result.map(|()| Reply::Done).map_err(RequestError::Failed);
        for id in attachment.detaching {
            self.reply(id, removed.clone());
        }
        let fault = attachment.fault.unwrap_or_else(|| RequestError::TryAgain("removed meanwhile".into()));
        for id in attachment.attaching {
            self.reply(id, Err(fault.clone()));
        }
        self.collected(key);
    }

    /// Removes ports that were left behind when the database was away.
    pub(super) fn remove_orphans(&mut self) {
        for name in std::mem::take(&mut self.orphans) {
            if self.ports.contains_key(&name) && self.book.by_host_name(&name).is_none() {
                let task = self.errand(Errand::Orphan { name: name.clone() });
                self.command(Command::Ports { task, command: PortsCommand::Remove { name } });
            }
        }
    }

    /// Detaches containers whose device has been missing for long: they ended while nobody asked.
    pub(super) fn sweep_missing(&mut self, now: Instant) {
        let gone: Vec<String> = self
            .missing_since
            .iter()
            .filter(|(_, since)| **since + MISSING_GRACE <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            self.missing_since.remove(&name);
            self.forget_damaged(&name);
            let key =
                self.book.by_host_name(&name).filter(|a| a.stage == Stage::Ready).map(|a| a.key.clone());
            if let Some(key) = key {
                self.leave(&key);
            }
        }
    }

    pub(super) fn pod_of_zone(&self, zone: u16) -> Option<LocalPod> {
        self.book.by_zone(zone).cloned()
    }

    pub(super) fn book_port(&self, key: &AttachmentKey) -> Option<u32> {
        self.book.get(key).and_then(|a| self.book.by_zone(a.zone)).map(|pod| pod.port)
    }

    /// The name of the port that an attachment has or would have.
    #[must_use]
    pub fn port_name(key: &AttachmentKey) -> String {
        host_name(key)
    }
}
