//! Readers for the actions with many arguments.

use std::net::IpAddr;

use super::argument::{ActionError, Context, Parsed, bad, number, short_port};
use super::{
    Action, Bundle, Controller, Ct, CtZone, Learn, LearnSource, LearnSpec, LearnTarget, Multipath, Nat,
    NatKind, Sample, SampleDirection, names,
};
use crate::field::{Field, Subfield, Value, parse_number, parse_value};
use crate::flow::{KeyValues, parse_hex};

pub(super) fn controller(s: &str, _: &mut Context) -> Parsed {
    let mut found = Controller::default();
    if !s.is_empty() && s.bytes().all(|c| c.is_ascii_digit()) {
        found.max_len = number("controller", s)?;
    } else {
        for (key, value) in KeyValues::new(s) {
            match key {
                "reason" => match names::reason_number(value) {
                    Some(reason) => found.reason = reason,
                    None => return bad("controller", value, "no_match, action, invalid_ttl, ..."),
                },
                "max_len" => found.max_len = number("controller", value)?,
                "id" => found.controller_id = number("controller", value)?,
                "userdata" => match parse_hex(value) {
                    Some(bytes) => found.userdata = bytes,
                    None => return bad("controller", value, "bytes in hexadecimal"),
                },
                "pause" => found.pause = true,
                "meter_id" => found.meter_id = Some(number("controller", value)?),
                _ => return bad("controller", key, "reason, max_len, id, userdata, pause, meter_id"),
            }
        }
    }
    Ok(vec![match found.is_plain() {
        true => Action::Output { port: super::port::CONTROLLER, max_len: found.max_len },
        false => Action::Controller(found),
    }])
}

pub(super) fn ct(s: &str, cx: &mut Context) -> Parsed {
    let mut found = Ct::default();
    for (key, value) in KeyValues::new(s) {
        match key {
            "commit" => found.commit = true,
            "force" => found.force = true,
            "table" => found.table = Some(number::<u8>("ct", value)?).filter(|t| *t != 0xff),
            "zone" => {
                found.zone = match number("ct", value) {
                    Ok(zone) => CtZone::Imm(zone),
                    Err(_) => CtZone::Field(value.parse()?),
                };
            }
            "alg" => {
                found.alg = match value {
                    "ftp" => 21,
                    "tftp" => 69,
                    other => number("ct", other)?,
                };
            }
            "nat" => found.nat = Some(nat(value)?),
            "exec" => found.exec = cx.nested(value)?,
            _ => return bad("ct", key, "commit, force, table, zone, alg, nat, exec"),
        }
    }
    if found.force && !found.commit {
        return bad("ct", s, "force together with commit");
    }
    Ok(vec![Action::Ct(found)])
}

fn nat(s: &str) -> Result<Nat, ActionError> {
    let mut found = Nat::default();
    for (key, value) in KeyValues::new(s) {
        match key {
            "src" | "dst" if found.kind != NatKind::Existing => return bad("nat", s, "one of src and dst"),
            "src" | "dst" => {
                found.kind = if key == "src" { NatKind::Src } else { NatKind::Dst };
                if !value.is_empty() && nat_range(value, &mut found).is_none() {
                    return bad(
                        "nat",
                        value,
                        "ADDRESS[-ADDRESS][:PORT[-PORT]], IPv6 in brackets before a port",
                    );
                }
            }
            "persistent" => found.persistent = true,
            "hash" => found.hash = true,
            "random" => found.random = true,
            _ => return bad("nat", key, "src, dst, persistent, hash, random"),
        }
    }
    if found.kind == NatKind::Existing && (found.persistent || found.hash || found.random) {
        return bad("nat", s, "flags with src or dst only");
    }
    Ok(found)
}

