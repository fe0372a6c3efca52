//! Lists of actions and instructions as bytes.
//!
//! An action is type, length and body; an unknown one, or a known one that names something
//! unknown, is kept whole as [`Action::Raw`]. Flow-mods carry instructions, whose order
//! OpenFlow fixes (1.5.1 §5.5): meter, apply, clear, write, metadata, goto.

use super::encode::{self, encode_actions};
use super::layout::{EXPERIMENTER, Place, finish};
use super::{Action, MAX_DEPTH, RawAction, registry};
use crate::wire::{DecodeError, Reader, Writer};

mod instruction {
    pub(super) const GOTO_TABLE: u16 = 1;
    pub(super) const WRITE_METADATA: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 3;
    pub(super) const APPLY_ACTIONS: u16 = 4;
    pub(super) const CLEAR_ACTIONS: u16 = 5;
    pub(super) const METER: u16 = 6;
}

/// Reads actions until `r` ends.
///
/// # Errors
/// Any length that contradicts the bytes, and impossible values in known actions.
pub fn decode_actions(r: &mut Reader<'_>, version: u8) -> Result<Vec<Action>, DecodeError> {
    decode_list(r, version, 0)
}

/// Reads actions, those inside of others too.
fn decode_list(r: &mut Reader<'_>, version: u8, depth: u8) -> Result<Vec<Action>, DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::TooDeep("actions"));
    }
    let mut actions = Vec::new();
    while !r.is_empty() {
        actions.push(decode_action(r, version, depth)?);
    }
    Ok(actions)
}

/// The length in the header at the start of `r`, checked.
fn frame<'a>(r: &mut Reader<'a>, what: &'static str, least: usize) -> Result<(u16, &'a [u8]), DecodeError> {
    let mut header = r.clone();
    let kind = header.u16(what)?;
    let length = usize::from(header.u16(what)?);
    if length < least || !length.is_multiple_of(8) {
        return Err(DecodeError::BadLength { what, length });
    }
    Ok((kind, r.bytes(length, what)?))
}

fn decode_action(r: &mut Reader<'_>, version: u8, depth: u8) -> Result<Action, DecodeError> {
    let (number, whole) = frame(r, "action", 8)?;
    let mut body = Reader::new(whole);
    body.skip(4, "action")?;
    let (vendor, number) = match number {
        EXPERIMENTER => (body.u32("action.vendor")?, body.u16("action.subtype").unwrap_or_default()),
        _ => (0, number),
    };
    let raw = || Action::Raw(RawAction { instruction: false, bytes: whole.to_vec() });
    let Some((kind, code)) = registry::by_code(vendor, number, version) else { return Ok(raw()) };
    if !code.allows(whole.len()) {
        return Err(DecodeError::BadLength { what: kind.name, length: whole.len() });
    }
    let found = (kind.decode)(&mut body, Place { code, version, depth, list: decode_list })?;
    Ok(found.unwrap_or_else(raw))
}

/// Reads instructions until `r` ends.
///
/// # Errors
/// Any length that contradicts the bytes, and impossible values in known actions.
pub fn decode_instructions(r: &mut Reader<'_>, version: u8) -> Result<Vec<Action>, DecodeError> {
    let mut actions = Vec::new();
    while !r.is_empty() {
        let (kind, whole) = frame(r, "instruction", 8)?;
        let mut body = Reader::new(whole);
        body.skip(4, "instruction")?;
        match (kind, whole.len()) {
            (instruction::GOTO_TABLE, 8) => actions.push(Action::GotoTable(body.u8("goto_table")?)),
            (instruction::WRITE_METADATA, 24) => {
                body.skip(4, "write_metadata")?;
                let (value, mask) = (body.u64("write_metadata")?, body.u64("write_metadata")?);
                actions.push(Action::WriteMetadata { value, mask });
            }
            (instruction::WRITE_ACTIONS, _) => {
                body.skip(4, "write_actions")?;
                actions.push(Action::WriteActions(decode_list(&mut body, version, 1)?));
            }
            (instruction::APPLY_ACTIONS, _) => {
                body.skip(4, "apply_actions")?;
                actions.append(&mut decode_list(&mut body, version, 0)?);
            }
            (instruction::CLEAR_ACTIONS, 8) => actions.push(Action::ClearActions),
            (instruction::METER, 8) if version < crate::OF15 => {
                actions.push(Action::Meter(body.u32("meter")?));
            }
            (instruction::GOTO_TABLE..=instruction::METER, length) => {
                return Err(DecodeError::BadLength { what: "instruction", length });
            }
            _ => actions.push(Action::Raw(RawAction { instruction: true, bytes: whole.to_vec() })),
        }
    }
    Ok(actions)
}

/// Writes instructions, as flow-mods and flow statistics carry them.
pub fn encode_instructions(w: &mut Writer, actions: &[Action], version: u8) {
    let meter_first = version < crate::OF15;
    let is_instruction = |action: &&Action| match action {
        Action::Meter(_) => meter_first,
        Action::Raw(raw) => raw.instruction,
        Action::GotoTable(_)
        | Action::WriteMetadata { .. }
        | Action::ClearActions
        | Action::WriteActions(_) => true,
        _ => false,
    };
    for action in actions.iter().filter(is_instruction) {
        if let Action::Meter(id) = action {
            instruction_header(w, instruction::METER);
            w.u32(*id);
            finish(w, w.len() - 8);
        }
    }
    let mut applied = actions.iter().filter(|a| !is_instruction(a)).peekable();
    if applied.peek().is_some() {
        let start = instruction_header(w, instruction::APPLY_ACTIONS);
        w.zeros(4);
        applied.for_each(|action| encode::action(w, action, version));
        finish(w, start);
    }
    let mut later: Vec<&Action> = actions.iter().filter(is_instruction).collect();
    later.sort_by_key(|action| action.rank());
    later.into_iter().for_each(|action| encode_instruction(w, action, version));
}

fn encode_instruction(w: &mut Writer, action: &Action, version: u8) {
    match action {
        Action::ClearActions => {
            let start = instruction_header(w, instruction::CLEAR_ACTIONS);
            w.zeros(4);
            finish(w, start);
        }
        Action::WriteActions(actions) => {
            let start = instruction_header(w, instruction::WRITE_ACTIONS);
            w.zeros(4);
            encode_actions(w, actions, version);
            finish(w, start);
        }
        Action::WriteMetadata { value, mask } => {
            let start = instruction_header(w, instruction::WRITE_METADATA);
            w.zeros(4);
            w.u64(*value);
            w.u64(*mask);
            finish(w, start);
        }
        Action::GotoTable(table) => {
            let start = instruction_header(w, instruction::GOTO_TABLE);
            w.u8(*table);
            finish(w, start);
        }
        Action::Raw(raw) => w.bytes(&raw.bytes),
        _ => {}
    }
}

/// Writes type and a place for the length; returns where it starts.
fn instruction_header(w: &mut Writer, number: u16) -> usize {
    let start = w.len();
    w.u16(number);
    w.u16(0);
    start
}
