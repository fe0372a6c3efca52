//! A flow that a set orders by its key, so that the key need not be kept twice.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::flow::{Flow, FlowKey};
use crate::matching::Match;

/// What has a flow's key.
pub(super) trait Keyed {
    fn parts(&self) -> (u8, u16, &Match);
}

/// A flow that counts as equal to every other of its key.
#[derive(Clone, Debug)]
pub(super) struct ByKey(pub(super) Flow);

/// The key of a flow, where it stands.
pub(super) fn parts(flow: &Flow) -> (u8, u16, &Match) {
    (flow.table, flow.priority, &flow.matches)
}

impl Keyed for ByKey {
    fn parts(&self) -> (u8, u16, &Match) {
        parts(&self.0)
    }
}

impl Keyed for FlowKey {
    fn parts(&self) -> (u8, u16, &Match) {
        (self.table, self.priority, &self.matches)
    }
}

impl<'a> Borrow<dyn Keyed + 'a> for ByKey {
    fn borrow(&self) -> &(dyn Keyed + 'a) {
        self
    }
}

impl PartialEq for dyn Keyed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn Keyed + '_ {}

impl PartialOrd for dyn Keyed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Keyed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}
