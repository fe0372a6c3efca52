//! A column's value: a sorted set or a sorted map of atoms.

use super::{Atom, ValueError};
use std::fmt;

/// What a column of a row holds (RFC 7047 §5.1, `<value>`).
///
/// Both forms are sorted and free of duplicates, so equality is equality of content.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Datum(Content);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Set(Vec<Atom>),
    Map(Vec<(Atom, Atom)>),
}

impl Default for Datum {
    fn default() -> Self {
        Self::empty()
    }
}

impl Datum {
    /// The empty set.
    pub const fn empty() -> Self {
        Self(Content::Set(Vec::new()))
    }

    /// The empty map.
    pub const fn empty_map() -> Self {
        Self(Content::Map(Vec::new()))
    }

    /// A plain value: the set of one atom.
    pub fn scalar(atom: impl Into<Atom>) -> Self {
        Self(Content::Set(vec![atom.into()]))
    }

    /// A set; fails when an element comes twice.
    pub fn set(mut atoms: Vec<Atom>) -> Result<Self, ValueError> {
        if !atoms.is_sorted() {
            atoms.sort_unstable();
        }
        match atoms.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[Atom]>::first) {
            Some(twice) => Err(ValueError::DuplicateElement(twice.to_string())),
            None => Ok(Self(Content::Set(atoms))),
        }
    }

    /// A map; fails when a key comes twice.
    pub fn map(mut pairs: Vec<(Atom, Atom)>) -> Result<Self, ValueError> {
        if !pairs.is_sorted() {
            pairs.sort_unstable();
        }
        for pair in pairs.windows(2) {
            if let [(a, _), (b, _)] = pair
                && a == b
            {
                return Err(ValueError::DuplicateKey(a.to_string()));
            }
        }
        Ok(Self(Content::Map(pairs)))
    }

    /// The elements, when this is a set.
    pub fn as_set(&self) -> Option<&[Atom]> {
        match &self.0 {
            Content::Set(atoms) => Some(atoms),
            Content::Map(_) => None,
        }
    }

    /// The pairs, when this is a map.
    pub fn as_map(&self) -> Option<&[(Atom, Atom)]> {
        match &self.0 {
            Content::Map(pairs) => Some(pairs),
            Content::Set(_) => None,
        }
    }

    /// The only element, when this is a set of one.
    pub fn as_scalar(&self) -> Option<&Atom> {
        match self.as_set() {
            Some([atom]) => Some(atom),
            _ => None,
        }
    }

    /// The value under a text key, when this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Atom> {
        let pairs = self.as_map()?;
        pairs.iter().find(|(k, _)| matches!(k, Atom::String(s) if s == key)).map(|(_, v)| v)
    }

    /// The number of elements or pairs.
    pub fn len(&self) -> usize {
        match &self.0 {
            Content::Set(atoms) => atoms.len(),
            Content::Map(pairs) => pairs.len(),
        }
    }

    /// True when there is no element or pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies the difference that a `modify` of an `update2` carries for a column of several values
    /// (ovsdb-server(7), "Update2 notification").
    ///
    /// Of a set, elements that are there go and the others come. Of a map, a pair that is there goes, and any
    /// other pair is set.
    pub fn apply_difference(&mut self, difference: &Self) -> Result<(), ValueError> {
        match (&mut self.0, &difference.0) {
            (Content::Set(atoms), Content::Set(changes)) => {
                for change in changes {
                    match atoms.binary_search(change) {
                        Ok(at) => drop(atoms.remove(at)),
                        Err(at) => atoms.insert(at, change.clone()),
                    }
                }
                Ok(())
            }
            (Content::Map(pairs), Content::Map(changes)) => {
                for (key, value) in changes {
                    match pairs.binary_search_by(|(k, _)| k.cmp(key)) {
                        Ok(at) => match pairs.get_mut(at) {
                            Some((_, old)) if old != value => old.clone_from(value),
                            _ => drop(pairs.remove(at)),
                        },
                        Err(at) => pairs.insert(at, (key.clone(), value.clone())),
                    }
                }
                Ok(())
            }
            _ => Err(ValueError::Type {
                expected: self.kind().to_owned(),
                found: difference.kind().to_owned(),
            }),
        }
    }

    /// Says in a word what this is, for error messages.
    pub fn kind(&self) -> &'static str {
        match &self.0 {
            Content::Set(atoms) => match atoms.as_slice() {
                [] => "empty set",
                [one] => one.type_name(),
                _ => "set",
            },
            Content::Map(_) => "map",
        }
    }

    /// Rebuilds the value with every atom passed through `key`, and the values of a map through `value`.
    pub(crate) fn try_map(
        self,
        key: impl Fn(Atom) -> Result<Atom, ValueError>,
        value: impl Fn(Atom) -> Result<Atom, ValueError>,
    ) -> Result<Self, ValueError> {
        match self.0 {
            Content::Set(atoms) => Self::set(atoms.into_iter().map(key).collect::<Result<_, _>>()?),
            Content::Map(pairs) => Self::map(
                pairs
                    .into_iter()
                    .map(|(k, v)| Ok((key(k)?, value(v)?)))
                    .collect::<Result<_, ValueError>>()?,
            ),
        }
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Set(atoms) => match atoms.as_slice() {
                [one] => one.fmt(f),
                many => {
                    f.write_str("[")?;
                    for (i, atom) in many.iter().enumerate() {
                        write!(f, "{}{atom}", if i == 0 { "" } else { ", " })?;
                    }
                    f.write_str("]")
                }
            },
            Content::Map(pairs) => {
                f.write_str("{")?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}
