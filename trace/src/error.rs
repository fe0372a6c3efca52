//! Why there is no answer.

use std::io;
use std::path::PathBuf;

use fabric_api::client::ClientError;
use fabric_api::verdict::{AskError, TrafficError};

/// Why there is no answer, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The question has none.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The agent gives none.
    #[error(transparent)]
    Agent(#[from] ClientError),
    /// The command line asks for traffic that there is not.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A folder or file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A folder has nothing to read.
    #[error("{}: no manifests there: files that end in .yaml, .yml or .json are read", .0.display())]
    NoManifests(PathBuf),
    /// The first line of the questions is not as it must be.
    #[error("{file}:{line}: {message}; the header from,to,protocol,port,verdict is wanted")]
    Header {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// The runtime that speaks with the agent cannot start.
    #[error("the connection to the agent cannot be made: {0}")]
    Runtime(io::Error),
    /// An answer cannot be written.
    #[error("the answer cannot be written: {0}")]
    Write(io::Error),
}
