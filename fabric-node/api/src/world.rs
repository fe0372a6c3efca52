//! What the agent knows of the cluster.

use serde::{Deserialize, Serialize};

use crate::Problem;

/// The answer to `GET /v1/world`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct World {
    /// Whether every watch has delivered its first full list; no packet is judged before.
    pub synced: bool,
    /// How many objects of each kind.
    pub counts: WorldCounts,
    /// Objects and documents that could not be read, in the order of their sources.
    pub problems: Vec<Problem>,
}

/// Number of objects by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorldCounts {
    /// Namespaces.
    pub namespaces: u64,
    /// Pods, finished ones included.
    pub pods: u64,
    /// Nodes.
    pub nodes: u64,
    /// Networks.
    pub networks: u64,
    /// Claims of addresses.
    pub claims: u64,
    /// NetworkPolicies.
    pub network_policies: u64,
    /// ClusterNetworkPolicies.
    pub cluster_network_policies: u64,
    /// Services.
    pub services: u64,
    /// EndpointSlices.
    pub endpoint_slices: u64,
}

impl WorldCounts {
    /// Every kind, by its Kubernetes name, in a fixed order.
    #[must_use]
    pub fn by_kind(&self) -> [(&'static str, u64); 9] {
        [
            ("Namespace", self.namespaces),
            ("Pod", self.pods),
            ("Node", self.nodes),
            ("Network", self.networks),
            ("IPClaim", self.claims),
            ("NetworkPolicy", self.network_policies),
            ("ClusterNetworkPolicy", self.cluster_network_policies),
            ("Service", self.services),
            ("EndpointSlice", self.endpoint_slices),
        ]
    }
}
