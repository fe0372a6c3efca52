//! Values that occur in several kinds: addresses, ports, quantities, selectors.

use std::net::IpAddr;

use ipnet::IpNet;

use super::walk::{At, Read};
use crate::address::{Family, IpRange};
use crate::label::Labels;
use crate::name::Name;
use crate::object::Protocol;
use crate::selector::{Operator, Requirement, Selector};
use crate::timestamp::Timestamp;

pub(super) fn name(at: &At<'_>) -> Read<Name> {
    at.text().map(Name::from)
}

pub(super) fn string(at: &At<'_>) -> Read<String> {
    at.text().map(str::to_owned)
}

pub(super) fn boolean(at: &At<'_>) -> Read<bool> {
    at.boolean()
}

/// A moment.
pub(super) fn timestamp(at: &At<'_>) -> Read<Timestamp> {
    at.parsed("a moment such as 2026-11-30T19:16:32Z", |text| text.parse().ok())
}

/// An object's name, as a reference to it has it: not empty.
pub(super) fn object_name(at: &At<'_>) -> Read<Name> {
    at.parsed("the name of an object", |text| is_object_name(text).then(|| Name::from(text)))
}

/// Lower-case letters, digits, `-` and `.`, at most 253 (RFC 1123 subdomain, as the API server wants it).
pub(super) fn is_object_name(text: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let inner = |b: u8| edge(&b) || b == b'-' || b == b'.';
    let bytes = text.as_bytes();
    bytes.len() <= 253
        && bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && text.bytes().all(inner)
}

pub(super) fn ip(at: &At<'_>) -> Read<IpAddr> {
    at.parsed("an IP address", |text| text.parse().ok())
}

/// A prefix; host bits are cleared.
pub(super) fn cidr(at: &At<'_>) -> Read<IpNet> {
    at.parsed("a CIDR such as 10.0.0.0/8 or fd00::/8", |text| {
        text.parse::<IpNet>().ok().map(|net| net.trunc())
    })
}

pub(super) fn range(at: &At<'_>) -> Read<IpRange> {
    at.parsed("FIRST-LAST of one family in ascending order, a CIDR or an IP address", |text| {
        text.parse().ok()
    })
}

/// Addresses separated by commas, at most one per family; IPv4 first.
pub(super) fn ip_pair(at: &At<'_>) -> Read<Vec<IpAddr>> {
    at.parsed("an IP address or two, one of each family, separated by a comma", |text| {
        let ips: Option<Vec<IpAddr>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
        ips.and_then(one_per_family)
    })
}

/// The addresses with IPv4 first; None when there are two of a family.
pub(super) fn one_per_family(mut ips: Vec<IpAddr>) -> Option<Vec<IpAddr>> {
    ips.sort();
    let same = |pair: &[IpAddr]| matches!(pair, [a, b] if Family::of(*a) == Family::of(*b));
    (!ips.windows(2).any(same)).then_some(ips)
}

/// Ranges that one text may have: each is looked at for every address that is picked.
const MOST_RANGES: usize = 64;

/// Ranges separated by commas.
pub(super) fn ranges(at: &At<'_>) -> Read<Vec<IpRange>> {
    let ranges: Vec<IpRange> = at
        .parsed("ranges FIRST-LAST, CIDRs or IP addresses, separated by commas", |text| {
            text.split(',').map(|part| part.parse().ok()).collect()
        })?;
    match ranges.len() {
        0..=MOST_RANGES => Ok(ranges),
        many => Err(at.fail(format!("has {many} ranges, at most {MOST_RANGES} are wanted"))),
    }
}

