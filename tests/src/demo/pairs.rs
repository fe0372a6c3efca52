//! Which pods of a world the demo lets talk.

use crate::lab::record::PodRecord;

/// Pods to look at: a talker, a peer on its node and one on another.
#[derive(Debug)]
pub struct Pairs {
    /// Who talks.
    pub talker: PodRecord,
    /// A pod on the same node.
    pub near: Option<PodRecord>,
    /// A pod on another node.
    pub far: Option<PodRecord>,
}

impl Pairs {
    /// The first pod that has a peer of each kind, or else the first pod.
    pub fn of(pods: &[PodRecord]) -> Option<Self> {
        let candidates = pods.iter().map(|talker| {
            let others = || pods.iter().filter(|pod| pod.pod != talker.pod);
            Self {
                talker: talker.clone(),
                near: others().find(|pod| pod.node == talker.node).cloned(),
                far: others().find(|pod| pod.node != talker.node).cloned(),
            }
        });
        let candidates: Vec<Self> = candidates.collect();
        let best = candidates.iter().position(|pairs| pairs.near.is_some() && pairs.far.is_some());
        candidates.into_iter().nth(best.unwrap_or(0))
    }
}
