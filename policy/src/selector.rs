//! Label selectors (`meta/v1` LabelSelector): which labels a rule speaks about.

use std::fmt;

use crate::label::Labels;
use crate::name::Name;

/// All requirements must hold; without any, everything is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// `matchLabels` as [`Operator::In`] with one value, then `matchExpressions`, in the order of the
    /// manifest.
    pub requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The key of the label.
    pub key: Name,
    /// What must hold for it.
    pub operator: Operator,
}

/// The operators of `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The label is there and has one of the values.
    In(Vec<Name>),
    /// The label is absent or has none of the values.
    NotIn(Vec<Name>),
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Selector {
    /// The empty selector.
    pub fn everything() -> Selector {
        Selector::default()
    }

    /// Whether every label set is selected.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the labels meet every requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    /// Whether the labels meet this requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Selector {
    /// As `kubectl` spells selectors; the empty one is `<all>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_everything() {
            return f.write_str("<all>");
        }
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Requirement { key, operator } = self;
        match operator {
            Operator::In(values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                _ => write!(f, "{key} in ({})", values.join(",")),
            },
            Operator::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

#[cfg(test)]
mod tests;
