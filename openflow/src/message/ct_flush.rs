//! Removing connections from the connection tracker (`NXT_CT_FLUSH`, OVS 3.1 and later; `NXT_CT_FLUSH_ZONE`, 2.6).

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::property::{self, Property};
use crate::wire::{DecodeError, Reader, Writer};

const ORIGINAL: u16 = 0;
const REPLY: u16 = 1;
const ZONE: u16 = 2;

const SRC: u16 = 0;
const DST: u16 = 1;
const SRC_PORT: u16 = 2;
const DST_PORT: u16 = 3;
const ICMP_ID: u16 = 4;
const ICMP_TYPE: u16 = 5;
const ICMP_CODE: u16 = 6;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// One direction of a connection; what is `None` matches anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CtTuple {
    /// Source address.
    pub src: Option<IpAddr>,
    /// Destination address.
    pub dst: Option<IpAddr>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// ICMP identifier, type and code; only where the protocol is ICMP or ICMPv6.
    pub icmp: Option<(u16, u8, u8)>,
}

/// Which connections to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CtFlush {
    /// IP protocol; 0 for any.
    pub protocol: u8,
    /// Only in this zone; `None` for all zones.
    pub zone: Option<u16>,
    /// The direction of the first packet.
    pub original: CtTuple,
    /// The opposite direction.
    pub reply: CtTuple,
}

impl CtFlush {
    /// All connections of `zone`.
    pub fn zone(zone: u16) -> CtFlush {
        CtFlush { zone: Some(zone), ..CtFlush::default() }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<CtFlush, DecodeError> {
        let mut flush = CtFlush { protocol: r.u8("CtFlush.ip_proto")?, ..CtFlush::default() };
        r.skip(7, "CtFlush.pad")?;
        while !r.is_empty() {
            let p = Property::next(r, "CtFlush.property")?;
            match p.kind {
                ORIGINAL => flush.original = CtTuple::decode(p.nested()?)?,
                REPLY => flush.reply = CtTuple::decode(p.nested()?)?,
                ZONE => flush.zone = Some(p.u16()?),
                other => {
                    return Err(DecodeError::BadValue { what: "CtFlush.property", value: other.into() });
                }
            }
        }
        Ok(flush)
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u8(self.protocol);
        w.zeros(7);
        self.original.encode(w, ORIGINAL);
        self.reply.encode(w, REPLY);
        if let Some(zone) = self.zone {
            property::put_u16(w, ZONE, zone);
        }
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        // Open vSwitch prints the family of the address that it read last.
        let last = [self.original.src, self.original.dst, self.reply.src, self.reply.dst];
        let v4 = last.iter().flatten().last().is_some_and(IpAddr::is_ipv4);
        let icmp = matches!(self.protocol, ICMP | ICMPV6);
        write!(out, " zone={} '", self.zone.unwrap_or(0))?;
        self.original.format(v4, icmp, out)?;
        write!(out, ",ct_nw_proto={}' '", self.protocol)?;
        self.reply.format(v4, icmp, out)?;
        out.push('\'');
        Ok(())
    }
}

impl CtTuple {
    fn decode(bytes: &[u8]) -> Result<CtTuple, DecodeError> {
        let mut r = Reader::new(bytes);
        let mut tuple = CtTuple::default();
        while !r.is_empty() {
            let p = Property::next(&mut r, "CtFlush.tuple")?;
            let mut icmp = tuple.icmp.unwrap_or_default();
            match p.kind {
                SRC => tuple.src = Some(address(&p)?),
                DST => tuple.dst = Some(address(&p)?),
                SRC_PORT => tuple.src_port = Some(p.u16()?),
                DST_PORT => tuple.dst_port = Some(p.u16()?),
                ICMP_ID => icmp.0 = p.u16()?,
                ICMP_TYPE => icmp.1 = p.u8()?,
                ICMP_CODE => icmp.2 = p.u8()?,
                other => {
                    return Err(DecodeError::BadValue { what: "CtFlush.tuple", value: other.into() });
                }
            }
            if matches!(p.kind, ICMP_ID | ICMP_TYPE | ICMP_CODE) {
                tuple.icmp = Some(icmp);
            }
        }
        Ok(tuple)
    }

    fn encode(&self, w: &mut Writer, kind: u16) {
        if *self == CtTuple::default() {
            return;
        }
        let at = property::begin_nested(w, kind);
        for (kind, address) in [(SRC, self.src), (DST, self.dst)] {
            if let Some(address) = address {
                property::put_bytes(w, kind, &mapped(address).octets());
            }
        }
        for (kind, port) in [(SRC_PORT, self.src_port), (DST_PORT, self.dst_port)] {
            if let Some(port) = port {
                property::put_u16(w, kind, port);
            }
        }
        if let Some((id, icmp_type, code)) = self.icmp {
            property::put_u16(w, ICMP_ID, id);
            property::put_u8(w, ICMP_TYPE, icmp_type);
            property::put_u8(w, ICMP_CODE, code);
        }
        property::end(w, at);
    }

    fn format(&self, v4: bool, icmp: bool, out: &mut String) -> fmt::Result {
        let family = if v4 { "nw" } else { "ipv6" };
        let text = |address: Option<IpAddr>| {
            address.map_or_else(|| Ipv6Addr::UNSPECIFIED.to_string(), |address| address.to_string())
        };
        write!(out, "ct_{family}_src={},ct_{family}_dst={}", text(self.src), text(self.dst))?;
        if icmp {
            let (id, icmp_type, code) = self.icmp.unwrap_or_default();
            write!(out, ",icmp_id={id},icmp_type={icmp_type},icmp_code={code}")
        } else {
            let (src, dst) = (self.src_port.unwrap_or(0), self.dst_port.unwrap_or(0));
            write!(out, ",ct_tp_src={src},ct_tp_dst={dst}")
        }
    }
}

/// IPv4 addresses travel as IPv4-mapped IPv6 addresses.
fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn address(p: &Property<'_>) -> Result<IpAddr, DecodeError> {
    let octets: [u8; 16] = p
        .value
        .try_into()
        .map_err(|_| DecodeError::BadLength { what: "CtFlush.address", length: p.value.len() })?;
    let v6 = Ipv6Addr::from(octets);
    Ok(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), |v4: Ipv4Addr| IpAddr::V4(v4)))
}
