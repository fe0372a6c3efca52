//! What a flow matches: a sorted list of (field, value, mask).
//!
//! A match is canonical, so that equal sets of packets compare equal. Aliases are stored as what
//! they name: `xreg1` as `reg2` and `reg3`, `dl_vlan`, `vlan_vid` and `vlan_pcp` as bits of
//! `vlan_tci`, `nw_tos` as `ip_dscp`, the 16-bit `in_port` as the 32-bit one. Values are and-ed
//! with their masks, and the order is that of OVS on the wire. Fields that the registry does not
//! know are kept as raw bytes at their place.

pub(crate) mod alias;
mod codec;
mod text;

use crate::field::{Field, Value};

use alias::Part;

pub use codec::{NXM, RawField};
pub use text::MatchError;
pub(crate) use text::MatchParser;

/// One field of a match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Entry {
    field: Field,
    value: u128,
    mask: u128,
}

/// A set of packets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Match {
    entries: Vec<Entry>,
    raw: Vec<RawField>,
}

impl Match {
    /// Every packet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The packets of `self` whose `field` is `value`. What the field needs (such as `eth_type`)
    /// is the caller's to add.
    #[must_use]
    pub fn with(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.set(field, value.into().0, field.full_mask());
        self
    }

    /// The packets of `self` whose `field` agrees with `value` in the bits of `mask`. A zero mask
    /// removes the field.
    #[must_use]
    pub fn with_mask(mut self, field: Field, value: impl Into<Value>, mask: impl Into<Value>) -> Self {
        self.set(field, value.into().0, mask.into().0);
        self
    }

    /// As [`Match::with_mask`], in place.
    pub fn set(&mut self, field: Field, value: u128, mask: u128) {
        for part in alias::parts(field, value, mask) {
            self.put(part);
        }
    }

    /// The match without any condition on `field`.
    #[must_use]
    pub fn without(mut self, field: Field) -> Self {
        self.set(field, 0, 0);
        self
    }

    fn put(&mut self, part: Part) {
        self.put_bits(part);
        if part.field == Field::VLAN_TCI {
            self.forget_priority_without_tag();
        }
    }

    /// A packet without a tag has no priority, and OXM cannot speak of one.
    fn forget_priority_without_tag(&mut self) {
        const TAG: u128 = 0x1000;
        if let Some(entry) = self.entries.iter_mut().find(|e| e.field == Field::VLAN_TCI)
            && entry.mask & TAG != 0
            && entry.value & TAG == 0
        {
            entry.mask &= 0x1fff;
            entry.value &= entry.mask;
        }
    }

    fn put_bits(&mut self, part: Part) {
        let Part { field, value, mask, cover } = part;
        let place = match self.entries.last() {
            Some(last) if last.field >= field => self.entries.binary_search_by_key(&field, |e| e.field),
            _ => Err(self.entries.len()),
        };
        match place {
            Ok(at) => {
                let Some(entry) = self.entries.get_mut(at) else { return };
                entry.mask = (entry.mask & !cover) | (mask & cover);
                entry.value = ((entry.value & !cover) | (value & cover)) & entry.mask;
                if entry.mask == 0 {
                    self.entries.remove(at);
                }
            }
            Err(at) if mask != 0 => self.entries.insert(at, Entry { field, value: value & mask, mask }),
            Err(_) => {}
        }
    }

    /// The value and mask of `field`, aliases included; `None` if every value fits.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<(u128, u128)> {
        alias::compose(field, |stored| self.stored(stored))
    }

    /// The value of `field` where all of its meaningful bits are given.
    #[must_use]
    pub fn exact(&self, field: Field) -> Option<u128> {
        let whole = field.bits_mask();
        self.get(field).filter(|(_, mask)| mask & whole == whole).map(|(value, _)| value & whole)
    }

    fn stored(&self, field: Field) -> Option<(u128, u128)> {
        let at = self.entries.binary_search_by_key(&field, |e| e.field).ok()?;
        self.entries.get(at).map(|e| (e.value, e.mask))
    }

    /// The fields as stored (registers of 32 bits, `vlan_tci`, `ip_dscp`), with values and masks,
    /// in wire order.
    pub fn iter(&self) -> impl Iterator<Item = (Field, u128, u128)> + '_ {
        self.entries.iter().map(|e| (e.field, e.value, e.mask))
    }

    /// The fields that the registry does not know.
    #[must_use]
    pub fn raw(&self) -> &[RawField] {
        &self.raw
    }

    /// Whether every packet fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.raw.is_empty()
    }

    /// How many fields (as stored) the match names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() + self.raw.len()
    }

    /// Whether a packet whose stored fields are given by `of` fits; fields that are kept raw
    /// never do.
    #[must_use]
    pub fn fits(&self, of: impl Fn(Field) -> u128) -> bool {
        self.raw.is_empty() && self.entries.iter().all(|e| of(e.field) & e.mask == e.value)
    }

    /// Whether every packet that fits `other` fits `self`.
    #[must_use]
    pub fn covers(&self, other: &Match) -> bool {
        let wider = |e: &Entry| {
            other.stored(e.field).is_some_and(|(v, m)| m & e.mask == e.mask && v & e.mask == e.value)
        };
        self.raw.iter().all(|r| other.raw.contains(r)) && self.entries.iter().all(wider)
    }
}

impl std::fmt::Debug for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Match({self})")
    }
}

#[cfg(test)]
mod tests;
