//! A match in `ovs-ofctl`'s spelling.
use super::Match;
/// Text that is not a match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// A field or its value.
    #[error(transparent)]
    Field(#[from] crate::field::FieldError),
}
impl std::fmt::Display for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        Ok(())
    }
}
