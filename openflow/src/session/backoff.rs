//! How long to wait before the next attempt to connect: twice as long after each failure, up to a limit.

use std::time::Duration;

/// Waiting times between attempts.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    limit: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts with `first`, never waits longer than `limit`.
    pub fn new(first: Duration, limit: Duration) -> Backoff {
        Backoff { first, limit, next: first }
    }

    /// An attempt failed: how long to wait before the next.
    pub fn failed(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.limit);
        wait
    }

    /// An attempt succeeded: the next failure waits `first` again.
    pub fn succeeded(&mut self) {
        self.next = self.first;
    }
}
