//! A packet as the values of its fields.

use std::collections::BTreeMap;
use std::fmt;

use crate::field::{Field, Subfield, Value, format_masked};
use crate::matching::{Match, alias};

/// A packet in the pipeline: its headers and the fields that travel beside it, by value. A field
/// that was never set is zero.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Packet {
    fields: BTreeMap<Field, u128>,
    stack: Vec<(u128, u16)>,
    /// Bytes, Ethernet header included, as `check_pkt_larger` counts them.
    pub length: usize,
    /// The packet that an ICMP error is about.
    pub about: Option<Box<Packet>>,
    /// The packet that a fragment is a piece of: connection tracking puts it together.
    pub piece_of: Option<Box<Packet>>,
}

impl Packet {
    /// A packet without anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The packet with `field` set. Aliases (`xreg0`, `dl_vlan`, `nw_tos`) set what they name.
    #[must_use]
    pub fn with(mut self, field: Field, value: impl Into<Value>) -> Self {
        self.set(field, value.into().0);
        self
    }

    /// The packet, as an ICMP error about another.
    #[must_use]
    pub fn error_about(mut self, other: &Packet) -> Self {
        self.about = Some(Box::new(other.clone()));
        self
    }

    /// The packet, as a fragment of a whole one.
    #[must_use]
    pub fn fragment_of(mut self, whole: &Packet) -> Self {
        self.piece_of = Some(Box::new(whole.clone()));
        self
    }

    /// A packet of exactly the values of `matches`.
    #[must_use]
    pub fn of(matches: &Match) -> Self {
        let mut packet = Packet::new();
        for (field, value, _) in matches.iter() {
            packet.set(field, value);
        }
        packet
    }

    /// The value of `field`.
    #[must_use]
    pub fn get(&self, field: Field) -> u128 {
        alias::compose(field, |stored| Some((self.stored(stored), u128::MAX))).map_or(0, |(value, _)| value)
            & field.full_mask()
    }

    /// The value of a field as matches store it.
    pub(super) fn stored(&self, field: Field) -> u128 {
        self.fields.get(&field).copied().unwrap_or_default()
    }

    /// Sets the whole of `field`.
    pub fn set(&mut self, field: Field, value: u128) {
        self.set_masked(field, value, field.full_mask());
    }

    /// Sets the bits of `field` that `mask` has.
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        for part in alias::parts(field, value, mask) {
            let bits = part.mask & part.cover;
            let new = (self.stored(part.field) & !bits) | (part.value & bits);
            match new {
                0 => self.fields.remove(&part.field),
                _ => self.fields.insert(part.field, new),
            };
        }
    }

    /// The bits of `sub`, moved to the right.
    #[must_use]
    pub fn bits(&self, sub: Subfield) -> u128 {
        sub.extract(self.get(sub.field))
    }

    /// Sets the bits of `sub`.
    pub fn set_bits(&mut self, sub: Subfield, value: u128) {
        self.set_masked(sub.field, sub.place(value), sub.mask());
    }

    pub(super) fn push(&mut self, sub: Subfield) {
        self.stack.push((self.bits(sub), sub.bits));
    }

    pub(super) fn pop(&mut self, sub: Subfield) {
        if let Some((value, _)) = self.stack.pop() {
            self.set_bits(sub, value);
        }
    }

    /// The fields that are not zero, in wire order.
    pub fn iter(&self) -> impl Iterator<Item = (Field, u128)> + '_ {
        self.fields.iter().map(|(field, value)| (*field, *value))
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (field, value)) in self.iter().enumerate() {
            write!(f, "{}{}=", if i == 0 { "" } else { "," }, field.name())?;
            format_masked(f, field, value, field.full_mask())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({self})")
    }
}
