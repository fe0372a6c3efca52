//! What a rule says of the code, and why a rule could not be applied.

use std::fmt;

/// A rule that does not hold somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the top of the repository.
    pub file: String,
    /// The line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong and what is wanted.
    pub what: String,
}

impl Violation {
    /// A violation at a line.
    pub fn new(file: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.into(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// Why the rules could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum HouseError {
    /// A file or folder cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A Rust file cannot be parsed.
    #[error("{path}: {source}")]
    Parse {
        /// The file.
        path: String,
        /// The parser's answer.
        source: syn::Error,
    },
    /// ARCHITECTURE.md lacks something that the rules need.
    #[error("ARCHITECTURE.md: {0}")]
    Architecture(String),
    /// `cargo` failed.
    #[error("{0}")]
    Cargo(String),
}
