//! The schema of a database: which tables have which columns of which type (RFC 7047 §3.2).
//!
//! The session reads it first on every connection. It is needed to understand a monitor: `update2` leaves out
//! columns that have their default value, and the meaning of a `modify` depends on the column's greatest size.

use crate::value::{Atom, Datum, Real, Uuid, ValueError};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// A database schema (RFC 7047 §3.2, `<database-schema>`), as far as a client needs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Schema {
    /// Name of the database.
    pub name: String,
    /// Version of the schema, for example `8.3.1`.
    #[serde(default)]
    pub version: String,
    /// Tables by name.
    pub tables: BTreeMap<String, TableSchema>,
}

/// A table's columns (RFC 7047 §3.2, `<table-schema>`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TableSchema {
    /// Columns by name, without `_uuid` and `_version`, which every table has.
    pub columns: BTreeMap<String, ColumnSchema>,
    /// True when rows live without being referred to.
    #[serde(default, rename = "isRoot")]
    pub is_root: bool,
}

/// A column (RFC 7047 §3.2, `<column-schema>`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ColumnSchema {
    /// Type of the values.
    #[serde(rename = "type")]
    pub kind: ColumnType,
    /// False when the value is fixed once the row is there.
    #[serde(default = "yes")]
    pub mutable: bool,
}

fn yes() -> bool {
    true
}

/// Type of an atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AtomType {
    /// 64-bit signed integer.
    Integer,
    /// Real number.
    Real,
    /// Truth value.
    Boolean,
    /// Text.
    String,
    /// Reference to a row.
    Uuid,
}

impl AtomType {
    /// The value that a column of this type has unless one is given (RFC 7047 §5.2.1).
    pub fn default_atom(self) -> Atom {
        match self {
            Self::Integer => Atom::Integer(0),
            Self::Real => Real::new(0.0).map_or(Atom::Integer(0), Atom::Real),
            Self::Boolean => Atom::Boolean(false),
            Self::String => Atom::String(String::new()),
            Self::Uuid => Atom::Uuid(Uuid::default()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Uuid => "uuid",
        }
    }

    fn fits(self, atom: &Atom) -> bool {
        matches!(
            (self, atom),
            (Self::Integer, Atom::Integer(_))
                | (Self::Real, Atom::Real(_))
                | (Self::Boolean, Atom::Boolean(_))
                | (Self::String, Atom::String(_))
                | (Self::Uuid, Atom::Uuid(_))
        )
    }

    /// Takes an atom of this type. JSON has one kind of number, so an integer becomes a real where one is wanted.
    fn conform(self, atom: Atom) -> Result<Atom, ValueError> {
        match (self, atom) {
            // Integers above 2^53 lose digits here, as they do in every real column.
            #[allow(clippy::cast_precision_loss)]
            (Self::Real, Atom::Integer(value)) => Real::new(value as f64).map(Atom::Real),
            (_, atom) if self.fits(&atom) => Ok(atom),
            (_, atom) => Err(ValueError::Type {
                expected: self.name().to_owned(),
                found: format!("{} {atom}", atom.type_name()),
            }),
        }
    }
}

/// Type of a column: what its elements are, and how many it may hold (RFC 7047 §3.2, `<type>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnType {
    /// Type of the elements, or of a map's keys.
    pub key: AtomType,
    /// Type of a map's values; `None` for a set.
    pub value: Option<AtomType>,
    /// Least number of elements: 0 or 1.
    pub min: u32,
    /// Greatest number of elements; `None` when unlimited.
    pub max: Option<u32>,
}

impl ColumnType {
    /// True when the column can hold more than one element, so that a `modify` carries a difference
    /// (ovsdb-server(7), "Update2 notification").
    pub fn is_composite(&self) -> bool {
        self.max.is_none_or(|max| max > 1)
    }

    /// The value of a column for which none was given (RFC 7047 §5.2.1).
    pub fn default_datum(&self) -> Datum {
        match (self.min, self.value) {
            (0, None) => Datum::empty(),
            (0, Some(_)) => Datum::empty_map(),
            (_, None) => Datum::scalar(self.key.default_atom()),
            (_, Some(value)) => Datum::from_pairs([(self.key.default_atom(), value.default_atom())]),
        }
    }

    /// Checks the types of a value's atoms; an empty value takes the column's form. The number of elements is not
    /// checked, since a difference may hold more of them than the column.
    pub fn conform(&self, datum: Datum) -> Result<Datum, ValueError> {
        let Some(value) = self.value else {
            return match datum.as_set() {
                Some(atoms) if atoms.iter().all(|atom| self.key.fits(atom)) => Ok(datum),
                Some(_) => datum.try_map(|atom| self.key.conform(atom), Ok),
                None => Err(self.mismatch(&datum)),
            };
        };
        match datum.as_map() {
            Some(pairs) if pairs.iter().all(|(k, v)| self.key.fits(k) && value.fits(v)) => Ok(datum),
            Some(_) => datum.try_map(|atom| self.key.conform(atom), |atom| value.conform(atom)),
            None if datum.is_empty() => Ok(Datum::empty_map()),
            None => Err(self.mismatch(&datum)),
        }
    }

    /// As [`Self::conform`], and the number of elements must be one that the column takes.
    pub fn conform_whole(&self, datum: Datum) -> Result<Datum, ValueError> {
        let datum = self.conform(datum)?;
        let found = datum.len();
        let count = u64::try_from(found).unwrap_or(u64::MAX);
        if count < self.min.into() || self.max.is_some_and(|max| count > max.into()) {
            let max = self.max.map_or_else(|| "unlimited".to_owned(), |max| max.to_string());
            return Err(ValueError::Count { min: self.min.into(), max, found });
        }
        Ok(datum)
    }

    fn mismatch(&self, datum: &Datum) -> ValueError {
        ValueError::Type { expected: self.to_string(), found: datum.kind().to_owned() }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "map from {} to {}", self.key.name(), value.name()),
            None if self.is_composite() => write!(f, "set of {}", self.key.name()),
            None => f.write_str(self.key.name()),
        }
    }
}

impl<'de> Deserialize<'de> for ColumnType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fixed = |key| Self { key, value: None, min: 1, max: Some(1) };
        Ok(match TypeJson::deserialize(deserializer)? {
            TypeJson::Atomic(key) => fixed(key),
            TypeJson::Full { key, value, min, max } => Self {
                key: key.atom_type(),
                value: value.map(|value| value.atom_type()),
                min,
                max: match max {
                    MaxJson::Number(max) => Some(max),
                    MaxJson::Word(Unlimited::Unlimited) => None,
                },
            },
        })
    }
}

/// A type as JSON spells it.
#[derive(Deserialize)]
#[serde(untagged)]
enum TypeJson {
    Atomic(AtomType),
    Full {
        key: BaseJson,
        value: Option<BaseJson>,
        #[serde(default = "one")]
        min: u32,
        #[serde(default = "max_one")]
        max: MaxJson,
    },
}

fn one() -> u32 {
    1
}

fn max_one() -> MaxJson {
    MaxJson::Number(1)
}

/// A base type: its name alone, or an object with constraints, which the server enforces.
#[derive(Deserialize)]
#[serde(untagged)]
enum BaseJson {
    Atomic(AtomType),
    Full {
        #[serde(rename = "type")]
        kind: AtomType,
    },
}

impl BaseJson {
    fn atom_type(&self) -> AtomType {
        match self {
            Self::Atomic(kind) | Self::Full { kind } => *kind,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum MaxJson {
    Number(u32),
    Word(Unlimited),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unlimited {
    Unlimited,
}

#[cfg(test)]
mod tests;
