//! Named network namespaces, as `ip netns` keeps them.
//!
//! A program is started inside a namespace by a thread that enters it first: the child
//! inherits the thread's namespace, and the thread ends there. That is quicker than
//! `ip netns exec` and leaves the mounts alone; what a person runs goes through
//! `ip netns exec` itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use nix::sched::{CloneFlags, setns};

use super::command::{command, output, run, run_with_input, spawn};
use super::error::LabError;
use super::names::LabName;

/// Where named namespaces live.
const NETNS_DIR: &str = "/run/netns";

/// Path of a named namespace, as CNI and `setns` take it.
pub fn path(namespace: &str) -> PathBuf {
    Path::new(NETNS_DIR).join(namespace)
}

/// Whether a namespace of this name exists.
pub fn exists(namespace: &str) -> bool {
    path(namespace).exists()
}

/// Makes namespaces, all by one call of `ip`.
///
/// # Errors
/// [`LabError::Command`] with what `ip` said.
pub fn add<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Result<(), LabError> {
    let lines: String = namespaces.into_iter().map(|name| format!("netns add {name}\n")).collect();
    run_with_input(&mut command(["ip", "-batch", "-"]), &lines).map(drop)
}

/// Removes namespaces, all by one call of `ip`; those that are gone already are no error.
///
/// # Errors
/// [`LabError::Command`] with what `ip` said.
pub fn remove<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Result<(), LabError> {
    let lines: String =
        namespaces.into_iter().filter(|n| exists(n)).map(|name| format!("netns del {name}\n")).collect();
    if lines.is_empty() {
        return Ok(());
    }
    run_with_input(&mut command(["ip", "-batch", "-"]), &lines).map(drop)
}

/// Runs lines of `ip` commands inside a namespace, by one call.
///
/// # Errors
/// [`LabError::Command`] with what `ip` said.
pub fn batch(namespace: &str, lines: &str) -> Result<(), LabError> {
    run_with_input(&mut command(["ip", "-n", namespace, "-batch", "-"]), lines).map(drop)
}

/// All namespaces of a lab.
pub fn of_lab(lab: &LabName) -> Vec<String> {
    let Ok(entries) = fs::read_dir(NETNS_DIR) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let owned: BTreeSet<String> = names.filter(|name| lab.owns(name)).collect();
    owned.into_iter().collect()
}

/// Runs something on a thread of its own inside a namespace; children it starts live there.
///
/// # Errors
/// [`LabError::Io`] where the namespace cannot be entered, else what `work` returns.
pub fn inside<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    let file = path(namespace);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let what = format!("enter the network namespace {}", file.display());
            let open = File::open(&file).map_err(LabError::io(what.clone()))?;
            setns(open, CloneFlags::CLONE_NEWNET).map_err(|e| LabError::io(what)(e.into()))?;
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs a command inside a namespace to its end, whatever that is.
///
/// # Errors
/// Where the namespace cannot be entered or the command cannot start.
pub fn output_in(namespace: &str, program: &mut Command, input: &[u8]) -> Result<Output, LabError> {
    inside(namespace, || output(program, input))
}

/// Runs a command inside a namespace; it has to succeed.
///
/// # Errors
/// As [`output_in`], and [`LabError::Command`] where the command failed.
pub fn run_in(namespace: &str, program: &mut Command) -> Result<String, LabError> {
    inside(namespace, || run(program))
}

/// Starts a command inside a namespace.
///
/// # Errors
/// As [`output_in`].
pub fn spawn_in(namespace: &str, program: &mut Command) -> Result<Child, LabError> {
    inside(namespace, || spawn(program))
}

/// Sets kernel parameters of a namespace: names below `/proc/sys` and values.
///
/// # Errors
/// [`LabError::Io`] with the name that could not be written.
pub fn sysctl(namespace: &str, settings: &[(&str, &str)]) -> Result<(), LabError> {
    inside(namespace, || {
        settings.iter().try_for_each(|(name, value)| {
            let file = Path::new("/proc/sys").join(name);
            fs::write(&file, value).map_err(LabError::io(format!("write {}", file.display())))
        })
    })
}

/// Numbers of the processes that live in one of these namespaces.
pub fn processes(namespaces: &[String]) -> Vec<i32> {
    let wanted: BTreeMap<u64, &String> = namespaces
        .iter()
        .filter_map(|name| fs::metadata(path(name)).ok().map(|meta| (meta.ino(), name)))
        .collect();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|pid| {
            let inode = fs::metadata(format!("/proc/{pid}/ns/net")).map(|meta| meta.ino());
            inode.is_ok_and(|inode| wanted.contains_key(&inode))
        })
        .collect()
}
