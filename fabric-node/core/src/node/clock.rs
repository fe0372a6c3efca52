//! The time of day, from moments that are told.

use std::time::{Duration, Instant};

use policy::Timestamp;

/// What time it was at one moment; that of other moments follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The moment.
    pub at: Instant,
    /// Time since the Unix epoch at that moment.
    pub since_epoch: Duration,
}

impl Clock {
    /// A clock that shows the time since the Unix epoch at a moment.
    #[must_use]
    pub fn new(at: Instant, since_epoch: Duration) -> Clock {
        Clock { at, since_epoch }
    }

    /// The moment has come; one before the last one known changes nothing.
    pub(super) fn advance(&mut self, now: Instant) {
        self.since_epoch += now.saturating_duration_since(self.at);
        self.at = self.at.max(now);
    }

    /// The time of day.
    pub(super) fn stamp(&self) -> Timestamp {
        Timestamp(self.since_epoch.as_secs())
    }
}
