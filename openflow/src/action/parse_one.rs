//! Readers for the actions with few arguments.

use super::argument::{Context, Parsed, arrow, bad, number, one, port_of, short_port};
use super::{Action, RawAction};
use crate::field::{Field, FieldError, Subfield, Value, parse_masked, parse_port, parse_value};
use crate::flow::{KeyValues, parse_hex};

pub(super) fn output(s: &str, _: &mut Context) -> Parsed {
    if s.contains("port") && s.contains("max_len") {
        let (mut port, mut max_len) = (None, None);
        for (key, value) in KeyValues::new(s) {
            match key {
                "port" => port = Some(port_of("output", value)?),
                "max_len" => max_len = Some(number("output", value)?),
                _ => return bad("output", s, "port=PORT,max_len=BYTES"),
            }
        }
        return match (port, max_len) {
            (Some(port), Some(max_len)) => one(Action::OutputTrunc { port, max_len }),
            _ => bad("output", s, "port=PORT,max_len=BYTES"),
        };
    }
    if let Some(port) = parse_port(s) {
        return one(Action::output(port));
    }
    match s.parse::<Subfield>() {
        Ok(src) => one(Action::OutputReg { src, max_len: u16::MAX }),
        Err(_) => bad("output", s, "a port, a field, or port=PORT,max_len=BYTES"),
    }
}

pub(super) fn resubmit(s: &str, _: &mut Context) -> Parsed {
    let mut parts = s.split(',').map(str::trim);
    let in_port = match parts.next() {
        None | Some("") => None,
        Some(port) => Some(short_port("resubmit", port)?).filter(|port| *port != 0xfff8),
    };
    let table = match parts.next() {
        None | Some("") => None,
        Some(table) => Some(number("resubmit", table)?).filter(|table| *table != 0xff),
    };
    let ct = match parts.next() {
        None | Some("") => false,
        Some("ct") => true,
        Some(_) => return bad("resubmit", s, "[PORT],[TABLE][,ct]"),
    };
    match (in_port, table) {
        (None, None) => bad("resubmit", s, "[PORT],[TABLE][,ct] with at least one of them"),
        _ => one(Action::Resubmit { in_port, table, ct }),
    }
}

pub(super) fn set_field(s: &str, _: &mut Context) -> Parsed {
    let (value, name) = arrow("set_field", s)?;
    let field = Field::by_name(name).ok_or_else(|| FieldError::UnknownField(name.to_owned()))?;
    let (value, mask) = parse_masked(field, value)?;
    let mask = if mask == field.full_mask() { None } else { Some(Value(mask)) };
    one(Action::SetField { field, value: Value(value & mask.map_or(u128::MAX, |m| m.0)), mask })
}

pub(super) fn load(s: &str, _: &mut Context) -> Parsed {
    let (value, dst) = arrow("load", s)?;
    let dst: Subfield = dst.parse()?;
    let value: u64 = number("load", value)?;
    match dst.bits <= 64 && dst.extract(dst.place(value.into())) == u128::from(value) {
        true => one(Action::Load { dst, value }),
        false => bad("load", s, "a value that fits the bits, 64 at most"),
    }
}

pub(super) fn copy(s: &str, _: &mut Context) -> Parsed {
    let (src, dst) = arrow("move", s)?;
    let (src, dst): (Subfield, Subfield) = (src.parse()?, dst.parse()?);
    match src.bits == dst.bits {
        true => one(Action::Move { src, dst }),
        false => bad("move", s, "two runs of the same number of bits"),
    }
}

pub(super) fn group(s: &str, _: &mut Context) -> Parsed {
    one(Action::Group(number("group", s)?))
}

pub(super) fn meter(s: &str, _: &mut Context) -> Parsed {
    one(Action::Meter(number("meter", s)?))
}

pub(super) fn push_vlan(s: &str, cx: &mut Context) -> Parsed {
    cx.tagged = true;
    match number("push_vlan", s)? {
        ethertype @ (0x8100 | 0x88a8) => one(Action::PushVlan(ethertype)),
        _ => bad("push_vlan", s, "0x8100 or 0x88a8"),
    }
}

pub(super) fn pop_vlan(_: &str, cx: &mut Context) -> Parsed {
    cx.tagged = false;
    one(Action::PopVlan)
}

pub(super) fn push_mpls(s: &str, _: &mut Context) -> Parsed {
    one(Action::PushMpls(number("push_mpls", s)?))
}

