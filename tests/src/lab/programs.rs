//! Where the programs of Fabric are: in `FABRIC_BIN_DIR`, else beside the running
//! program (cargo puts a test one folder deeper).

use std::path::{Path, PathBuf};

use super::error::LabError;

/// The programs that a lab runs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The agent.
    pub node: PathBuf,
    /// The CNI plugin.
    pub cni: PathBuf,
}

impl Programs {
    /// Finds them.
    ///
    /// # Errors
    /// [`LabError::MissingProgram`] names the one that is missing and its package.
    pub fn find() -> Result<Self, LabError> {
        Ok(Self { node: find("fabric-node", "fabric-node")?, cni: find("fabric-cni", "fabric-cni")? })
    }
}

/// Finds one program of the workspace.
///
/// # Errors
/// [`LabError::MissingProgram`] where it is not there.
pub fn find(name: &'static str, package: &'static str) -> Result<PathBuf, LabError> {
    let directory = directory()?;
    let parent = directory.parent().unwrap_or(Path::new("/"));
    [directory.as_path(), parent]
        .iter()
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| LabError::MissingProgram { name, package, directory: directory.clone() })
}

fn directory() -> Result<PathBuf, LabError> {
    if let Some(given) = std::env::var_os("FABRIC_BIN_DIR").filter(|v| !v.is_empty()) {
        return Ok(given.into());
    }
    let own = std::env::current_exe().map_err(LabError::io("find the path of this program"))?;
    Ok(own.parent().unwrap_or(Path::new("/")).to_owned())
}
