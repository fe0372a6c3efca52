//! Actions as `ovs-ofctl` prints them.

use std::fmt::{self, Write};
use std::net::IpAddr;

use super::{
    Action, Bundle, Controller, Ct, CtZone, Learn, LearnSource, LearnTarget, Multipath, Nat, NatKind, Sample,
    SampleDirection, names, port,
};
use crate::field::{Subfield, format_masked, port_text};

/// Writes a list of actions; an empty one is `drop`.
///
/// # Errors
/// Only those of the formatter.
pub fn write_actions(f: &mut dyn Write, actions: &[Action]) -> fmt::Result {
    if actions.is_empty() {
        return f.write_str("drop");
    }
    for (i, action) in actions.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { "," })?;
        write!(f, "{action}")?;
    }
    Ok(())
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Output { port: port::CONTROLLER, max_len } => write!(f, "CONTROLLER:{max_len}"),
            Action::Output { port, .. } if *port < 0xffff_ff00 => write!(f, "output:{port}"),
            Action::Output { port, .. } => f.write_str(&port_text(*port)),
            Action::OutputTrunc { port, max_len } => {
                write!(f, "output(port={},max_len={max_len})", port_text(*port))
            }
            Action::OutputReg { src, .. } => write!(f, "output:{src}"),
            Action::Controller(c) => write_controller(f, c),
            Action::Group(id) => write!(f, "group:{id}"),
            Action::Meter(id) => write!(f, "meter:{id}"),
            Action::SetQueue(id) => write!(f, "set_queue:{id}"),
            Action::PopQueue => f.write_str("pop_queue"),
            Action::PushVlan(ethertype) => write!(f, "push_vlan:{ethertype:#06x}"),
            Action::PopVlan => f.write_str("pop_vlan"),
            Action::PushMpls(ethertype) => write!(f, "push_mpls:{ethertype:#06x}"),
            Action::PopMpls(ethertype) => write!(f, "pop_mpls:{ethertype:#06x}"),
            Action::DecMplsTtl => f.write_str("dec_mpls_ttl"),
            Action::DecTtl => f.write_str("dec_ttl"),
            Action::DecTtlIds(ids) => {
                let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
                write!(f, "dec_ttl({})", ids.join(","))
            }
            Action::SetNwTtl(ttl) => write!(f, "mod_nw_ttl:{ttl}"),
            Action::SetField { field, value, mask } => {
                f.write_str("set_field:")?;
                format_masked(f, *field, value.0, mask.map_or(field.full_mask(), |m| m.0))?;
                write!(f, "->{}", field.name())
            }
            Action::Load { dst, value } => write!(f, "load:{}->{dst}", hex(u128::from(*value))),
            Action::Move { src, dst } => write!(f, "move:{src}->{dst}"),
            Action::Push(sub) => write!(f, "push:{sub}"),
            Action::Pop(sub) => write!(f, "pop:{sub}"),
            other => write_later(f, other),
        }
    }
}

fn write_later(f: &mut fmt::Formatter<'_>, action: &Action) -> fmt::Result {
    match action {
        Action::Resubmit { in_port, table, ct } => write_resubmit(f, *in_port, *table, *ct),
        Action::Ct(ct) => write_ct(f, ct),
        Action::CtClear => f.write_str("ct_clear"),
        Action::Learn(learn) => write_learn(f, learn),
        Action::Multipath(m) => write_multipath(f, m),
        Action::Bundle(b) => write_bundle(f, b),
        Action::Conjunction { id, clause, n_clauses } => write!(f, "conjunction({id},{clause}/{n_clauses})"),
        Action::FinTimeout { idle, hard } => {
            let part = |name: &str, n: u16| (n != 0).then(|| format!("{name}={n}"));
            let parts = [part("idle_timeout", *idle), part("hard_timeout", *hard)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            write!(f, "fin_timeout({})", parts.join(","))
        }
        Action::Sample(sample) => write_sample(f, sample),
        Action::CheckPktLarger { dst, bytes } => write!(f, "check_pkt_larger({bytes})->{dst}"),
        Action::Note(bytes) => {
            f.write_str("note:")?;
            write_bytes(f, bytes)
        }
        Action::Exit => f.write_str("exit"),
        Action::Clone(actions) => nested(f, "clone", actions),
        Action::WriteMetadata { value, mask } => {
            write!(f, "write_metadata:{}", hex(u128::from(*value)))?;
            if *mask == u64::MAX { Ok(()) } else { write!(f, "/{}", hex(u128::from(*mask))) }
        }
        Action::GotoTable(table) => write!(f, "goto_table:{table}"),
        Action::ClearActions => f.write_str("clear_actions"),
        Action::WriteActions(actions) => nested(f, "write_actions", actions),
        Action::Raw(raw) => {
            f.write_str(if raw.instruction { "raw_instruction:" } else { "raw_action:" })?;
            write_bytes(f, &raw.bytes)
        }
        _ => Ok(()),
    }
}

/// As C's `%#x`: zero has no prefix.
fn hex(v: u128) -> String {
    if v == 0 { "0".to_owned() } else { format!("{v:#x}") }
}

fn nested(f: &mut fmt::Formatter<'_>, name: &str, actions: &[Action]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (i, action) in actions.iter().enumerate() {
        write!(f, "{}{action}", if i == 0 { "" } else { "," })?;
    }
    f.write_char(')')
}

