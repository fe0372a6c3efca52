//! Values in `ovs-ofctl`'s spelling, both ways.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Field, Format, Mac};

/// Text that is not a field or not a value of the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// No field has this name.
    #[error("`{0}` is not a field that is known here (see ovs-fields(7))")]
    UnknownField(String),
    /// The value does not fit the field's form.
    #[error("`{value}` is not a value of {field}: expected {expected}")]
    BadValue {
        /// The field's name.
        field: &'static str,
        /// The text given.
        value: String,
        /// What the field's values look like.
        expected: &'static str,
    },
    /// The value has more bits than the field.
    #[error("`{value}` has more than the {bits} bits of {field}")]
    TooLarge {
        /// The field's name.
        field: &'static str,
        /// The text given.
        value: String,
        /// Bits of the field.
        bits: u16,
    },
    /// The field is matched whole or not at all.
    #[error("{0} cannot have a mask")]
    NotMaskable(&'static str),
    /// Not `FIELD[]`, `FIELD[bit]` or `FIELD[low..high]` with bits that exist.
    #[error(
        "`{0}` is not a run of bits: expected FIELD[], FIELD[bit] or FIELD[low..high] within the field's width"
    )]
    BadSubfield(String),
}

/// Reserved port numbers (OpenFlow 1.5.1 §7.2.1) and the names that OVS prints.
const PORT_NAMES: [(u32, &str); 9] = [
    (0xffff_fff8, "IN_PORT"),
    (0xffff_fff9, "TABLE"),
    (0xffff_fffa, "NORMAL"),
    (0xffff_fffb, "FLOOD"),
    (0xffff_fffc, "ALL"),
    (0xffff_fffd, "CONTROLLER"),
    (0xffff_fffe, "LOCAL"),
    (0xffff_ffff, "ANY"),
    (0xffff_fff7, "UNSET"),
];

/// Bits of `ct_state` and their names.
const CT_STATE: [(u32, &str); 8] = [
    (0x01, "new"),
    (0x02, "est"),
    (0x04, "rel"),
    (0x08, "rpl"),
    (0x10, "inv"),
    (0x20, "trk"),
    (0x40, "snat"),
    (0x80, "dnat"),
];

/// Bits of `tcp_flags` and their names.
const TCP_FLAGS: [(u32, &str); 12] = [
    (0x001, "fin"),
    (0x002, "syn"),
    (0x004, "rst"),
    (0x008, "psh"),
    (0x010, "ack"),
    (0x020, "urg"),
    (0x040, "ece"),
    (0x080, "cwr"),
    (0x100, "ns"),
    (0x200, "[200]"),
    (0x400, "[400]"),
    (0x800, "[800]"),
];

/// Bits of `tun_flags` and their names.
const TUN_FLAGS: [(u32, &str); 1] = [(0x01, "oam")];

/// Values and masks of `nw_frag` by name.
const FRAGS: [(u128, u128, &str); 5] =
    [(0, 3, "no"), (1, 1, "yes"), (1, 3, "first"), (3, 3, "later"), (0, 2, "not_later")];

/// A port as `ovs-ofctl` prints it: a number or a reserved port's name in capitals.
pub(crate) fn port_text(port: u32) -> String {
    match PORT_NAMES.iter().find(|(n, _)| *n == port) {
        Some((_, name)) => (*name).to_owned(),
        None => port.to_string(),
    }
}

/// A port number, a 16-bit reserved number or a reserved port's name in any case.
pub(crate) fn parse_port(s: &str) -> Option<u32> {
    if s.eq_ignore_ascii_case("none") {
        return Some(u32::MAX);
    }
    if let Some((n, _)) = PORT_NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(s)) {
        return Some(*n);
    }
    let n = u32::try_from(parse_number(s)?).ok()?;
    Some(if (0xff00..=0xffff).contains(&n) { n | 0xffff_0000 } else { n })
}

