//! A flow in a switch, with what it counted.

use std::time::Duration;

use super::Flow;

/// A flow as a dump shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowStats {
    /// The flow.
    pub flow: Flow,
    /// How long it has been there.
    pub duration: Duration,
    /// Packets that matched.
    pub packets: u64,
    /// Bytes of those packets.
    pub bytes: u64,
    /// Seconds since the last packet, where the switch tells.
    pub idle_age: Option<u32>,
    /// Seconds since the flow last changed, where the switch tells.
    pub hard_age: Option<u32>,
    /// Eviction importance.
    pub importance: u16,
}
