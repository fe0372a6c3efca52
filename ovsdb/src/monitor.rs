//! A replica of chosen columns of chosen tables, kept by a monitor.
//!
//! The server sends the rows once and then what changes: with `monitor_cond` as `update2` (ovsdb-server(7),
//! "Update2 notification"), with the older `monitor` as `update` (RFC 7047 §4.1.6). Text goes straight into rows,
//! by the columns' types in the schema. Rows are shared (`Arc`), so a copy of the replica costs pointers.

mod apply;
mod read;

use crate::error::Error;
use crate::op::Columns;
use crate::schema::{ColumnType, Schema, TableSchema};
use crate::value::{Datum, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use read::Version;

/// A table to monitor and the columns of it that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumns {
    /// The table.
    pub table: String,
    /// The columns, each once. `_uuid` comes along by itself, as the row's key.
    pub columns: Vec<String>,
}

impl TableColumns {
    /// A table and columns of it.
    pub fn new(table: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { table: table.to_owned(), columns }
    }
}

/// The monitored columns of a table and their types, by name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    table: Arc<str>,
    columns: Vec<(String, ColumnType)>,
}

impl Shape {
    fn position(&self, column: &str) -> Option<usize> {
        self.columns.binary_search_by(|(name, _)| name.as_str().cmp(column)).ok()
    }
}

/// A row of a monitored table: the monitored columns and their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    shape: Arc<Shape>,
    values: Box<[Datum]>,
}

impl Row {
    /// The value of a column, if it is monitored.
    pub fn get(&self, column: &str) -> Option<&Datum> {
        self.values.get(self.shape.position(column)?)
    }

    /// The row's table.
    pub fn table(&self) -> &str {
        &self.shape.table
    }

    /// The columns in the order of their names, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Datum)> {
        self.shape.columns.iter().map(|(name, _)| name.as_str()).zip(&self.values)
    }
}

/// Where a column's value can be looked up: a row of a replica or of a select.
pub trait Lookup {
    /// The value of a column, if it is there.
    fn column(&self, name: &str) -> Option<&Datum>;
}

impl Lookup for Row {
    fn column(&self, name: &str) -> Option<&Datum> {
        self.get(name)
    }
}

impl Lookup for Columns {
    fn column(&self, name: &str) -> Option<&Datum> {
        self.get(name)
    }
}

/// A change of one row. Both sides are the whole row as far as it is monitored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The table.
    pub table: Arc<str>,
    /// The row.
    pub uuid: Uuid,
    /// The row before; `None` when it is new.
    pub old: Option<Arc<Row>>,
    /// The row after; `None` when it is gone.
    pub new: Option<Arc<Row>>,
}

/// The monitored tables as of the last change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replica {
    tables: BTreeMap<Arc<str>, Table>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    shape: Arc<Shape>,
    rows: BTreeMap<Uuid, Arc<Row>>,
}

impl Replica {
    /// An empty replica of the tables, each of which the schema must have with all the columns. A table that comes
    /// twice is monitored with the columns of both.
    pub fn new(schema: &Schema, monitor: &[TableColumns]) -> Result<Self, Error> {
        let mut wanted: BTreeMap<&str, BTreeMap<&str, ColumnType>> = BTreeMap::new();
        for TableColumns { table, columns } in monitor {
            let known = known_table(schema, table)?;
            let shape = wanted.entry(table).or_default();
            for column in columns {
                let Some(found) = known.columns.get(column) else {
                    return Err(Error::UnknownColumn {
                        database: schema.name.clone(),
                        version: schema.version.clone(),
                        table: table.clone(),
                        column: column.clone(),
                    });
                };
                shape.insert(column, found.kind);
            }
        }
        let mut tables = BTreeMap::new();
        for (table, columns) in wanted {
            let columns = columns.into_iter().map(|(column, kind)| (column.to_owned(), kind)).collect();
            let name: Arc<str> = Arc::from(table);
            let shape = Arc::new(Shape { table: name.clone(), columns });
            tables.insert(name, Table { shape, rows: BTreeMap::new() });
        }
        Ok(Self { tables })
    }

    /// The names of the monitored tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(|name| &**name)
    }

    /// The rows of a table in the order of their UUIDs; none when the table is not monitored.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        self.tables.get(table).into_iter().flat_map(|table| table.rows.iter().map(|(uuid, row)| (*uuid, row)))
    }

    /// One row.
    pub fn get(&self, table: &str, uuid: Uuid) -> Option<&Arc<Row>> {
        self.tables.get(table)?.rows.get(&uuid)
    }

    /// The number of rows of a table.
    pub fn len(&self, table: &str) -> usize {
        self.tables.get(table).map_or(0, |table| table.rows.len())
    }

    /// True when no table has a row.
    pub fn is_empty(&self) -> bool {
        self.tables.values().all(|table| table.rows.is_empty())
    }

    /// Follows a change that came after this copy was taken. What a [`RowChange`] says it replaces is not compared.
    pub fn follow(&mut self, change: &RowChange) {
        let Some(table) = self.tables.get_mut(&change.table) else { return };
        match &change.new {
            Some(row) => drop(table.rows.insert(change.uuid, row.clone())),
            None => drop(table.rows.remove(&change.uuid)),
        }
    }

    /// The `<monitor-requests>` of this replica (RFC 7047 §4.1.5), every kind of change included.
    pub(crate) fn requests<'a>(&'a self) -> BTreeMap<&'a str, [MonitorRequest<'a>; 1]> {
        let names = |table: &'a Table| table.shape.columns.iter().map(|(name, _)| name.as_str()).collect();
        self.tables
            .iter()
            .map(|(name, table)| (&**name, [MonitorRequest { columns: names(table) }]))
            .collect()
    }
}

/// The schema of a table, or an error that names the table.
fn known_table<'a>(schema: &'a Schema, table: &str) -> Result<&'a TableSchema, Error> {
    schema.tables.get(table).ok_or_else(|| Error::UnknownTable {
        database: schema.name.clone(),
        version: schema.version.clone(),
        table: table.to_owned(),
    })
}

/// One `<monitor-request>`.
#[derive(serde::Serialize)]
pub(crate) struct MonitorRequest<'a> {
    columns: Vec<&'a str>,
}

#[cfg(test)]
mod tests;