/// A number as C writes it: decimal, `0x` hexadecimal or `0` octal.
pub(crate) fn parse_number(s: &str) -> Option<u128> {
    let digits = |text: &str, radix| {
        let plain = !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric());
        plain.then(|| u128::from_str_radix(text, radix).ok()).flatten()
    };
    if let Some(hex) = s.strip_prefix("0x").or_else(|| s.strip_prefix("0X")) {
        digits(hex, 16)
    } else if s.len() > 1 && s.starts_with('0') {
        digits(&s[1..], 8)
    } else {
        digits(s, 10)
    }
}

/// Writes `value` with `mask` as an action (`set_field`) or OVS's generic printer writes it; a
/// mask of all bits is not written.
///
/// # Errors
/// Only those of the formatter.
pub fn format_masked(f: &mut dyn fmt::Write, field: Field, value: u128, mask: u128) -> fmt::Result {
    let exact = mask == field.full_mask();
    match field.format() {
        Format::Port | Format::Port16 if exact => f.write_str(&port_text(widen(field, value))),
        Format::Decimal | Format::Port | Format::Port16 => write_integer(f, value, mask, exact, false),
        Format::Hex => write_integer(f, value, mask, exact, true),
        Format::Ethernet => write_mac(f, value, mask, exact),
        Format::Ipv4 => write_ipv4(f, value, mask),
        Format::Ipv6 => write_ipv6(f, value, mask),
        Format::Frag => {
            let fits = |(v, m, _): &&(u128, u128, &str)| *m == mask & 3 && *v == value & mask & 3;
            f.write_str(FRAGS.iter().find(fits).map_or("<error>", |(_, _, name)| name))
        }
        Format::CtState => write_flags(f, &CT_STATE, low32(value), low32(mask), 0xff),
        Format::TunnelFlags => write_flags(f, &TUN_FLAGS, low32(value), low32(mask) & 1, 1),
        Format::TcpFlags => write_flags(f, &TCP_FLAGS, low32(value), low32(mask) & 0xfff, 0xfff),
        Format::PacketType => write!(f, "({},{:#x})", (value >> 16) & 0xffff, value & 0xffff),
    }
}

#[allow(clippy::cast_possible_truncation)] // the low 32 bits are what is wanted
fn low32(v: u128) -> u32 {
    v as u32
}

/// A 16-bit port in the 32-bit numbering, whose reserved ports are the topmost.
fn widen(field: Field, value: u128) -> u32 {
    let port = low32(value);
    if field.format() == Format::Port16 && port >= 0xff00 { port | 0xffff_0000 } else { port }
}

fn write_hex(f: &mut dyn fmt::Write, v: u128) -> fmt::Result {
    if v == 0 { f.write_char('0') } else { write!(f, "{v:#x}") }
}

fn write_integer(f: &mut dyn fmt::Write, v: u128, mask: u128, exact: bool, hex: bool) -> fmt::Result {
    if hex {
        write_hex(f, v)?
    } else {
        write!(f, "{v}")?
    }
    if exact {
        return Ok(());
    }
    f.write_char('/')?;
    write_hex(f, mask)
}

pub(crate) fn write_mac(f: &mut dyn fmt::Write, value: u128, mask: u128, exact: bool) -> fmt::Result {
    let mac = |v: u128| Mac::from_u64(u64::try_from(v & 0xffff_ffff_ffff).unwrap_or_default());
    write!(f, "{}", mac(value))?;
    if exact { Ok(()) } else { write!(f, "/{}", mac(mask)) }
}

/// The prefix length of a mask of `width` bits, if it is one.
fn prefix(mask: u128, width: u32) -> Option<u32> {
    let ones = (mask << (128 - width)).leading_ones();
    let length = ones.min(width);
    let expected = if length == 0 { 0 } else { (u128::MAX << (128 - length)) >> (128 - width) };
    (mask == expected).then_some(length)
}

