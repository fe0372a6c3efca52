//! Events that the owner has not taken yet.

use super::ClientEvent;
use crate::monitor::merge_changes;
use std::collections::VecDeque;

/// At most three events: a loss, a snapshot, and the changes since. Memory is bounded by the size of the database.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    events: VecDeque<ClientEvent>,
}

impl Inbox {
    /// Adds an event. A loss makes all before it stale, and changes join the changes before them.
    pub(super) fn push(&mut self, event: ClientEvent) {
        match (event, self.events.back_mut()) {
            (ClientEvent::Update(later), Some(ClientEvent::Update(earlier))) => {
                merge_changes(earlier, later);
            }
            (ClientEvent::Update(changes), Some(ClientEvent::Connected { snapshot })) => {
                changes.iter().for_each(|change| snapshot.follow(change));
            }
            (event @ ClientEvent::Disconnected { .. }, _) => {
                self.events.clear();
                self.events.push_back(event);
            }
            (event, _) => self.events.push_back(event),
        }
    }

    /// True when there is nothing to deliver.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The next event to deliver.
    pub(super) fn pop(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Forgets all events.
    pub(super) fn clear(&mut self) {
        self.events.clear();
    }
}
