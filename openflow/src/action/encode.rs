//! How each kind of action is written.

use super::code::{self, Code};
use super::layout::{begin, finish, put_packed, with};
use super::{Action, Bundle, Controller, Multipath, Sample, SampleDirection, ct, learn};
use crate::field::header::{encode_field, encode_header};
use crate::field::{Field, Subfield};
use crate::wire::Writer;

/// Fields in the fixed places of Nicira's actions are named as NXM does, where it does.
const NXM: u8 = crate::matching::NXM;

/// Writes a list of actions, as packet-out, buckets and `apply_actions` carry it. Instructions
/// have no form in such a list and are left out, except `write_metadata`.
pub fn encode_actions(w: &mut Writer, actions: &[Action], version: u8) {
    actions.iter().for_each(|one| action(w, one, version));
}

/// Writes one action; an instruction is left out.
pub(super) fn action(w: &mut Writer, action: &Action, version: u8) {
    match action {
        Action::Output { port, max_len } => output(w, *port, *max_len),
        Action::OutputTrunc { port, max_len } => with(w, code::OUTPUT_TRUNC, |w| {
            w.u16(low_port(*port));
            w.u32(*max_len);
        }),
        Action::OutputReg { src, max_len } => output_reg(w, *src, *max_len),
        Action::Controller(c) if c.is_plain() => output(w, super::port::CONTROLLER, c.max_len),
        Action::Controller(c) => controller(w, c),
        Action::Group(id) => with(w, code::GROUP, |w| w.u32(*id)),
        Action::Meter(id) if version >= crate::OF15 => with(w, code::METER, |w| w.u32(*id)),
        Action::SetQueue(id) => with(w, code::SET_QUEUE, |w| w.u32(*id)),
        Action::PopQueue => fixed(w, code::POP_QUEUE, 6),
        Action::PushVlan(ethertype) => with(w, code::PUSH_VLAN, |w| w.u16(*ethertype)),
        Action::PopVlan => fixed(w, code::POP_VLAN, 4),
        Action::PushMpls(ethertype) => with(w, code::PUSH_MPLS, |w| w.u16(*ethertype)),
        Action::PopMpls(ethertype) => with(w, code::POP_MPLS, |w| w.u16(*ethertype)),
        Action::DecMplsTtl => fixed(w, code::DEC_MPLS_TTL, 4),
        Action::DecTtl => fixed(w, code::DEC_TTL, 4),
        Action::DecTtlIds(ids) => with(w, code::DEC_TTL_IDS, |w| {
            w.u16(u16::try_from(ids.len()).unwrap_or(u16::MAX));
            w.zeros(4);
            ids.iter().for_each(|id| w.u16(*id));
        }),
        Action::SetNwTtl(ttl) => with(w, code::SET_NW_TTL, |w| w.u8(*ttl)),
        Action::SetField { field, value, mask } => {
            set_field(w, *field, value.0, mask.map_or(field.full_mask(), |m| m.0), version);
        }
        Action::Load { dst, value } => load(w, *dst, *value, version),
        Action::Move { src, dst } => copy(w, *src, *dst, version),
        Action::Push(sub) => stack(w, code::STACK_PUSH, *sub),
        Action::Pop(sub) => stack(w, code::STACK_POP, *sub),
        other => later_action(w, other, version),
    }
}