pub(crate) fn write_ipv4(f: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    write!(f, "{}", Ipv4Addr::from(low32(value)))?;
    match prefix(mask, 32) {
        Some(32) => Ok(()),
        Some(length) => write!(f, "/{length}"),
        None => write!(f, "/{}", Ipv4Addr::from(low32(mask))),
    }
}

pub(crate) fn write_ipv6(f: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    write!(f, "{}", Ipv6Addr::from(value))?;
    match prefix(mask, 128) {
        Some(128) => Ok(()),
        Some(length) => write!(f, "/{length}"),
        None => write!(f, "/{}", Ipv6Addr::from(mask)),
    }
}

/// `a|b` where the mask is the whole of `max`, `+a-b` otherwise.
pub(crate) fn write_flags(
    f: &mut dyn fmt::Write,
    names: &[(u32, &str)],
    flags: u32,
    mask: u32,
    max: u32,
) -> fmt::Result {
    let name = |bit: u32| names.iter().find(|(b, _)| *b == bit).map_or("[Unknown]", |(_, n)| n);
    if mask == 0 {
        return f.write_str("0/0");
    }
    if mask == max {
        if flags == 0 {
            return f.write_char('0');
        }
        let mut first = true;
        for bit in bits(flags & max) {
            f.write_str(if first { "" } else { "|" })?;
            f.write_str(name(bit))?;
            first = false;
        }
        return Ok(());
    }
    for bit in bits(mask) {
        f.write_char(if flags & bit == 0 { '-' } else { '+' })?;
        f.write_str(name(bit))?;
    }
    Ok(())
}

/// `ct_state` and `tun_flags` as a match prints them.
pub(crate) fn write_match_flags(
    f: &mut dyn fmt::Write,
    field: Field,
    value: u128,
    mask: u128,
) -> fmt::Result {
    match field {
        Field::TUN_FLAGS => write_flags(f, &TUN_FLAGS, low32(value), low32(mask), u32::MAX),
        _ => write_flags(f, &CT_STATE, low32(value), low32(mask), 0xff),
    }
}

fn bits(v: u32) -> impl Iterator<Item = u32> {
    (0..32).map(|n| 1u32 << n).filter(move |bit| v & bit != 0)
}

/// Parses `VALUE` or `VALUE/MASK` of `field`; without a mask every bit counts.
///
/// # Errors
/// [`FieldError`] names the field and what was expected.
pub fn parse_masked(field: Field, s: &str) -> Result<(u128, u128), FieldError> {
    if s == "*" {
        return Ok((0, 0));
    }
    let expected = expected(field.format());
    let bad = || FieldError::BadValue { field: field.name(), value: s.to_owned(), expected };
    let full = field.full_mask();
    let parsed = match field.format() {
        Format::Port | Format::Port16 => {
            let port = parse_port(s).ok_or_else(bad)?;
            (u128::from(port) & full, full)
        }
        Format::Decimal | Format::Hex => split(s, full, parse_number).ok_or_else(bad)?,
        Format::Ethernet => {
            let mac = |t: &str| t.parse::<Mac>().ok().map(|m| u128::from(m.to_u64()));
            split(s, full, mac).ok_or_else(bad)?
        }
        Format::Ipv4 => parse_address(s, 32, |t| t.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into()))
            .ok_or_else(bad)?,
        Format::Ipv6 => {
            parse_address(s, 128, |t| t.parse::<Ipv6Addr>().ok().map(u128::from)).ok_or_else(bad)?
        }
        Format::Frag => {
            let found = FRAGS.iter().find(|(_, _, name)| name.eq_ignore_ascii_case(s)).ok_or_else(bad)?;
            (found.0, if found.1 == 3 { full } else { found.1 })
        }
        Format::CtState => parse_flags(s, &CT_STATE, 0xff).ok_or_else(bad)?,
        Format::TunnelFlags => parse_flags(s, &TUN_FLAGS, full).ok_or_else(bad)?,
        Format::TcpFlags => parse_flags(s, &TCP_FLAGS, full).ok_or_else(bad)?,
        Format::PacketType => (parse_packet_type(s).ok_or_else(bad)?, full),
    };
    let (value, mask) = parsed;
    if value & !full != 0 || mask & !full != 0 {
        return Err(FieldError::TooLarge { field: field.name(), value: s.to_owned(), bits: field.bits() });
    }
    if mask != full && !field.maskable() {
        return Err(FieldError::NotMaskable(field.name()));
    }
    Ok((value, mask))
}

