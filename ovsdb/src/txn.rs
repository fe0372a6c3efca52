//! A transaction under construction: operations with references among them, and results by what they belong to.
//!
//! # Trying again safely
//!
//! When the connection breaks before the answer, a transaction may have been carried out, or not, or it waits in the
//! old connection's buffer and will be. A transaction made with [`Transaction::once`] can be sent again all the same:
//!
//! * It begins by asserting a lock (RFC 7047 §5.2.10) that every connection of the writer steals before it sends such
//!   a transaction. Once the steal is answered, nothing that an older connection still holds can succeed.
//! * Then it tests that `external_ids` of the root row does not hold this transaction's token, and ends by putting the
//!   token there, under a key that belongs to the writer alone. When the test fails, an earlier copy took effect.
//!
//! So of all copies exactly one takes effect. The next token replaces the last, so such transactions of one writer go
//! one after the other: `Client::commit_once` steals the lock, keeps the order and tries again.

use crate::error::Error;
use crate::op::{Columns, Condition, Mutation, Operation, Until};
use crate::outcome::OpResult;
use crate::value::{Atom, Datum, FromDatum, Uuid};

/// The table that holds the root row of the `Open_vSwitch` database.
const ROOT: &str = "Open_vSwitch";

/// A row that the transaction inserts; converts to a value that refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewRow(usize);

impl From<NewRow> for Atom {
    fn from(row: NewRow) -> Self {
        Self::NamedUuid(name(row.0))
    }
}

fn name(operation: usize) -> String {
    format!("row{operation}")
}

/// An update, mutate or delete of the transaction: counts rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted(usize);

/// A select of the transaction: returns rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selected(usize);

/// The configuration number that the transaction asks ovs-vswitchd to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextCfg(Selected);

/// What makes copies of a transaction take effect once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Once {
    key: String,
    token: String,
}

/// The number of operations that a [`Once`] puts in front.
const ONCE_FRONT: usize = 3;

/// A list of operations that take effect together or not at all (RFC 7047 §4.1.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    operations: Vec<Operation>,
    once: Option<Once>,
}

impl Transaction {
    /// A transaction that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a row. Columns left out get their defaults.
    pub fn insert<K: Into<String>>(
        &mut self,
        table: &str,
        columns: impl IntoIterator<Item = (K, Datum)>,
    ) -> NewRow {
        let at = self.operations.len();
        let row = collect(columns);
        self.push(Operation::Insert { table: table.to_owned(), row, uuid_name: Some(name(at)) });
        NewRow(at)
    }

    /// Replaces columns of the rows for which all conditions hold.
    pub fn update<K: Into<String>>(
        &mut self,
        table: &str,
        conditions: impl IntoIterator<Item = Condition>,
        columns: impl IntoIterator<Item = (K, Datum)>,
    ) -> Counted {
        Counted(self.push(Operation::Update {
            table: table.to_owned(),
            conditions: conditions.into_iter().collect(),
            row: collect(columns),
        }))
    }

