//! What a transaction came to: the result of each operation, or the error that made all of it fail
//! (RFC 7047 §4.1.3).

use crate::op::{Columns, Operation};
use crate::rpc::RpcError;
use crate::value::Uuid;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;

/// Result of one operation that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// Of an insert: the new row.
    Inserted(Uuid),
    /// Of an update, mutate or delete: the number of rows that the conditions selected.
    Count(u64),
    /// Of a select: the rows, in no order.
    Rows(Vec<Columns>),
    /// Of every other operation.
    Done,
}

/// Why a transaction failed. None of its operations took effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct OperationError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// Which operation failed, counted from 0; `None` when all went well one by one and the commit failed.
    pub operation: Option<usize>,
    /// The operation's name, when one failed.
    pub name: Option<&'static str>,
    /// The table that the server names, or else that of the operation.
    pub table: Option<String>,
    /// The column that the server names.
    pub column: Option<String>,
    /// What the server says in detail.
    pub details: String,
    /// The piece of JSON that the server could not take.
    pub syntax: Option<String>,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.operation, self.name) {
            (Some(at), Some(name)) => write!(f, "operation {at} ({name}) failed: {}", self.kind)?,
            (Some(at), None) => write!(f, "operation {at} failed: {}", self.kind)?,
            (None, _) => write!(f, "{}", self.kind)?,
        }
        match (&self.table, &self.column) {
            (Some(table), Some(column)) => write!(f, " at {table}.{column}")?,
            (Some(table), None) => write!(f, " at {table}")?,
            (None, Some(column)) => write!(f, " at column {column}")?,
            (None, None) => {}
        }
        if !self.details.is_empty() {
            write!(f, ": {}", self.details)?;
        }
        if let Some(syntax) = &self.syntax {
            write!(f, " in {syntax}")?;
        }
        Ok(())
    }
}

/// The kinds of failure that RFC 7047 and ovsdb-server name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// A value outside of its column's range, set of values or size, or two rows equal in an index.
    ConstraintViolation,
    /// A reference to a row that is not there, or a row removed while another refers to it.
    ReferentialIntegrity,
    /// A wait whose rows were not as they should be, in time.
    TimedOut,
    /// An abort was part of the transaction.
    Aborted,
    /// An assert for a lock that this client does not hold.
    NotOwner,
    /// A column that the table does not have.
    UnknownColumn,
    /// A database that the server does not have.
    UnknownDatabase,
    /// The request does not read as the server expects; an unknown table is reported so too.
    Syntax,
    /// Two inserts with one name.
    DuplicateUuidName,
    /// Division by zero.
    Domain,
    /// A number out of range after a mutation.
    Range,
    /// The server is out of resources.
    Resources,
    /// The server could not write its file.
    Io,
    /// Anything else, in the server's word.
    Other(String),
}

impl From<&str> for ErrorKind {
    fn from(word: &str) -> Self {
        match word {
            "constraint violation" => Self::ConstraintViolation,
            "referential integrity violation" => Self::ReferentialIntegrity,
            "timed out" => Self::TimedOut,
            "aborted" => Self::Aborted,
            "not owner" => Self::NotOwner,
            "unknown column" => Self::UnknownColumn,
            "unknown database" => Self::UnknownDatabase,
            "syntax error" => Self::Syntax,
            "duplicate uuid-name" => Self::DuplicateUuidName,
            "domain error" => Self::Domain,
            "range error" => Self::Range,
            "resources exhausted" => Self::Resources,
            "I/O error" => Self::Io,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConstraintViolation => "constraint violation",
            Self::ReferentialIntegrity => "referential integrity violation",
            Self::TimedOut => "timed out",
            Self::Aborted => "aborted",
            Self::NotOwner => "not owner",
            Self::UnknownColumn => "unknown column",
            Self::UnknownDatabase => "unknown database",
            Self::Syntax => "syntax error",
            Self::DuplicateUuidName => "duplicate uuid-name",
            Self::Domain => "domain error",
            Self::Range => "range error",
            Self::Resources => "resources exhausted",
            Self::Io => "I/O error",
            Self::Other(word) => word,
        })
    }
}

/// An error as the server writes it: an object, or a bare word where JSON-RPC itself failed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum ErrorJson {
    Full(ErrorObject),
    Word(String),
}

/// `{"error": WORD, "details": TEXT, "syntax": TEXT}` (RFC 7047 §3.1, `<error>`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ErrorObject {
    error: String,
    #[serde(default)]
    details: String,
    #[serde(default)]
    syntax: Option<String>,
}

impl ErrorJson {
    /// True when the server says that it does not know the method.
    pub(crate) fn is_unknown_method(&self) -> bool {
        let (Self::Full(ErrorObject { error: word, .. }) | Self::Word(word)) = self;
        word == "unknown method"
    }

