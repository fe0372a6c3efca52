//! What the readers of actions as text share: the error, the context, and the simplest arguments.

use super::{Action, MAX_DEPTH};
use crate::field::{FieldError, parse_number, parse_port};

/// What a text stands for: one action, or several, or none.
pub(super) type Parsed = Result<Vec<Action>, ActionError>;

/// Parses a list of actions.
pub(super) type ParseList = fn(&str, &mut Context) -> Parsed;

/// Text that is not an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// No action has this name.
    #[error("`{0}` is not an action that is known here (see ovs-actions(7))")]
    Unknown(String),
    /// A field or a value in an action.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// An argument is missing or malformed.
    #[error("`{argument}` is not what {action} takes: expected {expected}")]
    BadArgument {
        /// The action.
        action: &'static str,
        /// The text given.
        argument: String,
        /// What would do.
        expected: &'static str,
    },
    /// `drop` beside other actions.
    #[error("drop cannot stand beside other actions")]
    DropAndMore,
    /// Actions inside of actions, too deep.
    #[error("actions are nested too deeply")]
    TooDeep,
}

/// What the text before an action says about the packet: names such as `mod_tp_dst` and
/// `mod_vlan_vid` depend on it.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) ip_proto: Option<u128>,
    pub(super) tagged: bool,
    pub(super) depth: u8,
    /// Reads lists, of which an action may hold one.
    pub(super) list: ParseList,
}

impl Context {
    /// Parses the actions inside of another.
    pub(super) fn nested(&self, s: &str) -> Parsed {
        if self.depth >= MAX_DEPTH {
            return Err(ActionError::TooDeep);
        }
        (self.list)(s, &mut Context { depth: self.depth + 1, ..*self })
    }
}

pub(super) fn bad<T>(action: &'static str, argument: &str, expected: &'static str) -> Result<T, ActionError> {
    Err(ActionError::BadArgument { action, argument: argument.to_owned(), expected })
}

/// A number that fits `T`.
pub(super) fn number<T: TryFrom<u128>>(action: &'static str, s: &str) -> Result<T, ActionError> {
    match parse_number(s.trim()).and_then(|n| T::try_from(n).ok()) {
        Some(n) => Ok(n),
        None => bad(action, s, "a number in range, with 0x for hexadecimal"),
    }
}

pub(super) fn port_of(action: &'static str, s: &str) -> Result<u32, ActionError> {
    match parse_port(s) {
        Some(port) => Ok(port),
        None => bad(action, s, "a port number or LOCAL, IN_PORT, CONTROLLER, ..."),
    }
}

#[allow(clippy::cast_possible_truncation)] // both numberings of ports agree in the low 16 bits
pub(super) fn short_port(action: &'static str, s: &str) -> Result<u16, ActionError> {
    port_of(action, s).map(|port| port as u16)
}

pub(super) fn one(action: Action) -> Parsed {
    Ok(vec![action])
}

/// Splits `value->destination`.
pub(super) fn arrow<'a>(action: &'static str, s: &'a str) -> Result<(&'a str, &'a str), ActionError> {
    match s.split_once("->") {
        Some((value, destination)) if !value.is_empty() => Ok((value, destination)),
        _ => bad(action, s, "VALUE->DESTINATION"),
    }
}
