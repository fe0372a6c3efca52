//! `learn(...)`: a flow made of the fields of the packet at hand.

use super::code;
use super::layout::{Place, field, short_field, subfield, with};
use crate::field::header::encode_header;
use crate::field::{Subfield, Value};
use crate::matching::NXM;
use crate::wire::{DecodeError, Reader, Writer};

/// Arguments of `learn(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Learn {
    /// Seconds without a packet until the flow goes, 0 for never.
    pub idle_timeout: u16,
    /// Seconds until the flow goes, 0 for never.
    pub hard_timeout: u16,
    /// Priority of the flow.
    pub priority: u16,
    /// Cookie of the flow.
    pub cookie: u64,
    /// `send_flow_rem` of the flow.
    pub send_flow_rem: bool,
    /// The learned flows go with this one.
    pub delete_learned: bool,
    /// Table of the flow.
    pub table: u8,
    /// Idle timeout after FIN, 0 for unchanged.
    pub fin_idle_timeout: u16,
    /// Hard timeout after FIN, 0 for unchanged.
    pub fin_hard_timeout: u16,
    /// At most so many flows, 0 for any number.
    pub limit: u32,
    /// Bit that tells whether the flow could be learned.
    pub result_dst: Option<Subfield>,
    /// What the flow matches and does.
    pub specs: Vec<LearnSpec>,
}

/// One match or action of a learned flow, of `bits` bits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LearnSpec {
    /// How many bits.
    pub bits: u16,
    /// Where they come from.
    pub source: LearnSource,
    /// What becomes of them.
    pub target: LearnTarget,
}

/// Where the bits of a learned flow come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnSource {
    /// Given here.
    Immediate(Value),
    /// From a field of the packet.
    Field(Subfield),
}

/// What the bits of a learned flow become.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnTarget {
    /// The flow matches them in these bits.
    Match(Subfield),
    /// The flow loads them into these bits.
    Load(Subfield),
    /// The flow sends packets to the port of this number.
    Output,
}

const SEND_FLOW_REM: u16 = 0x1;
const DELETE_LEARNED: u16 = 0x2;
const WRITE_RESULT: u16 = 0x4;

const IMMEDIATE: u16 = 0x2000;
const TARGET: u16 = 0x1800;
const LOAD: u16 = 0x0800;
const OUTPUT: u16 = 0x1000;
const BITS: u16 = 0x03ff;

/// The bytes after the header of `learn`; `None` if they name an unknown field or flag.
pub(super) fn decode(r: &mut Reader<'_>, place: Place) -> Result<Option<Learn>, DecodeError> {
    let mut learn = Learn {
        idle_timeout: r.u16("learn.idle_timeout")?,
        hard_timeout: r.u16("learn.hard_timeout")?,
        priority: r.u16("learn.priority")?,
        cookie: r.u64("learn.cookie")?,
        ..Learn::default()
    };
    let flags = r.u16("learn.flags")?;
    learn.send_flow_rem = flags & SEND_FLOW_REM != 0;
    learn.delete_learned = flags & DELETE_LEARNED != 0;
    learn.table = r.u8("learn.table")?;
    r.skip(1, "learn")?;
    learn.fin_idle_timeout = r.u16("learn.fin_idle_timeout")?;
    learn.fin_hard_timeout = r.u16("learn.fin_hard_timeout")?;
    if flags & !(SEND_FLOW_REM | DELETE_LEARNED | WRITE_RESULT) != 0 {
        return Ok(None);
    }
    if place.code == code::LEARN2 {
        learn.limit = r.u32("learn.limit")?;
        let start = r.u16("learn.result_dst")?;
        r.skip(2, "learn")?;
        if flags & WRITE_RESULT != 0 {
            let Some(field) = field(r)? else { return Ok(None) };
            learn.result_dst = Some(subfield(field, start, 1)?);
        }
    }
    while r.remaining() >= 2 {
        let header = r.u16("learn.spec")?;
        if header == 0 {
            break;
        }
        let Some(spec) = decode_spec(r, header)? else { return Ok(None) };
        learn.specs.push(spec);
    }
    Ok(Some(learn))
}

fn decode_spec(r: &mut Reader<'_>, header: u16) -> Result<Option<LearnSpec>, DecodeError> {
    let bits = header & BITS;
    let source = if header & IMMEDIATE != 0 {
        let bytes = r.bytes(usize::from(bits.div_ceil(16)) * 2, "learn.immediate")?;
        if bytes.len() > 16 {
            return Ok(None);
        }
        LearnSource::Immediate(Value(bytes.iter().fold(0, |all, b| all << 8 | u128::from(*b))))
    } else {
        match place_of(r, bits)? {
            Some(sub) => LearnSource::Field(sub),
            None => return Ok(None),
        }
    };
    let target = match header & TARGET {
        OUTPUT => LearnTarget::Output,
        kind @ (0 | LOAD) => match place_of(r, bits)? {
            Some(sub) if kind == LOAD => LearnTarget::Load(sub),
            Some(sub) => LearnTarget::Match(sub),
            None => return Ok(None),
        },
        _ => return Err(DecodeError::BadValue { what: "learn.spec", value: header.into() }),
    };
    Ok(Some(LearnSpec { bits, source, target }))
}

fn place_of(r: &mut Reader<'_>, bits: u16) -> Result<Option<Subfield>, DecodeError> {
    let field = short_field(r)?;
    let start = r.u16("learn.spec")?;
    field.map(|field| subfield(field, start, bits)).transpose()
}

pub(super) fn encode(w: &mut Writer, learn: &Learn) {
    let second = learn.limit != 0 || learn.result_dst.is_some();
    let flag = |set: bool, bit: u16| if set { bit } else { 0 };
    with(w, if second { code::LEARN2 } else { code::LEARN }, |w| {
        w.u16(learn.idle_timeout);
        w.u16(learn.hard_timeout);
        w.u16(learn.priority);
        w.u64(learn.cookie);
        w.u16(
            flag(learn.send_flow_rem, SEND_FLOW_REM)
                | flag(learn.delete_learned, DELETE_LEARNED)
                | flag(learn.result_dst.is_some(), WRITE_RESULT),
        );
        w.u8(learn.table);
        w.zeros(1);
        w.u16(learn.fin_idle_timeout);
        w.u16(learn.fin_hard_timeout);
        if second {
            w.u32(learn.limit);
            w.u16(learn.result_dst.map_or(0, |sub| sub.start));
            w.zeros(2);
            if let Some(sub) = learn.result_dst {
                encode_header(w, sub.field, NXM);
            }
        }
        learn.specs.iter().for_each(|spec| encode_spec(w, spec));
    });
}

fn encode_spec(w: &mut Writer, spec: &LearnSpec) {
    let source = if matches!(spec.source, LearnSource::Immediate(_)) { IMMEDIATE } else { 0 };
    let target = match spec.target {
        LearnTarget::Match(_) => 0,
        LearnTarget::Load(_) => LOAD,
        LearnTarget::Output => OUTPUT,
    };
    w.u16(source | target | (spec.bits & BITS));
    match spec.source {
        LearnSource::Immediate(value) => w.uint(value.0, usize::from(spec.bits.div_ceil(16)) * 2),
        LearnSource::Field(sub) => encode_place(w, sub),
    }
    match spec.target {
        LearnTarget::Match(sub) | LearnTarget::Load(sub) => encode_place(w, sub),
        LearnTarget::Output => {}
    }
}

fn encode_place(w: &mut Writer, sub: Subfield) {
    encode_header(w, sub.field, NXM);
    w.u16(sub.start);
}
