//! Fields that are other fields, or parts of them, under a second name.

use crate::field::Field;

/// A condition on a stored field. `cover` are the bits that the condition replaces; the others
/// keep what was said before.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) field: Field,
    pub(crate) value: u128,
    pub(crate) mask: u128,
    pub(crate) cover: u128,
}

const VID: u128 = 0x0fff;
const CFI: u128 = 0x1000;
const PCP: u128 = 0xe000;

/// `dl_vlan=0xffff` means "no tag".
const VLAN_NONE: u128 = 0xffff;

/// The conditions on stored fields that a condition on `field` is.
pub(crate) fn parts(field: Field, value: u128, mask: u128) -> impl Iterator<Item = Part> {
    let part = |field, value, mask, cover| Part { field, value, mask, cover };
    let tci = |value, mask, cover| part(Field::VLAN_TCI, value, mask, cover);
    let one = match field {
        Field::DL_VLAN if value == VLAN_NONE && mask != 0 => tci(0, VLAN_NONE, VLAN_NONE),
        Field::DL_VLAN if mask == 0 => tci(0, 0, CFI | VID),
        Field::DL_VLAN => tci((value & VID) | CFI, CFI | VID, CFI | VID),
        Field::VLAN_VID => tci(value & (CFI | VID), mask & (CFI | VID), CFI | VID),
        Field::VLAN_PCP | Field::DL_VLAN_PCP if mask == 0 => tci(0, 0, PCP),
        Field::VLAN_PCP | Field::DL_VLAN_PCP => tci(((value << 13) & PCP) | CFI, PCP | CFI, PCP | CFI),
        Field::IP_TOS => part(Field::IP_DSCP, value >> 2, if mask == 0 { 0 } else { 0xff }, u128::MAX),
        Field::IN_PORT_NXM => {
            let high = if value & 0xffff >= 0xff00 { 0xffff_0000 } else { 0 };
            part(Field::IN_PORT, value & 0xffff | high, if mask == 0 { 0 } else { 0xffff_ffff }, u128::MAX)
        }
        // The switch knows eight states and one tunnel flag; a match says nothing of other bits.
        Field::CT_STATE => part(field, value, mask & 0xff, u128::MAX),
        Field::TUN_FLAGS => part(field, value, mask & 1, u128::MAX),
        Field::IP_FRAG if mask & 3 == 3 => part(field, value & 3, 0xff, u128::MAX),
        _ if !field.maskable() && mask & field.bits_mask() == field.bits_mask() => {
            part(field, value, field.full_mask(), u128::MAX)
        }
        _ => part(field, value, mask & field.full_mask(), u128::MAX),
    };
    let registers = registers(field);
    let count = registers.map_or(1, |(_, n)| n);
    (0..count).map(move |i| match registers {
        None => one,
        Some((first, n)) => {
            let shift = 32 * u32::from(n - 1 - i);
            part(
                Field::reg(first + i),
                (value >> shift) & 0xffff_ffff,
                (mask >> shift) & 0xffff_ffff,
                u128::MAX,
            )
        }
    })
}

const XREGS: [Field; 8] = [
    Field::XREG0,
    Field::XREG1,
    Field::XREG2,
    Field::XREG3,
    Field::XREG4,
    Field::XREG5,
    Field::XREG6,
    Field::XREG7,
];
const XXREGS: [Field; 4] = [Field::XXREG0, Field::XXREG1, Field::XXREG2, Field::XXREG3];

/// The 64-bit register `n` (modulo 8).
pub(crate) fn xreg(n: u8) -> Field {
    XREGS[usize::from(n % 8)]
}

/// First 32-bit register and number of registers of an `xreg` or `xxreg`.
pub(crate) fn registers(field: Field) -> Option<(u8, u8)> {
    if field < Field::XREG0 || field > Field::XXREG3 {
        return None;
    }
    let place = |list: &[Field], width: u8| {
        let at = list.iter().position(|f| *f == field)?;
        Some((u8::try_from(at).ok()? * width, width))
    };
    place(&XREGS, 2).or_else(|| place(&XXREGS, 4))
}

/// The value and mask of `field`, put together from stored fields.
pub(crate) fn compose(field: Field, stored: impl Fn(Field) -> Option<(u128, u128)>) -> Option<(u128, u128)> {
    let tci = |bits: u128, shift: u32| {
        let (value, mask) = stored(Field::VLAN_TCI)?;
        Some(((value & bits) >> shift, (mask & bits) >> shift))
    };
    let (value, mask) = match field {
        Field::DL_VLAN => tci(VID, 0)?,
        Field::VLAN_VID => tci(VID | CFI, 0)?,
        Field::VLAN_PCP | Field::DL_VLAN_PCP => tci(PCP, 13)?,
        Field::IP_TOS => stored(Field::IP_DSCP).map(|(value, mask)| (value << 2 & 0xff, mask & 0xff))?,
        Field::IN_PORT_NXM => stored(Field::IN_PORT).map(|(value, mask)| (value & 0xffff, mask & 0xffff))?,
        _ => match registers(field) {
            None => stored(field)?,
            Some((first, n)) => (0..n).fold((0, 0), |(value, mask), i| {
                let (v, m) = stored(Field::reg(first + i)).unwrap_or((0, 0));
                (value << 32 | v, mask << 32 | m)
            }),
        },
    };
    (mask != 0).then_some((value, mask))
}
