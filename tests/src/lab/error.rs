//! What can go wrong in the lab, and the exit code that says so.

use std::path::PathBuf;
use std::time::Duration;

/// Why the lab could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Namespaces and switches need root.
    #[error("the lab makes network namespaces and starts switches, which needs root: run it with sudo")]
    NotRoot,
    /// A program of another package is not installed.
    #[error("{tool} is not installed: apt-get install {package} (or run `make deps`)")]
    MissingTool {
        /// The program.
        tool: &'static str,
        /// Debian's package that brings it.
        package: &'static str,
    },
    /// A program of Fabric is not where it is looked for.
    #[error(
        "{name} is neither in {} nor named by FABRIC_BIN_DIR: build it with `cargo build -p {package}`",
        .directory.display()
    )]
    MissingProgram {
        /// The program.
        name: &'static str,
        /// Its package in this workspace.
        package: &'static str,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// The name cannot be part of names of namespaces.
    #[error(
        "{0:?} cannot name a lab: wanted are 1 to 20 of a-z, 0-9 and '-', beginning with a letter or digit"
    )]
    BadName(String),
    /// The folder's path is too long for the sockets in it.
    #[error("{}: sockets in this folder would exceed the 107 bytes of a socket's path; choose a shorter FABRIC_LAB_DIR", .0.display())]
    LongPath(PathBuf),
    /// Too many nodes, or none.
    #[error("{0} nodes: a lab has 1 to 99")]
    BadNodes(usize),
    /// No lab of this name is up.
    #[error("no lab named {0} is up (see `fabric-lab list`)")]
    NoSuchLab(String),
    /// The lab has no such node, pod or other place.
    #[error("lab {lab} has no {place}")]
    NoSuchPlace {
        /// The lab.
        lab: String,
        /// What was looked for: `node/n9`, `pod/default/web`.
        place: String,
    },
    /// A program failed.
    #[error("{command}: {reason}")]
    Command {
        /// The command line.
        command: String,
        /// Exit status and what it printed to its standard error.
        reason: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with its path.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Something took too long.
    #[error("{what} did not happen within {} s", .after.as_secs())]
    Timeout {
        /// What was waited for, and where to look.
        what: String,
        /// How long.
        after: Duration,
    },
    /// `fabric-cni` refused, with the error of the CNI specification.
    #[error("CNI {command} for pod {pod} on {node}: error {code}: {message}")]
    Cni {
        /// `ADD`, `DEL`, ...
        command: &'static str,
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// Code of the CNI specification, section "Error".
        code: u64,
        /// Its message and details.
        message: String,
    },
    /// The fabric is up, but part of it is not as the folder asks for.
    #[error("{0}")]
    NotReady(String),
    /// A file of the lab or of the world cannot be read.
    #[error("{}: {reason}", .path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A signal ended it.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// For `map_err`: an IO error with what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Exit code of `fabric-lab`, as its `--help` lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotRoot => 3,
            Self::NotReady(_) | Self::Timeout { .. } => 4,
            Self::NoSuchLab(_) | Self::NoSuchPlace { .. } => 5,
            Self::MissingTool { .. } | Self::MissingProgram { .. } => 6,
            Self::Interrupted => 130,
            Self::BadName(_) | Self::BadNodes(_) | Self::LongPath(_) => 2,
            Self::Command { .. } | Self::Io { .. } | Self::Cni { .. } | Self::BadFile { .. } => 1,
        }
    }
}
