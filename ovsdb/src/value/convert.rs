//! Values to and from the types of Rust that programs work with.

use super::{Atom, Datum, Uuid, ValueError};
use std::collections::{BTreeMap, BTreeSet};

/// A type of Rust that one atom can become.
pub trait FromAtom: Sized {
    /// What the schema calls such an atom, for error messages.
    const TYPE: &'static str;

    /// Reads the atom; `None` when it is of another type.
    fn from_atom(atom: &Atom) -> Option<Self>;
}

impl FromAtom for i64 {
    const TYPE: &'static str = "integer";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Integer(value) = atom { Some(*value) } else { None }
    }
}

impl FromAtom for f64 {
    const TYPE: &'static str = "real";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Real(value) = atom { Some(value.get()) } else { None }
    }
}

impl FromAtom for bool {
    const TYPE: &'static str = "boolean";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Boolean(value) = atom { Some(*value) } else { None }
    }
}

impl FromAtom for String {
    const TYPE: &'static str = "string";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::String(value) = atom { Some(value.clone()) } else { None }
    }
}

impl FromAtom for Uuid {
    const TYPE: &'static str = "uuid";
    fn from_atom(atom: &Atom) -> Option<Self> {
        if let Atom::Uuid(value) = atom { Some(*value) } else { None }
    }
}

/// A type of Rust that a column's whole value can become: an atom's type for exactly one, `Option` for at most
/// one, `BTreeSet` for many, `BTreeMap` for a map.
pub trait FromDatum: Sized {
    /// Reads the value, or says what is wrong with it.
    fn from_datum(datum: &Datum) -> Result<Self, ValueError>;
}

fn mismatch(expected: String, datum: &Datum) -> ValueError {
    ValueError::Type { expected, found: datum.kind().to_owned() }
}

impl<T: FromAtom> FromDatum for T {
    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        let atom = datum.as_scalar().and_then(T::from_atom);
        atom.ok_or_else(|| mismatch(T::TYPE.to_owned(), datum))
    }
}

impl<T: FromAtom> FromDatum for Option<T> {
    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        let wrong = || mismatch(format!("at most one {}", T::TYPE), datum);
        match datum.as_set() {
            Some([]) => Ok(None),
            Some([atom]) => T::from_atom(atom).map(Some).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }
}

impl<T: FromAtom + Ord> FromDatum for BTreeSet<T> {
    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        let atoms = datum.as_set().and_then(|atoms| atoms.iter().map(T::from_atom).collect());
        atoms.ok_or_else(|| mismatch(format!("set of {}", T::TYPE), datum))
    }
}

impl<K: FromAtom + Ord, V: FromAtom> FromDatum for BTreeMap<K, V> {
    fn from_datum(datum: &Datum) -> Result<Self, ValueError> {
        if datum.is_empty() {
            return Ok(Self::new());
        }
        let read = |(key, value): &(Atom, Atom)| Some((K::from_atom(key)?, V::from_atom(value)?));
        let pairs = datum.as_map().and_then(|pairs| pairs.iter().map(read).collect());
        pairs.ok_or_else(|| mismatch(format!("map from {} to {}", K::TYPE, V::TYPE), datum))
    }
}

impl From<i64> for Atom {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<i32> for Atom {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u32> for Atom {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<u16> for Atom {
    fn from(value: u16) -> Self {
        Self::Integer(value.into())
    }
}

impl From<bool> for Atom {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&str> for Atom {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Atom {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<&String> for Atom {
    fn from(value: &String) -> Self {
        Self::String(value.clone())
    }
}

impl From<Uuid> for Atom {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

impl<T: Into<Atom>> From<T> for Datum {
    fn from(value: T) -> Self {
        Self::scalar(value)
    }
}

impl<T: Into<Atom>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::empty, Self::scalar)
    }
}

/// Elements that come twice count once.
impl<T: Into<Atom>> FromIterator<T> for Datum {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let atoms: BTreeSet<Atom> = iter.into_iter().map(Into::into).collect();
        // A BTreeSet is sorted and free of duplicates, so this cannot fail.
        Self::set(atoms.into_iter().collect()).unwrap_or_default()
    }
}

impl<T: Into<Atom>> From<BTreeSet<T>> for Datum {
    fn from(set: BTreeSet<T>) -> Self {
        set.into_iter().collect()
    }
}

impl<T: Into<Atom>> From<Vec<T>> for Datum {
    fn from(atoms: Vec<T>) -> Self {
        atoms.into_iter().collect()
    }
}

impl<K: Into<Atom>, V: Into<Atom>> From<BTreeMap<K, V>> for Datum {
    fn from(map: BTreeMap<K, V>) -> Self {
        Self::from_pairs(map)
    }
}

impl Datum {
    /// A map from pairs; of pairs with the same key the last counts.
    pub fn from_pairs<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let map: BTreeMap<Atom, Atom> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        // A BTreeMap is sorted and free of duplicates, so this cannot fail.
        Self::map(map.into_iter().collect()).unwrap_or_else(|_| Self::empty_map())
    }
}
