//! Tenants: which namespaces keep apart.

use std::collections::BTreeSet;

use super::{Change, World};
use crate::name::Name;
use crate::object::{Namespace, Tenant};

/// What the world knows about tenants as a whole.
#[derive(Clone, Debug)]
pub(super) struct Tenants {
    /// The namespaces that are shared unless an annotation of theirs says otherwise.
    shared: BTreeSet<Name>,
    /// How many namespaces keep apart from others.
    apart: usize,
}

impl Default for Tenants {
    fn default() -> Tenants {
        Tenants { shared: BTreeSet::from([Name::from("kube-system")]), apart: 0 }
    }
}

/// Whether the namespace keeps apart from some other by its annotation.
fn keeps_apart(namespace: &Namespace) -> bool {
    matches!(namespace.tenant, Tenant::Named(_) | Tenant::Unreadable)
}

impl Tenants {
    /// Counts one namespace in place of another; gives back whether there are tenants as before.
    pub(super) fn exchange(&mut self, before: Option<&Namespace>, after: Option<&Namespace>) -> bool {
        let had = self.apart > 0;
        self.apart += usize::from(after.is_some_and(keeps_apart));
        self.apart -= usize::from(before.is_some_and(keeps_apart));
        had == (self.apart > 0)
    }

    /// Whether any namespace keeps apart from others.
    pub(super) fn any(&self) -> bool {
        self.apart > 0
    }

    /// The tenant of a namespace: its annotation's, else shared for those that are so by default.
    pub(super) fn of<'n>(&self, namespace: &'n Namespace) -> &'n Tenant {
        if namespace.tenant == Tenant::Common && self.shared.contains(&namespace.name) {
            return &Tenant::Shared;
        }
        &namespace.tenant
    }
}

impl World {
    /// Whether any namespace has a tenant that keeps it apart from others (`fabric.io/tenant` with a name, or
    /// one that cannot be read). Without one, everybody is of the common group or shared, and no tenant is
    /// ever looked at.
    pub fn has_tenants(&self) -> bool {
        self.tenants.any()
    }

    /// Sets the namespaces that are shared where they have no `fabric.io/tenant` of their own, in place of
    /// `kube-system` alone.
    pub fn set_shared_namespaces(&mut self, shared: BTreeSet<Name>) -> Vec<Change> {
        if self.tenants.shared == shared {
            return Vec::new();
        }
        self.tenants.shared = shared;
        vec![Change::Tenants]
    }
}
