//! A match in `ovs-ofctl`'s spelling: `tcp,reg0=0x1,nw_dst=10.0.0.0/8,tp_dst=80`.
//!
//! Printing follows the order and the short-hands of `ovs-ofctl dump-flows`. Parsing takes what
//! `ovs-ofctl add-flow` takes; `tp_src`, `icmp_type` and the like mean the field of the protocol
//! that the match names, wherever in the text it does.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use super::{Match, RawField};
use crate::field::{
    Field, FieldError, Format, Subfield, format_masked, parse_masked, parse_number, write_match_flags,
};

/// Text that is not a match.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// A field or its value.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A field without a value.
    #[error("`{0}` lacks a value: expected FIELD=VALUE or a protocol such as ip, tcp6, arp")]
    MissingValue(String),
    /// `oxm=` without whole bytes in hexadecimal.
    #[error("`{0}` is not the bytes of a field in hexadecimal")]
    BadRaw(String),
}

/// Names of protocols: `eth_type` and IP protocol. The first that fits is printed.
const PROTOCOLS: [(&str, u128, Option<u128>); 17] = [
    ("icmp", 0x0800, Some(1)),
    ("tcp", 0x0800, Some(6)),
    ("udp", 0x0800, Some(17)),
    ("sctp", 0x0800, Some(132)),
    ("ip", 0x0800, None),
    ("icmp6", 0x86dd, Some(58)),
    ("tcp6", 0x86dd, Some(6)),
    ("udp6", 0x86dd, Some(17)),
    ("sctp6", 0x86dd, Some(132)),
    ("ipv6", 0x86dd, None),
    ("arp", 0x0806, None),
    ("rarp", 0x8035, None),
    ("mpls", 0x8847, None),
    ("mplsm", 0x8848, None),
    ("ip4", 0x0800, None),
    ("ipv4", 0x0800, None),
    ("ip6", 0x86dd, None),
];

/// Fields in the order in which they are printed, before the protocol's name.
const BEFORE: [Field; 18] = [
    Field::PKT_MARK,
    Field::RECIRC_ID,
    Field::DP_HASH,
    Field::CONJ_ID,
    Field::ACTSET_OUTPUT,
    Field::CT_STATE,
    Field::CT_ZONE,
    Field::CT_MARK,
    Field::CT_LABEL,
    Field::CT_NW_SRC,
    Field::CT_IPV6_SRC,
    Field::CT_NW_DST,
    Field::CT_IPV6_DST,
    Field::CT_NW_PROTO,
    Field::CT_TP_SRC,
    Field::CT_TP_DST,
    Field::PACKET_TYPE,
    Field::ETH_TYPE,
];

/// Fields in the order in which they are printed, after the protocol's name and the registers.
const AFTER: [Field; 62] = [
    Field::TUN_ID,
    Field::TUN_SRC,
    Field::TUN_DST,
    Field::TUN_IPV6_SRC,
    Field::TUN_IPV6_DST,
    Field::TUN_GBP_ID,
    Field::TUN_GBP_FLAGS,
    Field::TUN_ERSPAN_VER,
    Field::TUN_ERSPAN_IDX,
    Field::TUN_ERSPAN_DIR,
    Field::TUN_ERSPAN_HWID,
    Field::TUN_GTPU_FLAGS,
    Field::TUN_GTPU_MSGTYPE,
    Field::TUN_FLAGS,
    Field::METADATA,
    Field::IN_PORT,
    Field::VLAN_TCI,
    Field::ETH_SRC,
    Field::ETH_DST,
    Field::ETH_TYPE,
    Field::IPV6_SRC,
    Field::IPV6_DST,
    Field::IPV6_LABEL,
    Field::ARP_SPA,
    Field::ARP_TPA,
    Field::NSH_FLAGS,
    Field::NSH_TTL,
    Field::NSH_MDTYPE,
    Field::NSH_NP,
    Field::NSH_SPI,
    Field::NSH_SI,
    Field::NSH_C1,
    Field::NSH_C2,
    Field::NSH_C3,
    Field::NSH_C4,
    Field::IPV4_SRC,
    Field::IPV4_DST,
    Field::IP_PROTO,
    Field::ARP_OP,
    Field::ARP_SHA,
    Field::ARP_THA,
    Field::IP_DSCP,
    Field::IP_ECN,
    Field::IP_TTL,
    Field::MPLS_LABEL,
    Field::MPLS_TC,
    Field::MPLS_TTL,
    Field::MPLS_BOS,
    Field::IP_FRAG,
    Field::TCP_SRC,
    Field::UDP_SRC,
    Field::SCTP_SRC,
    Field::TCP_DST,
    Field::UDP_DST,
    Field::SCTP_DST,
    Field::ICMP_TYPE,
    Field::ICMP_CODE,
    Field::ICMPV6_TYPE,
    Field::ICMPV6_CODE,
    Field::ND_TARGET,
    Field::ND_SLL,
    Field::ND_TLL,
];

