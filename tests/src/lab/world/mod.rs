//! The folder of manifests that the agents read: a mirror of the user's folder, and
//! the objects that the lab adds because a cluster would have them.
//!
//! The mirror is refreshed by comparing names, sizes and times, so that what the user
//! edits takes effect and what they remove goes. A change counts when it was seen twice:
//! an editor may be in the middle of writing.

mod derive;
mod read;

pub use derive::derived;
pub use read::{Document, Pod, documents, pods};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::LabError;

/// Prefix of the files that the lab adds.
const OWN: &str = "fabric-lab-";
/// An agent's configuration, which may lie beside manifests and is none.
const NODE_FILE: &str = "node.yaml";

/// Keeps the lab's folder of manifests equal to the user's, plus the lab's own files.
#[derive(Debug)]
pub struct Mirror {
    source: Option<PathBuf>,
    target: PathBuf,
    staging: PathBuf,
    nodes: usize,
    /// What the user's folder held at the last refresh.
    seen: Option<BTreeMap<String, Stamp>>,
    /// What it held at the last look, where that differs from the last refresh.
    fresh: Option<BTreeMap<String, Stamp>>,
    derived: BTreeMap<String, String>,
}

/// What tells that a file was changed.
type Stamp = (PathBuf, u64, Option<SystemTime>);

impl Mirror {
    /// A mirror of `source` in `target` for a lab of `nodes` nodes. Without a source,
    /// the target is the user's folder itself.
    ///
    /// # Errors
    /// [`LabError::Io`] where the folders cannot be made or the source is not one.
    pub fn new(source: Option<&Path>, target: &Path, nodes: usize) -> Result<Self, LabError> {
        let staging = target.with_extension("staging");
        for folder in [target, &staging] {
            fs::create_dir_all(folder).map_err(LabError::io(format!("make {}", folder.display())))?;
        }
        let (source, target) = (source.map(Path::to_owned), target.to_owned());
        Ok(Self { source, target, staging, nodes, seen: None, fresh: None, derived: BTreeMap::new() })
    }

    /// Carries over what changed, and tells whether anything did. The first look counts at
    /// once, later ones when the next finds the same.
    ///
    /// # Errors
    /// [`LabError::Io`] where a file or folder cannot be read or written. A folder that is
    /// gone removes no pod.
    pub fn refresh(&mut self) -> Result<bool, LabError> {
        let folder = self.source.as_deref().unwrap_or(&self.target);
        fs::read_dir(folder).map_err(LabError::io(format!("read {}", folder.display())))?;
        let found = manifests(folder);
        let settled = self.seen.is_none() || self.fresh.as_ref() == Some(&found);
        if self.seen.as_ref() == Some(&found) || !settled {
            self.fresh = Some(found);
            return Ok(false);
        }
        if self.source.is_some() {
            self.carry_over(&found)?;
        }
        self.seen = Some(found);
        self.derive()?;
        Ok(true)
    }

    fn carry_over(&self, found: &BTreeMap<String, Stamp>) -> Result<(), LabError> {
        let none = BTreeMap::new();
        let seen = self.seen.as_ref().unwrap_or(&none);
        for (name, stamp) in found {
            if seen.get(name) != Some(stamp) {
                // A file that went between the listing and here is seen at the next refresh.
                if let Ok(bytes) = fs::read(&stamp.0) {
                    self.place(name, &bytes)?;
                }
            }
        }
        // What the target holds, not what was seen: another mirror may have filled it.
        for name in manifests(&self.target).keys().filter(|name| !found.contains_key(*name)) {
            self.remove(name)?;
        }
        Ok(())
    }

    fn derive(&mut self) -> Result<(), LabError> {
        let files: BTreeSet<_> = manifests(&self.target).into_keys().collect();
        let texts = files.iter().filter_map(|name| fs::read_to_string(self.target.join(name)).ok());
        let documents: Vec<Document> = texts.flat_map(|text| documents(&text)).collect();
        let wanted = derived(&documents, self.nodes);
        let wanted: BTreeMap<String, String> =
            wanted.into_iter().map(|(name, text)| (format!("{OWN}{name}.yaml"), text)).collect();
        for (name, text) in &wanted {
            if self.derived.get(name) != Some(text) {
                self.place(name, text.as_bytes())?;
            }
        }
        let own = own_files(&self.target);
        let own = own.iter().filter_map(|path| path.file_name()?.to_str());
        for name in own.filter(|name| !wanted.contains_key(*name)) {
            self.remove(name)?;
        }
        self.derived = wanted;
        Ok(())
    }

    fn place(&self, name: &str, bytes: &[u8]) -> Result<(), LabError> {
        let (aside, file) = (self.staging.join(name), self.target.join(name));
        fs::write(&aside, bytes)
            .and_then(|()| fs::rename(&aside, &file))
            .map_err(LabError::io(format!("write {}", file.display())))
    }

    fn remove(&self, name: &str) -> Result<(), LabError> {
        let file = self.target.join(name);
        match fs::remove_file(&file) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(LabError::io(format!("remove {}", file.display()))(e))
            }
            _ => Ok(()),
        }
    }
}

/// All pods of a folder of manifests. A document that cannot be read holds none: the
/// agents report it.
pub fn pods_of(folder: &Path) -> Vec<Pod> {
    let files = manifests(folder).into_values().map(|(path, ..)| path);
    let own = own_files(folder);
    let texts = files.chain(own).filter_map(|path| fs::read_to_string(path).ok());
    texts.flat_map(|text| pods(&documents(&text))).collect()
}

/// The highest N of the nodes nN that pods name.
pub fn nodes_asked_for(folder: &Path) -> usize {
    let numbers = pods_of(folder).into_iter().filter_map(|pod| pod.node.strip_prefix('n')?.parse().ok());
    numbers.max().unwrap_or(0)
}

fn own_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(OWN))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// The user's manifests below a folder: a name for the mirror, and what tells a change.
/// A file in a subfolder is named `SUBFOLDER_FILE`, since the agents read one folder.
fn manifests(folder: &Path) -> BTreeMap<String, Stamp> {
    let mut found = BTreeMap::new();
    collect(folder, "", &mut found);
    found
}

fn collect(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Stamp>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || name.starts_with(OWN) || name == NODE_FILE {
            continue;
        }
        let path = entry.path();
        let Ok(meta) = fs::metadata(&path) else { continue };
        let known = Path::new(&name).extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
        if meta.is_dir() {
            collect(&path, &format!("{prefix}{name}_"), found);
        } else if known {
            found.insert(format!("{prefix}{name}"), (path, meta.len(), meta.modified().ok()));
        }
    }
}

#[cfg(test)]
mod tests;
