//! The header in front of a field's value: class, number, mask bit, length (OpenFlow 1.5.1
//! §7.2.3.2), the same in OXM and NXM.

use super::{Code, Field};
use crate::wire::{DecodeError, Reader, Writer};

/// The class after whose header an experimenter's number follows.
const EXPERIMENTER: u16 = 0xffff;

/// A header as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldHeader {
    class: u16,
    id: u8,
    has_mask: bool,
    experimenter: u32,
    /// Bytes of value and mask.
    pub(crate) length: usize,
}

impl FieldHeader {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [a, b, number, length] = r.array("field header")?;
        let class = u16::from_be_bytes([a, b]);
        let mut length = usize::from(length);
        let mut experimenter = 0;
        if class == EXPERIMENTER {
            experimenter = r.u32("field experimenter")?;
            length = length.checked_sub(4).ok_or(DecodeError::BadLength { what: "field header", length })?;
        }
        Ok(Self { class, id: number >> 1, has_mask: number & 1 == 1, experimenter, length })
    }

    /// The field, if the registry knows it.
    pub(crate) fn field(&self) -> Option<Field> {
        Field::by_code(self.class, self.id, self.experimenter)
    }

    /// Value and mask of a known field from the bytes after the header.
    pub(crate) fn value(&self, field: Field, payload: &[u8]) -> Result<(u128, u128), DecodeError> {
        let width = field.bytes();
        let bad = DecodeError::BadLength { what: "field value", length: payload.len() };
        let (value, mask) = payload.split_at_checked(width).ok_or(bad.clone())?;
        match (self.has_mask, mask.len()) {
            (false, 0) => Ok((uint(value), field.full_mask())),
            (true, n) if n == width => Ok((uint(value), uint(mask))),
            _ => Err(bad),
        }
    }
}

fn uint(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |all, b| all << 8 | u128::from(*b))
}

/// Writes the header of `code` for a payload of `length` bytes.
fn encode_code(w: &mut Writer, code: &Code, has_mask: bool, length: usize) {
    let extra = if code.class == EXPERIMENTER { 4 } else { 0 };
    w.u16(code.class);
    w.u8(code.id << 1 | u8::from(has_mask));
    w.u8(u8::try_from(length + extra).unwrap_or(u8::MAX));
    if extra > 0 {
        w.u32(code.experimenter);
    }
}

/// Writes the header of `field` alone, as moves and stacks name fields. A field without a code
/// point (`dl_vlan`) is written as nothing: such fields are never part of an action.
pub(crate) fn encode_header(w: &mut Writer, field: Field, version: u8) {
    if let Some(code) = field.code(version) {
        encode_code(w, code, false, field.bytes());
    }
}

/// Writes header, value and, unless it is whole, mask.
pub(crate) fn encode_field(w: &mut Writer, field: Field, value: u128, mask: u128, version: u8) {
    let Some(code) = field.code(version) else { return };
    let width = field.bytes();
    if mask == field.full_mask() {
        encode_code(w, code, false, width);
        w.uint(value, width);
    } else {
        encode_code(w, code, true, 2 * width);
        w.uint(value, width);
        w.uint(mask, width);
    }
}
