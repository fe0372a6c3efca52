//! Echo requests of a given size, and what comes back of them: the answer, or an ICMP error that says what fits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, PacketBuilder};

/// Types and codes of ICMP (RFC 792, RFC 1191 §4) and ICMPv6 (RFC 4443 §3.2, §4.2).
const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const TOO_BIG: u8 = 4;
const ECHO_REPLY_V6: u8 = 129;
const TOO_BIG_V6: u8 = 2;
/// Bytes of headers before the payload of an echo.
const HEADERS_V4: usize = 20 + 8;
const HEADERS_V6: usize = 40 + 8;
/// Bytes before what an ICMP error quotes.
const QUOTED: usize = 8;
/// Hops of a request.
const HOPS: u8 = 64;

/// Something that ICMP said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// A peer has answered an echo request.
    Answer {
        /// The peer.
        from: IpAddr,
        /// Bytes of the whole IP packet.
        size: u32,
        /// The first bytes of the request's payload.
        token: u64,
    },
    /// Somebody says that a packet did not fit.
    TooBig {
        /// Destination of the packet.
        to: IpAddr,
        /// Bytes of IP that would; 0 where it does not say.
        mtu: u32,
    },
}

/// A whole IP packet of `size` bytes with an echo request that must not be fragmented and that repeats the token; `None`
/// where the addresses are of different families or the size holds no token.
pub fn request(from: IpAddr, to: IpAddr, size: u32, token: u64) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok()?;
    let payload = |headers: usize| {
        let mut payload = token.to_be_bytes().to_vec();
        let length = size.checked_sub(headers).filter(|length| *length >= payload.len())?;
        payload.resize(length, 0);
        Some(payload)
    };
    let [.., a, b, c, d] = token.to_be_bytes();
    let [id, sequence] = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
    let mut packet = Vec::with_capacity(size);
    match (from, to) {
        // The builder forbids fragmentation.
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), HOPS)
            .icmpv4_echo_request(id, sequence)
            .write(&mut packet, &payload(HEADERS_V4)?)
            .ok()?,
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), HOPS)
            .icmpv6_echo_request(id, sequence)
            .write(&mut packet, &payload(HEADERS_V6)?)
            .ok()?,
        _ => return None,
    }
    Some(packet)
}

/// Reads an IPv4 packet with ICMP in it.
pub fn read_v4(packet: &[u8]) -> Option<Heard> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let icmp = packet.get(header.slice().len()..)?;
    match *icmp.first_chunk()? {
        [ECHO_REPLY, 0, _, _, _, _, _, _] => Some(Heard::Answer {
            from: header.source_addr().into(),
            size: header.total_len().into(),
            token: token(icmp)?,
        }),
        [UNREACHABLE, TOO_BIG, _, _, _, _, high, low] => {
            let quoted = Ipv4HeaderSlice::from_slice(icmp.get(QUOTED..)?).ok()?;
            let to: Ipv4Addr = quoted.destination_addr();
            Some(Heard::TooBig { to: to.into(), mtu: u16::from_be_bytes([high, low]).into() })
        }
        _ => None,
    }
}

/// Reads an ICMPv6 message from an address.
pub fn read_v6(from: Ipv6Addr, icmp: &[u8]) -> Option<Heard> {
    match *icmp.first_chunk()? {
        [ECHO_REPLY_V6, 0, _, _, _, _, _, _] => {
            let size = u32::try_from(icmp.len().checked_add(HEADERS_V6 - 8)?).ok()?;
            Some(Heard::Answer { from: from.into(), size, token: token(icmp)? })
        }
        [TOO_BIG_V6, _, _, _, a, b, c, d] => {
            let quoted = Ipv6HeaderSlice::from_slice(icmp.get(QUOTED..)?).ok()?;
            let to: Ipv6Addr = quoted.destination_addr();
            Some(Heard::TooBig { to: to.into(), mtu: u32::from_be_bytes([a, b, c, d]) })
        }
        _ => None,
    }
}

fn token(icmp: &[u8]) -> Option<u64> {
    icmp.get(QUOTED..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
