//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// Doubles from `min` to `max`, and starts over after a success. There is no jitter, since the server is local and
/// has few clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `min` to `max`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, next: min }
    }

    /// How long to wait before this attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next.min(self.max);
        self.next = delay.saturating_mul(2).min(self.max);
        delay
    }

    /// The last attempt succeeded.
    pub fn reset(&mut self) {
        self.next = self.min;
    }
}

impl Default for Backoff {
    /// From 50 ms to 1 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(1))
    }
}
