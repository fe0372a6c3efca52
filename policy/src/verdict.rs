//! Answers to questions about new conversations.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::region::Region;

/// Whether a conversation may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        })
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Whether the conversation may be opened.
    pub verdict: Verdict,
    /// The packets of the same direction and subject that get the same verdict for the same reason, the one
    /// asked about included.
    pub region: Region,
    /// Why.
    pub because: Because,
}

/// The reason of a verdict. The text is the one spelling of it, wherever it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Because {
    /// No policy isolates the subject.
    NoIsolation,
    /// Nobody is known to live at the subject's address, or the pod or namespace of its claim is not known.
    UnknownSubject(IpAddr),
}

impl Because {
    /// Whether the reason is that something is not known yet: the verdict will be another one in a moment,
    /// and must not be remembered for long.
    pub fn is_provisional(&self) -> bool {
        match self {
            Because::NoIsolation => false,
            Because::UnknownSubject(_) => true,
        }
    }

    /// A hash that is the same in every process and version for the same text (FNV-1a, 64 bits), for cookies.
    pub fn stable_hash(&self) -> u64 {
        let text = self.to_string();
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::NoIsolation => f.write_str("no isolation"),
            Because::UnknownSubject(address) => write!(f, "nobody known at {address}"),
        }
    }
}

#[cfg(test)]
mod tests;
