//! Operations of a transaction as values (RFC 7047 §5.2). They serialize to exactly what goes on the wire.
//!
//! [`crate::Transaction`] builds lists of them with names for new rows and typed results; they are public for what
//! the builder does not foresee.

use crate::value::Datum;
use serde::ser::{Serialize, SerializeTuple, Serializer};
use std::collections::BTreeMap;

/// Columns with their values, as an insert, an update or a wait gives them and a select returns them.
pub type Columns = BTreeMap<String, Datum>;

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Makes a row (§5.2.1). A row of a table that is no root lives only as long as another refers to it.
    Insert {
        /// Table of the row.
        table: String,
        /// Columns; those left out get their defaults.
        row: Columns,
        /// Name by which other operations of the transaction refer to the row.
        #[serde(rename = "uuid-name", skip_serializing_if = "Option::is_none")]
        uuid_name: Option<String>,
    },
    /// Reads rows (§5.2.2).
    Select {
        /// Table of the rows.
        table: String,
        /// All must hold; none selects every row.
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        /// Columns to return; `None` for all, `_uuid` and `_version` included.
        #[serde(skip_serializing_if = "Option::is_none")]
        columns: Option<Vec<String>>,
    },
    /// Replaces columns of rows (§5.2.3).
    Update {
        /// Table of the rows.
        table: String,
        /// All must hold; none selects every row.
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        /// Columns with their whole values.
        row: Columns,
    },
    /// Changes columns of rows relative to what they hold (§5.2.4).
    Mutate {
        /// Table of the rows.
        table: String,
        /// All must hold; none selects every row.
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        /// Applied in order.
        mutations: Vec<Mutation>,
    },
    /// Removes rows (§5.2.5).
    Delete {
        /// Table of the rows.
        table: String,
        /// All must hold; none selects every row.
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
    },
    /// Holds the transaction until rows are, or are not, as given (§5.2.6).
    Wait {
        /// Table of the rows.
        table: String,
        /// All must hold; none selects every row.
        #[serde(rename = "where")]
        conditions: Vec<Condition>,
        /// Columns that are compared.
        columns: Vec<String>,
        /// Whether the rows must be equal or not.
        until: Until,
        /// The rows to compare with, in any order.
        rows: Vec<Columns>,
        /// Milliseconds after which the transaction fails; `None` waits for ever, 0 only tests.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout: Option<u64>,
    },
    /// With `durable`, answers only after the transaction is on disk (§5.2.7).
    Commit {
        /// True to wait for the disk.
        durable: bool,
    },
    /// Fails the transaction (§5.2.8).
    Abort {},
    /// A note for the server's log (§5.2.9).
    Comment {
        /// The note.
        comment: String,
    },
    /// Fails the transaction unless this client holds the lock (§5.2.10).
    Assert {
        /// Name of the lock.
        lock: String,
    },
}

impl Operation {
    /// The operation's name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert { .. } => "insert",
            Self::Select { .. } => "select",
            Self::Update { .. } => "update",
            Self::Mutate { .. } => "mutate",
            Self::Delete { .. } => "delete",
            Self::Wait { .. } => "wait",
            Self::Commit { .. } => "commit",
            Self::Abort {} => "abort",
            Self::Comment { .. } => "comment",
            Self::Assert { .. } => "assert",
        }
    }

    /// The table that the operation is about.
    pub fn table(&self) -> Option<&str> {
        match self {
            Self::Insert { table, .. }
            | Self::Select { table, .. }
            | Self::Update { table, .. }
            | Self::Mutate { table, .. }
            | Self::Delete { table, .. }
            | Self::Wait { table, .. } => Some(table),
            Self::Commit { .. } | Self::Abort {} | Self::Comment { .. } | Self::Assert { .. } => None,
        }
    }
}

/// What a [`Operation::Wait`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Until {
    /// The rows are those given.
    #[serde(rename = "==")]
    Equal,
    /// The rows are others than those given.
    #[serde(rename = "!=")]
    NotEqual,
}

