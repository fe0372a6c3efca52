//! The fields of a frame, extracted as Open vSwitch extracts them (its `flow.c`).
//!
//! A layer that is cut short or malformed yields zeros for its own fields and nothing for those above it, as in the
//! switch: what a packet would match there is what this says.

use std::fmt::{self, Write as _};

use crate::field::Field;
use crate::matching::Match;
use crate::wire::{DecodeError, Reader};

const ETH_TYPE_IPV4: u16 = 0x0800;
const ETH_TYPE_ARP: u16 = 0x0806;
const ETH_TYPE_RARP: u16 = 0x8035;
const ETH_TYPE_VLAN: u16 = 0x8100;
const ETH_TYPE_QINQ: u16 = 0x88a8;
const ETH_TYPE_IPV6: u16 = 0x86dd;
/// What Open vSwitch calls a frame without a type.
const ETH_TYPE_NONE: u16 = 0x05ff;
const ETH_TYPE_MIN: u16 = 0x0600;
const VLAN_PRESENT: u16 = 1 << 12;
/// Open vSwitch looks behind two tags.
const MAX_TAGS: usize = 2;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;

const FRAGMENT_ANY: u8 = 1;
const FRAGMENT_LATER: u8 = 2;

type Read<T> = Result<T, DecodeError>;
const WHAT: &str = "packet";

/// What is found while going up the layers of a frame.
struct Extract {
    fields: Match,
    /// The tag control information behind a first tag, 0 if there is no second tag.
    inner_tag: Option<u16>,
    checksum: Option<(&'static str, u32)>,
}

/// The fields of an Ethernet frame, each exact; pipeline fields such as `in_port` are not among them.
pub fn packet_fields(frame: &[u8]) -> Match {
    extract(frame).fields
}

/// One line: the fields, then the checksum of the transport header.
pub(crate) fn packet_summary(frame: &[u8], out: &mut String) -> fmt::Result {
    let Extract { fields, inner_tag, checksum } = extract(frame);
    // A match on "no tag" says nothing of the priority bits; of a frame they are known to be zero.
    let text = fields.to_string().replace("vlan_tci=0x0000/0x1fff", "vlan_tci=0x0000");
    match (inner_tag, text.split_once(",dl_src=")) {
        (None, _) | (_, None) => out.push_str(&text),
        (Some(0), Some((before, after))) => write!(out, "{before},vlan_tci1=0x0000,dl_src={after}")?,
        (Some(tag), Some((before, after))) => {
            let (vid, pcp) = (tag & 0x0fff, tag >> 13);
            write!(out, "{before},dl_vlan1={vid},dl_vlan_pcp1={pcp},dl_src={after}")?;
        }
    }
    if let Some((name, value)) = checksum {
        write!(out, " {name}_csum:{value:x}")?;
    }
    out.push('\n');
    Ok(())
}

fn extract(frame: &[u8]) -> Extract {
    let mut found = Extract { fields: Match::new(), inner_tag: None, checksum: None };
    let mut r = Reader::new(frame);
    let Ok(Ethernet { dst, src, tags, eth_type }) = ethernet(&mut r) else {
        for field in [Field::ETH_DST, Field::ETH_SRC, Field::VLAN_TCI, Field::ETH_TYPE] {
            found.put(field, 0_u8);
        }
        return found;
    };
    let tci = tags.first().copied().unwrap_or(0);
    found.inner_tag = (tci != 0).then(|| tags.get(1).copied().unwrap_or(0));
    found
        .put(Field::ETH_DST, dst)
        .put(Field::ETH_SRC, src)
        .put(Field::VLAN_TCI, tci)
        .put(Field::ETH_TYPE, eth_type);
    match eth_type {
        ETH_TYPE_IPV4 => found.ipv4(r),
        ETH_TYPE_IPV6 => found.ipv6(r),
        ETH_TYPE_ARP | ETH_TYPE_RARP => found.arp(r),
        _ => {}
    }
    found
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
}

struct Ethernet {
    dst: u128,
    src: u128,
    /// Tag control information, the outermost first, with the bit that says that there is one.
    tags: Vec<u16>,
    eth_type: u16,
}

fn ethernet(r: &mut Reader<'_>) -> Read<Ethernet> {
    let dst = number(r.bytes(6, WHAT)?);
    let src = number(r.bytes(6, WHAT)?);
    let mut tags = Vec::new();
    let mut eth_type = r.u16(WHAT)?;
    while matches!(eth_type, ETH_TYPE_VLAN | ETH_TYPE_QINQ) && tags.len() < MAX_TAGS && r.remaining() >= 4 {
        tags.push(r.u16(WHAT)? | VLAN_PRESENT);
        eth_type = r.u16(WHAT)?;
    }
    if eth_type < ETH_TYPE_MIN {
        eth_type = match r.peek() {
            [0xaa, 0xaa, 0x03, 0, 0, 0, a, b, ..] if u16::from_be_bytes([*a, *b]) >= ETH_TYPE_MIN => {
                r.skip(8, WHAT)?;
                u16::from_be_bytes([*a, *b])
            }
            _ => ETH_TYPE_NONE,
        };
    }
    Ok(Ethernet { dst, src, tags, eth_type })
}

/// What the IP header says about the packet, for both versions.
#[derive(Default)]
struct Ip {
    src: u128,
    dst: u128,
    label: u32,
    tos: u8,
    ttl: u8,
    protocol: u8,
    fragment: u8,
}

/// Ports (for ICMP type and code) and TCP flags.
#[derive(Default)]
struct Transport {
    src: u16,
    dst: u16,
    flags: u16,
}

impl Extract {
    fn put(&mut self, field: Field, value: impl Into<u128>) -> &mut Self {
        self.fields.set(field, value.into(), field.full_mask());
        self
    }