fn later_action(w: &mut Writer, action: &Action, version: u8) {
    match action {
        Action::Resubmit { in_port, table, ct } => resubmit(w, *in_port, *table, *ct),
        Action::Ct(args) => ct::encode(w, args, |w| encode_actions(w, &args.exec, version)),
        Action::CtClear => fixed(w, code::CT_CLEAR, 6),
        Action::Learn(args) => learn::encode(w, args),
        Action::Multipath(args) => multipath(w, args),
        Action::Bundle(args) => bundle(w, args),
        Action::Conjunction { id, clause, n_clauses } => with(w, code::CONJUNCTION, |w| {
            w.u8(clause.wrapping_sub(1));
            w.u8(*n_clauses);
            w.u32(*id);
        }),
        Action::FinTimeout { idle, hard } => with(w, code::FIN_TIMEOUT, |w| {
            w.u16(*idle);
            w.u16(*hard);
        }),
        Action::Sample(args) => sample(w, args),
        Action::CheckPktLarger { dst, bytes } => with(w, code::CHECK_PKT_LARGER, |w| {
            w.u16(*bytes);
            w.u16(dst.start);
            encode_header(w, dst.field, NXM);
        }),
        Action::Note(bytes) => with(w, code::NOTE, |w| w.bytes(bytes)),
        Action::Exit => fixed(w, code::EXIT, 6),
        Action::Clone(actions) => with(w, code::CLONE, |w| {
            w.zeros(6);
            encode_actions(w, actions, version);
        }),
        Action::WriteMetadata { value, mask } => with(w, code::WRITE_METADATA, |w| {
            w.zeros(6);
            w.u64(*value);
            w.u64(*mask);
        }),
        Action::Raw(raw) if !raw.instruction => w.bytes(&raw.bytes),
        _ => {}
    }
}

fn fixed(w: &mut Writer, code: Code, zeros: usize) {
    with(w, code, |w| w.zeros(zeros));
}

/// Whether the field's header fits four bytes.
fn is_short(field: Field) -> bool {
    field.code(NXM).is_some_and(|c| c.experimenter == 0)
}

/// A 32-bit port in the 16-bit numbering, whose reserved ports are the topmost too.
#[allow(clippy::cast_possible_truncation)] // both numberings agree in the low 16 bits
fn low_port(port: u32) -> u16 {
    port as u16
}

fn output(w: &mut Writer, port: u32, max_len: u16) {
    with(w, code::OUTPUT, |w| {
        w.u32(port);
        w.u16(max_len);
    });
}

fn output_reg(w: &mut Writer, src: Subfield, max_len: u16) {
    if is_short(src.field) {
        with(w, code::OUTPUT_REG, |w| {
            put_packed(w, src);
            encode_header(w, src.field, NXM);
            w.u16(max_len);
        });
    } else {
        with(w, code::OUTPUT_REG2, |w| {
            put_packed(w, src);
            w.u16(max_len);
            encode_header(w, src.field, NXM);
        });
    }
}

fn controller(w: &mut Writer, c: &Controller) {
    if !c.needs_properties() {
        return with(w, code::CONTROLLER, |w| {
            w.u16(c.max_len);
            w.u16(c.controller_id);
            w.u8(c.reason);
        });
    }
    let start = begin(w, code::CONTROLLER2);
    w.zeros(6);
    if c.max_len != u16::MAX {
        property(w, 0, &c.max_len.to_be_bytes(), 8);
    }
    if c.controller_id != 0 {
        property(w, 1, &c.controller_id.to_be_bytes(), 8);
    }
    if c.reason != Controller::REASON_ACTION {
        property(w, 2, &[c.reason], 5);
    }
    if !c.userdata.is_empty() {
        property(w, 3, &c.userdata, c.userdata.len() + 4);
    }
    if c.pause {
        property(w, 4, &[], 4);
    }
    if let Some(meter) = c.meter_id {
        property(w, 5, &meter.to_be_bytes(), 8);
    }
    finish(w, start);
}

/// Writes a property whose length field says `length`.
fn property(w: &mut Writer, kind: u16, value: &[u8], length: usize) {
    let start = w.len();
    w.u16(kind);
    w.u16(u16::try_from(length).unwrap_or(u16::MAX));
    w.bytes(value);
    w.pad_from(start, 8);
}

fn resubmit(w: &mut Writer, in_port: Option<u16>, table: Option<u8>, ct: bool) {
    let code = if ct { code::RESUBMIT_TABLE_CT } else { code::RESUBMIT_TABLE };
    with(w, code, |w| {
        w.u16(in_port.unwrap_or(0xfff8));
        w.u8(table.unwrap_or(0xff));
    });
}