pub(super) fn protocol(at: &At<'_>) -> Read<Protocol> {
    let spelling = |protocol: Protocol| (protocol.as_str(), protocol);
    at.one_of(&[Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(spelling))
}

/// The protocol in field `protocol`, TCP when absent.
pub(super) fn protocol_or_tcp(at: &At<'_>) -> Read<Protocol> {
    at.optional("protocol", protocol).map(Option::unwrap_or_default)
}

pub(super) fn port(at: &At<'_>) -> Read<u16> {
    at.number(1, 65535)
}

/// The name of a port: at most 15 lower-case letters, digits and `-`, a letter among them (RFC 6335 §5.1).
pub(super) fn port_name(at: &At<'_>) -> Read<Name> {
    at.parsed("a port number from 1 to 65535 or the name of a port", |text| {
        let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good = text.len() <= 15
            && text.bytes().all(known)
            && text.bytes().any(|b| b.is_ascii_lowercase())
            && !text.starts_with('-')
            && !text.ends_with('-')
            && !text.contains("--");
        good.then(|| Name::from(text))
    })
}

/// A rate in bits per second as a Kubernetes quantity, within the bounds that kubelet sets.
pub(super) fn bandwidth(at: &At<'_>) -> Read<u64> {
    let sensible = 1_000..=1_000_000_000_000_000;
    at.parsed("a quantity of bits per second from 1k to 1P, such as 10M", |text| {
        quantity(text).filter(|rate| sensible.contains(rate))
    })
}

/// The whole part, rounded up, of a quantity that is not negative; None when it is none, or too large.
pub(super) fn quantity(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (multiplier, mut tens) = scale(suffix)?;
    tens -= i32::try_from(fraction.len()).ok()?;
    let scaled = mantissa.checked_mul(multiplier)?;
    let power = 10u128.checked_pow(tens.unsigned_abs());
    let value =
        if tens >= 0 { scaled.checked_mul(power?)? } else { power.map_or(1, |power| scaled.div_ceil(power)) };
    u64::try_from(value).ok()
}

/// What a suffix stands for: a factor and a power of ten.
fn scale(suffix: &str) -> Option<(u128, i32)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 10] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some(at) = BINARY.iter().position(|known| *known == suffix) {
        return Some((1 << (10 * (at + 1)), 0));
    }
    if let Some((_, tens)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((1, *tens));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    (-18..=18).contains(&exponent).then_some((1, exponent))
}

pub(super) fn labels(at: &At<'_>) -> Read<Labels> {
    let pairs = at.members(|key, at| at.text().map(|value| (Name::from(key), Name::from(value))))?;
    Ok(pairs.into_iter().collect())
}

/// A `meta/v1` LabelSelector. A field that is not known makes it unreadable: it might narrow what is
/// selected.
pub(super) fn selector(at: &At<'_>) -> Read<Selector> {
    let known = at.only(&["matchLabels", "matchExpressions"]);
    let labels = at.optional("matchLabels", labels);
    let expressions = at.optional("matchExpressions", |at| at.list(requirement));
    known?;
    let labels = labels?.unwrap_or_default();
    let equal = |(key, value): (&Name, &Name)| Requirement {
        key: key.clone(),
        operator: Operator::In(vec![value.clone()]),
    };
    let mut requirements: Vec<Requirement> = labels.iter().map(equal).collect();
    requirements.extend(expressions?.unwrap_or_default());
    Ok(Selector { requirements })
}

#[derive(Clone, Copy)]
enum Spelling {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

fn requirement(at: &At<'_>) -> Read<Requirement> {
    at.only(&["key", "operator", "values"])?;
    let key = at.need("key", |at| {
        at.parsed("the key of a label", |text| (!text.is_empty()).then(|| Name::from(text)))
    });
    let operator = at.need("operator", |at| {
        at.one_of(&[
            ("In", Spelling::In),
            ("NotIn", Spelling::NotIn),
            ("Exists", Spelling::Exists),
            ("DoesNotExist", Spelling::DoesNotExist),
        ])
    });
    let values = at.optional("values", |at| at.list(name));
    let (key, operator, values) = (key?, operator?, values?.unwrap_or_default());
    let operator = match (operator, values.is_empty()) {
        (Spelling::In, false) => Operator::In(values),
        (Spelling::NotIn, false) => Operator::NotIn(values),
        (Spelling::Exists, true) => Operator::Exists,
        (Spelling::DoesNotExist, true) => Operator::DoesNotExist,
        (Spelling::In | Spelling::NotIn, true) => {
            return Err(at.fail("values are missing: In and NotIn need at least one"));
        }
        (Spelling::Exists | Spelling::DoesNotExist, false) => {
            return Err(at.fail("values are given: Exists and DoesNotExist take none"));
        }
    };
    Ok(Requirement { key, operator })
}

#[cfg(test)]
mod tests;