fn write_bytes(f: &mut dyn Write, bytes: &[u8]) -> fmt::Result {
    for (i, byte) in bytes.iter().enumerate() {
        write!(f, "{}{byte:02x}", if i == 0 { "" } else { "." })?;
    }
    Ok(())
}

fn write_controller(f: &mut fmt::Formatter<'_>, c: &Controller) -> fmt::Result {
    if c.is_plain() {
        return write!(f, "CONTROLLER:{}", c.max_len);
    }
    let mut parts = Vec::new();
    if c.reason != Controller::REASON_ACTION {
        parts.push(format!("reason={}", names::reason(c.reason)));
    }
    if c.max_len != u16::MAX {
        parts.push(format!("max_len={}", c.max_len));
    }
    if c.controller_id != 0 {
        parts.push(format!("id={}", c.controller_id));
    }
    if !c.userdata.is_empty() {
        let mut text = String::from("userdata=");
        write_bytes(&mut text, &c.userdata)?;
        parts.push(text);
    }
    if c.pause {
        parts.push("pause".to_owned());
    }
    if let Some(meter) = c.meter_id {
        parts.push(format!("meter_id={meter}"));
    }
    write!(f, "controller({})", parts.join(","))
}

fn write_resubmit(
    f: &mut fmt::Formatter<'_>,
    in_port: Option<u16>,
    table: Option<u8>,
    ct: bool,
) -> fmt::Result {
    let port = in_port.map_or(String::new(), |p| port_text(names::wide_port(p)));
    match table {
        None if in_port.is_some() && !ct => write!(f, "resubmit:{port}"),
        _ => {
            let table = table.map_or(String::new(), |t| t.to_string());
            write!(f, "resubmit({port},{table}{})", if ct { ",ct" } else { "" })
        }
    }
}

fn write_ct(f: &mut fmt::Formatter<'_>, ct: &Ct) -> fmt::Result {
    let mut parts = Vec::new();
    if ct.commit {
        parts.push("commit".to_owned());
    }
    if ct.force {
        parts.push("force".to_owned());
    }
    if let Some(table) = ct.table {
        parts.push(format!("table={table}"));
    }
    match ct.zone {
        CtZone::Imm(0) => {}
        CtZone::Imm(zone) => parts.push(format!("zone={zone}")),
        CtZone::Field(sub) => parts.push(format!("zone={sub}")),
    }
    parts.extend(ct.nat.as_ref().map(nat_text));
    if !ct.exec.is_empty() {
        let mut text = String::from("exec(");
        write_actions(&mut text, &ct.exec)?;
        parts.push(text + ")");
    }
    match ct.alg {
        0 => {}
        21 => parts.push("alg=ftp".to_owned()),
        69 => parts.push("alg=tftp".to_owned()),
        other => parts.push(format!("alg={other}")),
    }
    write!(f, "ct({})", parts.join(","))
}

fn nat_text(nat: &Nat) -> String {
    let mut text = match nat.kind {
        NatKind::Existing => return "nat".to_owned(),
        NatKind::Src => String::from("nat(src"),
        NatKind::Dst => String::from("nat(dst"),
    };
    if let Some(first) = nat.addr_min {
        let bracket = nat.port_min.is_some();
        text += &format!("={}", address(first, bracket));
        if let Some(last) = nat.addr_max.filter(|last| *last != first) {
            text += &format!("-{}", address(last, bracket));
        }
        if let Some(first) = nat.port_min {
            text += &format!(":{first}");
            if let Some(last) = nat.port_max.filter(|last| *last != first) {
                text += &format!("-{last}");
            }
        }
    }
    for (set, name) in [(nat.persistent, ",persistent"), (nat.hash, ",hash"), (nat.random, ",random")] {
        text += if set { name } else { "" };
    }
    text + ")"
}

