//! Reads `<table-updates>` and `<table-updates2>` by the shapes of the monitored tables.

use super::{Replica, Shape, Table};
use crate::rpc::RpcError;
use crate::value::{Datum, Uuid};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// The form of the updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// `monitor` and `update`: old and new rows (RFC 7047 §4.1.6).
    Whole,
    /// `monitor_cond` and `update2`: differences (ovsdb-server(7)).
    Difference,
}

/// What an update says of one row.
#[derive(Debug)]
pub(super) enum Edit {
    /// The row is new; columns left out have their defaults.
    Insert(Given),
    /// These columns change, by a difference where they can hold several elements.
    Modify(Given),
    /// The row holds these columns from here on.
    Replace(Given),
    /// The row is gone.
    Delete,
}

/// Columns by their place in the table's shape.
pub(super) type Given = Vec<(usize, Datum)>;

/// An edit of a row of a table.
pub(super) struct RowEdit {
    pub(super) shape: Arc<Shape>,
    pub(super) uuid: Uuid,
    pub(super) edit: Edit,
}

/// Reads all of an update.
pub(super) fn read(replica: &Replica, version: Version, text: &RawValue) -> Result<Vec<RowEdit>, RpcError> {
    let mut edits = Vec::new();
    let mut json = serde_json::Deserializer::from_str(text.get());
    Tables { replica, version, edits: &mut edits }
        .deserialize(&mut json)
        .map_err(|why| RpcError::malformed("update", &why))?;
    Ok(edits)
}

/// Implements `DeserializeSeed` for a visitor of an object.
macro_rules! seed_of_object {
    ($name:ident, $value:ty) => {
        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = $value;
            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.deserialize_map(self)
            }
        }
    };
}

struct Tables<'a> {
    replica: &'a Replica,
    version: Version,
    edits: &'a mut Vec<RowEdit>,
}

seed_of_object!(Tables, ());

impl<'de> Visitor<'de> for Tables<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let table = self
                .replica
                .tables
                .get(name.as_str())
                .ok_or_else(|| de::Error::custom(format!("table {name} is not monitored")))?;
            map.next_value_seed(Rows { table, version: self.version, edits: self.edits })?;
        }
        Ok(())
    }
}

struct Rows<'a> {
    table: &'a Table,
    version: Version,
    edits: &'a mut Vec<RowEdit>,
}

seed_of_object!(Rows, ());

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with rows of table {}", self.table.shape.table)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(uuid) = map.next_key::<Uuid>()? {
            let shape = &self.table.shape;
            let edit = map.next_value_seed(Update { shape, version: self.version })?;
            self.edits.push(RowEdit { shape: shape.clone(), uuid, edit });
        }
        Ok(())
    }
}

struct Update<'a> {
    shape: &'a Shape,
    version: Version,
}

seed_of_object!(Update, Edit);

impl<'de> Visitor<'de> for Update<'_> {
    type Value = Edit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an update of a row of table {}", self.shape.table)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Edit, A::Error> {
        let (mut had_old, mut new, mut edit) = (false, None, None);
        while let Some(kind) = map.next_key::<String>()? {
            let columns = Values { shape: self.shape };
            match (self.version, kind.as_str()) {
                (Version::Difference, "initial" | "insert") => {
                    edit = Some(Edit::Insert(map.next_value_seed(columns)?));
                }
                (Version::Difference, "modify") => edit = Some(Edit::Modify(map.next_value_seed(columns)?)),
                (Version::Difference, "delete") => {
                    map.next_value::<IgnoredAny>()?;
                    edit = Some(Edit::Delete);
                }
                (Version::Whole, "new") => new = Some(map.next_value_seed(columns)?),
                (Version::Whole, "old") => {
                    map.next_value::<IgnoredAny>()?;
                    had_old = true;
                }
                (_, other) => return Err(de::Error::custom(format!("\"{other}\" is no kind of row update"))),
            }
        }
        edit.or(match (had_old, new) {
            (false, Some(row)) => Some(Edit::Insert(row)),
            (true, Some(row)) => Some(Edit::Replace(row)),
            (true, None) => Some(Edit::Delete),
            (false, None) => None,
        })
        .ok_or_else(|| de::Error::custom("a row update says nothing"))
    }
}

struct Values<'a> {
    shape: &'a Shape,
}

seed_of_object!(Values, Given);

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with columns of table {}", self.shape.table)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        let mut given = Given::with_capacity(self.shape.columns.len());
        while let Some(at) = map.next_key_seed(Column { shape: self.shape })? {
            let datum: Datum = map.next_value()?;
            let Some((name, kind)) = self.shape.columns.get(at) else { continue };
            let named = |why| de::Error::custom(format!("{}.{name}: {why}", self.shape.table));
            given.push((at, kind.conform(datum).map_err(named)?));
        }
        Ok(given)
    }
}

/// Reads a column's name as its place in the shape.
struct Column<'a> {
    shape: &'a Shape,
}

impl<'de> DeserializeSeed<'de> for Column<'_> {
    type Value = usize;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Column<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a column of table {}", self.shape.table)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<usize, E> {
        self.shape
            .position(name)
            .ok_or_else(|| E::custom(format!("column {name} of table {} is not monitored", self.shape.table)))
    }
}