/// How a condition compares (RFC 7047 §5.1, `<function>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Comparison {
    /// Less than; integers and reals only.
    #[serde(rename = "<")]
    Less,
    /// At most; integers and reals only.
    #[serde(rename = "<=")]
    LessOrEqual,
    /// Equal.
    #[serde(rename = "==")]
    Equal,
    /// Not equal.
    #[serde(rename = "!=")]
    NotEqual,
    /// At least; integers and reals only.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// Greater than; integers and reals only.
    #[serde(rename = ">")]
    Greater,
    /// The column holds every element or pair of the value.
    #[serde(rename = "includes")]
    Includes,
    /// The column holds no element or pair of the value.
    #[serde(rename = "excludes")]
    Excludes,
}

/// A test of one column of a row (RFC 7047 §5.1, `<condition>`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The column; `_uuid` for the row's identity.
    pub column: String,
    /// How to compare.
    pub comparison: Comparison,
    /// What to compare with.
    pub value: Datum,
}

impl Condition {
    /// A test of a column.
    pub fn new(column: &str, comparison: Comparison, value: impl Into<Datum>) -> Self {
        Self { column: column.to_owned(), comparison, value: value.into() }
    }

    /// The column equals the value.
    pub fn eq(column: &str, value: impl Into<Datum>) -> Self {
        Self::new(column, Comparison::Equal, value)
    }

    /// The column holds the value among others.
    pub fn includes(column: &str, value: impl Into<Datum>) -> Self {
        Self::new(column, Comparison::Includes, value)
    }

    /// The column holds nothing of the value.
    pub fn excludes(column: &str, value: impl Into<Datum>) -> Self {
        Self::new(column, Comparison::Excludes, value)
    }

    /// The row is the one with this UUID.
    pub fn uuid(uuid: crate::Uuid) -> Self {
        Self::eq("_uuid", uuid)
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        triple(serializer, &self.column, &self.comparison, &self.value)
    }
}

/// How a mutation changes a column (RFC 7047 §5.1, `<mutator>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Mutator {
    /// Adds.
    #[serde(rename = "+=")]
    Add,
    /// Subtracts.
    #[serde(rename = "-=")]
    Subtract,
    /// Multiplies.
    #[serde(rename = "*=")]
    Multiply,
    /// Divides; by zero is a domain error.
    #[serde(rename = "/=")]
    Divide,
    /// Takes the remainder; integers only.
    #[serde(rename = "%=")]
    Remainder,
    /// Puts elements into a set, or pairs into a map whose keys are not there yet.
    #[serde(rename = "insert")]
    Insert,
    /// Takes elements out of a set, or pairs (or keys) out of a map.
    #[serde(rename = "delete")]
    Delete,
}

/// A change of one column relative to what it holds (RFC 7047 §5.1, `<mutation>`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// The column.
    pub column: String,
    /// How to change it.
    pub mutator: Mutator,
    /// By what.
    pub value: Datum,
}

impl Mutation {
    /// A change of a column.
    pub fn new(column: &str, mutator: Mutator, value: impl Into<Datum>) -> Self {
        Self { column: column.to_owned(), mutator, value: value.into() }
    }

    /// Adds to a number.
    pub fn add(column: &str, value: impl Into<Datum>) -> Self {
        Self::new(column, Mutator::Add, value)
    }

    /// Puts elements into a set or pairs into a map. A key that is there keeps its value: delete it first, with
    /// [`Self::delete`] and the key alone.
    pub fn insert(column: &str, value: impl Into<Datum>) -> Self {
        Self::new(column, Mutator::Insert, value)
    }

    /// Takes elements out of a set; out of a map, pairs when given pairs, or keys when given a set.
    pub fn delete(column: &str, value: impl Into<Datum>) -> Self {
        Self::new(column, Mutator::Delete, value)
    }
}

impl Serialize for Mutation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        triple(serializer, &self.column, &self.mutator, &self.value)
    }
}

fn triple<S: Serializer>(
    serializer: S,
    column: &str,
    verb: &impl Serialize,
    value: &Datum,
) -> Result<S::Ok, S::Error> {
    let mut tuple = serializer.serialize_tuple(3)?;
    tuple.serialize_element(column)?;
    tuple.serialize_element(verb)?;
    tuple.serialize_element(value)?;
    tuple.end()
}

#[cfg(test)]
mod tests;
