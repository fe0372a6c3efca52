//! Events that the owner has not taken yet.

use super::ClientEvent;
use crate::error::Error;
use crate::monitor::{Replica, RowChange};
use crate::value::Uuid;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// At most a loss, the snapshot after it, and the changes since, each row once: memory is bounded by the size of the
/// database. They are delivered in this order.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    lost: Option<Error>,
    snapshot: Option<Replica>,
    changes: BTreeMap<(Arc<str>, Uuid), RowChange>,
}

impl Inbox {
    /// The connection is lost: what was not delivered is stale.
    pub(super) fn lost(&mut self, reason: Error) {
        *self = Self { lost: Some(reason), ..Self::default() };
    }

    /// A connection stands.
    pub(super) fn connected(&mut self, snapshot: Replica) {
        self.snapshot = Some(snapshot);
        self.changes.clear();
    }

    /// Rows changed.
    pub(super) fn changed(&mut self, changes: Vec<RowChange>) {
        if let Some(snapshot) = &mut self.snapshot {
            changes.iter().for_each(|change| snapshot.follow(change));
            return;
        }
        for change in changes {
            match self.changes.entry((change.table.clone(), change.uuid)) {
                Entry::Vacant(slot) => drop(slot.insert(change)),
                Entry::Occupied(mut slot) => {
                    slot.get_mut().new = change.new;
                    if slot.get().old == slot.get().new {
                        slot.remove();
                    }
                }
            }
        }
    }

    /// True when there is nothing to deliver.
    pub(super) fn is_empty(&self) -> bool {
        self.lost.is_none() && self.snapshot.is_none() && self.changes.is_empty()
    }

    /// The next event to deliver.
    pub(super) fn pop(&mut self) -> Option<ClientEvent> {
        if let Some(reason) = self.lost.take() {
            return Some(ClientEvent::Disconnected { reason });
        }
        if let Some(snapshot) = self.snapshot.take() {
            return Some(ClientEvent::Connected { snapshot });
        }
        let changes = std::mem::take(&mut self.changes);
        (!changes.is_empty()).then(|| ClientEvent::Update(changes.into_values().collect()))
    }

    /// Forgets all events.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
