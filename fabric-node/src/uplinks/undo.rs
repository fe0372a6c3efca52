//! Everything back to the NIC.

use super::MARK;
use super::belongings::Belongings;
use super::database::CommitError;
use super::hands::{Hands, Names, recorded};
use super::kernel;
use super::plan;
use super::view::Found;

/// What was undone, and what could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undone {
    /// Things that were removed or moved back.
    pub done: Vec<String>,
    /// Things that are left, each with the reason.
    pub left: Vec<String>,
}

impl Undone {
    fn note(&mut self, what: &str, outcome: Result<(), CommitError>) {
        match outcome {
            Ok(()) => self.done.push(format!("{what} removed")),
            Err(CommitError::Silent) => {
                self.left.push(format!("{what}: removed from the database; {}", CommitError::Silent))
            }
            Err(error) => self.left.push(format!("{what}: {error}")),
        }
    }
}

impl Hands {
    /// Moves everything back to the NIC and removes the bridge; from somebody else's bridge, the patch port. What it
    /// did, and what is left, in words.
    pub async fn put_back(&mut self, names: &Names) -> Undone {
        let Names { bridge, patch, .. } = names;
        let mut undone = Undone::default();
        let found = names.find(&self.database);
        if let Some(found) = found.as_ref().filter(|found| !found.is_ours()) {
            let own = found.members.get(patch).filter(|patch| patch.row.external_ids.contains_key(MARK));
            if let Some(member) = own {
                let outcome =
                    self.database.commit(plan::remove_port(found.uuid, member.port), self.config.patience);
                undone.note(&format!("port {patch} of bridge {bridge}"), outcome.await);
            }
            return undone;
        }
        if !self.free_nic(names, &mut undone).await {
            return undone;
        }
        if let Some(found) = &found {
            let outcome = self.database.commit(plan::remove_bridge(found.uuid), self.config.patience).await;
            undone.note(&format!("bridge {bridge}"), outcome);
        }
        undone
    }

    /// Takes the NIC out of the bridge and moves everything back to it; whether nothing is on the bridge's device any
    /// more. The bridge stays.
    pub(super) async fn free_nic(&mut self, names: &Names, undone: &mut Undone) -> bool {
        let Names { nic, bridge, .. } = names;
        if let Err(error) = self.guard(names, None).await {
            undone.left.push(error);
        }
        let found = names.find(&self.database);
        if let Some(found) = &found
            && let Some(member) = found.members.get(nic)
        {
            let txn = plan::remove_port(found.uuid, member.port);
            let outcome = self.database.commit(txn, self.config.patience).await;
            let silent = outcome == Err(CommitError::Silent);
            let held = self.kernel.link(nic).ok().flatten().is_some_and(|link| link.master.is_some());
            if silent && held {
                undone.left.push(format!(
                    "NIC {nic} stays with the kernel's datapath, and the host's addresses with bridge {bridge}: {}",
                    CommitError::Silent
                ));
                return false;
            }
            if !silent {
                undone.note(&format!("NIC {nic}, from bridge {bridge},"), outcome);
            }
        }
        self.move_back(names, found.as_ref(), undone).await
    }

    /// Moves back what is on the bridge's device; where that is gone, what the record says. Whether nothing is left.
    async fn move_back(&mut self, names: &Names, found: Option<&Found>, undone: &mut Undone) -> bool {
        let Names { nic, bridge, .. } = names;
        let device = self.kernel.link(bridge).ok().flatten();
        // Without the database, the device itself tells whose it is.
        if found.is_none() && device.as_ref().is_none_or(|device| !device.is_ours) {
            return true;
        }
        let on_device = device.as_ref().map(|device| self.kernel.belongings(&device.device));
        let mut belongings = match on_device.unwrap_or_else(|| Ok(Belongings::default())) {
            Ok(belongings) => belongings,
            Err(error) => {
                undone.left.push(error);
                return false;
            }
        };
        let index = device.as_ref().map(|device| device.device.index);
        let record = found.and_then(recorded).filter(|record| index != Some(record.device));
        if let Some(record) = record.filter(|_| belongings.is_empty()) {
            belongings = record.alive_at(&kernel::moment());
        }
        if belongings.is_empty() {
            return true;
        }
        let Ok(Some(link)) = self.kernel.link(nic) else {
            undone.left.push(format!(
                "the addresses of bridge {bridge} have nowhere to go: NIC {nic} does not exist on this node"
            ));
            return false;
        };
        let from = device.as_ref().map(|device| &device.device);
        match self.kernel.shift(&belongings, from, &link.device).await {
            Ok(()) => undone.done.push(format!("addresses and routes of {bridge} moved back to {nic}")),
            Err(failures) => {
                undone.left.extend(failures);
                return false;
            }
        }
        true
    }
}
