//! Versions of the CNI specification that the plugin speaks.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::env::Command;
use crate::error::{Code, Error};

/// A version of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.3.1: ADD, DEL, VERSION; results name the family of each address.
    V0_3_1,
    /// 0.4.0: adds CHECK, and the previous result at DEL.
    V0_4_0,
    /// 1.0.0: results no longer name the family.
    V1_0_0,
    /// 1.1.0: adds GC and STATUS; interfaces carry their MTU.
    V1_1_0,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Version; 4] = [Version::V0_3_1, Version::V0_4_0, Version::V1_0_0, Version::V1_1_0];

    /// The newest: what is spoken where the request does not say.
    pub const NEWEST: Version = Version::V1_1_0;

    /// As `cniVersion` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V0_3_1 => "0.3.1",
            Version::V0_4_0 => "0.4.0",
            Version::V1_0_0 => "1.0.0",
            Version::V1_1_0 => "1.1.0",
        }
    }

    /// Whether this version has the command; the error says which has.
    pub fn allows(self, command: Command) -> Result<(), Error> {
        let since = match command {
            Command::Add | Command::Del | Command::Version => Version::V0_3_1,
            Command::Check => Version::V0_4_0,
            Command::Gc | Command::Status => Version::V1_1_0,
        };
        if self >= since {
            return Ok(());
        }
        Err(Error::new(
            Code::VERSION,
            format!("CNI {self} has no {command}: it needs cniVersion {since} or newer"),
        ))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Version::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(|| {
            let known = Version::ALL.map(Version::as_str).join(", ");
            Error::new(Code::VERSION, format!("cniVersion {text:?} is not one of {known}"))
        })
    }
}
