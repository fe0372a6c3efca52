//! What the gate has to say about a manifest.

use std::fmt;
use std::sync::Arc;

use crate::name::ObjectRef;
use crate::object::Object;

/// Where a manifest came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(Origin);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Origin {
    File(Arc<str>, usize),
    Api,
    World,
}

impl Source {
    /// Document `document` of a file, counted from 1.
    pub fn file(path: impl Into<Arc<str>>, document: usize) -> Source {
        Source(Origin::File(path.into(), document))
    }

    /// The API server.
    pub fn api() -> Source {
        Source(Origin::Api)
    }

    /// The objects taken together: each is good by itself, but they do not fit each other.
    pub fn world() -> Source {
        Source(Origin::World)
    }
}

impl fmt::Display for Source {
    /// `pods.yaml#2`, `API server` or `world`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Origin::File(path, document) => write!(f, "{path}#{document}"),
            Origin::Api => f.write_str("API server"),
            Origin::World => f.write_str("world"),
        }
    }
}

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Problem {
    /// Where the manifest came from.
    pub source: Source,
    /// The object, where the manifest says which it is.
    pub object: Option<ObjectRef>,
    /// The path of the field, as `spec.podSelector.matchLabels` or `spec.ingress[0].from[1]`; empty for the
    /// whole.
    pub field: String,
    /// What is wrong, and what is wanted.
    pub message: String,
}

impl fmt::Display for Problem {
    /// `pods.yaml#2: Pod default/a: spec.x: what is wrong and what is wanted`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { source, object, field, message } = self;
        write!(f, "{source}: ")?;
        if let Some(object) = object {
            write!(f, "{object}: ")?;
        }
        if !field.is_empty() {
            write!(f, "{field}: ")?;
        }
        f.write_str(message)
    }
}

/// What the gate made of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The object; None when it is refused.
    pub object: Option<Object>,
    /// Which object the manifest is about, also where it is refused.
    pub reference: Option<ObjectRef>,
    /// What is wrong, in the order of reading; there may be problems although the object is admitted.
    pub problems: Vec<Problem>,
}