    fn arp(&mut self, mut r: Reader<'_>) {
        let (op, sha, spa, tha, tpa) = arp_body(&mut r).unwrap_or_default();
        self.put(Field::ARP_OP, op)
            .put(Field::ARP_SPA, spa)
            .put(Field::ARP_TPA, tpa)
            .put(Field::ARP_SHA, sha)
            .put(Field::ARP_THA, tha);
    }

    fn ipv4(&mut self, mut r: Reader<'_>) {
        let parsed = ipv4_header(&mut r);
        let ip = parsed.as_ref().map_or_else(|_| Ip::default(), |(ip, _)| Ip { ..*ip });
        self.put(Field::IPV4_SRC, ip.src).put(Field::IPV4_DST, ip.dst);
        self.ip(&ip);
        if let Ok((ip, body)) = parsed {
            self.transport(&ip, body, false);
        }
    }

    fn ipv6(&mut self, mut r: Reader<'_>) {
        let parsed = ipv6_header(&mut r);
        let ip = parsed.as_ref().map_or_else(|_| Ip::default(), |(ip, _)| Ip { ..*ip });
        self.put(Field::IPV6_SRC, ip.src).put(Field::IPV6_DST, ip.dst).put(Field::IPV6_LABEL, ip.label);
        self.ip(&ip);
        if let Ok((ip, body)) = parsed {
            self.transport(&ip, body, true);
        }
    }

    fn ip(&mut self, ip: &Ip) {
        self.put(Field::IP_PROTO, ip.protocol)
            .put(Field::IP_DSCP, ip.tos >> 2)
            .put(Field::IP_ECN, ip.tos & 3)
            .put(Field::IP_TTL, ip.ttl)
            .put(Field::IP_FRAG, ip.fragment);
    }

    /// Ports, types and flags; later fragments have none.
    fn transport(&mut self, ip: &Ip, body: &[u8], v6: bool) {
        let ports = match ip.protocol {
            TCP => (Field::TCP_SRC, Field::TCP_DST),
            UDP => (Field::UDP_SRC, Field::UDP_DST),
            SCTP => (Field::SCTP_SRC, Field::SCTP_DST),
            ICMP if !v6 => (Field::ICMP_TYPE, Field::ICMP_CODE),
            ICMPV6 if v6 => (Field::ICMPV6_TYPE, Field::ICMPV6_CODE),
            _ => return,
        };
        let Transport { src, dst, flags } = self.transport_header(ip.protocol, body).unwrap_or_default();
        if ip.fragment & FRAGMENT_LATER != 0 {
            return;
        }
        self.put(ports.0, src).put(ports.1, dst);
        if ip.protocol == TCP {
            self.put(Field::TCP_FLAGS, flags);
        }
        if ip.protocol == ICMPV6 && matches!((src, dst), (135 | 136, 0)) {
            let nd = body.get(4..).map(neighbour).unwrap_or_default();
            self.put(Field::ND_TARGET, nd.0).put(Field::ND_SLL, nd.1).put(Field::ND_TLL, nd.2);
        }
    }

