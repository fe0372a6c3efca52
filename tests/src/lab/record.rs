//! What a lab remembers of itself on disk, so that another command finds it again.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::LabError;
use super::wiring::Wiring;

/// `lab.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Nodes n1 to nN.
    pub nodes: usize,
    /// The folder that it mirrors.
    pub source: Option<PathBuf>,
    /// Whether agents run in it.
    pub agents: bool,
    /// The office beside it.
    #[serde(default)]
    pub office: Option<Wiring>,
    /// A process whose end ends the lab: a test, or a lab in the foreground.
    pub owner: Option<Owner>,
}

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// When it began, clock ticks after boot (field 22 of `/proc/PID/stat`).
    pub began: u64,
}

impl Owner {
    /// The running process.
    pub fn this() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether the process still runs.
    pub fn alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        // Field 3 comes first after the name.
        let began = rest.split(' ').nth(19)?.parse().ok()?;
        Some(Self { pid, began })
    }
}

/// Where a pod stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It carries traffic.
    Attached,
    /// It shares its node's namespace.
    Host,
    /// It could not be attached; it is tried again.
    Failed,
    /// The lab has no node of that name.
    Unplaced,
}

/// A pod of the lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// `NS/NAME`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// Its network namespace.
    pub netns: String,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `metadata.uid`, where the manifest has one.
    pub uid: Option<String>,
    /// Where it stands.
    pub state: State,
    /// Its addresses with prefix lengths.
    pub addresses: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
}

impl PodRecord {
    /// Its addresses without prefix lengths, IPv4 first.
    #[must_use]
    pub fn ips(&self) -> Vec<IpAddr> {
        let mut ips: Vec<IpAddr> =
            self.addresses.iter().filter_map(|text| text.split('/').next()?.parse().ok()).collect();
        ips.sort();
        ips
    }
}

/// Writes a value whole: a reader sees the old file or the new one.
///
/// # Errors
/// [`LabError::Io`] where the folder cannot be written.
pub fn save(file: &Path, value: &impl Serialize) -> Result<(), LabError> {
    let text = serde_json::to_string_pretty(value).map_err(std::io::Error::other);
    write_whole(file, text.map_err(LabError::io("encode"))?.as_bytes())
}

/// As [`save`], for bytes.
///
/// # Errors
/// [`LabError::Io`] where the folder cannot be written.
pub fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let aside = file.with_file_name(format!(".{name}.aside"));
    fs::write(&aside, bytes)
        .and_then(|()| fs::rename(&aside, file))
        .map_err(LabError::io(format!("write {}", file.display())))
}

/// Reads what [`save`] wrote.
///
/// # Errors
/// [`LabError::BadFile`] where it is not there or not readable.
pub fn load<T: DeserializeOwned>(file: &Path) -> Result<T, LabError> {
    let bad = |reason: String| LabError::BadFile { path: file.to_owned(), reason };
    let text = fs::read(file).map_err(|e| bad(e.to_string()))?;
    serde_json::from_slice(&text).map_err(|e| bad(e.to_string()))
}
