//! A packet-in, read as far as decisions need it.

use std::net::IpAddr;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use openflow::Field;
use openflow::message::PacketIn;
use policy::Traffic;

use super::super::vocabulary::{Origin, REG_FLAGS, Table, missed_in};

/// The ends of a conversation, as one packet shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol and destination port.
    pub traffic: Traffic,
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
    /// Outer source, for a packet from a tunnel.
    pub tunnel: Option<IpAddr>,
    /// The conversation.
    pub tuple: Tuple,
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
        let metadata = |field: Field| packet_in.metadata.exact(field);
        let small = |field: Field| metadata(field).and_then(|v| u32::try_from(v).ok());
        let flags = small(REG_FLAGS).ok_or(PuntError::Metadata("reg0"))?;
        Ok(Punt {
            table: missed_in(flags).ok_or(PuntError::Metadata("a missed table"))?,
            origin: Origin::from_reg0(flags).ok_or(PuntError::Metadata("an origin"))?,
            in_port: small(Field::IN_PORT).ok_or(PuntError::Metadata("in_port"))?,
            tunnel: small(Field::TUN_SRC)
                .map(|v4| IpAddr::V4(v4.into()))
                .or_else(|| metadata(Field::TUN_IPV6_SRC).map(|v6| IpAddr::V6(v6.into()))),
            tuple: read_tuple(&packet_in.packet)?,
        })
    }
}

fn read_tuple(frame: &[u8]) -> Result<Tuple, PuntError> {
    let sliced = LaxSlicedPacket::from_ethernet(frame).map_err(|_| PuntError::NotIp)?;
    let (source, destination, protocol): (IpAddr, IpAddr, u8) = match sliced.net.as_ref() {
        Some(LaxNetSlice::Ipv4(v4)) => {
            let header = v4.header();
            (header.source_addr().into(), header.destination_addr().into(), v4.payload().ip_number.0)
        }
        Some(LaxNetSlice::Ipv6(v6)) => {
            let header = v6.header();
            (header.source_addr().into(), header.destination_addr().into(), v6.payload().ip_number.0)
        }
        Some(LaxNetSlice::Arp(_)) | None => return Err(PuntError::NotIp),
    };
    let port = match sliced.transport.as_ref() {
        Some(TransportSlice::Tcp(tcp)) => Some(tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => Some(udp.destination_port()),
        Some(TransportSlice::Icmpv4(_) | TransportSlice::Icmpv6(_) | TransportSlice::Igmp(_)) => None,
        None => sctp_port(protocol, &sliced),
    };
    Ok(Tuple { source, destination, traffic: Traffic { protocol, port } })
}

/// Destination port of an SCTP packet (RFC 9260 §3.1), unless it is a later fragment.
fn sctp_port(protocol: u8, sliced: &LaxSlicedPacket<'_>) -> Option<u16> {
    let payload = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(v4) => v4.payload(),
        LaxNetSlice::Ipv6(v6) => v6.payload(),
        LaxNetSlice::Arp(_) => return None,
    };
    let [_, _, high, low, ..] = *payload.payload else { return None };
    (protocol == 132 && !payload.fragmented).then(|| u16::from_be_bytes([high, low]))
}
