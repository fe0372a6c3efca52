//! A table of flows, desired or installed, and the difference between two.

use std::collections::BTreeMap;

use crate::flow::{Flow, FlowKey, FlowMod};

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

    /// What turns `installed` into `desired`: additions and replacements first, then removals.
    #[must_use]
    pub fn diff(installed: &FlowTable, desired: &FlowTable) -> Vec<FlowMod> {
        let changed = |flow: &&Flow| installed.get(&flow.key()) != Some(*flow);
        let adds = desired.iter().filter(changed).cloned().map(FlowMod::add);
        let strays = installed.flows.keys().filter(|key| !desired.flows.contains_key(*key));
        adds.chain(strays.cloned().map(FlowMod::delete_strict)).collect()
    }
}

impl FromIterator<Flow> for FlowTable {
    fn from_iter<I: IntoIterator<Item = Flow>>(flows: I) -> Self {
        FlowTable { flows: flows.into_iter().map(|f| (f.key(), f)).collect() }
    }
}