pub(super) fn pop_mpls(s: &str, _: &mut Context) -> Parsed {
    one(Action::PopMpls(number("pop_mpls", s)?))
}

pub(super) fn dec_mpls_ttl(_: &str, _: &mut Context) -> Parsed {
    one(Action::DecMplsTtl)
}

pub(super) fn dec_ttl(s: &str, _: &mut Context) -> Parsed {
    if s.is_empty() {
        return one(Action::DecTtl);
    }
    let ids: Result<_, _> = s.split(',').map(|id| number("dec_ttl", id)).collect();
    one(Action::DecTtlIds(ids?))
}

pub(super) fn ct_clear(_: &str, _: &mut Context) -> Parsed {
    one(Action::CtClear)
}

pub(super) fn check_pkt_larger(s: &str, _: &mut Context) -> Parsed {
    let (bytes, dst) = arrow("check_pkt_larger", s)?;
    let dst: Subfield = dst.parse()?;
    let bytes = number("check_pkt_larger", bytes.trim_end_matches(')'))?;
    match dst.bits {
        1 => one(Action::CheckPktLarger { dst, bytes }),
        _ => bad("check_pkt_larger", s, "(BYTES)->FIELD[bit]"),
    }
}

pub(super) fn push(s: &str, _: &mut Context) -> Parsed {
    one(Action::Push(s.parse()?))
}

pub(super) fn pop(s: &str, _: &mut Context) -> Parsed {
    one(Action::Pop(s.parse()?))
}

pub(super) fn clone(s: &str, cx: &mut Context) -> Parsed {
    one(Action::Clone(cx.nested(s)?))
}

pub(super) fn write_actions(s: &str, cx: &mut Context) -> Parsed {
    one(Action::WriteActions(cx.nested(s)?))
}

pub(super) fn clear_actions(_: &str, _: &mut Context) -> Parsed {
    one(Action::ClearActions)
}

pub(super) fn goto_table(s: &str, _: &mut Context) -> Parsed {
    one(Action::GotoTable(number("goto_table", s)?))
}

pub(super) fn write_metadata(s: &str, _: &mut Context) -> Parsed {
    let (value, mask) = match s.split_once('/') {
        Some((value, mask)) => (number("write_metadata", value)?, number("write_metadata", mask)?),
        None => (number("write_metadata", s)?, u64::MAX),
    };
    one(Action::WriteMetadata { value, mask })
}

pub(super) fn set_queue(s: &str, _: &mut Context) -> Parsed {
    one(Action::SetQueue(number("set_queue", s)?))
}

pub(super) fn pop_queue(_: &str, _: &mut Context) -> Parsed {
    one(Action::PopQueue)
}

pub(super) fn exit(_: &str, _: &mut Context) -> Parsed {
    one(Action::Exit)
}

pub(super) fn note(s: &str, _: &mut Context) -> Parsed {
    match parse_hex(s) {
        Some(bytes) => one(Action::Note(bytes)),
        None => bad("note", s, "bytes in hexadecimal, such as 01.02.ff"),
    }
}

pub(super) fn conjunction(s: &str, _: &mut Context) -> Parsed {
    let expected = "ID,CLAUSE/CLAUSES with 2 to 64 clauses";
    let Some((id, (clause, n_clauses))) =
        s.split_once(',').and_then(|(id, rest)| Some((id, rest.split_once('/')?)))
    else {
        return bad("conjunction", s, expected);
    };
    let (clause, n_clauses) = (number("conjunction", clause)?, number("conjunction", n_clauses)?);
    match (2..=64).contains(&n_clauses) && (1..=n_clauses).contains(&clause) {
        true => one(Action::Conjunction { id: number("conjunction", id)?, clause, n_clauses }),
        false => bad("conjunction", s, expected),
    }
}

pub(super) fn fin_timeout(s: &str, _: &mut Context) -> Parsed {
    let (mut idle, mut hard) = (0, 0);
    for (key, value) in KeyValues::new(s) {
        match key {
            "idle_timeout" => idle = number("fin_timeout", value)?,
            "hard_timeout" => hard = number("fin_timeout", value)?,
            _ => return bad("fin_timeout", key, "idle_timeout=SECONDS,hard_timeout=SECONDS"),
        }
    }
    one(Action::FinTimeout { idle, hard })
}

