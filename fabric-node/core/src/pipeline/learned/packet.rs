//! A packet-in, read as far as decisions need it.
//!
//! What is read wrongly costs the packet a decision that does not fit it, and never opens anything: a flow takes the
//! packets that its match says, whichever packet made the agent ask.

use std::net::IpAddr;

use etherparse::{Ipv6ExtensionSlice, LaxIpPayloadSlice, LaxNetSlice, LaxSlicedPacket};
use openflow::Field;
use openflow::message::PacketIn;
use policy::{Direction, Question, Traffic};

use super::super::fields::{has_ports, state};
use super::super::protocols::SCTP;
use super::super::vocabulary::{
    Cookie, DENIED, Kind, Origin, PEER, REG_FLAGS, REG_SEGMENT, SEEN, Table, missed_in,
};
use super::Part;

/// The ends of a conversation, as one packet shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol and destination port.
    pub traffic: Traffic,
    /// Source port; None for protocols without ports and for later fragments.
    pub source_port: Option<u16>,
    /// Whether it is a fragment: one of the first three.
    pub part: Part,
}

/// What connection tracking says of a packet, where it was asked. In Guard it was not yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tracked {
    /// It goes against the direction in which its conversation was opened.
    pub reply: bool,
    /// It is an ICMP error about a conversation.
    pub related: bool,
    /// It is of an association of SCTP, or an error about one.
    pub seen: bool,
}

/// What a packet is to its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// It belongs to what policy is asked about.
    Judged(Part),
    /// It is an ICMP error about an association of SCTP.
    Related,
    /// Neither opens a conversation nor belongs to one that was judged, or lacks its ports: nothing lets it pass.
    Stray,
}

/// A packet that some table had no flow for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Punt {
    /// That table.
    pub table: Table,
    /// Where the packet came from.
    pub origin: Origin,
    /// The OpenFlow port it came in by.
    pub in_port: u32,
    /// The segment that it is of, as the register has it.
    pub segment: Option<u32>,
    /// Outer source, for a packet from a tunnel.
    pub tunnel: Option<IpAddr>,
    /// Whether the receiver's end has yet to be asked: see [`PEER`].
    pub asks_peer: bool,
    /// What connection tracking says.
    pub tracked: Tracked,
    /// The conversation.
    pub tuple: Tuple,
}

/// A packet that a flow dropped because policy denies it, of a subject whose denied packets are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denied {
    /// The question that the flow answers.
    pub question: Question,
    /// The port that the packet came from.
    pub source_port: Option<u16>,
}

/// Why a packet-in cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum PuntError {
    /// Its metadata lacks a field that the pipeline sets.
    #[error("packet-in without {0}")]
    Metadata(&'static str),
    /// It does not wait in the switch: its time to live ended, and nobody is to be told.
    #[error("packet-in that is not paused")]
    NotPaused,
    /// It is no IP packet, or is cut short before its addresses end.
    #[error("packet-in with a packet that is no IP")]
    NotIp,
}

impl Punt {
    /// Reads a packet-in.
    ///
    /// # Errors
    /// For a packet-in that the pipeline did not send, and for packets without addresses.
    pub fn read(packet_in: &PacketIn) -> Result<Punt, PuntError> {
        if packet_in.continuation.is_none() {
            return Err(PuntError::NotPaused);
        }
        let flags = small(packet_in, REG_FLAGS).ok_or(PuntError::Metadata("reg0"))?;
        let tunnel = small(packet_in, Field::TUN_SRC).map(|v4| IpAddr::V4(v4.into()));
        let tunnel_v6 = || packet_in.metadata.exact(Field::TUN_IPV6_SRC).map(|v6| IpAddr::V6(v6.into()));
        Ok(Punt {
            table: missed_in(flags).ok_or(PuntError::Metadata("a missed table"))?,
            origin: Origin::from_reg0(flags).ok_or(PuntError::Metadata("an origin"))?,
            in_port: small(packet_in, Field::IN_PORT).ok_or(PuntError::Metadata("in_port"))?,
            segment: small(packet_in, REG_SEGMENT).filter(|segment| *segment != 0),
            tunnel: tunnel.or_else(tunnel_v6),
            asks_peer: flags & PEER != 0,
            tracked: Tracked::read(packet_in),
            tuple: Tuple::read(packet_in)?,
        })
    }

    /// What the packet is to its conversation.
    #[must_use]
    pub fn course(&self) -> Course {
        self.tuple.course(self.tracked)
    }
}

impl Denied {
    /// Whether a packet-in is the copy of a denied packet, and waits for no answer.
    #[must_use]
    pub fn is_copy(packet_in: &PacketIn) -> bool {
        packet_in.continuation.is_none() && packet_in.userdata.first() == Some(&DENIED)
    }

