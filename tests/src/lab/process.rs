//! Processes of a lab: found by their pid files, ended only where they are ours.
//!
//! A number in a pid file may by then belong to somebody else. Every process of a lab
//! names the lab's folder on its command line, and that is checked before a signal.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::error::LabError;

/// How long a process gets to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a process gets that somebody left in a namespace of the lab.
const GRACE: Duration = Duration::from_millis(500);

/// The living process of a pid file, provided that its command line names `folder`.
pub fn find(pid_file: &Path, folder: &Path) -> Option<Pid> {
    let number: i32 = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    (number > 1 && names(number, folder)).then(|| Pid::from_raw(number))
}

/// Whether the command line of a process names something in `folder`.
pub fn names(pid: i32, folder: &Path) -> bool {
    let line = command_line(pid);
    let (alone, below) = (folder.display().to_string(), format!("{}/", folder.display()));
    line.split('\0').any(|word| word == alone || word.contains(&below))
}

/// Living processes with these words in a row on their command line.
pub fn with_words(words: &[&str]) -> Vec<i32> {
    let wanted = words.join("\0");
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| command_line(*pid).contains(&wanted)).collect()
}

/// Words of a command line, each ended by a zero byte. A process that has just begun
/// shows none for a moment.
fn command_line(pid: i32) -> String {
    for _ in 0..1000 {
        match fs::read(format!("/proc/{pid}/cmdline")) {
            Ok(line) if line.is_empty() && is_starting(pid) => std::thread::sleep(Duration::from_millis(1)),
            Ok(line) => return String::from_utf8_lossy(&line).into_owned(),
            Err(_) => return String::new(),
        }
    }
    String::new()
}

/// Whether a process without a command line may get one: no zombie, and no thread of the
/// kernel, which has no program.
fn is_starting(pid: i32) -> bool {
    alive(Pid::from_raw(pid)) && fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// Sends a signal; a process that is gone is no error.
///
/// # Errors
/// [`LabError::Io`] where the system refuses.
pub fn signal(pid: Pid, signal: Signal) -> Result<(), LabError> {
    match kill(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(LabError::io(format!("send {signal} to process {pid}"))(errno.into())),
    }
}

/// Ends the process of a pid file: asks first, then kills. Absent is no error.
///
/// # Errors
/// [`LabError::Io`] where the system refuses.
pub fn end(pid_file: &Path, folder: &Path, first: Signal) -> Result<(), LabError> {
    let Some(pid) = find(pid_file, folder).filter(|pid| *pid != Pid::this()) else { return Ok(()) };
    signal(pid, first)?;
    if !gone(pid, PATIENCE) {
        signal(pid, Signal::SIGKILL)?;
        gone(pid, PATIENCE);
    }
    // A daemon that was killed leaves its pid file.
    let _ = fs::remove_file(pid_file);
    Ok(())
}

/// Ends processes that are known to be ours by another sign than a pid file; the calling
/// process itself is left out.
pub fn end_all(pids: &[i32]) {
    let pids = pids.iter().map(|&pid| Pid::from_raw(pid)).filter(|pid| *pid != Pid::this());
    let pids: Vec<Pid> = pids.collect();
    for first in [Signal::SIGTERM, Signal::SIGKILL] {
        let left: Vec<_> = pids.iter().filter(|pid| alive(**pid)).collect();
        for pid in &left {
            if let Err(error) = signal(**pid, first) {
                eprintln!("{error}");
            }
        }
        let until = Instant::now() + if first == Signal::SIGTERM { GRACE } else { PATIENCE };
        while left.iter().any(|pid| alive(**pid)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits until a process is gone (or only waits to be reaped).
pub fn gone(pid: Pid, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while alive(pid) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Whether a process runs; a zombie does not, unless other threads of it still end.
pub fn alive(pid: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    if threads > 1 {
        return true;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the program's name, which stands in brackets and may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_a_process_that_names_the_folder_is_found() {
        let dir = std::env::temp_dir().join(format!("fabric-process-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let pid_file = dir.join("pid");
        let script = format!("exec sleep 30 # {}/x", dir.display());
        let mut child = Command::new("sh").arg("-c").arg("sleep 30; true").arg(script).spawn().unwrap();
        fs::write(&pid_file, child.id().to_string()).unwrap();
        assert!(find(&pid_file, &dir).is_some());
        assert!(find(&pid_file, Path::new("/run/another")).is_none());
        child.kill().unwrap();
        assert!(gone(Pid::from_raw(i32::try_from(child.id()).unwrap()), PATIENCE));
        assert!(find(&pid_file, &dir).is_none(), "a zombie has no command line");
        child.wait().unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }
}