fn address(address: IpAddr, bracket: bool) -> String {
    match address {
        IpAddr::V6(a) if bracket => format!("[{a}]"),
        other => other.to_string(),
    }
}

fn write_multipath(f: &mut fmt::Formatter<'_>, m: &Multipath) -> fmt::Result {
    let (fields, algorithm) = (names::hash_fields(m.fields), names::multipath_algorithm(m.algorithm));
    let links = u32::from(m.max_link) + 1;
    write!(f, "multipath({fields},{},{algorithm},{links},{},{})", m.basis, m.arg, m.dst)
}

fn write_bundle(f: &mut fmt::Formatter<'_>, b: &Bundle) -> fmt::Result {
    let name = if b.dst.is_some() { "bundle_load" } else { "bundle" };
    let algorithm = names::bundle_algorithm(b.algorithm);
    write!(f, "{name}({},{},{algorithm},ofport,", names::hash_fields(b.fields), b.basis)?;
    if let Some(dst) = b.dst {
        write!(f, "{dst},")?;
    }
    let members: Vec<String> = b.members.iter().map(|p| port_text(names::wide_port(*p))).collect();
    write!(f, "members:{})", members.join(","))
}

fn write_sample(f: &mut fmt::Formatter<'_>, s: &Sample) -> fmt::Result {
    write!(f, "sample(probability={},collector_set_id={}", s.probability, s.collector_set_id)?;
    write!(f, ",obs_domain_id={},obs_point_id={}", s.obs_domain_id, s.obs_point_id)?;
    if let Some(port) = s.sampling_port {
        write!(f, ",sampling_port={}", port_text(names::wide_port(port)))?;
    }
    f.write_str(match s.direction {
        SampleDirection::Default => ")",
        SampleDirection::Ingress => ",ingress)",
        SampleDirection::Egress => ",egress)",
    })
}

fn write_learn(f: &mut fmt::Formatter<'_>, l: &Learn) -> fmt::Result {
    write!(f, "learn(table={}", l.table)?;
    let timeouts = [
        ("idle_timeout", l.idle_timeout),
        ("hard_timeout", l.hard_timeout),
        ("fin_idle_timeout", l.fin_idle_timeout),
        ("fin_hard_timeout", l.fin_hard_timeout),
    ];
    for (name, value) in timeouts.iter().filter(|(_, value)| *value != 0) {
        write!(f, ",{name}={value}")?;
    }
    if l.priority != crate::flow::DEFAULT_PRIORITY {
        write!(f, ",priority={}", l.priority)?;
    }
    f.write_str(if l.send_flow_rem { ",send_flow_rem" } else { "" })?;
    f.write_str(if l.delete_learned { ",delete_learned" } else { "" })?;
    if l.cookie != 0 {
        write!(f, ",cookie={:#x}", l.cookie)?;
    }
    if l.limit != 0 {
        write!(f, ",limit={}", l.limit)?;
    }
    if let Some(dst) = l.result_dst {
        write!(f, ",result_dst={dst}")?;
    }
    for spec in &l.specs {
        f.write_char(',')?;
        match (&spec.source, &spec.target) {
            (LearnSource::Immediate(value), LearnTarget::Match(dst))
                if *dst == Subfield::whole(dst.field) =>
            {
                write!(f, "{}=", dst.field.name())?;
                format_masked(f, dst.field, value.0, dst.field.full_mask())?;
            }
            (LearnSource::Immediate(value), LearnTarget::Match(dst)) => write!(f, "{dst}={}", hex(value.0))?,
            (LearnSource::Immediate(value), LearnTarget::Load(dst)) => {
                write!(f, "load:{}->{dst}", hex(value.0))?
            }
            (LearnSource::Field(src), LearnTarget::Match(dst)) if src == dst => write!(f, "{dst}")?,
            (LearnSource::Field(src), LearnTarget::Match(dst)) => write!(f, "{dst}={src}")?,
            (LearnSource::Field(src), LearnTarget::Load(dst)) => write!(f, "load:{src}->{dst}")?,
            (LearnSource::Field(src), LearnTarget::Output) => write!(f, "output:{src}")?,
            (LearnSource::Immediate(value), LearnTarget::Output) => write!(f, "output:{}", hex(value.0))?,
        }
    }
    f.write_char(')')
}
