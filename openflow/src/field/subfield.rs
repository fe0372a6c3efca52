//! A run of bits inside a field, written `NXM_NX_REG0[0..15]`.

use std::fmt;
use std::str::FromStr;

use super::{Field, FieldError, ones};

/// `bits` bits of `field` from bit `start` up (bit 0 is the least significant).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subfield {
    /// The field.
    pub field: Field,
    /// The lowest bit.
    pub start: u16,
    /// How many bits.
    pub bits: u16,
}

impl Subfield {
    /// All bits of `field`.
    #[must_use]
    pub fn whole(field: Field) -> Self {
        Self { field, start: 0, bits: field.bits() }
    }

    /// `bits` bits of `field` from bit `start` up.
    #[must_use]
    pub fn bits(field: Field, start: u16, bits: u16) -> Self {
        Self { field, start, bits }
    }

    /// The mask of these bits within the field.
    #[must_use]
    pub fn mask(self) -> u128 {
        ones(self.bits, 1).checked_shl(u32::from(self.start)).unwrap_or(0)
    }

    /// `value` moved to the place of these bits.
    #[must_use]
    pub fn place(self, value: u128) -> u128 {
        (value & ones(self.bits, 1)).checked_shl(u32::from(self.start)).unwrap_or(0)
    }

    /// These bits of the field's value, moved to the right.
    #[must_use]
    pub fn extract(self, value: u128) -> u128 {
        value.checked_shr(u32::from(self.start)).unwrap_or(0) & ones(self.bits, 1)
    }

    /// Whether the bits exist in the field.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.bits > 0 && self.start.checked_add(self.bits).is_some_and(|end| end <= self.field.bits())
    }
}

impl fmt::Display for Subfield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.code_name())?;
        match (self.start, self.bits) {
            (0, bits) if bits == self.field.bits() => f.write_str("[]"),
            (start, 1) => write!(f, "[{start}]"),
            (start, bits) => write!(f, "[{start}..{}]", (start + bits).saturating_sub(1)),
        }
    }
}

impl FromStr for Subfield {
    type Err = FieldError;

    fn from_str(s: &str) -> Result<Self, FieldError> {
        let bad = || FieldError::BadSubfield(s.to_owned());
        let (name, range) = match s.split_once('[') {
            Some((name, range)) => (name, range.strip_suffix(']').ok_or_else(bad)?),
            None => (s, ""),
        };
        let field = Field::by_name(name).ok_or_else(|| FieldError::UnknownField(name.to_owned()))?;
        let number = |t: &str| t.trim().parse::<u16>().map_err(|_| bad());
        let sub = match range.split_once("..") {
            _ if range.is_empty() => Self::whole(field),
            None => Self::bits(field, number(range)?, 1),
            Some((low, high)) => {
                let (low, high) = (number(low)?, number(high)?);
                let bits = high.checked_sub(low).and_then(|n| n.checked_add(1)).ok_or_else(bad)?;
                Self::bits(field, low, bits)
            }
        };
        if sub.is_valid() { Ok(sub) } else { Err(bad()) }
    }
}
