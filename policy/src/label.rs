//! Labels: what selectors look at.

use std::fmt;
use std::sync::Arc;

use crate::name::Name;

/// The labels of an object, sorted by key; a clone shares them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[(Name, Name)]>);

/// So many labels are looked through one by one: texts of other lengths are told apart at once.
const FEW: usize = 8;

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Name> {
        if self.0.len() <= FEW {
            return self.0.iter().find(|(known, _)| known.as_str() == key).map(|(_, value)| value);
        }
        let at = self.0.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Keys and values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many sets of labels share this one, itself included.
    pub(crate) fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Default for Labels {
    fn default() -> Labels {
        Labels(Arc::from([]))
    }
}

impl<K: Into<Name>, V: Into<Name>> FromIterator<(K, V)> for Labels {
    /// Collects labels; of two with one key the later stands.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Labels {
        let mut pairs: Vec<(Name, Name)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        pairs.reverse();
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.dedup_by(|(later, _), (kept, _)| later == kept);
        Labels(Arc::from(pairs))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Display for Labels {
    /// `key=value,key=value`, as `kubectl` shows them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}
