//! The pods that can be asked, page by page.

use std::net::IpAddr;

use policy::{PodRef, World};
use serde::{Deserialize, Serialize};

use super::addresses;

/// Most pods on a page.
pub const PODS_MOST: usize = 1_000;

/// A page of the answer to `GET /v1/pods`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsPage {
    /// Pods that have not finished, in the order of namespace and name.
    pub pods: Vec<PodAddresses>,
    /// Where there are more: what `after` has to be for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A pod and where it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodAddresses {
    /// `NAMESPACE/NAME`.
    pub pod: String,
    /// Its addresses; empty where it has none yet.
    pub addresses: Vec<IpAddr>,
}

/// The pods behind `after`, as many as a page holds.
pub fn pods(world: &World, after: Option<&PodRef>) -> PodsPage {
    let behind = world.pods().skip_while(|pod| after.is_some_and(|after| pod.reference <= *after));
    let mut running = behind.filter(|pod| !pod.finished);
    let listed =
        |pod: &policy::Pod| PodAddresses { pod: pod.reference.to_string(), addresses: addresses(world, pod) };
    let pods: Vec<_> = running.by_ref().take(PODS_MOST).map(listed).collect();
    let next = running.next().and_then(|_| pods.last()).map(|last| last.pod.clone());
    PodsPage { pods, next }
}