/// OpenFlow 1.5 sets any bits with one action; 1.3 whole fields only, so that the rest becomes
/// loads of runs of bits.
fn set_field(w: &mut Writer, field: Field, value: u128, mask: u128, version: u8) {
    if version >= crate::OF15 || mask == field.full_mask() {
        return with(w, code::SET_FIELD, |w| encode_field(w, field, value & mask, mask, version));
    }
    if !is_short(field) {
        return with(w, code::REG_LOAD2, |w| encode_field(w, field, value & mask, mask, NXM));
    }
    for run in runs(field, mask) {
        let value = run.extract(value);
        reg_load(w, run, u64::try_from(value).unwrap_or(u64::MAX));
    }
}

/// The runs of one-bits of `mask`, lowest first, none longer than 64.
fn runs(field: Field, mask: u128) -> impl Iterator<Item = Subfield> {
    let mut rest = mask & field.bits_mask();
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let start = rest.trailing_zeros();
        let bits = (rest >> start).trailing_ones().min(64);
        let run = Subfield::bits(field, u16::try_from(start).ok()?, u16::try_from(bits).ok()?);
        rest &= !run.mask();
        Some(run)
    })
}

fn load(w: &mut Writer, dst: Subfield, value: u64, version: u8) {
    if version >= crate::OF15 || !is_short(dst.field) {
        return set_field(w, dst.field, dst.place(value.into()), dst.mask(), version);
    }
    reg_load(w, dst, value);
}

fn reg_load(w: &mut Writer, dst: Subfield, value: u64) {
    with(w, code::REG_LOAD, |w| {
        put_packed(w, dst);
        encode_header(w, dst.field, NXM);
        w.u64(value);
    });
}

fn copy(w: &mut Writer, src: Subfield, dst: Subfield, version: u8) {
    let new = version >= crate::OF15;
    with(w, if new { code::COPY_FIELD } else { code::REG_MOVE }, |w| {
        w.u16(dst.bits);
        w.u16(src.start);
        w.u16(dst.start);
        w.zeros(if new { 2 } else { 0 });
        let names = if new { version } else { NXM };
        encode_header(w, src.field, names);
        encode_header(w, dst.field, names);
    });
}

fn stack(w: &mut Writer, code: Code, sub: Subfield) {
    let start = begin(w, code);
    w.u16(sub.start);
    encode_header(w, sub.field, NXM);
    w.u16(sub.bits);
    w.zeros((start + 24).saturating_sub(w.len()));
    finish(w, start);
}

fn multipath(w: &mut Writer, args: &Multipath) {
    with(w, code::MULTIPATH, |w| {
        w.u16(args.fields);
        w.u16(args.basis);
        w.zeros(2);
        w.u16(args.algorithm);
        w.u16(args.max_link);
        w.u32(args.arg);
        w.zeros(2);
        put_packed(w, args.dst);
        encode_header(w, args.dst.field, NXM);
    });
}

fn bundle(w: &mut Writer, args: &Bundle) {
    let code = if args.dst.is_some() { code::BUNDLE_LOAD } else { code::BUNDLE };
    with(w, code, |w| {
        w.u16(args.algorithm);
        w.u16(args.fields);
        w.u16(args.basis);
        encode_header(w, args.member_type, NXM);
        w.u16(u16::try_from(args.members.len()).unwrap_or(u16::MAX));
        match args.dst {
            Some(dst) => {
                put_packed(w, dst);
                encode_header(w, dst.field, NXM);
            }
            None => w.zeros(6),
        }
        w.zeros(4);
        args.members.iter().for_each(|port| w.u16(*port));
    });
}

fn sample(w: &mut Writer, args: &Sample) {
    let code = match (args.direction, args.sampling_port) {
        (SampleDirection::Default, None) => code::SAMPLE,
        (SampleDirection::Default, Some(_)) => code::SAMPLE2,
        _ => code::SAMPLE3,
    };
    with(w, code, |w| {
        w.u16(args.probability);
        w.u32(args.collector_set_id);
        w.u32(args.obs_domain_id);
        w.u32(args.obs_point_id);
        if code != code::SAMPLE {
            w.u16(args.sampling_port.unwrap_or(0xffff));
            w.u8(match args.direction {
                SampleDirection::Default => 0,
                SampleDirection::Ingress => 1,
                SampleDirection::Egress => 2,
            });
        }
    });
}
