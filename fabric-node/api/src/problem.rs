//! What is wrong, in words.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The body of an answer whose HTTP status is not 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    /// What is wrong, where, and what to do.
    pub error: String,
}

/// Something that cannot be read, reached or done, and stays so until somebody acts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where it is: a file with the number of its document (`pods.yaml#2`), a folder, a port.
    pub source: String,
    /// The object concerned, `Kind namespace/name`, where one could be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The field concerned, in dotted spelling; empty where it is the whole.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong and what is wanted.
    pub message: String,
}

impl From<policy::manifest::Problem> for Problem {
    fn from(problem: policy::manifest::Problem) -> Problem {
        Problem {
            source: problem.source.to_string(),
            object: problem.object.map(|object| object.to_string()),
            field: problem.field,
            message: problem.message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}
