//! The way from a store to the node: edits in order, and the set of what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabric_api::Problem;
use fabric_core::node::Event;
use policy::Edit;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

type Reports = BTreeMap<&'static str, Arc<[Problem]>>;

/// Takes what a store sees to the node. Clones share the set of problems.
#[derive(Debug, Clone)]
pub struct Feed {
    events: mpsc::Sender<Event>,
    reports: watch::Sender<Reports>,
}

/// The node is gone: there is nobody to watch for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the agent ends")]
pub struct Ended;

impl Feed {
    pub(super) fn new(events: mpsc::Sender<Event>) -> (Self, Problems) {
        let (reports, receiver) = watch::channel(Reports::new());
        (Self { events, reports }, Problems(receiver))
    }

    /// Tells one change of the store; no edits are no event. Waits where the node is busy: for a thread that
    /// may block.
    ///
    /// # Errors
    /// [`Ended`] where the node is gone.
    pub fn edits(&self, edits: Vec<Edit>) -> Result<(), Ended> {
        if edits.is_empty() {
            return Ok(());
        }
        self.events.blocking_send(Event::World(edits)).map_err(|_| Ended)
    }

    /// Tells that the first full list is complete.
    ///
    /// # Errors
    /// [`Ended`] where the node is gone.
    pub fn listed(&self) -> Result<(), Ended> {
        self.events.blocking_send(Event::WorldSynced).map_err(|_| Ended)
    }

    /// Replaces what is wrong as seen by one watch, `part`. Each cause is logged when it comes and when it
    /// goes.
    pub fn report(&self, part: &'static str, problems: Vec<Problem>) {
        self.reports.send_if_modified(|reports| {
            let before = reports.get(part).cloned().unwrap_or_default();
            if *before == *problems {
                return false;
            }
            log_difference(&before, &problems);
            reports.insert(part, problems.into());
            true
        });
    }
}

fn log_difference(before: &[Problem], after: &[Problem]) {
    let old: BTreeSet<_> = before.iter().collect();
    let current: BTreeSet<_> = after.iter().collect();
    for problem in current.difference(&old) {
        warn!("{problem}");
    }
    for problem in old.difference(&current) {
        info!("resolved: {problem}");
    }
}

/// What is wrong, as of the last look.
#[derive(Debug, Clone)]
pub(super) struct Problems(watch::Receiver<Reports>);

impl Problems {
    pub(super) fn current(&self) -> Vec<Problem> {
        self.0.borrow().values().flat_map(|part| part.iter().cloned()).collect()
    }
}
