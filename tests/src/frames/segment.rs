//! Bytes of TCP segments, SCTP packets, ICMP errors and fragments, each in its IP packet:
//! the Ethernet type, and the packet.

use std::net::IpAddr;

use super::build::{ICMPV6, IPV4, IPV6, checksum, fragment, ip, ipv4, ipv6, with_pseudo_header, with_ttl};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;
/// Protocol number of IPv6's fragment header.
const FRAGMENT: u8 = 44;

/// TCP's flags (RFC 9293 §3.1).
pub mod flag {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Opens.
    pub const SYN: u8 = 0x02;
    /// Breaks off.
    pub const RST: u8 = 0x04;
    /// To be handed on at once.
    pub const PSH: u8 = 0x08;
    /// Says what was received.
    pub const ACK: u8 = 0x10;
}

/// Types of SCTP chunks (RFC 9260 §3.2).
pub mod chunk {
    /// User data.
    pub const DATA: u8 = 0;
    /// Opens an association.
    pub const INIT: u8 = 1;
    /// The answer to that.
    pub const INIT_ACK: u8 = 2;
    /// Breaks off.
    pub const ABORT: u8 = 6;
    /// The third packet of an association that is opened.
    pub const COOKIE_ECHO: u8 = 10;
}

/// A TCP segment without options (RFC 9293 §3.1).
#[must_use]
pub fn tcp(from: (IpAddr, u16), to: (IpAddr, u16), flags: u8, inside: &[u8]) -> (u16, Vec<u8>) {
    ip(from.0, to.0, TCP, &tcp_segment(from, to, flags, inside))
}

/// A TCP segment alone, with the checksum for these addresses.
#[must_use]
pub fn tcp_segment(from: (IpAddr, u16), to: (IpAddr, u16), flags: u8, inside: &[u8]) -> Vec<u8> {
    let mut segment = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    let acknowledged: u32 = if flags & flag::ACK == 0 { 0 } else { 0x0102_0304 };
    segment.extend(0x1020_3040u32.to_be_bytes());
    segment.extend(acknowledged.to_be_bytes());
    // Five words of header, a window, a checksum and no urgent data.
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(inside);
    let sum = with_pseudo_header(from.0, to.0, TCP, &segment);
    segment[16..18].copy_from_slice(&sum);
    segment
}

/// An SCTP packet of one chunk (RFC 9260 §3). `inside` goes where the chunk keeps its parameters, or its data.
#[must_use]
pub fn sctp(from: (IpAddr, u16), to: (IpAddr, u16), kind: u8, inside: &[u8]) -> (u16, Vec<u8>) {
    let mut body: Vec<u8> = match kind {
        // Initiate tag, window, numbers of streams, first transmission sequence number; an unknown
        // parameter (0x8001: to be passed over) holds what is inside.
        chunk::INIT | chunk::INIT_ACK => {
            let fixed = [0, 0, 0, 7, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9, 0x80, 1];
            [fixed.as_slice(), &length(4 + inside.len()), inside].concat()
        }
        // Transmission sequence number, stream, its sequence number, payload protocol.
        chunk::DATA => [[0; 12].as_slice(), inside].concat(),
        _ => inside.to_vec(),
    };
    let long = length(4 + body.len());
    body.resize(body.len().next_multiple_of(4), 0);
    // An INIT carries no verification tag (RFC 9260 §8.5.1).
    let tag: u32 = if kind == chunk::INIT { 0 } else { 7 };
    // A DATA chunk is first and last piece of its message.
    let flags = if kind == chunk::DATA { 3 } else { 0 };
    let mut packet = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    packet.extend(tag.to_be_bytes());
    packet.extend([0, 0, 0, 0, kind, flags]);
    packet.extend(long);
    packet.extend(body);
    let sum = crc32c(&packet).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
    ip(from.0, to.0, SCTP, &packet)
}

/// An ICMP or ICMPv6 error about a packet: as much of it as an error carries (RFC 792, RFC 4443 §3.1).
#[must_use]
pub fn icmp_error(from: IpAddr, to: IpAddr, (kind, code): (u8, u8), about: &[u8]) -> (u16, Vec<u8>) {
    let about = about.get(..about.len().min(500)).unwrap_or_default();
    let mut message = [&[kind, code, 0, 0, 0, 0, 0, 0], about].concat();
    let v6 = from.is_ipv6();
    let sum = if v6 { with_pseudo_header(from, to, ICMPV6, &message) } else { checksum(&message) };
    message[2..4].copy_from_slice(&sum);
    ip(from, to, if v6 { ICMPV6 } else { ICMP }, &message)
}

/// A piece of a packet that was cut.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// What the pieces of one packet have in common.
    pub identification: u16,
    /// Where it belongs, units of 8 bytes.
    pub offset: u16,
    /// Whether others follow.
    pub more: bool,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A fragment, IPv4 (RFC 791) or IPv6 (RFC 8200 §4.5).
#[must_use]
pub fn piece(from: IpAddr, to: IpAddr, protocol: u8, piece: Piece<'_>) -> (u16, Vec<u8>) {
    let identification = piece.identification.to_be_bytes();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let field = piece.offset | if piece.more { 0x2000 } else { 0 };
            let mut packet = ipv4(from, to, protocol, field, piece.bytes);
            packet[4..6].copy_from_slice(&identification);
            (IPV4, with_ttl(packet, 64))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut inside = fragment(protocol, piece.offset, piece.more, piece.bytes);
            inside[6..8].copy_from_slice(&identification);
            (IPV6, ipv6(from, to, FRAGMENT, 64, &inside))
        }
        _ => (0, piece.bytes.to_vec()),
    }
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

/// CRC32c (RFC 9260 appendix A), bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let folded = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    });
    !folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_sctp_is_crc32c() {
        // The check value of the algorithm's definition.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let (from, to) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let (_, mut packet) = sctp((from, 1), (to, 2), chunk::INIT, b"mark");
        let sum = packet.splice(28..32, [0; 4]).collect::<Vec<_>>();
        assert_eq!(crc32c(&packet[20..]).to_le_bytes().as_slice(), sum);
    }

    #[test]
    fn a_tcp_segment_sums_to_nothing() {
        let (from, to) = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let segment = tcp_segment((from, 80), (to, 4000), flag::SYN | flag::ACK, b"odd");
        assert_eq!(with_pseudo_header(from, to, TCP, &segment), [0, 0]);
    }
}
