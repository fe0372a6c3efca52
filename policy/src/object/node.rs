//! Namespaces and nodes.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::label::Labels;
use crate::name::Name;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: Name,
    /// Its labels, `kubernetes.io/metadata.name` included, which the API server sets on every namespace.
    pub labels: Labels,
    /// `fabric.io/tenant`.
    pub tenant: Tenant,
    /// `fabric.io/network`: the Network of its pods.
    pub network: Option<Name>,
    /// `fabric.io/log-denied`: whether denied conversations of its pods are logged.
    pub log_denied: bool,
    /// `fabric.io/egress-ip`: the source addresses of its pods outside the cluster, at most one per family.
    pub egress_ips: Vec<IpAddr>,
    /// The `fabric.io/*` annotations that could not be read.
    pub unreadable: Vec<&'static str>,
}

/// Which tenant a namespace belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tenant {
    /// No annotation: the common group.
    #[default]
    Common,
    /// Talks to namespaces of the same tenant, and to shared ones.
    Named(Name),
    /// `*`: talks with everybody.
    Shared,
    /// The annotation cannot be read: talks with nobody but shared namespaces.
    Unreadable,
}

impl Tenant {
    /// Whether pods of the two tenants may talk to each other.
    pub fn meets(&self, other: &Tenant) -> bool {
        match (self, other) {
            (Tenant::Shared, _) | (_, Tenant::Shared) | (Tenant::Common, Tenant::Common) => true,
            (Tenant::Named(own), Tenant::Named(other)) => own == other,
            (Tenant::Common | Tenant::Named(_) | Tenant::Unreadable, _) => false,
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tenant::Common => f.write_str("the common group"),
            Tenant::Named(name) => write!(f, "tenant {name}"),
            Tenant::Shared => f.write_str("a shared namespace"),
            Tenant::Unreadable => f.write_str("a tenant that cannot be read"),
        }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// Its labels.
    pub labels: Labels,
    /// `status.addresses`: the InternalIPs, then the ExternalIPs, each in the order of the manifest.
    pub addresses: Vec<IpAddr>,
    /// The address that its tunnels use: annotation `fabric.io/tunnel-address`, else the first InternalIP.
    pub tunnel_address: Option<IpAddr>,
}

impl Node {
    /// Every address that is the node's: those of its status, and that of its tunnels where it is another
    /// one.
    pub fn every_address(&self) -> impl Iterator<Item = IpAddr> {
        let apart = self.tunnel_address.filter(|tunnel| !self.addresses.contains(tunnel));
        self.addresses.iter().copied().chain(apart)
    }
}
