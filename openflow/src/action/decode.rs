//! One reader per kind of action, for the bytes after its header.

use super::layout::{Decoded, Place, field, packed, short_field, subfield};
use super::{Action, Bundle, Controller, Multipath, Sample, SampleDirection, code, ct, learn};
use crate::field::Value;
use crate::field::header::FieldHeader;
use crate::wire::{DecodeError, Reader};

/// For names that exist in text only.
pub(super) fn nothing(_: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(None)
}

pub(super) fn output(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::Output { port: r.u32("output")?, max_len: r.u16("output")? }))
}

pub(super) fn output_trunc(r: &mut Reader<'_>, _: Place) -> Decoded {
    let port = r.u16("output_trunc")?;
    let port = if port >= 0xff00 { u32::from(port) | 0xffff_0000 } else { port.into() };
    Ok(Some(Action::OutputTrunc { port, max_len: r.u32("output_trunc")? }))
}

pub(super) fn output_reg(r: &mut Reader<'_>, place: Place) -> Decoded {
    let bits = r.u16("output_reg")?;
    let (source, max_len) = if place.code == code::OUTPUT_REG {
        let source = short_field(r)?;
        (source, r.u16("output_reg")?)
    } else {
        let max_len = r.u16("output_reg")?;
        (field(r)?, max_len)
    };
    let Some(source) = source else { return Ok(None) };
    Ok(Some(Action::OutputReg { src: packed(source, bits)?, max_len }))
}

pub(super) fn controller(r: &mut Reader<'_>, place: Place) -> Decoded {
    if place.code == code::CONTROLLER {
        let (max_len, controller_id) = (r.u16("controller")?, r.u16("controller")?);
        let reason = r.u8("controller")?;
        return Ok(Some(Action::Controller(Controller {
            max_len,
            controller_id,
            reason,
            ..Controller::default()
        })));
    }
    r.skip(6, "controller")?;
    let mut found = Controller::default();
    while !r.is_empty() {
        let kind = r.u16("controller.property")?;
        let length = usize::from(r.u16("controller.property")?);
        let size = length.checked_sub(4);
        let size = size.ok_or(DecodeError::BadLength { what: "controller.property", length })?;
        let mut body = r.sub(size, "controller.property")?;
        r.skip(length.next_multiple_of(8) - length, "controller.property")?;
        match kind {
            0 => found.max_len = body.u16("controller.max_len")?,
            1 => found.controller_id = body.u16("controller.id")?,
            2 => found.reason = body.u8("controller.reason")?,
            3 => found.userdata = body.rest().to_vec(),
            4 => found.pause = true,
            5 => found.meter_id = Some(body.u32("controller.meter_id")?),
            _ => return Ok(None),
        }
    }
    Ok(Some(Action::Controller(found)))
}

pub(super) fn resubmit(r: &mut Reader<'_>, place: Place) -> Decoded {
    let port = r.u16("resubmit")?;
    let table = if place.code == code::RESUBMIT { 0xff } else { r.u8("resubmit")? };
    Ok(Some(Action::Resubmit {
        in_port: (port != 0xfff8).then_some(port),
        table: (table != 0xff).then_some(table),
        ct: place.code == code::RESUBMIT_TABLE_CT,
    }))
}

pub(super) fn set_field(r: &mut Reader<'_>, _: Place) -> Decoded {
    let header = FieldHeader::decode(r)?;
    let payload = r.bytes(header.length, "set_field")?;
    let Some(field) = header.field() else { return Ok(None) };
    let (value, mask) = header.value(field, payload)?;
    let mask = (mask != field.full_mask()).then_some(Value(mask));
    Ok(Some(Action::SetField { field, value: Value(value), mask }))
}

pub(super) fn load(r: &mut Reader<'_>, _: Place) -> Decoded {
    let bits = r.u16("load")?;
    let Some(field) = short_field(r)? else { return Ok(None) };
    Ok(Some(Action::Load { dst: packed(field, bits)?, value: r.u64("load")? }))
}

pub(super) fn copy(r: &mut Reader<'_>, place: Place) -> Decoded {
    let (bits, src, dst) = (r.u16("move")?, r.u16("move")?, r.u16("move")?);
    if place.code == code::COPY_FIELD {
        r.skip(2, "move")?;
    }
    let (Some(from), Some(to)) = (field(r)?, field(r)?) else { return Ok(None) };
    Ok(Some(Action::Move { src: subfield(from, src, bits)?, dst: subfield(to, dst, bits)? }))
}

pub(super) fn stack(r: &mut Reader<'_>, place: Place) -> Decoded {
    let start = r.u16("stack")?;
    let Some(field) = field(r)? else { return Ok(None) };
    let sub = subfield(field, start, r.u16("stack")?)?;
    Ok(Some(if place.code == code::STACK_PUSH { Action::Push(sub) } else { Action::Pop(sub) }))
}

pub(super) fn check_pkt_larger(r: &mut Reader<'_>, _: Place) -> Decoded {
    let (bytes, start) = (r.u16("check_pkt_larger")?, r.u16("check_pkt_larger")?);
    let Some(field) = field(r)? else { return Ok(None) };
    Ok(Some(Action::CheckPktLarger { dst: subfield(field, start, 1)?, bytes }))
}

