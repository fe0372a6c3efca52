//! Connection tracking: `ct(...)` and the address translation inside it.

use std::net::IpAddr;

use super::layout::{Place, packed, put_packed, short_field, with};
use super::{Action, code};
use crate::field::Subfield;
use crate::field::header::encode_header;
use crate::wire::{DecodeError, Reader, Writer};

/// Arguments of `ct(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ct {
    /// Remembers the connection.
    pub commit: bool,
    /// Replaces a connection of the other direction (needs `commit`).
    pub force: bool,
    /// Where the packet goes on, with its state known; `None` to go on here without it.
    pub table: Option<u8>,
    /// The zone.
    pub zone: CtZone,
    /// Well-known port of the protocol helper (21: FTP, 69: TFTP), 0 for none.
    pub alg: u16,
    /// Address translation.
    pub nat: Option<Nat>,
    /// Actions on `ct_mark` and `ct_label` at commit.
    pub exec: Vec<Action>,
}

/// Where the number of the zone comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CtZone {
    /// Given here.
    Imm(u16),
    /// From 16 bits of the packet's fields.
    Field(Subfield),
}

impl Default for CtZone {
    fn default() -> Self {
        CtZone::Imm(0)
    }
}

/// Which address is translated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum NatKind {
    /// Whatever the connection has already: plain `nat`.
    #[default]
    Existing,
    /// The source.
    Src,
    /// The destination.
    Dst,
}

/// Arguments of `nat(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Nat {
    /// Source, destination or what is there already.
    pub kind: NatKind,
    /// The same client keeps the same address.
    pub persistent: bool,
    /// Ports by a hash.
    pub hash: bool,
    /// Ports at random.
    pub random: bool,
    /// First address of the range.
    pub addr_min: Option<IpAddr>,
    /// Last address of the range, where it is not the first.
    pub addr_max: Option<IpAddr>,
    /// First port of the range.
    pub port_min: Option<u16>,
    /// Last port of the range, where it is not the first.
    pub port_max: Option<u16>,
}

const COMMIT: u16 = 1;
const FORCE: u16 = 2;

/// In the place of a table: none.
const NO_TABLE: u8 = 0xff;

/// The bytes after the header of `ct`; `None` if they say what this type does not.
pub(super) fn decode(r: &mut Reader<'_>, place: Place) -> Result<Option<Ct>, DecodeError> {
    let flags = r.u16("ct.flags")?;
    let no_field = r.peek().starts_with(&[0; 4]);
    let field = short_field(r)?;
    let zone = r.u16("ct.zone")?;
    let zone = match field {
        _ if no_field => CtZone::Imm(zone),
        Some(field) => CtZone::Field(packed(field, zone)?),
        None => return Ok(None),
    };
    let table = r.u8("ct.table")?;
    r.skip(3, "ct")?;
    let alg = r.u16("ct.alg")?;
    let mut exec = place.nested(r)?;
    let nat = exec.first().map_or(Ok(None), Nat::of)?;
    if nat.is_some() {
        exec.remove(0);
    }
    if flags & !(COMMIT | FORCE) != 0 || exec.iter().any(Nat::is) {
        return Ok(None);
    }
    let (commit, force) = (flags & COMMIT != 0, flags & FORCE != 0);
    Ok(Some(Ct { commit, force, table: (table != NO_TABLE).then_some(table), zone, alg, nat, exec }))
}

/// Writes `ct`; `exec` writes the actions of [`Ct::exec`].
pub(super) fn encode(w: &mut Writer, ct: &Ct, exec: impl FnOnce(&mut Writer)) {
    with(w, code::CT, |w| {
        w.u16(if ct.commit { COMMIT } else { 0 } | if ct.force { FORCE } else { 0 });
        match ct.zone {
            CtZone::Imm(zone) => {
                w.zeros(4);
                w.u16(zone);
            }
            CtZone::Field(sub) => {
                encode_header(w, sub.field, crate::matching::NXM);
                put_packed(w, sub);
            }
        }
        w.u8(ct.table.unwrap_or(NO_TABLE));
        w.zeros(3);
        w.u16(ct.alg);
        if let Some(nat) = &ct.nat {
            nat.encode(w);
        }
        exec(w);
    });
}

const SRC: u16 = 0x01;
const DST: u16 = 0x02;
const PERSISTENT: u16 = 0x04;
const HASH: u16 = 0x08;
const RANDOM: u16 = 0x10;

impl Nat {
    /// Where `nat` starts in the bytes of a raw action, whose only known form is inside of `ct`.
    fn body(action: &Action) -> Option<Reader<'_>> {
        let Action::Raw(raw) = action else { return None };
        let mut r = Reader::new(&raw.bytes);
        let header = (r.u16("nat").ok()?, r.u16("nat").ok()?, r.u32("nat").ok()?, r.u16("nat").ok()?);
        (header.0 == 0xffff && header.2 == code::NICIRA && header.3 == code::NAT.number).then_some(r)
    }

    fn is(action: &Action) -> bool {
        Self::body(action).is_some()
    }

    fn of(action: &Action) -> Result<Option<Nat>, DecodeError> {
        let Some(mut r) = Self::body(action) else { return Ok(None) };
        r.skip(2, "nat")?;
        let flags = r.u16("nat.flags")?;
        let present = r.u16("nat.range")?;
        let kind = match flags & (SRC | DST) {
            0 => NatKind::Existing,
            SRC => NatKind::Src,
            DST => NatKind::Dst,
            _ => return Err(DecodeError::BadValue { what: "nat.flags", value: flags.into() }),
        };
        let mut addresses = [None; 4];
        for (bit, place) in addresses.iter_mut().enumerate() {
            if present & (1 << bit) != 0 {
                *place = Some(match bit {
                    0 | 1 => IpAddr::from(r.array::<4>("nat.address")?),
                    _ => IpAddr::from(r.array::<16>("nat.address")?),
                });
            }
        }
        let [v4_min, v4_max, v6_min, v6_max] = addresses;
        let mut port = |bit: u16| match present & bit {
            0 => Ok(None),
            _ => r.u16("nat.port").map(Some),
        };
        Ok(Some(Nat {
            kind,
            persistent: flags & PERSISTENT != 0,
            hash: flags & HASH != 0,
            random: flags & RANDOM != 0,
            addr_min: v4_min.or(v6_min),
            addr_max: v4_max.or(v6_max),
            port_min: port(0x10)?,
            port_max: port(0x20)?,
        }))
    }

    fn encode(&self, w: &mut Writer) {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        let kind = match self.kind {
            NatKind::Existing => 0,
            NatKind::Src => SRC,
            NatKind::Dst => DST,
        };
        let v6 = matches!(self.addr_min, Some(IpAddr::V6(_)));
        let present = flag(self.addr_min.is_some(), if v6 { 4 } else { 1 })
            | flag(self.addr_max.is_some(), if v6 { 8 } else { 2 })
            | flag(self.port_min.is_some(), 0x10)
            | flag(self.port_max.is_some(), 0x20);
        with(w, code::NAT, |w| {
            w.zeros(2);
            w.u16(
                kind | flag(self.persistent, PERSISTENT) | flag(self.hash, HASH) | flag(self.random, RANDOM),
            );
            w.u16(present);
            for address in self.addr_min.iter().chain(&self.addr_max) {
                match address {
                    IpAddr::V4(a) => w.bytes(&a.octets()),
                    IpAddr::V6(a) => w.bytes(&a.octets()),
                }
            }
            self.port_min.iter().chain(&self.port_max).for_each(|port| w.u16(*port));
        });
    }
}