    fn transport_header(&mut self, protocol: u8, body: &[u8]) -> Read<Transport> {
        let mut r = Reader::new(body);
        let checksum_name = match protocol {
            ICMP | ICMPV6 => {
                let (kind, code) = (r.u8(WHAT)?, r.u8(WHAT)?);
                let checksum = r.u16(WHAT)?;
                r.skip(4, WHAT)?;
                let name = if protocol == ICMP { "icmp" } else { "icmp6" };
                self.checksum = Some((name, checksum.into()));
                return Ok(Transport { src: kind.into(), dst: code.into(), flags: 0 });
            }
            TCP => "tcp",
            UDP => "udp",
            _ => "sctp",
        };
        let mut found = Transport { src: r.u16(WHAT)?, dst: r.u16(WHAT)?, flags: 0 };
        let checksum = match protocol {
            TCP => {
                r.skip(8, WHAT)?;
                let control = r.u16(WHAT)?;
                r.skip(2, WHAT)?;
                let checksum = u32::from(r.u16(WHAT)?);
                r.skip(2, WHAT)?;
                found.flags = control & 0x0fff;
                checksum
            }
            UDP => {
                r.skip(2, WHAT)?;
                u32::from(r.u16(WHAT)?)
            }
            _ => {
                r.skip(4, WHAT)?;
                r.u32(WHAT)?
            }
        };
        self.checksum = Some((checksum_name, checksum));
        Ok(found)
    }
}

/// Operation, sender's addresses, target's addresses.
fn arp_body(r: &mut Reader<'_>) -> Read<(u16, u128, u32, u128, u32)> {
    let kind = [r.u16(WHAT)?, r.u16(WHAT)?, r.u16(WHAT)?];
    if kind != [1, ETH_TYPE_IPV4, 0x0604] {
        return Err(DecodeError::BadValue { what: WHAT, value: kind[0].into() });
    }
    let op = r.u16(WHAT)?;
    let sha = number(r.bytes(6, WHAT)?);
    let spa = r.u32(WHAT)?;
    let tha = number(r.bytes(6, WHAT)?);
    let tpa = r.u32(WHAT)?;
    Ok((if op <= 0xff { op } else { 0 }, sha, spa, tha, tpa))
}

fn ipv4_header<'a>(r: &mut Reader<'a>) -> Read<(Ip, &'a [u8])> {
    let datagram = r.peek();
    let first = r.u8(WHAT)?;
    let header_length = usize::from(first & 0x0f) * 4;
    let tos = r.u8(WHAT)?;
    let total = usize::from(r.u16(WHAT)?);
    r.skip(2, WHAT)?;
    let fragment = r.u16(WHAT)?;
    let ttl = r.u8(WHAT)?;
    let protocol = r.u8(WHAT)?;
    r.skip(2, WHAT)?;
    let src = r.u32(WHAT)?;
    let dst = r.u32(WHAT)?;
    if first >> 4 != 4 || header_length < 20 || header_length > total {
        return Err(DecodeError::BadLength { what: WHAT, length: total });
    }
    let body = datagram.get(header_length..total).ok_or(DecodeError::MissingData(WHAT))?;
    let fragment = match (fragment & 0x1fff != 0, fragment & 0x2000 != 0) {
        (true, _) => FRAGMENT_ANY | FRAGMENT_LATER,
        (false, true) => FRAGMENT_ANY,
        (false, false) => 0,
    };
    let ip = Ip { src: src.into(), dst: dst.into(), label: 0, tos, ttl, protocol, fragment };
    Ok((ip, body))
}

fn ipv6_header<'a>(r: &mut Reader<'a>) -> Read<(Ip, &'a [u8])> {
    let first = r.u32(WHAT)?;
    let length = usize::from(r.u16(WHAT)?);
    let next = r.u8(WHAT)?;
    let ttl = r.u8(WHAT)?;
    let src = number(r.bytes(16, WHAT)?);
    let dst = number(r.bytes(16, WHAT)?);
    if first >> 28 != 6 {
        return Err(DecodeError::BadValue { what: WHAT, value: first.into() });
    }
    let [_, _, _, tos] = (first >> 20).to_be_bytes();
    let mut ip = Ip { src, dst, label: first & 0x000f_ffff, tos, ttl, protocol: next, fragment: 0 };
    let mut body = r.sub(length, WHAT)?;
    while let Some(skip) = extension(&mut ip, &mut body)? {
        body.skip(skip, WHAT)?;
        if ip.fragment & FRAGMENT_LATER != 0 {
            break;
        }
    }
    Ok((ip, body.rest()))
}

/// Reads the first eight bytes of an extension header, if there is one; gives the length of the rest of it.
fn extension(ip: &mut Ip, body: &mut Reader<'_>) -> Read<Option<usize>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    if !matches!(ip.protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
        return Ok(None);
    }
    let next = body.u8(WHAT)?;
    let length = usize::from(body.u8(WHAT)?);
    let fragment = body.u16(WHAT)?;
    body.skip(4, WHAT)?;
    let rest = match ip.protocol {
        FRAGMENT => {
            ip.fragment = if fragment & 0xfff8 == 0 { FRAGMENT_ANY } else { FRAGMENT_ANY | FRAGMENT_LATER };
            0
        }
        AUTHENTICATION => ((length + 2) * 4).saturating_sub(8),
        _ => length * 8,
    };
    if ip.fragment & FRAGMENT_LATER == 0 {
        ip.protocol = next;
    }
    Ok(Some(rest))
}

/// Target and link-layer addresses of a neighbour solicitation or advertisement, after its first four bytes.
fn neighbour(body: &[u8]) -> (u128, u128, u128) {
    let mut r = Reader::new(body);
    let mut found = (0, 0, 0);
    let mut read = || -> Read<()> {
        r.skip(4, WHAT)?;
        found.0 = number(r.bytes(16, WHAT)?);
        while r.remaining() >= 8 {
            let kind = r.u8(WHAT)?;
            let length = usize::from(r.u8(WHAT)?) * 8;
            let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: WHAT, length })?;
            let value = r.bytes(size, WHAT)?;
            match (kind, size) {
                (1, 6) => found.1 = number(value),
                (2, 6) => found.2 = number(value),
                _ => {}
            }
        }
        Ok(())
    };
    // A malformed option ends the list; what was read before it counts.
    let _ = read();
    found
}
