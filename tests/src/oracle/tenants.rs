//! Tenants of namespaces.

use serde_json::Value;

use super::cluster::Cluster;
use super::field::{annotation, text};
use super::words::Who;

/// The group that a namespace belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tenant<'c> {
    /// The group of those that say nothing.
    Common,
    /// The tenant of that name.
    Named(&'c str),
    /// Everybody's.
    Shared,
    /// It cannot be read.
    Unreadable,
}

/// The tenant of a namespace.
pub(super) fn tenant_of<'c>(cluster: &Cluster, namespace: &'c Value) -> Tenant<'c> {
    match annotation(namespace, "fabric.io/tenant") {
        None => {
            let name = text(namespace, &["metadata", "name"]).unwrap_or_default();
            if cluster.is_shared(name) { Tenant::Shared } else { Tenant::Common }
        }
        Some(annotation) => match annotation.as_str().map(str::trim) {
            None | Some("") => Tenant::Unreadable,
            Some("*") => Tenant::Shared,
            Some(name) => Tenant::Named(name),
        },
    }
}

fn meet(a: Tenant<'_>, b: Tenant<'_>) -> bool {
    match (a, b) {
        (Tenant::Shared, _) | (_, Tenant::Shared) => true,
        (Tenant::Common, Tenant::Common) => true,
        (Tenant::Named(a), Tenant::Named(b)) => a == b,
        _ => false,
    }
}

/// Whether any two pods of the cluster could be kept apart by tenants.
fn are_there_tenants(cluster: &Cluster) -> bool {
    cluster
        .objects("Namespace")
        .any(|namespace| matches!(tenant_of(cluster, namespace), Tenant::Named(_) | Tenant::Unreadable))
}

/// The tenant of a pod or container; None of what is not a tenant matter.
fn tenant<'c>(cluster: &Cluster, who: Who<'c>) -> Option<Tenant<'c>> {
    match who {
        Who::Pod { namespace, .. } => Some(tenant_of(cluster, namespace)),
        Who::Container { .. } => Some(Tenant::Common),
        Who::Node(_) | Who::Unknown | Who::Outside => None,
    }
}

/// Whether the tenants of both let them talk. A pod that is not known may be anybody's.
pub(super) fn let_talk(cluster: &Cluster, subject: Who<'_>, peer: Who<'_>) -> bool {
    match (tenant(cluster, subject), tenant(cluster, peer)) {
        (Some(subject), Some(peer)) => meet(subject, peer),
        (Some(subject), None) if peer == Who::Unknown => {
            subject == Tenant::Shared || !are_there_tenants(cluster)
        }
        _ => true,
    }
}