    /// Changes columns of the rows for which all conditions hold, relative to what they hold.
    pub fn mutate(
        &mut self,
        table: &str,
        conditions: impl IntoIterator<Item = Condition>,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> Counted {
        Counted(self.push(Operation::Mutate {
            table: table.to_owned(),
            conditions: conditions.into_iter().collect(),
            mutations: mutations.into_iter().collect(),
        }))
    }

    /// Sets keys of a map column, and leaves its other keys alone.
    pub fn set_keys<K: Into<Atom>, V: Into<Atom>>(
        &mut self,
        table: &str,
        conditions: impl IntoIterator<Item = Condition>,
        column: &str,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Counted {
        let pairs: Vec<(Atom, Atom)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        let keys: Datum = pairs.iter().map(|(key, _)| key.clone()).collect();
        let mutations = [Mutation::delete(column, keys), Mutation::insert(column, Datum::from_pairs(pairs))];
        self.mutate(table, conditions, mutations)
    }

    /// Removes the rows for which all conditions hold. A row that is no root goes by itself once nothing refers to
    /// it, so a port is removed by taking it out of its bridge.
    pub fn delete(&mut self, table: &str, conditions: impl IntoIterator<Item = Condition>) -> Counted {
        Counted(self.push(Operation::Delete {
            table: table.to_owned(),
            conditions: conditions.into_iter().collect(),
        }))
    }

    /// Reads columns of the rows for which all conditions hold, as the operations before this one leave them.
    pub fn select(
        &mut self,
        table: &str,
        conditions: impl IntoIterator<Item = Condition>,
        columns: &[&str],
    ) -> Selected {
        Selected(self.push(Operation::Select {
            table: table.to_owned(),
            conditions: conditions.into_iter().collect(),
            columns: Some(columns.iter().map(|column| (*column).to_owned()).collect()),
        }))
    }

    /// Fails the transaction unless some row meets all conditions; [`crate::ErrorKind::TimedOut`] says so.
    pub fn require_row(&mut self, table: &str, conditions: impl IntoIterator<Item = Condition>) {
        self.push(wait_for(table, conditions.into_iter().collect(), Until::NotEqual));
    }

    /// Fails the transaction if some row meets all conditions; [`crate::ErrorKind::TimedOut`] says so.
    pub fn require_no_row(&mut self, table: &str, conditions: impl IntoIterator<Item = Condition>) {
        self.push(wait_for(table, conditions.into_iter().collect(), Until::Equal));
    }

    /// Leaves a note in the server's log.
    pub fn comment(&mut self, comment: &str) {
        self.push(Operation::Comment { comment: comment.to_owned() });
    }

    /// Asks ovs-vswitchd to say when it has acted: adds one to `Open_vSwitch.next_cfg` and reads it back. When the
    /// monitor shows `cur_cfg` at or above that number, all of this transaction is in force
    /// (ovs-vswitchd.conf.db(5), "Open_vSwitch").
    pub fn bump_next_cfg(&mut self) -> NextCfg {
        self.mutate(ROOT, [], [Mutation::add("next_cfg", 1)]);
        self.read_next_cfg()
    }

    /// Reads `Open_vSwitch.next_cfg`.
    pub fn read_next_cfg(&mut self) -> NextCfg {
        NextCfg(self.select(ROOT, [], &["next_cfg"]))
    }

    /// Adds any operation; returns its place.
    pub fn push(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// True when there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Makes copies of this transaction take effect once: see the module's head. `key` is the writer's own key in
    /// `Open_vSwitch.external_ids` and the name of its lock (RFC 7047 §3.1, `<id>`: letters, digits, underscores),
    /// `token` is one that no other transaction under that key ever has.
    #[must_use]
    pub fn once(mut self, key: &str, token: &str) -> Self {
        self.once = Some(Once { key: key.to_owned(), token: token.to_owned() });
        self
    }

    /// The operations as they are sent.
    pub fn operations(&self) -> Vec<Operation> {
        let Some(Once { key, token }) = &self.once else { return self.operations.clone() };
        let pair = || Datum::from_pairs([(key.as_str(), token.as_str())]);
        let mut all = Vec::with_capacity(self.operations.len() + ONCE_FRONT + 1);
        all.push(Operation::Assert { lock: key.clone() });
        all.push(wait_for(ROOT, Vec::new(), Until::NotEqual));
        all.push(wait_for(ROOT, vec![Condition::includes("external_ids", pair())], Until::Equal));
        all.extend(self.operations.iter().cloned());
        all.push(Operation::Mutate {
            table: ROOT.to_owned(),
            conditions: Vec::new(),
            mutations: vec![
                Mutation::delete("external_ids", Datum::scalar(key.as_str())),
                Mutation::insert("external_ids", pair()),
            ],
        });
        all
    }

    /// Gives the results of [`Self::operations`] the form in which the handles of this transaction find theirs.
    pub fn committed(&self, mut results: Vec<OpResult>) -> Committed {
        if self.once.is_some() {
            results.drain(..ONCE_FRONT.min(results.len()));
            results.truncate(self.operations.len());
        }
        Committed { results }
    }

    /// Says what an error of [`Self::operations`] means for this transaction, whose own operations count from 0.
    pub fn failed(&self, error: Error) -> Failure {
        let (Some(once), Error::Transaction(mut error)) = (&self.once, error.clone()) else {
            return Failure::Failed(error);
        };
        Failure::Failed(match error.operation {
            Some(0) => Error::Superseded(once.key.clone()),
            Some(1) => Error::NoRootRow,
            Some(2) => return Failure::TookEffectBefore,
            at => {
                error.operation = at.and_then(|at| at.checked_sub(ONCE_FRONT));
                Error::Transaction(error)
            }
        })
    }
}

/// What the error of a transaction means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A copy of a [`Transaction::once`] that was sent before has taken effect.
    TookEffectBefore,
    /// This.
    Failed(Error),
}

fn collect<K: Into<String>>(columns: impl IntoIterator<Item = (K, Datum)>) -> Columns {
    columns.into_iter().map(|(column, value)| (column.into(), value)).collect()
}

/// A wait without delay for no row at all ([`Until::Equal`]) or for some.
fn wait_for(table: &str, conditions: Vec<Condition>, until: Until) -> Operation {
    Operation::Wait {
        table: table.to_owned(),
        conditions,
        columns: vec!["_uuid".to_owned()],
        until,
        rows: Vec::new(),
        timeout: Some(0),
    }
}

/// The results of a transaction that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    results: Vec<OpResult>,
}

impl Committed {
    /// The identity of a row that was inserted.
    pub fn uuid(&self, row: NewRow) -> Result<Uuid, Error> {
        match self.results.get(row.0) {
            Some(OpResult::Inserted(uuid)) => Ok(*uuid),
            other => Err(missing(row.0, "inserted row", other)),
        }
    }

    /// The number of rows that the conditions of an update, mutate or delete selected.
    pub fn count(&self, counted: Counted) -> Result<u64, Error> {
        match self.results.get(counted.0) {
            Some(OpResult::Count(count)) => Ok(*count),
            other => Err(missing(counted.0, "count", other)),
        }
    }

    /// The rows of a select.
    pub fn rows(&self, selected: Selected) -> Result<&[Columns], Error> {
        match self.results.get(selected.0) {
            Some(OpResult::Rows(rows)) => Ok(rows),
            other => Err(missing(selected.0, "selected rows", other)),
        }
    }

    /// The number that `cur_cfg` must reach. Fails when the database has no root row, which ovs-vswitchd or
    /// `ovs-vsctl init` makes.
    pub fn next_cfg(&self, next_cfg: NextCfg) -> Result<i64, Error> {
        let row = self.rows(next_cfg.0)?.first();
        let Some(value) = row.and_then(|row| row.get("next_cfg")) else {
            return Err(Error::NoRootRow);
        };
        i64::from_datum(value).map_err(|why| Error::NoSuchResult(format!("Open_vSwitch.next_cfg: {why}")))
    }
}

fn missing(at: usize, wanted: &str, found: Option<&OpResult>) -> Error {
    let found = match found {
        None => "no result",
        Some(OpResult::Inserted(_)) => "an inserted row",
        Some(OpResult::Count(_)) => "a count",
        Some(OpResult::Rows(_)) => "rows",
        Some(OpResult::Done) => "nothing",
    };
    Error::NoSuchResult(format!("operation {at} gave {found}, not the {wanted} that was asked for"))
}

#[cfg(test)]
mod tests;
