//! What is wrong with the policies of a world, without a question.

use std::fmt;

use policy::{FindingKind, ObjectRef, World};
use serde::{Deserialize, Serialize};

use crate::Problem;

/// The answer to `GET /v1/lint`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lint {
    /// Policies and rules that do nothing, or not what they seem to, by object and field.
    pub findings: Vec<Finding>,
    /// Objects and documents that could not be read, and objects that do not fit each other.
    pub problems: Vec<Problem>,
}

/// A policy or rule that does nothing, or not what it seems to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Where it is: a file with the number of its document (`pods.yaml#2`), where it is read from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The policy, `Kind namespace/name`.
    pub object: String,
    /// The field concerned, in dotted spelling.
    pub field: String,
    /// What kind of thing it is: `selects-nothing`, `never-matches` or `unknown-port-name`.
    pub kind: FindingKind,
    /// What is odd, in words.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { source, object, field, kind: _, message } = self;
        if let Some(source) = source {
            write!(f, "{source}: ")?;
        }
        write!(f, "{object}: {field}: {message}")
    }
}

/// The findings in a world, with the problems that were met in reading it. `place` tells where an object was
/// read, where that is known.
pub fn lint(world: &World, mut problems: Vec<Problem>, place: impl Fn(&ObjectRef) -> Option<String>) -> Lint {
    problems.extend(world.problems().into_iter().map(Problem::from));
    problems.sort();
    problems.dedup();
    let findings = world.lint().into_iter().map(|found| Finding {
        source: place(&found.object),
        object: found.object.to_string(),
        field: found.field,
        kind: found.kind,
        message: found.message,
    });
    Lint { findings: findings.collect(), problems }
}