    /// Reads such a copy.
    ///
    /// # Errors
    /// For a packet-in that no deny flow sent, and for packets without addresses.
    pub fn read(packet_in: &PacketIn) -> Result<Denied, PuntError> {
        let tuple = Tuple::read(packet_in)?;
        let question = match Cookie(packet_in.cookie).kind() {
            Some(Kind::Egress) => tuple.at_sender(),
            Some(Kind::Ingress | Kind::Peer) => tuple.at_receiver(),
            _ => return Err(PuntError::Metadata("the cookie of a verdict")),
        };
        Ok(Denied { question, source_port: tuple.source_port })
    }
}

impl Tracked {
    fn read(packet_in: &PacketIn) -> Tracked {
        let bits = packet_in.metadata.get(Field::CT_STATE).map_or(0, |(value, _)| value);
        let has = |bit: u32| bits & u128::from(bit) != 0;
        Tracked {
            reply: has(state::REPLY),
            related: has(state::RELATED),
            seen: small(packet_in, Field::CT_MARK).unwrap_or_default() & SEEN != 0,
        }
    }
}

impl Tuple {
    /// The ends of the packet of a packet-in.
    fn read(packet_in: &PacketIn) -> Result<Tuple, PuntError> {
        let mut tuple = read_frame(&packet_in.packet).ok_or(PuntError::NotIp)?;
        if tuple.part == Part::Later
            && let Some(protocol) = small(packet_in, Field::CT_NW_PROTO).and_then(|p| u8::try_from(p).ok())
        {
            tuple.traffic.protocol = protocol;
        }
        Ok(tuple)
    }

    /// What a packet of these ends is to its conversation.
    fn course(&self, tracked: Tracked) -> Course {
        let Traffic { protocol, port } = self.traffic;
        let Tracked { reply, related, seen } = tracked;
        match (self.part, self.source_port) {
            _ if related && seen => Course::Related,
            _ if related => Course::Stray,
            (Part::Whole | Part::First, _) if has_ports(protocol) && port.is_none() => Course::Stray,
            (Part::Whole, Some(from)) if protocol == SCTP => Course::Judged(Part::There(from)),
            _ if reply && protocol != SCTP => Course::Stray,
            (part, _) => Course::Judged(part),
        }
    }

    /// The question at the end that sends the packet.
    pub(super) fn at_sender(&self) -> Question {
        let (subject, peer) = (self.source, self.destination);
        Question { direction: Direction::Egress, subject, peer, traffic: self.traffic }
    }

    /// The question at the end that receives the packet.
    pub(super) fn at_receiver(&self) -> Question {
        let (subject, peer) = (self.destination, self.source);
        Question { direction: Direction::Ingress, subject, peer, traffic: self.traffic }
    }
}

fn small(packet_in: &PacketIn, field: Field) -> Option<u32> {
    packet_in.metadata.exact(field).and_then(|value| u32::try_from(value).ok())
}

fn read_frame(frame: &[u8]) -> Option<Tuple> {
    let sliced = LaxSlicedPacket::from_ethernet(frame).ok()?;
    let (source, destination, payload, part): (IpAddr, IpAddr, &LaxIpPayloadSlice<'_>, Part) =
        match sliced.net.as_ref()? {
            LaxNetSlice::Ipv4(v4) => {
                let header = v4.header();
                let part = part(header.fragments_offset().value(), header.more_fragments());
                (header.source_addr().into(), header.destination_addr().into(), v4.payload(), part)
            }
            LaxNetSlice::Ipv6(v6) => {
                let header = v6.header();
                let fragment = v6.extensions().clone().into_iter().find_map(|extension| match extension {
                    Ipv6ExtensionSlice::Fragment(fragment) => Some(fragment),
                    _ => None,
                });
                let part = fragment.map_or(Part::Whole, |fragment| {
                    part(fragment.fragment_offset().value(), fragment.more_fragments())
                });
                (header.source_addr().into(), header.destination_addr().into(), v6.payload(), part)
            }
            LaxNetSlice::Arp(_) => return None,
        };
    let protocol = payload.ip_number.0;
    let ports = (has_ports(protocol) && part != Part::Later).then(|| ports(payload.payload)).flatten();
    let (source_port, port) = ports.unzip();
    Some(Tuple { source, destination, traffic: Traffic { protocol, port }, source_port, part })
}

/// What a packet with this offset and with or without more to follow is (RFC 791 §3.1, RFC 8200 §4.5).
fn part(offset: u16, more: bool) -> Part {
    match (offset, more) {
        (0, false) => Part::Whole,
        (0, true) => Part::First,
        _ => Part::Later,
    }
}

/// Source and destination port: the first four bytes of TCP, UDP and SCTP (RFC 9293 §3.1, RFC 768, RFC 9260 §3.1).
fn ports(payload: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d, ..] = *payload else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[cfg(test)]
mod tests;