    /// The error of a request that failed as a whole.
    pub(crate) fn explain(self) -> OperationError {
        match self {
            Self::Full(error) => explain(error, None),
            Self::Word(error) => explain(ErrorObject { error, details: String::new(), syntax: None }, None),
        }
    }
}

/// What the results of a transaction are read against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    steps: Vec<(&'static str, Option<String>)>,
}

impl Shape {
    pub(crate) fn of(operations: &[Operation]) -> Self {
        Self { steps: operations.iter().map(|op| (op.name(), op.table().map(str::to_owned))).collect() }
    }

    /// Reads the results of a transaction of this shape; the outer error says that the answer cannot be read.
    pub(crate) fn read(&self, text: &RawValue) -> Result<Result<Vec<OpResult>, OperationError>, RpcError> {
        let raw: Vec<&RawValue> = serde_json::from_str(text.get())
            .map_err(|why| RpcError::malformed("result of a transaction", &why))?;
        let mut results = Vec::with_capacity(self.steps.len());
        let mut raw = raw.into_iter();
        for (at, (name, table)) in self.steps.iter().enumerate() {
            let text = raw.next().ok_or(RpcError::Missing("the result of an operation"))?;
            if let Some(error) = read_error(text) {
                return Ok(Err(explain(error, Some((at, name, table.as_deref())))));
            }
            results.push(read_one(at, name, text)?);
        }
        match raw.next() {
            None => Ok(Ok(results)),
            Some(text) => match read_error(text) {
                Some(error) => Ok(Err(explain(error, None))),
                None => Err(RpcError::Malformed {
                    what: "result of a transaction".into(),
                    why: "more results than operations".into(),
                }),
            },
        }
    }
}

fn read_error(text: &RawValue) -> Option<ErrorObject> {
    serde_json::from_str(text.get()).ok()
}

fn read_one(at: usize, name: &str, text: &RawValue) -> Result<OpResult, RpcError> {
    #[derive(Deserialize)]
    struct Inserted {
        uuid: crate::value::Atom,
    }
    #[derive(Deserialize)]
    struct Count {
        count: u64,
    }
    #[derive(Deserialize)]
    struct Rows {
        rows: Vec<Columns>,
    }
    let text = text.get();
    let malformed = |why: &serde_json::Error| RpcError::malformed(format!("result {at} ({name})"), why);
    match name {
        "insert" => match serde_json::from_str::<Inserted>(text).map_err(|why| malformed(&why))?.uuid {
            crate::value::Atom::Uuid(uuid) => Ok(OpResult::Inserted(uuid)),
            other => Err(RpcError::Malformed {
                what: format!("result {at} (insert)"),
                why: format!("expected a uuid, found {}", other.type_name()),
            }),
        },
        "update" | "mutate" | "delete" => serde_json::from_str::<Count>(text)
            .map(|count| OpResult::Count(count.count))
            .map_err(|why| malformed(&why)),
        "select" => serde_json::from_str::<Rows>(text)
            .map(|rows| OpResult::Rows(rows.rows))
            .map_err(|why| malformed(&why)),
        // "{}", and `null` for what the server did not come to.
        _ => Ok(OpResult::Done),
    }
}

/// Makes the error that a caller sees; `step` is the operation that failed.
fn explain(error: ErrorObject, step: Option<(usize, &'static str, Option<&str>)>) -> OperationError {
    let ErrorObject { error, details, syntax } = error;
    let table = table_in(&details).or_else(|| step.and_then(|step| step.2.map(str::to_owned)));
    OperationError {
        kind: ErrorKind::from(error.as_str()),
        operation: step.map(|step| step.0),
        name: step.map(|step| step.1),
        table,
        column: column_in(&details),
        details,
        syntax,
    }
}

/// The words of a text, without quotes and punctuation around them.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect()
}

/// The table that ovsdb-server names in the details of an error: `table Bridge`, `table named Bridge`,
/// `"Bridge" table to have`, `cannot delete Bridge row`.
fn table_in(details: &str) -> Option<String> {
    let words = words(details);
    let name = words.iter().enumerate().find_map(|(at, word)| match (*word, words.get(at + 1).copied()) {
        ("table" | "Table", Some("named")) => words.get(at + 2),
        ("table" | "Table", Some("to")) => words.get(at.checked_sub(1)?),
        ("table" | "Table", Some(_)) => words.get(at + 1),
        ("delete", Some(_)) if words.get(at + 2) == Some(&"row") => words.get(at + 1),
        _ => None,
    });
    name.filter(|name| !name.is_empty()).map(|name| (*name).to_owned())
}

/// The column that ovsdb-server names in the details of an error: `column name`, `column "name"`,
/// `name is not a valid column name`.
fn column_in(details: &str) -> Option<String> {
    if let Some((before, _)) = details.split_once(" is not a valid column name") {
        return words(before).last().map(|name| (*name).to_owned());
    }
    let words = words(details);
    let at = words.iter().position(|word| matches!(*word, "column" | "columns"))?;
    words.get(at + 1).filter(|name| !name.is_empty()).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests;
