//! Why a physical network is not there.

/// Why a physical network is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// Something that is on its way anyhow.
    Later,
    /// Something that an administrator can change: nothing was touched.
    Blocked(String),
    /// A step failed: tried again, less and less often.
    Failed(String),
}

impl Stuck {
    /// See [`Stuck::Blocked`].
    pub fn blocked(what: impl Into<String>) -> Self {
        Self::Blocked(what.into())
    }
}
