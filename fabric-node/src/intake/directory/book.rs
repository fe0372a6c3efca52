//! Which file gives which object, and so what a change of a file changes.
//!
//! An object may be in one place only. Where it is in several, the one in the file
//! whose name sorts first is in force (within a file, the first), the others are
//! reported, and take over when that one goes.
//!
//! What turns unreadable does not go: the object that was read from there stays in force
//! as it was, or a slip of an editor would lift a policy. Such an object is *kept*. A
//! document that does not even tell which object it is may be any that the file has lost;
//! one that tells its name, but whose kind is not read, may be a lost one of that name,
//! unless it was there while that one still was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabric_api::Problem;
use policy::{Edit, Object, ObjectRef};

/// Name of a file in the folder.
pub(super) type FileName = Arc<str>;

/// What a file was read to hold.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The objects, in the order of the file.
    pub objects: Vec<Found>,
    /// What could not be read, but may be an object that was read before.
    pub unread: Vec<Unread>,
    /// What is wrong with the file, in its order.
    pub problems: Vec<Problem>,
}

/// An object in a file.
#[derive(Debug)]
pub(super) struct Found {
    /// The object.
    pub object: Object,
    /// Equal where the manifest is.
    pub digest: u64,
    /// Its document, for people.
    pub place: String,
}

/// Which objects a document may have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// This one.
    Object(ObjectRef),
    /// One of this name (and namespace), of whatever kind.
    Named {
        /// `metadata.namespace`.
        namespace: Option<String>,
        /// `metadata.name`.
        name: String,
    },
    /// Any.
    Anything,
}

impl Unread {
    fn may_be(&self, reference: &ObjectRef) -> bool {
        match self {
            Self::Object(object) => object == reference,
            Self::Named { namespace, name } => {
                reference.name == *name.as_str()
                    && (namespace.is_none() || reference.namespace.as_deref() == namespace.as_deref())
            }
            Self::Anything => true,
        }
    }
}

/// The edits of one change of the folder: the last word on each object.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<ObjectRef, Option<Object>>);

impl Changes {
    /// Puts before removals: what replaces a policy is in force before that goes.
    pub(super) fn into_edits(self) -> Vec<Edit> {
        let (put, removed): (Vec<_>, Vec<_>) = self.0.into_iter().partition(|(_, object)| object.is_some());
        let puts = put.into_iter().filter_map(|(_, object)| object).map(Edit::Put);
        puts.chain(removed.into_iter().map(|(reference, _)| Edit::Remove(reference))).collect()
    }
}

/// Every file of the folder, and every object in force.
#[derive(Debug, Default)]
pub(super) struct Book {
    files: BTreeMap<FileName, File>,
    in_force: BTreeMap<ObjectRef, InForce>,
    /// Files that give an object which another one has in force.
    shadowed: BTreeMap<ObjectRef, BTreeSet<FileName>>,
}

#[derive(Debug, Default)]
struct File {
    /// With the digests of their manifests.
    objects: BTreeMap<ObjectRef, u64>,
    /// Those of the objects that the file was read to hold in an earlier form only.
    kept: BTreeSet<ObjectRef>,
    unread: Vec<Unread>,
    problems: Vec<Problem>,
}

impl File {
    /// Whether an object of this file that the next reading, with `unread`, lacks is likely still there.
    fn keeps(&self, reference: &ObjectRef, unread: &[Unread]) -> bool {
        unread.iter().any(|document| {
            let accompanied = matches!(document, Unread::Named { .. })
                && self.unread.contains(document)
                && !self.kept.contains(reference);
            document.may_be(reference) && !accompanied
        })
    }
}

#[derive(Debug)]
struct InForce {
    file: FileName,
    /// Of the manifest that the node was told; None where it was told another file's.
    told: Option<u64>,
}