pub(super) fn enqueue(s: &str, _: &mut Context) -> Parsed {
    let Some((port, queue)) = s.split_once([':', ',']) else {
        return bad("enqueue", s, "PORT:QUEUE");
    };
    let port = port_of("enqueue", port)?;
    Ok(vec![
        Action::SetQueue(number("enqueue", queue)?),
        Action::Output { port, max_len: u16::MAX },
        Action::PopQueue,
    ])
}

fn set(field: Field, s: &str) -> Parsed {
    one(Action::set(field, parse_value(field, s)?))
}

pub(super) fn mod_dl_src(s: &str, _: &mut Context) -> Parsed {
    set(Field::ETH_SRC, s)
}

pub(super) fn mod_dl_dst(s: &str, _: &mut Context) -> Parsed {
    set(Field::ETH_DST, s)
}

pub(super) fn mod_nw_src(s: &str, _: &mut Context) -> Parsed {
    set(Field::IPV4_SRC, s)
}

pub(super) fn mod_nw_dst(s: &str, _: &mut Context) -> Parsed {
    set(Field::IPV4_DST, s)
}

pub(super) fn mod_nw_tos(s: &str, _: &mut Context) -> Parsed {
    match number::<u8>("mod_nw_tos", s)? {
        tos if tos & 3 == 0 => one(Action::set(Field::IP_DSCP, tos >> 2)),
        _ => bad("mod_nw_tos", s, "a multiple of 4, 252 at most"),
    }
}

pub(super) fn mod_nw_ecn(s: &str, _: &mut Context) -> Parsed {
    set(Field::IP_ECN, s)
}

pub(super) fn set_nw_ttl(s: &str, _: &mut Context) -> Parsed {
    one(Action::SetNwTtl(number("mod_nw_ttl", s)?))
}

fn transport(cx: &Context, tcp: Field, udp: Field, sctp: Field) -> Field {
    match cx.ip_proto {
        Some(17) => udp,
        Some(132) => sctp,
        _ => tcp,
    }
}

pub(super) fn mod_tp_src(s: &str, cx: &mut Context) -> Parsed {
    set(transport(cx, Field::TCP_SRC, Field::UDP_SRC, Field::SCTP_SRC), s)
}

pub(super) fn mod_tp_dst(s: &str, cx: &mut Context) -> Parsed {
    set(transport(cx, Field::TCP_DST, Field::UDP_DST, Field::SCTP_DST), s)
}

/// The tag that a packet without one gets first.
fn tag(cx: &mut Context) -> Vec<Action> {
    let first = if cx.tagged { Vec::new() } else { vec![Action::PushVlan(0x8100)] };
    cx.tagged = true;
    first
}

pub(super) fn mod_vlan_vid(s: &str, cx: &mut Context) -> Parsed {
    let vid: u16 = number("mod_vlan_vid", s)?;
    if vid > 0xfff {
        return bad("mod_vlan_vid", s, "a VLAN identifier, 4095 at most");
    }
    let mut actions = tag(cx);
    actions.push(Action::set(Field::VLAN_VID, vid | 0x1000));
    Ok(actions)
}

pub(super) fn mod_vlan_pcp(s: &str, cx: &mut Context) -> Parsed {
    let pcp: u8 = number("mod_vlan_pcp", s)?;
    if pcp > 7 {
        return bad("mod_vlan_pcp", s, "a priority, 7 at most");
    }
    let mut actions = tag(cx);
    actions.push(Action::set(Field::VLAN_PCP, pcp));
    Ok(actions)
}

pub(super) fn set_tunnel(s: &str, _: &mut Context) -> Parsed {
    set(Field::TUN_ID, s)
}

pub(super) fn set_mpls_label(s: &str, _: &mut Context) -> Parsed {
    set(Field::MPLS_LABEL, s)
}

pub(super) fn set_mpls_tc(s: &str, _: &mut Context) -> Parsed {
    set(Field::MPLS_TC, s)
}

fn raw(name: &'static str, s: &str, instruction: bool) -> Parsed {
    let bytes = parse_hex(s).filter(|b| b.len() >= 8 && b.len().is_multiple_of(8));
    match bytes {
        Some(bytes) => one(Action::Raw(RawAction { instruction, bytes })),
        None => bad(name, s, "a multiple of 8 bytes in hexadecimal"),
    }
}

pub(super) fn raw_action(s: &str, _: &mut Context) -> Parsed {
    raw("raw_action", s, false)
}

pub(super) fn raw_instruction(s: &str, _: &mut Context) -> Parsed {
    raw("raw_instruction", s, true)
}
