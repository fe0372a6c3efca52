//! Names and folders of a lab.
//!
//! Everything a lab makes carries its name, so that two labs never meet and what a
//! crash left can be found: namespaces are `fl-LAB-wire`, `fl-LAB-nN`, `fl-LAB-p-HASH` and
//! those of an office, the folder is `/run/fabric-lab/LAB`. Devices live inside these
//! namespaces and need no names of their own.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::error::LabError;

/// Longest path of a unix socket, bytes (`sun_path` less its final zero).
const SOCKET_PATH_MAX: usize = 107;
/// Longest path below the lab's folder that names a socket: `/n99/br-fabric.mgmt` and the like.
const SOCKET_TAIL: usize = 36;
/// Places of an office: its switch, its router, and a server in each VLAN.
pub const OFFICE: [&str; 4] = ["office", "router", "server100", "server200"];
/// Where labs live unless `FABRIC_LAB_DIR` says otherwise.
pub const DEFAULT_ROOT: &str = "/run/fabric-lab";

/// Name of a lab: 1 to 20 of a-z, 0-9 and `-`, beginning with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabName(String);

impl LabName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Namespace of the wire, with the bridge that joins the nodes.
    pub fn wire(&self) -> String {
        format!("fl-{}-wire", self.0)
    }

    /// Namespace of node `nN`.
    pub fn node(&self, index: usize) -> String {
        format!("fl-{}-n{index}", self.0)
    }

    /// Namespace of a place of the office, one of [`OFFICE`].
    pub fn office(&self, place: &str) -> String {
        format!("fl-{}-{place}", self.0)
    }

    /// Namespace of a pod (`NS/NAME`).
    pub fn pod(&self, pod: &str) -> String {
        format!("fl-{}-p-{:010x}", self.0, hash(pod) & 0xff_ffff_ffff)
    }

    /// Whether a namespace belongs to this lab. The tails are told apart exactly, since
    /// `fl-a-n1-n1` is node 1 of the lab `a-n1` and nothing of the lab `a`.
    pub fn owns(&self, namespace: &str) -> bool {
        let Some(tail) = namespace
            .strip_prefix("fl-")
            .and_then(|rest| rest.strip_prefix(self.0.as_str()))
            .and_then(|rest| rest.strip_prefix('-'))
        else {
            return false;
        };
        let numbered = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let hashed = |text: &str| text.len() == 10 && text.bytes().all(|b| b.is_ascii_hexdigit());
        tail == "wire"
            || OFFICE.contains(&tail)
            || tail.strip_prefix('n').is_some_and(numbered)
            || tail.strip_prefix("p-").is_some_and(hashed)
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LabName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good = (1..=20).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with('-');
        if good { Ok(Self(text.to_owned())) } else { Err(LabError::BadName(text.to_owned())) }
    }
}

/// Folders and files of one lab.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The lab.
    pub name: LabName,
    /// Its folder.
    pub directory: PathBuf,
}

impl Layout {
    /// The layout of a lab under `FABRIC_LAB_DIR`, or under `/run/fabric-lab`.
    ///
    /// # Errors
    /// [`LabError::LongPath`] where a socket in it could not be opened.
    pub fn new(name: &LabName) -> Result<Self, LabError> {
        let directory = root().join(name.as_str());
        if directory.as_os_str().len() + SOCKET_TAIL > SOCKET_PATH_MAX {
            return Err(LabError::LongPath(directory));
        }
        Ok(Self { name: name.clone(), directory })
    }

    /// Folder of node `nN`: database, sockets and logs of its switch and its agent.
    pub fn node(&self, index: usize) -> PathBuf {
        self.directory.join(format!("n{index}"))
    }

    /// Folder of the office's switch: its database, sockets and logs.
    pub fn office(&self) -> PathBuf {
        self.directory.join("office")
    }

    /// The folder of manifests that the agents read.
    pub fn world(&self) -> PathBuf {
        self.directory.join("world")
    }

    /// What the lab is: see [`super::record::Record`].
    pub fn record(&self) -> PathBuf {
        self.directory.join("lab.json")
    }

    /// The pods and what became of them, written by whoever attaches them.
    pub fn pods(&self) -> PathBuf {
        self.directory.join("pods.json")
    }

    /// Process number of the supervisor.
    pub fn supervisor_pid(&self) -> PathBuf {
        self.directory.join("supervisor.pid")
    }

    /// Log of the supervisor.
    pub fn supervisor_log(&self) -> PathBuf {
        self.directory.join("supervisor.log")
    }

    /// Present while somebody takes the lab down: a supervisor that is ended then leaves the rest to them.
    pub fn stopping(&self) -> PathBuf {
        self.directory.join("stopping")
    }

    /// Held while a lab is made or taken down.
    pub fn lock(&self) -> PathBuf {
        lock_path(&self.directory)
    }
}

fn lock_path(directory: &Path) -> PathBuf {
    directory.with_extension("lock")
}

/// The folder that holds all labs.
pub fn root() -> PathBuf {
    std::env::var_os("FABRIC_LAB_DIR")
        .filter(|v| !v.is_empty())
        .map_or_else(|| DEFAULT_ROOT.into(), PathBuf::from)
}

/// FNV-1a, 64 bits: the same in every build, so that one build finds what another made.
pub fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> LabName {
        text.parse().unwrap()
    }

    #[test]
    fn a_lab_owns_its_namespaces_only() {
        let (a, longer) = (name("a"), name("a-n1"));
        for namespace in [a.wire(), a.node(12), a.pod("default/web"), a.office("router")] {
            assert!(a.owns(&namespace), "{namespace}");
            assert!(!longer.owns(&namespace), "{namespace}");
        }
        for namespace in [longer.wire(), longer.node(1), longer.pod("default/web")] {
            assert!(!a.owns(&namespace), "{namespace}");
            assert!(longer.owns(&namespace), "{namespace}");
        }
        assert!(!a.owns("fl-a-other") && !a.owns("a-n1") && !a.owns("fl-a-n"));
    }

    #[test]
    fn names_that_could_not_be_found_again_are_refused() {
        for bad in ["", "-a", "A", "a/b", "a.b", "a b", "abcdefghijklmnopqrstu"] {
            assert!(bad.parse::<LabName>().is_err(), "{bad:?}");
        }
        assert_eq!(name("lab-2").to_string(), "lab-2");
    }
}
