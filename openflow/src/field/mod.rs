//! Fields of packets and of the pipeline: one table ([`registry`]) says all that is known of each,
//! and [`Field`] is a handle of one byte into it.

pub(crate) mod header;
pub mod registry;
mod subfield;
mod text;
mod value;

use std::fmt;

pub use registry::{Code, Format, MaskRule, Prereq};
pub use subfield::Subfield;
pub use text::{FieldError, format_masked, parse_masked, parse_value};
pub(crate) use text::{parse_number, parse_port, port_text, write_match_flags};
pub use value::{Mac, MacError, Value};

use registry::{FIELDS, FieldDef};

/// A field that a match or an action can name. The order is that of a match on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field(u8);

/// The fields that packet registers `reg0` to `reg15` are.
const REGS: [Field; 16] = [
    Field::REG0,
    Field::REG1,
    Field::REG2,
    Field::REG3,
    Field::REG4,
    Field::REG5,
    Field::REG6,
    Field::REG7,
    Field::REG8,
    Field::REG9,
    Field::REG10,
    Field::REG11,
    Field::REG12,
    Field::REG13,
    Field::REG14,
    Field::REG15,
];

impl Field {
    fn def(self) -> &'static FieldDef {
        // A handle is made by the registry or by `all`, so the index exists; the first entry
        // stands in to keep this free of panics.
        FIELDS.get(usize::from(self.0)).unwrap_or(&FIELDS[0])
    }

    /// Every field, in wire order.
    pub fn all() -> impl Iterator<Item = Field> {
        (0u8..).map(Field).take(FIELDS.len())
    }

    /// Register `n` (modulo 16).
    #[must_use]
    pub fn reg(n: u8) -> Field {
        REGS[usize::from(n % 16)]
    }

    /// The number of a 32-bit register, if this is one.
    #[must_use]
    pub fn reg_number(self) -> Option<u8> {
        self.0.checked_sub(Field::REG0.0).filter(|n| *n < 16)
    }

    /// The name in `ovs-ofctl`, such as `reg0`, `eth_src`, `ct_label`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.def().name
    }

    /// Meaningful bits; the rest of the bytes is zero.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.def().bits
    }

    /// Bytes that a value takes on the wire.
    #[must_use]
    pub fn bytes(self) -> usize {
        usize::from(self.def().bytes)
    }

    /// Whether a match may leave some of its bits open.
    #[must_use]
    pub fn maskable(self) -> bool {
        self.def().mask == MaskRule::Bits
    }

    /// How a value is written.
    #[must_use]
    pub fn format(self) -> Format {
        self.def().format
    }

    /// What a match must say before it may name this field.
    #[must_use]
    pub fn prereq(self) -> Prereq {
        self.def().prereq
    }

    /// The mask of an exact match: every bit of every byte.
    #[must_use]
    pub fn full_mask(self) -> u128 {
        ones(u16::from(self.def().bytes), 8)
    }

    /// The mask of the meaningful bits.
    #[must_use]
    pub fn bits_mask(self) -> u128 {
        ones(self.def().bits, 1)
    }

    /// The code point for protocol `version` (0: NXM; 4: OpenFlow 1.3; 6: OpenFlow 1.5): the
    /// last that the version knows, or the first of all. `None` for names without a code point.
    #[must_use]
    pub fn code(self, version: u8) -> Option<&'static Code> {
        let codes = self.def().codes;
        codes.iter().skip(1).rfind(|c| c.since <= version).or_else(|| codes.first())
    }

    /// The name that subfields are written with, such as `NXM_NX_REG0`.
    #[must_use]
    pub fn code_name(self) -> &'static str {
        self.code(0).map_or(self.name(), |c| c.name)
    }

    /// The field of a name, a second name or a code point's name (`dl_src`, `NXM_OF_ETH_SRC`).
    #[must_use]
    pub fn by_name(name: &str) -> Option<Field> {
        let fits = |f: &Field| {
            let d = f.def();
            !name.is_empty() && (d.name == name || d.alias == name || d.codes.iter().any(|c| c.name == name))
        };
        Field::all().find(fits)
    }

    /// The field of a code point.
    #[must_use]
    pub fn by_code(class: u16, id: u8, experimenter: u32) -> Option<Field> {
        let at = match class {
            0x0000 => INDEX_NXM.get(usize::from(id)),
            0x0001 => INDEX_NX.get(usize::from(id)),
            0x8000 => INDEX_OXM.get(usize::from(id)),
            _ => {
                let fits = |c: &Code| c.class == class && c.id == id && c.experimenter == experimenter;
                return Field::all().find(|f| f.def().codes.iter().any(fits));
            }
        };
        at.copied().filter(|i| *i != NONE).map(Field)
    }
}

const NONE: u8 = 0xff;
static INDEX_NXM: [u8; 128] = index(0x0000);
static INDEX_NX: [u8; 128] = index(0x0001);
static INDEX_OXM: [u8; 128] = index(0x8000);

/// The fields of one class by number, so that decoding does not search.
#[allow(clippy::cast_possible_truncation)] // the registry has fewer than 255 lines (asserted)
const fn index(class: u16) -> [u8; 128] {
    assert!(FIELDS.len() < NONE as usize);
    let mut table = [NONE; 128];
    let mut i = 0;
    while i < FIELDS.len() {
        let codes = FIELDS[i].codes;
        let mut c = 0;
        while c < codes.len() {
            if codes[c].class == class {
                table[codes[c].id as usize] = i as u8;
            }
            c += 1;
        }
        i += 1;
    }
    table
}

/// `n * unit` one-bits at the right.
fn ones(n: u16, unit: u16) -> u128 {
    match u32::from(n * unit) {
        0 => 0,
        bits => u128::MAX >> 128u32.saturating_sub(bits),
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
