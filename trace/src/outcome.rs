//! Exit codes.

use std::process::ExitCode;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Allowed, all as expected, nothing found: 0.
    Good,
    /// Denied, something differs, something found: 1.
    Bad,
    /// No answer, or not to every question: 2.
    NoAnswer,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Good => 0,
            Exit::Bad => 1,
            Exit::NoAnswer => 2,
        })
    }
}
