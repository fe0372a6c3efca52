//! A table of flows, desired or installed, and the difference between two.

mod connections;
mod packet;
mod simulator;

use std::collections::BTreeMap;

use crate::action::same_actions;
use crate::flow::{Flow, FlowFlags, FlowKey, FlowMod};

pub use connections::{Connection, Connections, Tuple};
pub use packet::Packet;
pub use simulator::{Continuation, Punt, Simulator, Step, Trace, Tracker};

/// Flows by key, in a fixed order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowTable {
    flows: BTreeMap<FlowKey, Flow>,
}

impl FlowTable {
    /// No flows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `flow` and returns the one it replaces.
    pub fn insert(&mut self, flow: Flow) -> Option<Flow> {
        self.flows.insert(flow.key(), flow)
    }

    /// Removes the flow of `key`.
    pub fn remove(&mut self, key: &FlowKey) -> Option<Flow> {
        self.flows.remove(key)
    }

    /// The flow of `key`.
    #[must_use]
    pub fn get(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(key)
    }

    /// How many flows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are no flows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// All flows by table, priority and match.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.values()
    }

    /// What turns `installed` into `desired`: additions and replacements first, then removals,
    /// each in the order of the table. Equal flows give nothing; an addition over an existing flow
    /// replaces its cookie, timeouts, flags and actions.
    ///
    /// Flags that concern only the addition itself are not compared, because a switch does not
    /// show them, and actions are compared by what they do.
    #[must_use]
    pub fn diff(installed: &FlowTable, desired: &FlowTable) -> Vec<FlowMod> {
        let mut adds = Vec::new();
        let mut deletes = Vec::new();
        let mut old = installed.flows.iter().peekable();
        for (key, flow) in &desired.flows {
            while let Some((stray, _)) = old.next_if(|(k, _)| *k < key) {
                deletes.push(FlowMod::delete_strict(stray.clone()));
            }
            match old.next_if(|(k, _)| *k == key) {
                Some((_, installed)) if is_same(installed, flow) => {}
                _ => adds.push(FlowMod::add(flow.clone())),
            }
        }
        deletes.extend(old.map(|(stray, _)| FlowMod::delete_strict(stray.clone())));
        adds.append(&mut deletes);
        adds
    }
}

/// Whether two flows of one key behave the same and look the same to the controller.
fn is_same(a: &Flow, b: &Flow) -> bool {
    const SHOWN: u16 = FlowFlags::SEND_FLOW_REM.0 | FlowFlags::NO_PKT_COUNTS.0 | FlowFlags::NO_BYT_COUNTS.0;
    a.cookie == b.cookie
        && a.idle_timeout == b.idle_timeout
        && a.hard_timeout == b.hard_timeout
        && a.flags.0 & SHOWN == b.flags.0 & SHOWN
        && same_actions(&a.actions, &b.actions)
}

impl FromIterator<Flow> for FlowTable {
    fn from_iter<I: IntoIterator<Item = Flow>>(flows: I) -> Self {
        FlowTable { flows: flows.into_iter().map(|f| (f.key(), f)).collect() }
    }
}

#[cfg(test)]
mod tests;
