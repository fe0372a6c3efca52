//! Packets that wait in a switch for an answer, as it shows them to the agent.

use std::net::Ipv4Addr;

use fabric_core::pipeline::vocabulary::{Origin, REG_FLAGS, RETRY, Table};
use openflow::message::PacketIn;
use openflow::{Field, Match};

/// Bytes of a continuation; Open vSwitch's are about as long.
const CONTINUATION: usize = 160;
/// Destination port of every packet.
pub const PORT: u16 = 2000;

/// A packet of the pod behind a port, paused in Egress.
pub fn paused(port: u32, from: Ipv4Addr, to: Ipv4Addr) -> PacketIn {
    let flags = Origin::Pod.bit() | RETRY | u32::from(Table::Egress.id()) << 20;
    let metadata = Match::new().with(REG_FLAGS, flags).with(Field::IN_PORT, port);
    PacketIn {
        packet: udp([2, 0, 0, 0, 0, 1], from, to),
        full_len: 60,
        table: Table::Punt.id(),
        cookie: 0,
        metadata,
        userdata: vec![1],
        continuation: Some(vec![0; CONTINUATION]),
        ..PacketIn::default()
    }
}

/// A UDP packet of 60 bytes in an Ethernet frame (RFC 768, RFC 791).
pub fn udp(source_mac: [u8; 6], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0x0a, 0x58, 0xa9, 0xfe, 0x01, 0x01];
    frame.extend(source_mac);
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    frame.extend([0x27, 0x10]);
    frame.extend(PORT.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}