/// Reads `ADDRESS[-ADDRESS][:PORT[-PORT]]` into `nat`.
fn nat_range(s: &str, nat: &mut Nat) -> Option<()> {
    let (addresses, ports) = match s.rsplit_once(':') {
        Some((head, ports)) if head.ends_with(']') || head.parse::<IpAddr>().is_ok_and(|a| a.is_ipv4()) => {
            (head, Some(ports))
        }
        Some((head, ports)) if head.contains('.') && head.contains('-') => (head, Some(ports)),
        _ => (s, None),
    };
    let address = |t: &str| t.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    match addresses.split_once('-') {
        Some((first, last)) => {
            nat.addr_min = Some(address(first)?);
            nat.addr_max = Some(address(last)?);
        }
        None => nat.addr_min = Some(address(addresses)?),
    }
    if nat.addr_max.is_some_and(|last| {
        Some(last) < nat.addr_min || nat.addr_min.is_some_and(|first| first.is_ipv4() != last.is_ipv4())
    }) {
        return None;
    }
    match ports.map(|ports| ports.split_once('-').map_or((ports, None), |(a, b)| (a, Some(b)))) {
        None => {}
        Some((first, last)) => {
            nat.port_min = Some(first.parse().ok()?);
            nat.port_max = match last {
                Some(last) => Some(last.parse().ok().filter(|last| Some(*last) >= nat.port_min)?),
                None => None,
            };
        }
    }
    Some(())
}

pub(super) fn multipath(s: &str, _: &mut Context) -> Parsed {
    let expected = "FIELDS,BASIS,ALGORITHM,LINKS,ARG,DESTINATION";
    let parts: Vec<&str> = s.split([',', ' ']).filter(|part| !part.is_empty()).collect();
    let [fields, basis, algorithm, links, arg, dst] = parts[..] else { return bad("multipath", s, expected) };
    let (Some(fields), Some(algorithm)) =
        (names::hash_fields_number(fields), names::multipath_algorithm_number(algorithm))
    else {
        return bad("multipath", s, expected);
    };
    let links: u32 = number("multipath", links)?;
    let Some(max_link) = links.checked_sub(1).and_then(|n| u16::try_from(n).ok()) else {
        return bad("multipath", s, "1 to 65536 links");
    };
    Ok(vec![Action::Multipath(Multipath {
        fields,
        basis: number("multipath", basis)?,
        algorithm,
        max_link,
        arg: number("multipath", arg)?,
        dst: dst.parse()?,
    })])
}

pub(super) fn bundle(s: &str, _: &mut Context) -> Parsed {
    bundle_of("bundle", s, false)
}

pub(super) fn bundle_load(s: &str, _: &mut Context) -> Parsed {
    bundle_of("bundle_load", s, true)
}

fn bundle_of(name: &'static str, s: &str, load: bool) -> Parsed {
    let expected = "FIELDS,BASIS,ALGORITHM,ofport,[DESTINATION,]members:PORT,...";
    let Some((head, members)) = s.split_once("members:").or_else(|| s.split_once("slaves:")) else {
        return bad(name, s, expected);
    };
    let parts: Vec<&str> = head.split([',', ' ']).filter(|part| !part.is_empty()).collect();
    let (fields, basis, algorithm, dst) = match (&parts[..], load) {
        ([fields, basis, algorithm, "ofport"], false) => (fields, basis, algorithm, None),
        ([fields, basis, algorithm, "ofport", dst], true) => (fields, basis, algorithm, Some(dst.parse()?)),
        _ => return bad(name, s, expected),
    };
    let (Some(fields), Some(algorithm)) =
        (names::hash_fields_number(fields), names::bundle_algorithm_number(algorithm))
    else {
        return bad(name, s, expected);
    };
    let members = members.split([',', ' ', '[', ']']).filter(|m| !m.is_empty());
    let members: Result<_, _> = members.map(|m| short_port(name, m)).collect();
    Ok(vec![Action::Bundle(Bundle {
        algorithm,
        fields,
        basis: number(name, basis)?,
        member_type: Field::IN_PORT_NXM,
        dst,
        members: members?,
    })])
}

