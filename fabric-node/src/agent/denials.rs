//! The log of denied packets: some a second, and how many were left out.

use std::fmt;
use std::time::Instant;

use fabric_core::node::{Denial, End};
use tracing::info;

#[cfg(test)]
mod tests;

/// Denied packets that are logged a second, over time.
const RATE: f64 = 10.0;
/// Denied packets that are logged at once.
const BURST: f64 = 50.0;

/// The log of denied packets.
pub struct Denials {
    /// How many may be logged at the moment.
    tokens: f64,
    at: Instant,
    left_out: u64,
}

impl Denials {
    /// One that has not logged yet.
    pub fn new(now: Instant) -> Self {
        Self { tokens: BURST, at: now, left_out: 0 }
    }

    /// Logs a denied packet, unless there are too many.
    pub fn log(&mut self, denial: &Denial, now: Instant) {
        let Some(left_out) = self.take(now) else { return };
        if left_out > 0 {
            info!(left_out, "denied packets were not logged: more than {RATE} a second");
        }
        let Denial { direction, from, to, protocol, port, because, audit } = denial;
        let (from, to) = (Who(from), Who(to));
        let port = port.map(tracing::field::display);
        let what = if *audit { "would be denied, but for audit mode" } else { "denied" };
        let protocol = Protocol(*protocol);
        info!(%direction, %from, %to, %protocol, port, %because, "{what}");
    }

    /// How many were left out before this one; None where this one is left out too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.tokens, self.at) = (BURST.min(self.tokens + passed * RATE), now);
        if self.tokens < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.tokens -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// `pod default/a (10.244.0.7)`, or the address alone.
struct Who<'a>(&'a End);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End { address, name } = self.0;
        match name {
            Some(name) => write!(f, "{name} ({address})"),
            None => write!(f, "{address}"),
        }
    }
}

/// `TCP`, or the number of a protocol that has no name here.
struct Protocol(u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("ICMP"),
            6 => f.write_str("TCP"),
            17 => f.write_str("UDP"),
            58 => f.write_str("ICMPv6"),
            132 => f.write_str("SCTP"),
            number => write!(f, "{number}"),
        }
    }
}
