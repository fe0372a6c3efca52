//! The second half of the demo: further manifests, policies among them, and what they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::measure::Reach;
use crate::lab::command::{command, output};
use crate::lab::{Lab, LabError, find_program, interrupt};

/// How long the agents may take to read the manifests and change their switches.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks at an agent.
const LOOK: Duration = Duration::from_millis(5);

/// Puts the manifests of a folder beside those of the lab, those of the same file name in their place; how long it
/// took until every agent has read them and its switch does what they say.
///
/// # Errors
/// Where the folder cannot be read or an agent does not follow.
pub fn put(lab: &Lab, folder: &Path) -> Result<Duration, LabError> {
    let wanted = policies(lab)? + u64::from(!manifests(folder)?.is_empty());
    let began = Instant::now();
    for file in manifests(folder)? {
        let text = fs::read_to_string(&file).map_err(LabError::io(format!("read {}", file.display())))?;
        lab.write_manifest(&file.file_name().unwrap_or_default().to_string_lossy(), &text)?;
    }
    for node in lab.nodes() {
        loop {
            let status = lab.agent_status(&node.name)?;
            if status.world.network_policies >= wanted && status.policy.settled {
                break;
            }
            if began.elapsed() > PATIENCE {
                let what = format!("{} to follow {}", node.name, folder.display());
                return Err(LabError::Timeout { what, after: PATIENCE });
            }
            interrupt::check()?;
            std::thread::sleep(LOOK);
        }
    }
    Ok(began.elapsed())
}

/// NetworkPolicies that the agents know of.
fn policies(lab: &Lab) -> Result<u64, LabError> {
    let known = lab.nodes().iter().map(|node| Ok(lab.agent_status(&node.name)?.world.network_policies));
    Ok(known.collect::<Result<Vec<_>, LabError>>()?.into_iter().max().unwrap_or(0))
}

fn manifests(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let unreadable = || LabError::io(format!("read {}", folder.display()));
    let entries = fs::read_dir(folder).map_err(unreadable())?;
    let files: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut files = files.map_err(unreadable())?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    Ok(files)
}

/// Two pods, the second of which the first has reached before and does not reach any more.
#[must_use]
pub fn denied<'r>(before: &Reach, after: &'r Reach) -> Option<(&'r str, &'r str)> {
    for ((name, cells), (_, earlier)) in after.rows.iter().zip(&before.rows) {
        for ((to, cell), was) in after.columns.iter().zip(cells).zip(earlier) {
            if to.contains('/') && cell != was {
                return Some((name, to));
            }
        }
    }
    None
}

/// What `fabric-trace` says about an echo request from one pod to another.
///
/// # Errors
/// Where it cannot be run.
pub fn explained(lab: &Lab, from: &str, to: &str) -> Result<String, LabError> {
    let mut trace = command([find_program("fabric-trace", "fabric-trace")?]);
    trace.args(["verdict", from, to, "--icmp", "--manifests"]).arg(lab.layout().world());
    let said = output(&mut trace, &[])?;
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}
