//! The answer to a query: one flow, and why.

use openflow::{Flow, FlowFlags, Match};
use policy::{Because, Region};

use super::super::vocabulary::{Cookie, Kind, Table, VACANT_SECONDS, VERDICT_IDLE_SECONDS, priority};

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The flow that carries it out.
    pub flow: Flow,
    /// Whether packets of the region go on.
    pub allows: bool,
    /// Why, where a rule decided.
    pub because: Option<Because>,
    /// Why it would be denied if the policies in audit mode were enforced too, although it is allowed.
    pub audit: Option<Because>,
    /// The packets that the verdict is for, where a rule decided.
    pub region: Option<Region>,
}

impl Decision {
    /// A flow that no policy has a say in.
    pub(super) fn plain(flow: Flow, allows: bool) -> Decision {
        Decision { flow, allows, because: None, audit: None, region: None }
    }
}

/// A learned flow without actions, which stays.
pub(super) fn lasting(kind: Kind, id: u64, table: Table, matches: Match) -> Flow {
    Flow {
        table: table.id(),
        priority: priority::LEARNED,
        cookie: Cookie::new(kind, id).0,
        matches,
        ..Flow::default()
    }
}

/// A learned flow without actions, which goes when no packet has come for some time.
pub(super) fn idling(kind: Kind, id: u64, table: Table, matches: Match) -> Flow {
    Flow {
        idle_timeout: VERDICT_IDLE_SECONDS,
        flags: FlowFlags::SEND_FLOW_REM,
        ..lasting(kind, id, table, matches)
    }
}

/// A learned flow without actions, which goes in a moment.
pub(super) fn momentary(kind: Kind, id: u64, table: Table, matches: Match) -> Flow {
    Flow {
        hard_timeout: VACANT_SECONDS,
        flags: FlowFlags::SEND_FLOW_REM,
        ..lasting(kind, id, table, matches)
    }
}