impl Book {
    /// The names of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileName> {
        self.files.keys()
    }

    /// A file was read. The names returned are of files to be read again, since an object of theirs is in
    /// force by this.
    pub(super) fn apply(
        &mut self,
        file: &FileName,
        contents: Contents,
        changes: &mut Changes,
    ) -> BTreeSet<FileName> {
        let Contents { objects, unread, mut problems } = contents;
        let before = self.files.remove(file).unwrap_or_default();
        let mut after = BTreeMap::new();
        for found in objects {
            let reference = found.object.reference();
            if after.contains_key(&reference) {
                problems.push(twice(found.place, &reference));
                continue;
            }
            after.insert(reference.clone(), found.digest);
            self.give(file, reference, found, changes);
        }
        let missing = before.objects.iter().filter(|(reference, _)| !after.contains_key(*reference));
        let (kept, lost): (Vec<_>, Vec<_>) =
            missing.partition(|(reference, _)| before.keeps(reference, &unread));
        let kept: BTreeMap<_, _> =
            kept.into_iter().map(|(reference, digest)| (reference.clone(), *digest)).collect();
        let names = kept.keys().cloned().collect();
        after.extend(kept);
        self.files.insert(Arc::clone(file), File { objects: after, kept: names, unread, problems });
        lost.into_iter().filter_map(|(reference, _)| self.take(file, reference, changes)).collect()
    }

    /// A file is there but cannot be read at all: its objects stay as they were.
    pub(super) fn unreadable(&mut self, file: &FileName, problem: Problem) {
        self.files.entry(Arc::clone(file)).or_default().problems = vec![problem];
    }

    /// A file is gone. The names returned are of files to be read again.
    pub(super) fn remove(&mut self, file: &FileName, changes: &mut Changes) -> BTreeSet<FileName> {
        let objects = self.files.remove(file).map(|file| file.objects).unwrap_or_default();
        objects.keys().filter_map(|reference| self.take(file, reference, changes)).collect()
    }

    /// What is wrong, file by file.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<_> =
            self.files.values().flat_map(|file| file.problems.iter().cloned()).collect();
        for (reference, files) in &self.shadowed {
            let in_force = self.in_force.get(reference).map(|in_force| &*in_force.file).unwrap_or_default();
            problems.extend(files.iter().map(|file| Problem {
                source: file.to_string(),
                object: Some(reference.to_string()),
                field: String::new(),
                message: format!(
                    "the object is in {in_force} too, and that one is in force; remove one of them"
                ),
            }));
        }
        problems.sort();
        problems
    }

    /// `file` gives an object.
    fn give(&mut self, file: &FileName, reference: ObjectRef, found: Found, changes: &mut Changes) {
        let told = match self.in_force.get_mut(&reference) {
            Some(other) if *other.file < **file => {
                self.shadowed.entry(reference).or_default().insert(Arc::clone(file));
                return;
            }
            Some(other) if *other.file > **file => {
                let loser = std::mem::replace(&mut other.file, Arc::clone(file));
                self.shadowed.entry(reference.clone()).or_default().insert(loser);
                other.told.replace(found.digest)
            }
            Some(same) => same.told.replace(found.digest),
            None => {
                let in_force = InForce { file: Arc::clone(file), told: Some(found.digest) };
                self.in_force.insert(reference.clone(), in_force);
                None
            }
        };
        if told != Some(found.digest) {
            changes.0.insert(reference, Some(found.object));
        }
    }

    /// `file` no longer gives an object; the file whose object is in force by that.
    fn take(&mut self, file: &FileName, reference: &ObjectRef, changes: &mut Changes) -> Option<FileName> {
        let mut others = self.shadowed.remove(reference).unwrap_or_default();
        let was_shadowed = others.remove(file);
        let next = if was_shadowed { None } else { others.pop_first() };
        if !others.is_empty() {
            self.shadowed.insert(reference.clone(), others);
        }
        if was_shadowed {
            return None;
        }
        match &next {
            Some(next) => {
                self.in_force.insert(reference.clone(), InForce { file: Arc::clone(next), told: None });
            }
            None => {
                self.in_force.remove(reference);
                changes.0.insert(reference.clone(), None);
            }
        }
        next
    }
}

fn twice(place: String, reference: &ObjectRef) -> Problem {
    Problem {
        source: place,
        object: Some(reference.to_string()),
        field: String::new(),
        message: "the object is in this file before, and that one is in force; remove one of them".to_owned(),
    }
}

#[cfg(test)]
mod tests;
