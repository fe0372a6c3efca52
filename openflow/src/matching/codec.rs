//! A match as bytes: OXM as OVS writes it for OpenFlow 1.3 and 1.5, and the older NXM.
//!
//! OVS has one order and one choice of fields for a given match; encoding follows it, so that a
//! decoded match gives the same bytes again.

use super::{Entry, Match, alias};
use crate::field::Field;
use crate::field::header::{FieldHeader, encode_field};
use crate::wire::{DecodeError, Reader, Writer};

/// The "version" of matches in NXM, as the older Nicira messages carry them.
pub const NXM: u8 = 0;

/// A field that the registry does not know: header, value and mask as they came.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RawField {
    /// The known field that it follows.
    pub(super) after: Option<Field>,
    pub(super) bytes: Box<[u8]>,
}

impl RawField {
    /// Header, value and mask.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Match {
    /// Reads an `ofp_match` with its padding (OpenFlow 1.5.1 §7.2.3.1).
    ///
    /// # Errors
    /// Any length that contradicts the bytes or a field's width.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = r.u16("Match.type")?;
        if kind != 1 {
            return Err(DecodeError::BadValue { what: "Match.type", value: kind.into() });
        }
        let length = usize::from(r.u16("Match.length")?);
        let body = length.checked_sub(4).ok_or(DecodeError::BadLength { what: "Match.length", length })?;
        let matches = Self::decode_fields(r.bytes(body, "Match.fields")?)?;
        r.skip(length.next_multiple_of(8) - length, "Match.padding")?;
        Ok(matches)
    }

    /// Reads fields one after the other, with nothing around them; OXM and NXM alike.
    ///
    /// # Errors
    /// Any length that contradicts the bytes or a field's width.
    pub fn decode_fields(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let mut matches = Match { entries: Vec::with_capacity(bytes.len() / 8), raw: Vec::new() };
        while !r.is_empty() {
            matches.decode_field(&mut r)?;
        }
        Ok(matches)
    }

    fn decode_field(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let whole = r.peek();
        let header = FieldHeader::decode(r)?;
        let payload = r.bytes(header.length, "Match.field")?;
        let Some(field) = header.field() else {
            let length = whole.len() - r.remaining();
            let after = self.entries.last().map(|e| e.field);
            self.raw.push(RawField { after, bytes: whole.get(..length).unwrap_or(whole).into() });
            return Ok(());
        };
        let (value, mask) = header.value(field, payload)?;
        self.set(field, value, mask);
        Ok(())
    }

    /// Writes an `ofp_match`, padded to 8 bytes.
    pub fn encode(&self, w: &mut Writer, version: u8) {
        let start = w.len();
        w.u16(1);
        w.u16(0);
        self.encode_fields(w, version);
        w.patch_length(start + 2, start);
        w.pad_from(start, 8);
    }

    /// Writes the fields one after the other, with nothing around them; `version` may be [`NXM`].
    pub fn encode_fields(&self, w: &mut Writer, version: u8) {
        let mut raw = self.raw.iter().peekable();
        let mut entries = self.entries.iter().peekable();
        loop {
            let next = entries.peek().map(|e| e.field);
            while let Some(field) = raw.next_if(|r| next.is_none_or(|n| r.after < Some(n))) {
                w.bytes(&field.bytes);
            }
            let Some(entry) = entries.next() else { return };
            match entry.field.reg_number() {
                Some(n) if version >= crate::OF15 => {
                    let partner = entries.next_if(|e| n % 2 == 0 && e.field == Field::reg(n + 1));
                    encode_pair(w, n, entry, partner, version);
                }
                _ if entry.field == Field::VLAN_TCI && version != NXM => encode_vlan(w, entry, version),
                _ => encode_entry(w, entry, version),
            }
        }
    }
}

fn encode_entry(w: &mut Writer, entry: &Entry, version: u8) {
    let Entry { field, value, mask } = *entry;
    match field {
        Field::IN_PORT if version == NXM => {
            encode_field(w, Field::IN_PORT_NXM, value & 0xffff, 0xffff, version)
        }
        Field::IP_DSCP if version == NXM => encode_field(w, Field::IP_TOS, value << 2 & 0xff, 0xff, version),
        _ => encode_field(w, field, value, mask, version),
    }
}

/// OXM has no `vlan_tci`: the tag's presence and VID are one field, the priority another, which
/// needs the first.
fn encode_vlan(w: &mut Writer, entry: &Entry, version: u8) {
    let (vid, mask) = (entry.value & 0x1fff, entry.mask & 0x1fff);
    if mask != 0 {
        let mask = if mask == 0x1fff { Field::VLAN_VID.full_mask() } else { mask };
        encode_field(w, Field::VLAN_VID, vid, mask, version);
    }
    if vid != 0 && entry.mask & 0xe000 != 0 {
        encode_field(w, Field::VLAN_PCP, entry.value >> 13, Field::VLAN_PCP.full_mask(), version);
    }
}

/// OpenFlow 1.5 has 64-bit registers: two of 32 bits make one. `n` is the number of `entry`,
/// whose partner is the following register if `n` is even.
fn encode_pair(w: &mut Writer, n: u8, entry: &Entry, partner: Option<&Entry>, version: u8) {
    let (low, low_mask) = partner.map_or((0, 0), |e| (e.value, e.mask));
    let (value, mask) = match n % 2 {
        0 => (entry.value << 32 | low, entry.mask << 32 | low_mask),
        _ => (entry.value, entry.mask),
    };
    encode_field(w, alias::xreg(n / 2), value, mask, version);
}
