//! Flows: a match in a table at a priority, with what to do, and the messages' view of them.

mod keys;
mod stats;
mod text;

use crate::action::{Action, port};
use crate::matching::Match;

pub(crate) use keys::{KeyValues, parse_hex};
pub use stats::FlowStats;
pub use text::FlowError;

/// The priority of a flow that names none.
pub const DEFAULT_PRIORITY: u16 = 0x8000;

/// Flags of a flow (OpenFlow 1.5.1 §7.3.4.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// Tell the controller when the flow goes.
    pub const SEND_FLOW_REM: FlowFlags = FlowFlags(0x01);
    /// Refuse the flow if another of the same priority overlaps it.
    pub const CHECK_OVERLAP: FlowFlags = FlowFlags(0x02);
    /// Start counting again.
    pub const RESET_COUNTS: FlowFlags = FlowFlags(0x04);
    /// Do not count packets.
    pub const NO_PKT_COUNTS: FlowFlags = FlowFlags(0x08);
    /// Do not count bytes.
    pub const NO_BYT_COUNTS: FlowFlags = FlowFlags(0x10);
    /// No flags.
    pub const NONE: FlowFlags = FlowFlags(0);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub fn contains(self, other: FlowFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for FlowFlags {
    type Output = FlowFlags;

    fn bitor(self, other: FlowFlags) -> FlowFlags {
        FlowFlags(self.0 | other.0)
    }
}

/// A flow as `ovs-ofctl` writes it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// The table.
    pub table: u8,
    /// The highest priority wins.
    pub priority: u16,
    /// A number of the controller's own.
    pub cookie: u64,
    /// Seconds without a packet until the flow goes, 0 for never.
    pub idle_timeout: u16,
    /// Seconds until the flow goes, 0 for never.
    pub hard_timeout: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// Which packets.
    pub matches: Match,
    /// What to do with them; nothing is `drop`.
    pub actions: Vec<Action>,
}

impl Default for Flow {
    /// Table 0, the default priority, every packet, drop.
    fn default() -> Self {
        Flow {
            table: 0,
            priority: DEFAULT_PRIORITY,
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: FlowFlags::NONE,
            matches: Match::new(),
            actions: Vec::new(),
        }
    }
}

/// What makes a flow the same flow in a switch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FlowKey {
    /// The table.
    pub table: u8,
    /// The priority.
    pub priority: u16,
    /// The match.
    pub matches: Match,
}

impl Flow {
    /// What makes this flow the same flow in a switch.
    #[must_use]
    pub fn key(&self) -> FlowKey {
        FlowKey { table: self.table, priority: self.priority, matches: self.matches.clone() }
    }
}

/// What a flow-mod does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FlowModCommand {
    /// Adds or replaces the flow.
    Add,
    /// Changes the actions of all flows that the match covers.
    Modify,
    /// Changes the actions of exactly this flow.
    ModifyStrict,
    /// Removes all flows that the match covers.
    Delete,
    /// Removes exactly this flow.
    DeleteStrict,
}

/// A change to a flow table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowMod {
    /// What to do.
    pub command: FlowModCommand,
    /// With which flow.
    pub flow: Flow,
    /// Which bits of the cookie must agree (not for `Add`).
    pub cookie_mask: u64,
    /// Only flows that send to this port; [`port::ANY`] for all.
    pub out_port: u32,
    /// Only flows that send to this group; [`FlowMod::ANY_GROUP`] for all.
    pub out_group: u32,
    /// A packet that the switch buffers; [`FlowMod::NO_BUFFER`] for none.
    pub buffer_id: u32,
    /// How much it matters when the switch must evict flows.
    pub importance: u16,
}

impl FlowMod {
    /// All groups.
    pub const ANY_GROUP: u32 = 0xffff_ffff;
    /// No buffered packet.
    pub const NO_BUFFER: u32 = 0xffff_ffff;

    /// A flow-mod of `command` without further conditions.
    #[must_use]
    pub fn new(command: FlowModCommand, flow: Flow) -> Self {
        FlowMod {
            command,
            flow,
            cookie_mask: 0,
            out_port: port::ANY,
            out_group: Self::ANY_GROUP,
            buffer_id: Self::NO_BUFFER,
            importance: 0,
        }
    }

    /// Adds or replaces `flow`.
    #[must_use]
    pub fn add(flow: Flow) -> Self {
        Self::new(FlowModCommand::Add, flow)
    }

    /// Removes exactly the flow of `key`.
    #[must_use]
    pub fn delete_strict(key: FlowKey) -> Self {
        let FlowKey { table, priority, matches } = key;
        Self::new(FlowModCommand::DeleteStrict, Flow { table, priority, matches, ..Flow::default() })
    }
}
