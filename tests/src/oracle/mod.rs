//! The oracle: who may talk to whom by a plain reading of the manifests.
//!
//! It exists to be compared with the crate `policy`, and shares nothing with it: no type, no parser, no
//! selector. It keeps the objects as they were written and reads them anew for every packet, with the simplest
//! loops that say what the Kubernetes API and the annotations of Fabric say. It knows no regions, no reasons
//! and no caches, and is slow.
//!
//! One end of a conversation is judged in this order: the pod itself, its own node (what comes in), tenants,
//! ClusterNetworkPolicies of the tier Admin, NetworkPolicies, ClusterNetworkPolicies of the tier Baseline.

mod ask;
mod cluster;
mod clusterwide;
mod end;
mod field;
mod labels;
mod namespaced;
mod ports;
mod prefix;
pub mod random;
mod tenants;
mod words;

pub use cluster::{Cluster, key};
pub use ports::named_ports;
pub use prefix::Prefix;
pub use words::{Answer, Direction, Packet, Pair, Who};

#[cfg(test)]
mod tests;
