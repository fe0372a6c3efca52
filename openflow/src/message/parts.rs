//! Matches and actions inside messages: one place for how a message reads, writes and prints them.

use std::fmt::Write as _;

use crate::action::{self, Action};
use crate::field;
use crate::flow::DEFAULT_PRIORITY;
use crate::matching::Match;
use crate::wire::{DecodeError, Reader, Writer};

/// The match that the message calls `what`.
pub(crate) fn take_match(r: &mut Reader<'_>, what: &'static str) -> Result<Match, DecodeError> {
    Match::decode(r).map_err(|error| error.within(what))
}

pub(crate) fn put_match(w: &mut Writer, matches: &Match, version: u8) {
    matches.encode(w, version);
}

pub(crate) fn take_oxms(bytes: &[u8]) -> Result<Match, DecodeError> {
    Match::decode_fields(bytes)
}

pub(crate) fn put_oxms(w: &mut Writer, matches: &Match, version: u8) {
    matches.encode_fields(w, version);
}

pub(crate) fn take_actions(bytes: &[u8], version: u8) -> Result<Vec<Action>, DecodeError> {
    action::decode_actions(&mut Reader::new(bytes), version)
}

pub(crate) fn put_actions(w: &mut Writer, actions: &[Action], version: u8) {
    action::encode_actions(w, actions, version);
}

/// Actions as text; none is `drop`.
pub(crate) fn actions_text(actions: &[Action]) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = action::write_actions(&mut text, actions);
    text
}

/// A match as text, with its priority unless that is the default or there is none.
pub(crate) fn match_text(matches: &Match, priority: Option<u16>) -> String {
    match priority {
        Some(priority) if priority != DEFAULT_PRIORITY && matches.is_empty() => {
            format!("priority={priority}")
        }
        Some(priority) if priority != DEFAULT_PRIORITY => format!("priority={priority},{matches}"),
        _ => matches.to_string(),
    }
}

/// The fields of a selection method, with the mask of those that do not count whole.
pub(crate) fn field_masks_text(fields: &Match) -> String {
    let mut text = String::new();
    for (i, (field, mask, _)) in fields.iter().enumerate() {
        let separator = if i == 0 { "" } else { "," };
        let _ = write!(text, "{separator}{}", field.name());
        if mask != field.full_mask() {
            let _ = write!(text, "={mask:#x}");
        }
    }
    text
}

/// A port's number, or the name of a reserved one.
pub(crate) fn port_text(port: u32) -> String {
    field::port_text(port)
}

/// The upper and the lower half of a number.
pub(crate) fn halves(value: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}