/// The rest of [`AFTER`].
const LAST: [Field; 3] = [Field::ND_RESERVED, Field::ND_OPTIONS_TYPE, Field::TCP_FLAGS];

/// The name that a match is printed with, where it is not the field's own.
fn match_name(field: Field) -> &'static str {
    match field {
        Field::IN_PORT => "in_port",
        Field::ETH_SRC => "dl_src",
        Field::ETH_DST => "dl_dst",
        Field::ETH_TYPE => "dl_type",
        Field::IPV4_SRC => "nw_src",
        Field::IPV4_DST => "nw_dst",
        Field::IP_DSCP => "nw_tos",
        Field::IP_FRAG => "nw_frag",
        Field::TCP_SRC | Field::UDP_SRC | Field::SCTP_SRC => "tp_src",
        Field::TCP_DST | Field::UDP_DST | Field::SCTP_DST => "tp_dst",
        Field::ICMPV6_TYPE => "icmp_type",
        Field::ICMPV6_CODE => "icmp_code",
        _ => field.name(),
    }
}

/// Puts commas between the items of a list.
struct List<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    first: bool,
}

impl List<'_, '_> {
    fn item(&mut self) -> Result<&mut Self, fmt::Error> {
        if !self.first {
            self.f.write_char(',')?;
        }
        self.first = false;
        Ok(self)
    }

    fn field(&mut self, field: Field, value: u128, mask: u128) -> fmt::Result {
        let f = &mut *self.item()?.f;
        if field == Field::VLAN_TCI {
            return write_vlan(f, value, mask);
        }
        write!(f, "{}=", match_name(field))?;
        write_value(f, field, value, mask)
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = List { f, first: true };
        let protocol = protocol_name(self);
        let named = |field: Field| match (field, protocol) {
            (Field::ETH_TYPE, Some(_)) => true,
            (Field::IP_PROTO, Some((_, _, number))) => number.is_some(),
            _ => false,
        };
        let field = |list: &mut List<'_, '_>, field: Field| match self.stored(field) {
            Some((value, mask)) if !named(field) => list.field(field, value, mask),
            _ => Ok(()),
        };
        for of in BEFORE.iter().filter(|f| **f != Field::ETH_TYPE) {
            field(&mut list, *of)?;
        }
        if let Some((name, ..)) = protocol {
            list.item()?.f.write_str(name)?;
        }
        for number in 0..16 {
            field(&mut list, Field::reg(number))?;
        }
        for of in AFTER.iter().chain(&LAST) {
            field(&mut list, *of)?;
        }
        for raw in &self.raw {
            list.item()?.f.write_str("oxm=")?;
            raw.bytes.iter().try_for_each(|b| write!(list.f, "{b:02x}"))?;
        }
        Ok(())
    }
}

/// The short-hand for the match's `eth_type` and IP protocol.
fn protocol_name(matches: &Match) -> Option<&'static (&'static str, u128, Option<u128>)> {
    let eth_type = matches.exact(Field::ETH_TYPE)?;
    let ip_proto = matches.exact(Field::IP_PROTO);
    PROTOCOLS.iter().find(|(_, t, p)| *t == eth_type && (p.is_none() || *p == ip_proto))
}

fn write_value(f: &mut dyn fmt::Write, field: Field, value: u128, mask: u128) -> fmt::Result {
    let exact = mask == field.full_mask();
    match field {
        Field::CT_STATE | Field::TUN_FLAGS => write_match_flags(f, field, value, mask),
        Field::IP_DSCP => write!(f, "{}", value << 2),
        Field::ETH_TYPE => write!(f, "{value:#06x}"),
        Field::CT_ZONE => write!(f, "{value}"),
        Field::IPV6_LABEL if exact => write!(f, "{value:#07x}"),
        Field::IPV6_LABEL => write!(f, "{value:#07x}/{mask:#07x}"),
        _ if field.format() == Format::Decimal && !exact => write!(f, "{value:#x}/{mask:#x}"),
        _ => format_masked(f, field, value, mask),
    }
}

/// A tag as VID and priority where it is given by these alone, as `vlan_tci` otherwise.
fn write_vlan(f: &mut dyn fmt::Write, value: u128, mask: u128) -> fmt::Result {
    let whole = |bits: u128| mask & bits == 0 || mask & bits == bits;
    let (vid, pcp) = (mask & 0x0fff != 0, mask & 0xe000 != 0);
    let tagged = mask & value & 0x1000 != 0;
    if tagged && whole(0x0fff) && whole(0xe000) && (vid || pcp) {
        if vid {
            write!(f, "dl_vlan={}{}", value & 0xfff, if pcp { "," } else { "" })?;
        }
        return if pcp { write!(f, "dl_vlan_pcp={}", value >> 13) } else { Ok(()) };
    }
    write!(f, "vlan_tci={value:#06x}")?;
    if mask == 0xffff { Ok(()) } else { write!(f, "/{mask:#06x}") }
}

impl FromStr for Match {
    type Err = MatchError;

