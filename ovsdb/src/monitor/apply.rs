//! Applies updates to a replica.

use super::read::{self, Edit, Given, RowEdit, Version};
use super::{Replica, Row, RowChange, Shape};
use crate::error::Error;
use crate::value::{Datum, Uuid, ValueError};
use serde_json::value::RawValue;
use std::sync::Arc;

impl Replica {
    /// Applies an update and says what changed. After an error the replica must not be used any more.
    pub(crate) fn apply(&mut self, version: Version, update: &RawValue) -> Result<Vec<RowChange>, Error> {
        let edits = read::read(self, version, update)?;
        let mut changes = Vec::with_capacity(edits.len());
        for edit in edits {
            changes.push(self.apply_one(edit)?);
        }
        Ok(changes)
    }

    /// As [`Self::apply`], without keeping what changed.
    pub(crate) fn apply_initial(&mut self, version: Version, update: &RawValue) -> Result<(), Error> {
        for edit in read::read(self, version, update)? {
            self.apply_one(edit)?;
        }
        Ok(())
    }

    fn apply_one(&mut self, RowEdit { shape, uuid, edit }: RowEdit) -> Result<RowChange, Error> {
        let out_of_step = |why: &str| Error::OutOfStep(format!("row {uuid} of table {} {why}", shape.table));
        let Some(table) = self.tables.get_mut(&shape.table) else {
            return Err(out_of_step("is of a table that is not monitored"));
        };
        let old = table.rows.get(&uuid).cloned();
        let new = match (edit, &old) {
            (Edit::Insert(_), Some(_)) => return Err(out_of_step("is inserted and was there")),
            (Edit::Modify(_) | Edit::Replace(_), None) => {
                return Err(out_of_step("changes and was not there"));
            }
            (Edit::Delete, None) => return Err(out_of_step("is deleted and was not there")),
            (Edit::Delete, Some(_)) => None,
            (Edit::Insert(given) | Edit::Replace(given), _) => Some(fill(&shape, given)),
            (Edit::Modify(given), Some(old)) => Some(modify(old, given)),
        };
        let new = match new {
            None => None,
            Some(Ok(values)) => Some(Arc::new(Row { shape: shape.clone(), values })),
            Some(Err(why)) => return Err(out_of_step(&format!("has a bad value: {why}"))),
        };
        match &new {
            Some(row) => drop(table.rows.insert(uuid, row.clone())),
            None => drop(table.rows.remove(&uuid)),
        }
        Ok(RowChange { table: shape.table.clone(), uuid, old, new })
    }

    /// Changes that lead from an earlier state of the same tables to this one, by table and UUID.
    pub fn changes_since(&self, earlier: &Self) -> Vec<RowChange> {
        let mut changes = Vec::new();
        for (name, table) in &self.tables {
            let before = earlier.tables.get(name);
            let was = |uuid: &Uuid| before.and_then(|table| table.rows.get(uuid));
            for (uuid, row) in &table.rows {
                let old = was(uuid);
                if old != Some(row) {
                    let (old, new) = (old.cloned(), Some(row.clone()));
                    changes.push(RowChange { table: name.clone(), uuid: *uuid, old, new });
                }
            }
            for (uuid, row) in before.into_iter().flat_map(|table| &table.rows) {
                if !table.rows.contains_key(uuid) {
                    let (old, new) = (Some(row.clone()), None);
                    changes.push(RowChange { table: name.clone(), uuid: *uuid, old, new });
                }
            }
        }
        changes.sort_by(|a, b| (&a.table, a.uuid).cmp(&(&b.table, b.uuid)));
        changes
    }
}

/// A whole row: what is given, and defaults for the rest.
fn fill(shape: &Shape, given: Given) -> Result<Box<[Datum]>, ValueError> {
    let mut values: Vec<Option<Datum>> = vec![None; shape.columns.len()];
    for (at, datum) in given {
        if let Some(slot) = values.get_mut(at) {
            *slot = Some(datum);
        }
    }
    let whole = |(value, (_, kind)): (Option<Datum>, &(String, crate::schema::ColumnType))| match value {
        Some(datum) => kind.conform_whole(datum),
        None => Ok(kind.default_datum()),
    };
    values.into_iter().zip(&shape.columns).map(whole).collect()
}

/// A row after a `modify`.
fn modify(old: &Row, given: Given) -> Result<Box<[Datum]>, ValueError> {
    let mut values = old.values.clone();
    for (at, datum) in given {
        let (Some(slot), Some((_, kind))) = (values.get_mut(at), old.shape.columns.get(at)) else { continue };
        if kind.is_composite() {
            slot.apply_difference(&datum)?;
        } else {
            *slot = kind.conform_whole(datum)?;
        }
    }
    Ok(values)
}
