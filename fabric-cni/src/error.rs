//! Errors as the CNI specification spells them (1.1.0, section 5, "Error").

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of an error. 0–99 belong to the specification, Fabric's own begin at 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(pub u32);

impl Code {
    /// The plugin does not speak the requested version, or the version has no such command.
    pub const VERSION: Code = Code(1);
    /// The configuration has a field that cannot be honoured.
    pub const UNSUPPORTED_FIELD: Code = Code(2);
    /// Nothing is known of the container: the runtime need not clean up.
    pub const UNKNOWN_CONTAINER: Code = Code(3);
    /// A variable of the environment is missing or invalid.
    pub const ENVIRONMENT: Code = Code(4);
    /// Input or output failed.
    pub const IO: Code = Code(5);
    /// Something is not the JSON it should be.
    pub const DECODE: Code = Code(6);
    /// The configuration contradicts itself, the specification or the cluster.
    pub const CONFIG: Code = Code(7);
    /// It may succeed later, unchanged.
    pub const TRY_AGAIN: Code = Code(11);
    /// STATUS: no ADD can be served.
    pub const NOT_AVAILABLE: Code = Code(50);
    /// STATUS: no ADD can be served, and containers that exist may have lost connectivity.
    pub const LIMITED: Code = Code(51);
    /// Fabric: the pool is full, or somebody holds the address that was asked for.
    pub const NO_ADDRESS: Code = Code(100);
    /// Fabric: something failed on this node.
    pub const FAILED: Code = Code(101);
    /// Fabric: plugin and agent are of releases that do not understand each other.
    pub const PROTOCOL: Code = Code(102);

    /// The short message that goes with the number.
    pub fn phrase(self) -> &'static str {
        match self {
            Code::VERSION => "incompatible CNI version",
            Code::UNSUPPORTED_FIELD => "unsupported field in network configuration",
            Code::UNKNOWN_CONTAINER => "container unknown",
            Code::ENVIRONMENT => "invalid environment variable",
            Code::IO => "I/O failure",
            Code::DECODE => "failed to decode content",
            Code::CONFIG => "invalid network configuration",
            Code::TRY_AGAIN => "try again later",
            Code::NOT_AVAILABLE => "plugin not available",
            Code::LIMITED => "plugin not available, containers may have limited connectivity",
            Code::NO_ADDRESS => "no address available",
            Code::FAILED => "failed on this node",
            Code::PROTOCOL => "fabric-cni and the agent are of different releases",
            _ => "unknown error",
        }
    }
}

/// Why a command was not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// What kind of error.
    pub code: Code,
    /// The kind in words.
    pub msg: String,
    /// What happened, where, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
}

impl Error {
    /// An error of this kind; the short message follows from the number.
    pub fn new(code: Code, details: impl Into<String>) -> Self {
        Error { code, msg: code.phrase().to_owned(), details: details.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (CNI error {})", self.msg, self.details, self.code.0)
    }
}

impl std::error::Error for Error {}
