//! Flows in `ovs-ofctl`'s spelling.
use super::Flow;
/// Text that is not a flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// An action.
    #[error(transparent)]
    Action(#[from] crate::action::ActionError),
    /// The match.
    #[error(transparent)]
    Match(#[from] crate::matching::MatchError),
}
impl std::fmt::Display for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        Ok(())
    }
}
impl std::str::FromStr for Flow {
    type Err = FlowError;
    fn from_str(s: &str) -> Result<Self, FlowError> {
        Err(crate::action::ActionError::Unknown(s.to_owned()).into())
    }
}
impl std::fmt::Display for super::FlowMod {
    /// As `ovs-ofctl ofp-print` writes it after the message's name: `ADD table:3 priority=77,ip cookie:0x1 actions=drop`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        Ok(())
    }
}
impl std::fmt::Display for super::FlowStats {
    /// As `ovs-ofctl dump-flows` writes it, without a leading blank.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let _ = f;
        Ok(())
    }
}
