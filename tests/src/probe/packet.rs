//! What a captured frame shows of its packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frames::build::{IPV4, IPV6};
use crate::frames::segment::{SCTP, TCP};

/// Protocol number of UDP.
const UDP: u8 = 17;
/// Next headers that are passed over: hop-by-hop, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Next header of a fragment.
const FRAGMENT: u8 = 44;

/// An IP packet, as far as tests tell packets apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Its source.
    pub from: IpAddr,
    /// Its destination.
    pub to: IpAddr,
    /// Number of the protocol behind IP and its extensions.
    pub protocol: u8,
    /// Source port; 0 where there is none to see.
    pub source: u16,
    /// Destination port; 0 where there is none to see.
    pub destination: u16,
    /// TCP's flags, SCTP's first chunk, ICMP's type; 0 elsewhere.
    pub kind: u8,
    /// Offset of a fragment, bytes; 0 for whole packets and first fragments.
    pub offset: u16,
}

impl Packet {
    /// The packet of an Ethernet frame; nothing where that holds no IP.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Packet> {
        let ethertype = u16::from_be_bytes(bytes(frame, 12)?);
        let packet = frame.get(14..)?;
        match ethertype {
            IPV4 => Self::four(packet),
            IPV6 => Self::six(packet),
            _ => None,
        }
    }

    fn four(packet: &[u8]) -> Option<Packet> {
        let header = usize::from(packet.first()? & 0xf) * 4;
        let from = Ipv4Addr::from(bytes::<4>(packet, 12)?).into();
        let to = Ipv4Addr::from(bytes::<4>(packet, 16)?).into();
        let offset = (u16::from_be_bytes(bytes(packet, 6)?) & 0x1fff) * 8;
        Some(Self::with_transport(from, to, *packet.get(9)?, offset, packet.get(header..)?))
    }

    fn six(packet: &[u8]) -> Option<Packet> {
        let from = Ipv6Addr::from(bytes::<16>(packet, 8)?).into();
        let to = Ipv6Addr::from(bytes::<16>(packet, 24)?).into();
        let (mut next, mut rest, mut offset) = (*packet.get(6)?, packet.get(40..)?, 0);
        loop {
            let skipped = match next {
                FRAGMENT => {
                    offset = u16::from_be_bytes(bytes(rest, 2)?) & 0xfff8;
                    8
                }
                extension if EXTENSIONS.contains(&extension) => usize::from(*rest.get(1)?) * 8 + 8,
                _ => break,
            };
            next = *rest.first()?;
            rest = rest.get(skipped..)?;
            if offset != 0 {
                break;
            }
        }
        Some(Self::with_transport(from, to, next, offset, rest))
    }

    fn with_transport(from: IpAddr, to: IpAddr, protocol: u8, offset: u16, inside: &[u8]) -> Packet {
        let port = |at| if offset == 0 { bytes(inside, at).map_or(0, u16::from_be_bytes) } else { 0 };
        let byte = |at| if offset == 0 { inside.get(at).copied().unwrap_or_default() } else { 0 };
        let ported = matches!(protocol, TCP | UDP | SCTP);
        let (source, destination) = if ported { (port(0), port(2)) } else { (0, 0) };
        let kind = match protocol {
            TCP => byte(13),
            SCTP => byte(12),
            UDP => 0,
            _ => byte(0),
        };
        Packet { from, to, protocol, source, destination, kind, offset }
    }
}

fn bytes<const N: usize>(of: &[u8], at: usize) -> Option<[u8; N]> {
    of.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::build::{ethernet, udp};
    use crate::frames::segment::{Piece, chunk, flag, piece, sctp, tcp};

    fn parsed((ethertype, packet): (u16, Vec<u8>)) -> Packet {
        Packet::of(&ethernet([1; 6], [2; 6], ethertype, &packet)).unwrap()
    }

    #[test]
    fn what_was_built_is_read() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let read = parsed(tcp((from, 7), (to, 80), flag::SYN, b""));
            let wanted =
                Packet { from, to, protocol: TCP, source: 7, destination: 80, kind: flag::SYN, offset: 0 };
            assert_eq!(read, wanted);
            let read = parsed(sctp((from, 7), (to, 80), chunk::INIT, b""));
            assert_eq!(read, Packet { protocol: SCTP, kind: chunk::INIT, ..wanted });
            assert_eq!(parsed(udp((from, 7), (to, 80), b"")), Packet { protocol: UDP, kind: 0, ..wanted });
            let later = Piece { identification: 1, offset: 3, more: false, bytes: &[9; 8] };
            let read = parsed(piece(from, to, UDP, later));
            assert_eq!(
                read,
                Packet { protocol: UDP, source: 0, destination: 0, kind: 0, offset: 24, ..wanted }
            );
        }
    }
}
