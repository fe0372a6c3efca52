//! A table of flows, desired or installed, and the difference between two.

mod connections;
mod keyed;
mod packet;
mod simulator;

use std::collections::BTreeSet;

use crate::action::same_actions;
use crate::flow::{Flow, FlowFlags, FlowKey, FlowMod};

use keyed::{ByKey, Keyed, parts};

pub use connections::{Connection, Connections, Tuple};
pub use packet::Packet;
pub use simulator::{Continuation, Punt, Simulator, Step, Trace, Tracker};

/// Flows by key, in a fixed order.
#[derive(Clone, Debug, Default)]
pub struct FlowTable {
    flows: BTreeSet<ByKey>,
}

impl FlowTable {
    /// No flows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `flow` and returns the one it replaces.
    pub fn insert(&mut self, flow: Flow) -> Option<Flow> {
        self.flows.replace(ByKey(flow)).map(|old| old.0)
    }

    /// Removes the flow of `key`.
    pub fn remove(&mut self, key: &FlowKey) -> Option<Flow> {
        self.flows.take(key as &dyn Keyed).map(|flow| flow.0)
    }

    /// The flow of `key`.
    #[must_use]
    pub fn get(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(key as &dyn Keyed).map(|flow| &flow.0)
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
        self.flows.iter().map(|flow| &flow.0)
    }

    /// What turns `installed` into `desired`: additions and replacements first, then removals,
    /// each in the order of the table. Equal flows give nothing; an addition over an existing flow
    /// replaces its cookie, timeouts, flags and actions.
    ///
    /// Flags that concern only the addition itself are not compared, because a switch does not
    /// show them, and actions are compared by what they do.
    #[must_use]
    pub fn diff(installed: &FlowTable, desired: &FlowTable) -> Vec<FlowMod> {
        installed.to_become(desired.iter())
    }

    /// As [`FlowTable::diff`], for desired flows that somebody else keeps: in any order, and of several with one key
    /// the last counts.
    #[must_use]
    pub fn to_become<'a>(&self, desired: impl IntoIterator<Item = &'a Flow>) -> Vec<FlowMod> {
        let mut wanted: Vec<&Flow> = desired.into_iter().collect();
        wanted.sort_by_key(|flow| parts(flow));
        let mut wanted = wanted.into_iter().peekable();
        let mut old = self.iter().peekable();
        let (mut adds, mut deletes) = (Vec::new(), Vec::new());
        let delete = |stray: &Flow| FlowMod::delete_strict(stray.key());
        while let Some(flow) = wanted.next() {
            if wanted.peek().is_some_and(|next| parts(next) == parts(flow)) {
                continue;
            }
            while let Some(stray) = old.next_if(|old| parts(old) < parts(flow)) {
                deletes.push(delete(stray));
            }
            match old.next_if(|old| parts(old) == parts(flow)) {
                Some(installed) if is_same(installed, flow) => {}
                _ => adds.push(FlowMod::add(flow.clone())),
            }
        }
        deletes.extend(old.map(delete));
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

impl PartialEq for FlowTable {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for FlowTable {}

impl Extend<Flow> for FlowTable {
    fn extend<I: IntoIterator<Item = Flow>>(&mut self, flows: I) {
        for flow in flows {
            self.insert(flow);
        }
    }
}

impl FromIterator<Flow> for FlowTable {
    /// The last flow of a key counts.
    fn from_iter<I: IntoIterator<Item = Flow>>(flows: I) -> Self {
        FlowTable { flows: flows.into_iter().map(ByKey).collect() }
    }
}

#[cfg(test)]
mod tests;
