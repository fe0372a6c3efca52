//! What readers and writers of actions share: where they stand, headers, and runs of bits.

use super::Action;
use super::code::Code;
use crate::field::header::FieldHeader;
use crate::field::{Field, Subfield};
use crate::wire::{DecodeError, Reader, Writer};

/// The type of an action that a vendor's number follows.
pub(super) const EXPERIMENTER: u16 = 0xffff;

/// Reads actions until the bytes end, of this version and so deep in other actions.
pub(super) type DecodeList = fn(&mut Reader<'_>, u8, u8) -> Result<Vec<Action>, DecodeError>;

/// Where an action is read: which code it has, in which version, how deep in other actions.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) code: Code,
    pub(super) version: u8,
    pub(super) depth: u8,
    /// Reads lists, of which the action may hold one.
    pub(super) list: DecodeList,
}

impl Place {
    /// Reads the actions inside of the one that stands here.
    pub(super) fn nested(&self, r: &mut Reader<'_>) -> Result<Vec<Action>, DecodeError> {
        (self.list)(r, self.version, self.depth + 1)
    }
}

/// What a reader of bytes finds; `None` if the action must stay raw, because a part of it (a
/// field, a property) is not known.
pub(super) type Decoded = Result<Option<Action>, DecodeError>;

/// Checks that the bits exist.
pub(super) fn subfield(field: Field, start: u16, bits: u16) -> Result<Subfield, DecodeError> {
    let sub = Subfield::bits(field, start, bits);
    match sub.is_valid() {
        true => Ok(sub),
        false => {
            Err(DecodeError::BadValue { what: "subfield", value: u64::from(start) << 16 | u64::from(bits) })
        }
    }
}

/// The packed form of a run of bits: start in the high 10 bits, length less one in the low 6.
pub(super) fn packed(field: Field, packed: u16) -> Result<Subfield, DecodeError> {
    subfield(field, packed >> 6, (packed & 0x3f) + 1)
}

/// A field's header; `None` if the field is not known.
pub(super) fn field(r: &mut Reader<'_>) -> Result<Option<Field>, DecodeError> {
    Ok(FieldHeader::decode(r)?.field())
}

/// A header of four bytes, which an experimenter's field does not fit.
pub(super) fn short_field(r: &mut Reader<'_>) -> Result<Option<Field>, DecodeError> {
    let mut header = r.sub(4, "field header")?;
    Ok(FieldHeader::decode(&mut header).ok().and_then(|h| h.field()))
}

/// Writes the header of an action with a place for its length; returns where it starts.
pub(super) fn begin(w: &mut Writer, code: Code) -> usize {
    let start = w.len();
    if code.vendor == 0 {
        w.u16(code.number);
        w.u16(0);
    } else {
        w.u16(EXPERIMENTER);
        w.u16(0);
        w.u32(code.vendor);
        w.u16(code.number);
    }
    start
}

/// Pads what starts at `start` to 8 bytes and fills in its length.
pub(super) fn finish(w: &mut Writer, start: usize) {
    w.pad_from(start, 8);
    w.patch_length(start + 2, start);
}

/// Writes an action whose body `body` writes.
pub(super) fn with(w: &mut Writer, code: Code, body: impl FnOnce(&mut Writer)) {
    let start = begin(w, code);
    body(w);
    finish(w, start);
}

/// Writes the packed form of a run of bits: start in the high 10 bits, length less one in the low 6.
pub(super) fn put_packed(w: &mut Writer, sub: Subfield) {
    w.u16(sub.start << 6 | (sub.bits.wrapping_sub(1) & 0x3f));
}