pub(super) fn dec_ttl(r: &mut Reader<'_>, place: Place) -> Decoded {
    if place.code == code::DEC_TTL {
        return Ok(Some(Action::DecTtl));
    }
    let count = r.u16("dec_ttl")?;
    r.skip(4, "dec_ttl")?;
    let ids: Result<_, _> = (0..count).map(|_| r.u16("dec_ttl")).collect();
    Ok(Some(Action::DecTtlIds(ids?)))
}

pub(super) fn clone(r: &mut Reader<'_>, place: Place) -> Decoded {
    r.skip(6, "clone")?;
    Ok(Some(Action::Clone(place.nested(r)?)))
}

pub(super) fn ct(r: &mut Reader<'_>, place: Place) -> Decoded {
    Ok(ct::decode(r, place)?.map(Action::Ct))
}

pub(super) fn learn(r: &mut Reader<'_>, place: Place) -> Decoded {
    Ok(learn::decode(r, place)?.map(|l| Action::Learn(Box::new(l))))
}

pub(super) fn group(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::Group(r.u32("group")?)))
}

pub(super) fn meter(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::Meter(r.u32("meter")?)))
}

pub(super) fn push_vlan(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::PushVlan(r.u16("push_vlan")?)))
}

pub(super) fn pop_vlan(_: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::PopVlan))
}

pub(super) fn push_mpls(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::PushMpls(r.u16("push_mpls")?)))
}

pub(super) fn pop_mpls(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::PopMpls(r.u16("pop_mpls")?)))
}

pub(super) fn dec_mpls_ttl(_: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::DecMplsTtl))
}

pub(super) fn set_nw_ttl(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::SetNwTtl(r.u8("mod_nw_ttl")?)))
}

pub(super) fn set_queue(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::SetQueue(r.u32("set_queue")?)))
}

pub(super) fn pop_queue(_: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::PopQueue))
}

pub(super) fn ct_clear(_: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::CtClear))
}

pub(super) fn exit(_: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::Exit))
}

pub(super) fn note(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::Note(r.rest().to_vec())))
}

pub(super) fn conjunction(r: &mut Reader<'_>, _: Place) -> Decoded {
    let (clause, n_clauses) = (r.u8("conjunction")?, r.u8("conjunction")?);
    let clause = clause.checked_add(1).ok_or(DecodeError::BadValue { what: "conjunction", value: 0xff })?;
    Ok(Some(Action::Conjunction { id: r.u32("conjunction")?, clause, n_clauses }))
}

pub(super) fn fin_timeout(r: &mut Reader<'_>, _: Place) -> Decoded {
    Ok(Some(Action::FinTimeout { idle: r.u16("fin_timeout")?, hard: r.u16("fin_timeout")? }))
}

pub(super) fn write_metadata(r: &mut Reader<'_>, _: Place) -> Decoded {
    r.skip(6, "write_metadata")?;
    Ok(Some(Action::WriteMetadata { value: r.u64("write_metadata")?, mask: r.u64("write_metadata")? }))
}

pub(super) fn multipath(r: &mut Reader<'_>, _: Place) -> Decoded {
    let (fields, basis) = (r.u16("multipath")?, r.u16("multipath")?);
    r.skip(2, "multipath")?;
    let (algorithm, max_link) = (r.u16("multipath")?, r.u16("multipath")?);
    let arg = r.u32("multipath")?;
    r.skip(2, "multipath")?;
    let bits = r.u16("multipath")?;
    let Some(field) = short_field(r)? else { return Ok(None) };
    let dst = packed(field, bits)?;
    Ok(Some(Action::Multipath(Multipath { fields, basis, algorithm, max_link, arg, dst })))
}

pub(super) fn bundle(r: &mut Reader<'_>, place: Place) -> Decoded {
    let (algorithm, fields, basis) = (r.u16("bundle")?, r.u16("bundle")?, r.u16("bundle")?);
    let member_type = short_field(r)?;
    let count = r.u16("bundle")?;
    let bits = r.u16("bundle")?;
    let dst = short_field(r)?;
    r.skip(4, "bundle")?;
    let dst = match (place.code == code::BUNDLE_LOAD, dst) {
        (true, Some(field)) => Some(packed(field, bits)?),
        (true, None) => return Ok(None),
        (false, _) => None,
    };
    let Some(member_type) = member_type else { return Ok(None) };
    let members: Result<_, _> = (0..count).map(|_| r.u16("bundle.members")).collect();
    Ok(Some(Action::Bundle(Bundle { algorithm, fields, basis, member_type, dst, members: members? })))
}

pub(super) fn sample(r: &mut Reader<'_>, place: Place) -> Decoded {
    let mut found = Sample {
        probability: r.u16("sample")?,
        collector_set_id: r.u32("sample")?,
        obs_domain_id: r.u32("sample")?,
        obs_point_id: r.u32("sample")?,
        sampling_port: None,
        direction: SampleDirection::Default,
    };
    if place.code != code::SAMPLE {
        let port = r.u16("sample.port")?;
        found.sampling_port = (port != 0xffff).then_some(port);
    }
    if place.code == code::SAMPLE3 {
        found.direction = match r.u8("sample.direction")? {
            1 => SampleDirection::Ingress,
            2 => SampleDirection::Egress,
            _ => SampleDirection::Default,
        };
    }
    Ok(Some(Action::Sample(found)))
}
