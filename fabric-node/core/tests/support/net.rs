//! Two nodes with a wire between them: packets go through the simulated flows of both, and ask the agents.

use std::net::IpAddr;

use openflow::message::PacketIn;
use openflow::table::{Packet, Simulator};
use openflow::{Field, Mac, Match, port};

use super::model::Model;

/// A packet between two pods, IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub from: IpAddr,
    pub to: IpAddr,
    pub protocol: u8,
    pub source_port: u16,
    pub port: u16,
}

impl Sent {
    /// What the other end answers.
    pub fn answer(self) -> Sent {
        Sent { from: self.to, to: self.from, source_port: self.port, port: self.source_port, ..self }
    }

    pub fn packet(self, in_port: u32, mac: Mac) -> Packet {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (self.from, self.to) else { panic!("IPv4 only") };
        let packet = Packet::new()
            .with(Field::IN_PORT, in_port)
            .with(Field::ETH_SRC, mac)
            .with(Field::ETH_TYPE, 0x0800u16)
            .with(Field::IPV4_SRC, from)
            .with(Field::IPV4_DST, to)
            .with(Field::IP_PROTO, self.protocol)
            .with(Field::IP_TTL, 64u8);
        match self.protocol {
            6 => packet.with(Field::TCP_SRC, self.source_port).with(Field::TCP_DST, self.port),
            17 => packet.with(Field::UDP_SRC, self.source_port).with(Field::UDP_DST, self.port),
            _ => packet,
        }
    }

    fn frame(self) -> Vec<u8> {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (self.from, self.to) else { panic!("IPv4 only") };
        let ip = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(from.octets(), to.octets(), 64);
        let mut frame = Vec::new();
        match self.protocol {
            6 => ip.tcp(self.source_port, self.port, 1, 1000).write(&mut frame, b"").unwrap(),
            17 => ip.udp(self.source_port, self.port).write(&mut frame, b"x").unwrap(),
            _ => ip.icmpv4_echo_request(1, 1).write(&mut frame, b"x").unwrap(),
        }
        frame
    }
}

/// A pod on a node.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub node: usize,
    pub port: u32,
    pub mac: Mac,
}

/// OpenFlow port of the tunnel.
const TUNNEL: u32 = 1;
/// Times that one packet may be asked about on one node.
const MOST_PUNTS: usize = 6;

/// Sends a packet from a pod: the node and port that it comes out of, if it does.
pub fn send(nodes: &mut [Model], from: Place, sent: Sent) -> Option<(usize, u32)> {
    let outputs = cross(&mut nodes[from.node], sent, sent.packet(from.port, from.mac));
    let (port, packet) = outputs.into_iter().next()?;
    if port != TUNNEL {
        return Some((from.node, port));
    }
    let address = u32::try_from(packet.get(Field::TUN_DST)).unwrap();
    let to = nodes.iter().position(|node| node.tunnel == IpAddr::V4(address.into()))?;
    let IpAddr::V4(source) = nodes[from.node].tunnel else { panic!("IPv4 only") };
    let arriving = sent
        .packet(TUNNEL, Mac([2; 6]))
        .with(Field::TUN_SRC, source)
        .with(Field::TUN_ID, u64::try_from(packet.get(Field::TUN_ID)).unwrap());
    let outputs = cross(&mut nodes[to], sent, arriving);
    outputs.first().map(|(port, _)| (to, *port)).filter(|(_, port)| *port != port::LOCAL)
}

/// One node: the packet asks as often as it has to, and starts again with the flows that it got.
pub fn cross(model: &mut Model, sent: Sent, packet: Packet) -> Vec<(u32, Packet)> {
    for _ in 0..MOST_PUNTS {
        let flows = model.flows.clone();
        let trace = Simulator::new(&flows).run(packet.clone(), &mut model.connections);
        assert!(!trace.looped && trace.undone.is_empty(), "{:?}", trace.undone);
        let Some(punt) = trace.punts.iter().find(|punt| punt.controller.pause) else {
            return trace.outputs;
        };
        let shown = [
            Field::REG0,
            Field::REG8,
            Field::IN_PORT,
            Field::TUN_SRC,
            Field::CT_STATE,
            Field::CT_MARK,
            Field::CT_NW_PROTO,
        ];
        let metadata = shown
            .into_iter()
            .filter(|field| punt.packet.get(*field) > 0)
            .fold(Match::new(), |metadata, field| {
                metadata.with_mask(field, punt.packet.get(field), field.full_mask())
            });
        let packet_in = PacketIn {
            packet: sent.frame(),
            metadata,
            userdata: punt.controller.userdata.clone(),
            continuation: Some(vec![1]),
            ..PacketIn::default()
        };
        if !model.hand_up(packet_in) {
            return Vec::new();
        }
    }
    panic!("{sent:?} is asked about without end");
}
