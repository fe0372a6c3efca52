//! Limits of connections: a pod that opens them without end is not to take those of others.
//!
//! One command at a time, for all zones that wait: the switch may be slow. Zones whose limit could not be set wait for
//! the next try, and until then that is a problem.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Command, Errand, Node, SwitchCommand};

/// Time before limits that could not be set are tried again; it doubles while that fails.
const AGAIN: Duration = Duration::from_millis(150);
/// How often it doubles: 38.4 s at most.
const MOST_DOUBLINGS: u32 = 8;

/// Which limits are still to be set.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Zones whose connections have no limit yet.
    wanted: BTreeSet<u16>,
    /// Tries in a row that failed, and when to try again.
    failed: u32,
    again: Option<Instant>,
    /// Why the last one failed.
    problem: Option<String>,
}

impl Limits {
    pub fn due(&self) -> Option<Instant> {
        self.again
    }

    pub fn problem(&self) -> Option<String> {
        let told = |error| format!("connections of pods have no limit yet, which is tried again: {error}");
        self.problem.as_ref().map(told)
    }
}

impl Node {
    /// Limits the connections of these zones, and of those that still wait.
    pub(super) fn limit_connections(&mut self, zones: impl IntoIterator<Item = u16>) {
        self.limits.wanted.extend(zones);
        self.limits.wanted.retain(|zone| self.book.of_zone(*zone).is_some());
        if self.limits.wanted.is_empty() {
            self.limits = Limits::default();
            return;
        }
        let under_way = self.errands.values().any(|errand| matches!(errand, Errand::Limit { .. }));
        if under_way || self.limits.again.is_some() {
            return;
        }
        let (zones, most) = (std::mem::take(&mut self.limits.wanted), self.config.connections_per_pod);
        let task = self.errand(Errand::Limit { zones: zones.clone() });
        self.command(Command::Switch(SwitchCommand::LimitConnections { task, zones, most }));
    }

    /// A switch that was started anew knows no limits.
    pub(super) fn limit_all(&mut self) {
        self.limits.again = None;
        let zones: Vec<u16> = self.book.pods().map(|pod| pod.zone).collect();
        self.limit_connections(zones);
    }

    pub(super) fn limited(&mut self, zones: BTreeSet<u16>, result: Result<(), String>, now: Instant) {
        match result {
            Ok(()) => (self.limits.failed, self.limits.problem) = (0, None),
            Err(error) => {
                self.limits.again = Some(now + AGAIN * (1 << self.limits.failed.min(MOST_DOUBLINGS)));
                self.limits.failed = self.limits.failed.saturating_add(1);
                self.limits.problem = Some(error);
                self.limits.wanted.extend(zones);
            }
        }
        self.limit_connections([]);
    }

    pub(super) fn retry_limits(&mut self, now: Instant) {
        if self.limits.again.take_if(|at| *at <= now).is_some() {
            self.limit_connections([]);
        }
    }
}
