//! `metadata`: what an object is called, its labels and annotations.

use super::values::{labels, name, object_name};
use super::walk::{At, Read};
use crate::label::Labels;
use crate::name::{Kind, Name, ObjectRef};

/// Which object the manifest is about. A namespaced object without a namespace is in `default`, as for
/// kubectl. A policy whose name cannot be read is still a policy, under a name that stands for what it says.
pub(super) fn reference(root: &At<'_>, kind: Kind) -> Read<ObjectRef> {
    root.need("metadata", |at| {
        let name = match (at.need("name", object_name), kind) {
            (Err(_), Kind::NetworkPolicy | Kind::ClusterNetworkPolicy) => root.stand_in(),
            (name, _) => name?,
        };
        if !kind.is_namespaced() {
            return Ok(ObjectRef::cluster(kind, name));
        }
        let namespace = at.optional("namespace", object_name)?.unwrap_or_else(|| Name::from("default"));
        Ok(ObjectRef::namespaced(kind, namespace, name))
    })
}

/// The labels; without any, none.
pub(super) fn labels_of(root: &At<'_>) -> Read<Labels> {
    root.within("metadata", |at| at.optional("labels", labels)).map(Option::unwrap_or_default)
}

/// A text in the metadata, such as the uid; empty counts as absent.
pub(super) fn text(root: &At<'_>, field: &str) -> Read<Option<Name>> {
    let text = root.within("metadata", |at| at.optional(field, name))?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// One annotation.
pub(super) fn annotation<T>(
    root: &At<'_>,
    key: &str,
    read: impl FnOnce(&At<'_>) -> Read<T>,
) -> Read<Option<T>> {
    root.within("metadata", |at| at.within("annotations", |at| at.keyed(key, read)))
}

/// Reads annotations, and keeps the keys of those that cannot be read.
pub(super) struct Annotations<'a, 'b> {
    root: &'b At<'a>,
    pub(super) unreadable: Vec<&'static str>,
}

impl<'a, 'b> Annotations<'a, 'b> {
    pub(super) fn of(root: &'b At<'a>) -> Annotations<'a, 'b> {
        Annotations { root, unreadable: Vec::new() }
    }

    /// The value of an annotation, or None where it is absent or cannot be read.
    pub(super) fn get<T>(&mut self, key: &'static str, read: impl FnOnce(&At<'_>) -> Read<T>) -> Option<T> {
        annotation(self.root, key, read).unwrap_or_else(|_| {
            self.unreadable.push(key);
            None
        })
    }
}
