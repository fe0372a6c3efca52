//! Bytes of frames, layer by layer. Each function takes what goes inside and returns the
//! whole; lengths and checksums are right unless the caller spoils them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ethernet type of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethernet type of ARP.
pub const ARP: u16 = 0x0806;
/// Ethernet type of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Ethernet type of an 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// Ethernet type of an 802.1ad service tag.
pub const SERVICE_VLAN: u16 = 0x88a8;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Broadcast.
pub const EVERYBODY: [u8; 6] = [0xff; 6];

/// An Ethernet frame.
#[must_use]
pub fn ethernet(to: [u8; 6], from: [u8; 6], ethertype: u16, inside: &[u8]) -> Vec<u8> {
    [to.as_slice(), &from, &ethertype.to_be_bytes(), inside].concat()
}

/// A tag before an Ethernet type and what follows it.
#[must_use]
pub fn tag(vid: u16, ethertype: u16, inside: &[u8]) -> Vec<u8> {
    [&vid.to_be_bytes(), ethertype.to_be_bytes().as_slice(), inside].concat()
}

/// ARP (RFC 826) with further bytes behind it, which Ethernet calls padding.
#[must_use]
pub fn arp(
    operation: u16,
    sender: ([u8; 6], Ipv4Addr),
    target: ([u8; 6], Ipv4Addr),
    padding: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4];
    packet.extend(operation.to_be_bytes());
    packet.extend([sender.0.as_slice(), &sender.1.octets(), &target.0, &target.1.octets(), padding].concat());
    packet
}

/// An IPv4 packet; `fragment` is the field of flags and offset (RFC 791 §3.1).
#[must_use]
pub fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, fragment: u16, inside: &[u8]) -> Vec<u8> {
    ipv4_with_options(from, to, protocol, fragment, &[], inside)
}

/// An IPv4 packet with options, whose length is a multiple of 4.
#[must_use]
pub fn ipv4_with_options(
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    fragment: u16,
    options: &[u8],
    inside: &[u8],
) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).unwrap_or(15);
    let mut header = vec![0x40 | words, 0];
    header.extend(length(20 + options.len() + inside.len()));
    header.extend([0xfa, 0xb0]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend([from.octets(), to.octets()].concat());
    header.extend(options);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    [header.as_slice(), inside].concat()
}

/// An IPv4 packet without options, with another time to live.
#[must_use]
pub fn with_ttl(mut packet: Vec<u8>, ttl: u8) -> Vec<u8> {
    if let Some(header) = packet.get_mut(..20) {
        header[8] = ttl;
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum);
    }
    packet
}

/// An IPv6 packet.
#[must_use]
pub fn ipv6(from: Ipv6Addr, to: Ipv6Addr, next: u8, hops: u8, inside: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length(inside.len()));
    packet.extend([next, hops]);
    packet.extend([from.octets().as_slice(), &to.octets(), inside].concat());
    packet
}

/// An IPv6 packet of 64 hops, or an IPv4 packet in one piece.
#[must_use]
pub fn ip(from: IpAddr, to: IpAddr, protocol: u8, inside: &[u8]) -> (u16, Vec<u8>) {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (IPV4, ipv4(from, to, protocol, 0, inside)),
        (IpAddr::V6(from), IpAddr::V6(to)) => (IPV6, ipv6(from, to, protocol, 64, inside)),
        _ => (0, inside.to_vec()),
    }
}

/// An empty IPv6 extension header of 8 bytes: hop-by-hop (0), routing (43) or destination options (60).
#[must_use]
pub fn extension(next: u8, inside: &[u8]) -> Vec<u8> {
    [&[next, 0, 1, 4, 0, 0, 0, 0], inside].concat()
}

/// An IPv6 fragment header (RFC 8200 §4.5); `offset` in units of 8 bytes.
#[must_use]
pub fn fragment(next: u8, offset: u16, more: bool, inside: &[u8]) -> Vec<u8> {
    let field = (offset << 3 | u16::from(more)).to_be_bytes();
    [&[next, 0], field.as_slice(), &[0, 0, 0xfa, 0xb0], inside].concat()
}

/// A UDP datagram in an IP packet; the Ethernet type and the packet.
#[must_use]
pub fn udp(from: (IpAddr, u16), to: (IpAddr, u16), inside: &[u8]) -> (u16, Vec<u8>) {
    ip(from.0, to.0, UDP, &udp_datagram(from, to, inside))
}

/// A UDP datagram with the checksum for these addresses (RFC 768).
#[must_use]
pub fn udp_datagram(from: (IpAddr, u16), to: (IpAddr, u16), inside: &[u8]) -> Vec<u8> {
    let mut datagram = [from.1.to_be_bytes(), to.1.to_be_bytes(), length(8 + inside.len())].concat();
    datagram.extend([0, 0]);
    datagram.extend(inside);
    let sum = with_pseudo_header(from.0, to.0, UDP, &datagram);
    datagram[6..8].copy_from_slice(&sum);
    datagram
}

/// An ICMPv6 message with the checksum for these addresses; `body` follows the checksum.
#[must_use]
pub fn icmpv6(from: Ipv6Addr, to: Ipv6Addr, kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0], body].concat();
    let sum = with_pseudo_header(from.into(), to.into(), ICMPV6, &message);
    message[2..4].copy_from_slice(&sum);
    message
}

/// An option of neighbour discovery (RFC 4861 §4.6), padded to a multiple of 8 bytes.
#[must_use]
pub fn option(kind: u8, body: &[u8]) -> Vec<u8> {
    let words = (body.len() + 2).div_ceil(8);
    let mut option = vec![kind, u8::try_from(words).unwrap_or(u8::MAX)];
    option.extend(body);
    option.resize(words * 8, 0);
    option
}

/// A frame in a VXLAN header (RFC 7348 §5).
#[must_use]
pub fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0], (vni << 8).to_be_bytes().as_slice(), frame].concat()
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

pub(super) fn with_pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, message: &[u8]) -> [u8; 2] {
    let mut bytes = Vec::with_capacity(40 + message.len());
    for address in [from, to] {
        match address {
            IpAddr::V4(v4) => bytes.extend(v4.octets()),
            IpAddr::V6(v6) => bytes.extend(v6.octets()),
        }
    }
    bytes.extend([0, protocol]);
    bytes.extend(length(message.len()));
    bytes.extend(message);
    checksum(&bytes)
}

/// The internet checksum (RFC 1071).
pub(super) fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u32::from(high) << 8 | u32::from(low),
        [high] => u32::from(high) << 8,
        _ => 0,
    });
    let mut sum = words.fold(0u32, |sum, word| sum.wrapping_add(word));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap_or_default()).to_be_bytes()
}