    fn from_str(s: &str) -> Result<Self, MatchError> {
        let mut parser = MatchParser::default();
        for (name, value) in crate::flow::KeyValues::new(s) {
            parser.add(name, value)?;
        }
        parser.finish()
    }
}

/// Collects the items of a match; names that depend on the protocol wait for the end.
#[derive(Default)]
pub(crate) struct MatchParser {
    matches: Match,
    later: Vec<(Field, u128, u128)>,
}

impl MatchParser {
    /// Takes one item: a protocol's name with an empty value, or a field and its value.
    pub(crate) fn add(&mut self, name: &str, value: &str) -> Result<(), MatchError> {
        if value.is_empty() {
            let Some((_, eth_type, number)) = PROTOCOLS.iter().find(|(n, ..)| *n == name) else {
                return Err(unknown(name));
            };
            self.matches.set(Field::ETH_TYPE, *eth_type, 0xffff);
            if let Some(number) = number {
                self.matches.set(Field::IP_PROTO, *number, 0xff);
            }
            return Ok(());
        }
        if name == "oxm" {
            return self.add_raw(value);
        }
        if name.contains('[') {
            let sub: Subfield = name.parse()?;
            return self.add_bits(sub, value);
        }
        let field = match name {
            "in_port" => Field::IN_PORT,
            "gtpu_flags" => Field::TUN_GTPU_FLAGS,
            "gtpu_msgtype" => Field::TUN_GTPU_MSGTYPE,
            _ => Field::by_name(name).ok_or_else(|| unknown(name))?,
        };
        let (value, mask) = parse_masked(field, value)?;
        if alternatives(field).is_some() {
            self.later.push((field, value, mask));
        } else {
            self.matches.set(field, value, mask);
        }
        Ok(())
    }

    fn add_bits(&mut self, sub: Subfield, value: &str) -> Result<(), MatchError> {
        let too_large =
            || FieldError::TooLarge { field: sub.field.name(), value: value.to_owned(), bits: sub.bits };
        let number = match sub == Subfield::whole(sub.field) {
            true => crate::field::parse_value(sub.field, value)?,
            false => parse_number(value).ok_or_else(too_large)?,
        };
        if sub.extract(sub.place(number)) != number {
            return Err(too_large().into());
        }
        let (old, mask) = self.matches.get(sub.field).unwrap_or((0, 0));
        let value = (old & !sub.mask()) | sub.place(number);
        self.matches.set(sub.field, value, mask | sub.mask());
        Ok(())
    }

    fn add_raw(&mut self, value: &str) -> Result<(), MatchError> {
        let bytes = crate::flow::parse_hex(value).ok_or_else(|| MatchError::BadRaw(value.to_owned()))?;
        let after = self.matches.entries.last().map(|e| e.field);
        self.matches.raw.push(RawField { after, bytes: bytes.into() });
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Match, MatchError> {
        let eth_type = self.matches.exact(Field::ETH_TYPE);
        // A protocol number may itself be ARP's opcode, so it is looked at first.
        let (protocols, others): (Vec<_>, Vec<_>) =
            self.later.iter().partition(|(f, ..)| *f == Field::IP_PROTO);
        for (field, value, mask) in protocols.into_iter().chain(others) {
            let ip_proto = self.matches.exact(Field::IP_PROTO);
            let actual = resolve(field, eth_type, ip_proto);
            self.matches.set(actual, value, mask & actual.full_mask());
        }
        Ok(self.matches)
    }
}

fn unknown(name: &str) -> MatchError {
    match Field::by_name(name) {
        Some(_) => MatchError::MissingValue(name.to_owned()),
        None => FieldError::UnknownField(name.to_owned()).into(),
    }
}

/// Whether a field's name may mean another field, depending on the protocol.
fn alternatives(field: Field) -> Option<Field> {
    let same = resolve(field, Some(0x86dd), Some(17));
    let arp = resolve(field, Some(0x0806), None);
    (same != field || arp != field).then_some(field)
}

/// The field that a name means in a match of these protocols.
fn resolve(field: Field, eth_type: Option<u128>, ip_proto: Option<u128>) -> Field {
    let arp = matches!(eth_type, Some(0x0806 | 0x8035));
    let ports = |tcp, udp, sctp| match ip_proto {
        Some(17) => udp,
        Some(132) => sctp,
        _ => tcp,
    };
    match field {
        Field::TCP_SRC => ports(field, Field::UDP_SRC, Field::SCTP_SRC),
        Field::TCP_DST => ports(field, Field::UDP_DST, Field::SCTP_DST),
        Field::ICMP_TYPE if eth_type == Some(0x86dd) => Field::ICMPV6_TYPE,
        Field::ICMP_CODE if eth_type == Some(0x86dd) => Field::ICMPV6_CODE,
        Field::IPV4_SRC if arp => Field::ARP_SPA,
        Field::IPV4_DST if arp => Field::ARP_TPA,
        Field::IP_PROTO if arp => Field::ARP_OP,
        _ => field,
    }
}
