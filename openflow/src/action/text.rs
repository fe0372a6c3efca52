//! Actions in `ovs-ofctl`'s spelling.
use super::Action;
/// Text that is not an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// No action has this name.
    #[error("`{0}` is not an action that is known here (see ovs-actions(7))")]
    Unknown(String),
}
impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        Ok(())
    }
}
/// Writes a list of actions; an empty one is `drop`.
///
/// # Errors
/// Only those of the formatter.
pub fn write_actions(f: &mut dyn std::fmt::Write, actions: &[Action]) -> std::fmt::Result {
    let _ = (f, actions);
    Ok(())
}
/// Parses a list of actions.
///
/// # Errors
/// What is wrong with which action.
pub fn parse_actions(s: &str) -> Result<Vec<Action>, ActionError> {
    Err(ActionError::Unknown(s.to_owned()))
}