pub(super) fn sample(s: &str, _: &mut Context) -> Parsed {
    let mut found = Sample {
        probability: 0,
        collector_set_id: 0,
        obs_domain_id: 0,
        obs_point_id: 0,
        sampling_port: None,
        direction: SampleDirection::Default,
    };
    for (key, value) in KeyValues::new(s) {
        match key {
            "probability" => found.probability = number("sample", value)?,
            "collector_set_id" => found.collector_set_id = number("sample", value)?,
            "obs_domain_id" => found.obs_domain_id = number("sample", value)?,
            "obs_point_id" => found.obs_point_id = number("sample", value)?,
            "sampling_port" => found.sampling_port = Some(short_port("sample", value)?),
            "ingress" => found.direction = SampleDirection::Ingress,
            "egress" => found.direction = SampleDirection::Egress,
            _ => {
                return bad("sample", key, "probability, collector_set_id, obs_domain_id, obs_point_id, ...");
            }
        }
    }
    match found.probability {
        0 => bad("sample", s, "a probability above 0"),
        _ => Ok(vec![Action::Sample(found)]),
    }
}

pub(super) fn learn(s: &str, _: &mut Context) -> Parsed {
    let mut found = Learn { table: 1, priority: crate::flow::DEFAULT_PRIORITY, ..Learn::default() };
    for (key, value) in KeyValues::new(s) {
        match key {
            "table" => found.table = number("learn", value)?,
            "priority" => found.priority = number("learn", value)?,
            "idle_timeout" => found.idle_timeout = number("learn", value)?,
            "hard_timeout" => found.hard_timeout = number("learn", value)?,
            "fin_idle_timeout" => found.fin_idle_timeout = number("learn", value)?,
            "fin_hard_timeout" => found.fin_hard_timeout = number("learn", value)?,
            "cookie" => found.cookie = number("learn", value)?,
            "send_flow_rem" => found.send_flow_rem = true,
            "delete_learned" => found.delete_learned = true,
            "limit" => found.limit = number("learn", value)?,
            "result_dst" => found.result_dst = Some(value.parse()?),
            _ => found.specs.push(learn_spec(key, value)?),
        }
    }
    if found.result_dst.is_some_and(|sub| sub.bits != 1) {
        return bad("learn", s, "a single bit as result_dst");
    }
    Ok(vec![Action::Learn(Box::new(found))])
}

fn learn_spec(key: &str, value: &str) -> Result<LearnSpec, ActionError> {
    match key {
        "load" => {
            let Some((source, dst)) = value.split_once("->") else {
                return bad("learn", value, "load:SOURCE->DESTINATION");
            };
            let dst: Subfield = dst.parse()?;
            let source = match parse_number(source) {
                Some(number) => immediate(number, dst)?,
                None => LearnSource::Field(source.parse()?),
            };
            spec(source, LearnTarget::Load(dst), dst.bits)
        }
        "output" => {
            let src: Subfield = value.parse()?;
            spec(LearnSource::Field(src), LearnTarget::Output, src.bits)
        }
        _ => {
            let dst: Subfield = key.parse()?;
            let source = match value {
                "" => LearnSource::Field(dst),
                _ => match value.parse::<Subfield>() {
                    Ok(src) => LearnSource::Field(src),
                    Err(_) if dst == Subfield::whole(dst.field) => {
                        LearnSource::Immediate(Value(parse_value(dst.field, value)?))
                    }
                    Err(_) => immediate(number("learn", value)?, dst)?,
                },
            };
            spec(source, LearnTarget::Match(dst), dst.bits)
        }
    }
}

fn immediate(number: u128, dst: Subfield) -> Result<LearnSource, ActionError> {
    match dst.extract(dst.place(number)) == number {
        true => Ok(LearnSource::Immediate(Value(number))),
        false => bad("learn", &number.to_string(), "a value that fits the bits"),
    }
}

fn spec(source: LearnSource, target: LearnTarget, bits: u16) -> Result<LearnSpec, ActionError> {
    match &source {
        LearnSource::Field(src) if src.bits != bits => {
            bad("learn", &src.to_string(), "runs of the same number of bits")
        }
        _ => Ok(LearnSpec { bits, source, target }),
    }
}