/// Parses a value without a mask.
///
/// # Errors
/// [`FieldError`] names the field and what was expected.
pub fn parse_value(field: Field, s: &str) -> Result<u128, FieldError> {
    let (value, mask) = parse_masked(field, s)?;
    if mask == field.full_mask() { Ok(value) } else { Err(FieldError::NotMaskable(field.name())) }
}

fn expected(format: Format) -> &'static str {
    match format {
        Format::Decimal | Format::Hex => "a number, with 0x for hexadecimal",
        Format::Ethernet => "aa:bb:cc:dd:ee:ff",
        Format::Ipv4 => "an IPv4 address or prefix",
        Format::Ipv6 => "an IPv6 address or prefix",
        Format::Port | Format::Port16 => "a port number or LOCAL, IN_PORT, CONTROLLER, ...",
        Format::Frag => "no, yes, first, later or not_later",
        Format::CtState => "flags such as +new+trk-est",
        Format::TunnelFlags => "+oam or -oam",
        Format::TcpFlags => "flags such as +syn-ack",
        Format::PacketType => "(namespace,type)",
    }
}

fn split(s: &str, full: u128, parse: impl Fn(&str) -> Option<u128>) -> Option<(u128, u128)> {
    match s.split_once('/') {
        None => Some((parse(s)?, full)),
        Some((value, mask)) => Some((parse(value)?, parse(mask)?)),
    }
}

fn parse_address(s: &str, width: u32, parse: impl Fn(&str) -> Option<u128>) -> Option<(u128, u128)> {
    let full = u128::MAX >> (128 - width);
    let Some((address, mask)) = s.split_once('/') else { return Some((parse(s)?, full)) };
    let mask = match mask.parse::<u32>() {
        Ok(0) => 0,
        Ok(n) if n <= width => full & (full << (width - n)),
        Ok(_) => return None,
        Err(_) => parse(mask)?,
    };
    Some((parse(address)?, mask))
}

fn parse_packet_type(s: &str) -> Option<u128> {
    let (ns, ty) = s.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let half = |t: &str| parse_number(t.trim()).filter(|n| *n <= 0xffff);
    Some(half(ns)? << 16 | half(ty)?)
}

/// `+a-b`, `a|b` (which says that the others are clear) or `VALUE/MASK`.
fn parse_flags(s: &str, names: &[(u32, &str)], whole: u128) -> Option<(u128, u128)> {
    let named = |name: &str| {
        let found = names.iter().find(|(_, n)| *n == name).map(|(bit, _)| u128::from(*bit));
        found.or_else(|| parse_number(name))
    };
    if !s.starts_with(['+', '-']) {
        if s.contains('/') {
            return split(s, whole, parse_number);
        }
        let flags = s.split('|').try_fold(0, |all, name| Some(all | named(name)?))?;
        return Some((flags, whole));
    }
    let (mut value, mut mask, mut rest) = (0, 0, s);
    while let Some(sign) = rest.chars().next() {
        let tail = rest.get(1..)?;
        let end = tail.find(['+', '-']).unwrap_or(tail.len());
        let (name, next) = tail.split_at_checked(end)?;
        let bit = named(name).filter(|bit| mask & bit == 0)?;
        mask |= bit;
        value |= if sign == '+' { bit } else { 0 };
        rest = next;
    }
    Some((value, mask))
}
