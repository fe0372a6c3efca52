//! Atoms: the scalar values of an OVSDB column (RFC 7047 §3.1, §5.1).
//!
//! A column always holds a [`Datum`]: a set of atoms or a map from atoms to atoms; a plain value is a set of one.
//! JSON is read without knowing the column's type, and [`crate::schema::ColumnType::conform`] then checks it
//! against the schema; so a value can be read anywhere, and the type is enforced in one place.

mod convert;
mod datum;
mod json;

pub use convert::{FromAtom, FromDatum};
pub use datum::Datum;

use std::fmt;
use std::str::FromStr;

/// Why a value is not what RFC 7047 §5.1 or the column's type asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A JSON integer outside of the 64-bit signed range (RFC 7047 §3.1, `<integer>`).
    #[error("integer {0} does not fit in 64 signed bits")]
    IntegerRange(String),
    /// A real number that is not finite.
    #[error("a real number must be finite")]
    NotFinite,
    /// Text that is not a UUID in the form 8-4-4-4-12.
    #[error("\"{0}\" is not a UUID")]
    BadUuid(String),
    /// A name that cannot be a `uuid-name`: RFC 7047 §3.1 asks for `[a-zA-Z_][a-zA-Z0-9_]*`.
    #[error("\"{0}\" is not a valid name for a named UUID")]
    BadUuidName(String),
    /// An array whose first element is none of `set`, `map`, `uuid`, `named-uuid`.
    #[error("\"{0}\" is no kind of value (want set, map, uuid or named-uuid)")]
    UnknownTag(String),
    /// The array ends before a tag or its operand.
    #[error("array ends before its {0}")]
    ShortArray(&'static str),
    /// The array goes on after its operand.
    #[error("array has more elements than a {0} needs")]
    LongArray(&'static str),
    /// A set that holds the same element twice.
    #[error("set holds {0} twice")]
    DuplicateElement(String),
    /// A map that holds the same key twice.
    #[error("map holds key {0} twice")]
    DuplicateKey(String),
    /// A string with a NUL character, which ovsdb-server answers by closing the connection.
    #[error("strings of OVSDB cannot hold a NUL character")]
    Nul,
    /// A value of another type than the column's or the caller's.
    #[error("expected {expected}, found {found}")]
    Type {
        /// What the schema or the caller wants.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A set or map with fewer or more elements than its column takes.
    #[error("expected {min} to {max} elements, found {found}")]
    Count {
        /// Least number of elements.
        min: u64,
        /// Greatest number of elements, `unlimited` when there is none.
        max: String,
        /// Number of elements that are there.
        found: usize,
    },
}

/// A row's identity (RFC 4122 text form in JSON, sixteen bytes here).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// A UUID from its sixteen bytes, in the order in which the text form writes them.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes, in the order in which the text form writes them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bad = || ValueError::BadUuid(text.chars().take(64).collect());
        if text.len() != 36 {
            return Err(bad());
        }
        let mut bytes = [0_u8; 16];
        let mut digits = 0_usize;
        for (i, c) in text.bytes().enumerate() {
            if matches!(i, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return Err(bad());
                }
                continue;
            }
            let digit = match c {
                b'0'..=b'9' => c - b'0',
                b'a'..=b'f' => c - b'a' + 10,
                b'A'..=b'F' => c - b'A' + 10,
                _ => return Err(bad()),
            };
            let slot = bytes.get_mut(digits / 2).ok_or_else(bad)?;
            *slot = (*slot << 4) | digit;
            digits += 1;
        }
        Ok(Self(bytes))
    }
}

/// A finite real number with a total order, so that sets of reals can be sorted. `-0.0` becomes `0.0`.
#[derive(Debug, Clone, Copy)]
pub struct Real(f64);

impl Real {
    /// Takes a number, unless it is infinite or not a number, which JSON cannot carry.
    pub fn new(value: f64) -> Result<Self, ValueError> {
        // Adding zero turns -0.0 into 0.0, so that equal numbers are one element of a set.
        if value.is_finite() { Ok(Self(value + 0.0)) } else { Err(ValueError::NotFinite) }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// One scalar (RFC 7047 §5.1, `<atom>`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// A 64-bit signed integer.
    Integer(i64),
    /// A finite real.
    Real(Real),
    /// `true` or `false`.
    Boolean(bool),
    /// Text.
    String(String),
    /// A reference to a row that exists.
    Uuid(Uuid),
    /// A reference to a row that the same transaction inserts under this name.
    NamedUuid(String),
}

impl Atom {
    /// The name of this atom's type, as a schema spells it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Integer(_) => "integer",
            Self::Real(_) => "real",
            Self::Boolean(_) => "boolean",
            Self::String(_) => "string",
            Self::Uuid(_) => "uuid",
            Self::NamedUuid(_) => "named-uuid",
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Real(value) => value.get().fmt(f),
            Self::Boolean(value) => value.fmt(f),
            Self::String(value) => write!(f, "{value:?}"),
            Self::Uuid(value) => value.fmt(f),
            Self::NamedUuid(value) => write!(f, "@{value}"),
        }
    }
}

#[cfg(test)]
mod tests;
