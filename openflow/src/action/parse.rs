//! Lists of actions as `ovs-ofctl` reads them.

use std::str::FromStr;

use super::argument::{ActionError, Context, Parsed, bad};
use super::{Action, registry};
use crate::field::{Field, parse_port};
use crate::flow::KeyValues;
use crate::matching::Match;

/// Parses a list of actions; `drop` is an empty one.
///
/// # Errors
/// What is wrong with which action.
pub fn parse_actions(s: &str) -> Result<Vec<Action>, ActionError> {
    parse_list(s, &mut Context { ip_proto: None, tagged: false, depth: 0, list: parse_list })
}

/// Parses the actions of a flow with this match, which decides what `mod_tp_dst` and
/// `mod_vlan_vid` mean.
///
/// # Errors
/// What is wrong with which action.
pub fn parse_actions_for(s: &str, matches: &Match) -> Result<Vec<Action>, ActionError> {
    let tagged = matches.get(Field::VLAN_TCI).is_some_and(|(value, _)| value & 0x1000 != 0);
    parse_list(
        s,
        &mut Context { ip_proto: matches.exact(Field::IP_PROTO), tagged, depth: 0, list: parse_list },
    )
}

fn parse_list(s: &str, cx: &mut Context) -> Parsed {
    let (mut actions, mut drop) = (Vec::new(), false);
    for (name, argument) in KeyValues::new(s) {
        if let Some(kind) = registry::by_name(name) {
            actions.append(&mut (kind.parse)(argument, cx)?);
        } else if name.eq_ignore_ascii_case("drop") {
            drop = true;
        } else if let Some(port) = parse_port(name) {
            let max_len = argument.parse().unwrap_or(0);
            actions.push(Action::Output { port, max_len });
        } else {
            return Err(ActionError::Unknown(name.to_owned()));
        }
    }
    if drop && !actions.is_empty() { Err(ActionError::DropAndMore) } else { Ok(actions) }
}

impl FromStr for Action {
    type Err = ActionError;

    /// One action; text that stands for several (`enqueue`) or none (`drop`) is refused.
    fn from_str(s: &str) -> Result<Self, ActionError> {
        let mut actions = parse_actions(s)?;
        match (actions.pop(), actions.is_empty()) {
            (Some(action), true) => Ok(action),
            _ => bad("action", s, "exactly one action"),
        }
    }
}
