//! Taking a lab down, whatever is left of it.
//!
//! What the lab recorded goes first, then whatever carries its name: a lab whose
//! makers crashed leaves namespaces, processes in them, and a folder.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use super::error::LabError;
use super::names::{LabName, Layout, root};
use super::node::Node;
use super::record::{Record, load};
use super::{agent, names, netns, process, switch};

/// Held while a lab is made or taken down.
#[derive(Debug)]
pub struct Lock {
    file: Flock<fs::File>,
    path: PathBuf,
}

impl Lock {
    /// Whether the locked file is still the one that others will find.
    fn is_current(&self) -> bool {
        let inode = |meta: std::io::Result<fs::Metadata>| meta.map(|meta| meta.ino()).ok();
        inode(self.file.metadata()) == inode(fs::metadata(&self.path))
    }
}

impl Drop for Lock {
    /// Removes the file and, after the last lab, the usual folder: nothing stays behind.
    fn drop(&mut self) {
        if self.is_current() {
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_dir(names::DEFAULT_ROOT);
        }
    }
}

/// Waits for the lab's lock: one command at a time makes it or takes it down.
///
/// # Errors
/// [`LabError::Io`] where the folder of labs cannot be written.
pub fn lock(layout: &Layout) -> Result<Lock, LabError> {
    let path = layout.lock();
    let what = format!("lock {}", path.display());
    loop {
        let folder = root();
        fs::create_dir_all(&folder).map_err(LabError::io(format!("make {}", folder.display())))?;
        let file = fs::File::create(&path);
        if matches!(&file, Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
            // The last lab's folder went in between.
            continue;
        }
        let file = file.map_err(LabError::io(what.clone()))?;
        let locked = Flock::lock(file, FlockArg::LockExclusive);
        let file = locked.map_err(|(_, errno)| LabError::io(what.clone())(errno.into()))?;
        let lock = Lock { file, path: path.clone() };
        if lock.is_current() {
            return Ok(lock);
        }
    }
}

/// Removes all of a lab. Nothing there is no error; whether anything was is returned.
///
/// # Errors
/// With what could not be removed; the rest is removed first.
pub fn remove(layout: &Layout) -> Result<bool, LabError> {
    let namespaces = netns::of_lab(&layout.name);
    let existed = !namespaces.is_empty() || layout.directory.exists();
    let mut first_error = Ok(());
    let mut note = |result: Result<(), LabError>| {
        if first_error.is_ok() {
            first_error = result;
        }
    };
    note(end_supervisor(layout));
    for index in 1..=node_count(layout) {
        let node = Node::new(layout, index, None);
        note(agent::end(&node, Signal::SIGTERM));
        note(switch::stop(&node));
    }
    note(switch::stop(&Node::office(layout)));
    process::end_all(&netns::processes(&namespaces));
    note(netns::remove(namespaces.iter().map(String::as_str)));
    note(remove_folder(&layout.directory));
    first_error.map(|()| existed)
}

/// Labs that are up, or were when their makers crashed, by their folders.
pub fn labs() -> Vec<LabName> {
    let entries = fs::read_dir(root()).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<LabName> =
        folders.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    names.sort();
    names
}

/// Removes the labs whose owner is gone: a test that was killed takes nothing down.
pub fn remove_orphans() {
    for name in labs() {
        let Ok(layout) = Layout::new(&name) else { continue };
        let orphan = || {
            let record: Result<Record, _> = load(&layout.record());
            record.is_ok_and(|record| record.owner.is_some_and(|owner| !owner.alive()))
        };
        // Asked again under the lock: the name may have been taken meanwhile.
        if orphan()
            && let Ok(_lock) = lock(&layout)
            && orphan()
            && let Err(error) = remove(&layout)
        {
            eprintln!("lab {name}, which its owner left behind: {error}");
        }
    }
}

fn end_supervisor(layout: &Layout) -> Result<(), LabError> {
    if layout.directory.exists() {
        let marker = layout.stopping();
        fs::write(&marker, "").map_err(LabError::io(format!("write {}", marker.display())))?;
    }
    process::end(&layout.supervisor_pid(), &layout.directory, Signal::SIGTERM)?;
    // One whose number nobody wrote down.
    process::end_all(&process::with_words(&[
        "supervise",
        "--directory",
        &layout.directory.display().to_string(),
    ]));
    Ok(())
}

/// As many as the record says, or as there are folders of nodes.
fn node_count(layout: &Layout) -> usize {
    let recorded = load::<Record>(&layout.record()).map_or(0, |record| record.nodes);
    let entries = fs::read_dir(&layout.directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix('n')?.parse().ok());
    numbers.max().unwrap_or(0).max(recorded)
}

fn remove_folder(folder: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::io(format!("remove {}", folder.display()))(error))
        }
        _ => Ok(()),
    }
}
