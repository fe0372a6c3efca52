//! Nodes with simulated switches and the answers of their agents, joined by tunnels.

use std::collections::BTreeSet;
use std::net::IpAddr;

use fabric_core::pipeline::learned::{Part, Punt, Query, Tracked, Tuple, Verdict, answer, decide};
use fabric_core::pipeline::vocabulary::{Cookie, Kind, Origin, PEER, PUNTED, REG_SEGMENT, SEEN, missed_in};
use openflow::table::{Connections, Packet, Simulator, Trace};
use openflow::{Field, Flow, FlowTable};
use policy::Traffic;

use super::{Scene, world};

const TUNNEL: u32 = 1;

/// A node: its switch, and whether its agent answers.
pub struct Node {
    pub scene: Scene,
    pub flows: FlowTable,
    pub connections: Connections,
    pub answers: bool,
}

/// The nodes of a world.
pub struct Fabric {
    pub nodes: Vec<Node>,
}

/// What a pod sends: ends, protocol, ports.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub from: IpAddr,
    pub to: IpAddr,
    pub protocol: u8,
    pub ports: (u16, u16),
}

impl Sent {
    pub fn back(self) -> Sent {
        Sent { from: self.to, to: self.from, protocol: self.protocol, ports: (self.ports.1, self.ports.0) }
    }

    /// The whole packet.
    pub fn whole(self) -> Packet {
        let (src, dst) = match self.protocol {
            6 => (Field::TCP_SRC, Field::TCP_DST),
            132 => (Field::SCTP_SRC, Field::SCTP_DST),
            _ => (Field::UDP_SRC, Field::UDP_DST),
        };
        self.bare(self.protocol).with(src, self.ports.0).with(dst, self.ports.1)
    }

    /// Its two fragments, as a switch shows them: no ports, and in IPv6 no protocol of a later one.
    pub fn fragments(self) -> [Packet; 2] {
        let later = if self.from.is_ipv6() { 44 } else { self.protocol };
        let piece =
            |protocol, kind: u8| self.bare(protocol).with(Field::IP_FRAG, kind).fragment_of(&self.whole());
        [piece(self.protocol, 1), piece(later, 3)]
    }

    /// An ICMP error about a packet, to the one who sent it.
    pub fn error_about(about: Sent) -> Packet {
        let Sent { from, to, .. } = about.back();
        let icmp = if from.is_ipv6() { 58 } else { 1 };
        Sent { from, to, protocol: icmp, ports: (0, 0) }.bare(icmp).error_about(&about.whole())
    }

    fn bare(self, protocol: u8) -> Packet {
        let packet = Packet::new().with(Field::IP_PROTO, protocol).with(Field::IP_TTL, 64u8);
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                packet.with(Field::ETH_TYPE, 0x0800u16).with(Field::IPV4_SRC, from).with(Field::IPV4_DST, to)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => packet
                .with(Field::ETH_TYPE, 0x86ddu16)
                .with(Field::IPV6_SRC, u128::from(from))
                .with(Field::IPV6_DST, u128::from(to)),
            _ => panic!("two families"),
        }
    }
}

impl Fabric {
    pub fn new(manifests: &str) -> Fabric {
        let names: Vec<_> = world(manifests).nodes().map(|node| node.name.clone()).collect();
        let nodes = names.iter().map(|name| {
            let scene = Scene::of(world(manifests), name);
            let flows = scene.statics().into_iter().collect();
            Node { scene, flows, connections: Connections::in_userspace(), answers: true }
        });
        Fabric { nodes: nodes.collect() }
    }

    /// The node that has a pod's address.
    pub fn home(&mut self, address: IpAddr) -> &mut Node {
        let has = |node: &&mut Node| node.scene.local.0.iter().any(|pod| pod.addresses.contains(&address));
        self.nodes.iter_mut().find(has).unwrap()
    }

    /// A pod sends its packet; whether its receiver, a pod, gets it.
    pub fn send(&mut self, sent: Sent) -> bool {
        self.send_packet(sent.from, sent.to, sent.whole())
    }

    /// The pod with the address `from` sends a packet that is for the pod with the address `to`.
    pub fn send_packet(&mut self, from: IpAddr, to: IpAddr, packet: Packet) -> bool {
        let node = self.home(from);
        let pod = node.pod(from);
        let (port, mac) = (pod.port, pod.mac);
        let mut outputs = node.run(packet.with(Field::IN_PORT, port).with(Field::ETH_SRC, mac));
        if let Some((TUNNEL, left)) = outputs.first().cloned() {
            let here = node.outer();
            let peer = self.home(to);
            assert_eq!(left.get(Field::TUN_DST), u128::from(u32::from(peer.outer())), "to the other node");
            outputs = peer.run(headers(&left).with(Field::IN_PORT, TUNNEL).with(Field::TUN_SRC, here));
        }
        let receiver = self.home(to).pod(to).port;
        assert!(outputs.iter().all(|(port, _)| *port == receiver), "it went astray: {outputs:?}");
        !outputs.is_empty()
    }
}

impl Node {
    fn pod(&self, address: IpAddr) -> &fabric_core::pipeline::site::LocalPod {
        self.scene.local.0.iter().find(|pod| pod.addresses.contains(&address)).unwrap()
    }

    fn outer(&self) -> std::net::Ipv4Addr {
        match self.scene.site.addresses[0] {
            IpAddr::V4(v4) => v4,
            IpAddr::V6(_) => panic!("tunnels are IPv4"),
        }
    }

    /// Marks of the connections in the zone of a pod.
    pub fn marks(&self, address: IpAddr) -> Vec<u128> {
        self.connections.zone(self.pod(address).zone).iter().map(|c| c.mark).collect()
    }

    pub fn flush(&mut self, address: IpAddr) {
        let zone = self.pod(address).zone;
        self.connections.flush(zone);
    }

    pub fn zone(&self, address: IpAddr) -> u16 {
        self.pod(address).zone
    }

    /// A packet comes in by a port; the packets that leave, with their ports.
    pub fn put(&mut self, in_port: u32, packet: Packet) -> Vec<(u32, Packet)> {
        self.run(packet.with(Field::IN_PORT, in_port))
    }

    /// Answers a query by hand.
    pub fn learn(&mut self, query: Query) -> bool {
        let decision = decide(&query, &self.scene.context());
        decision.map(|decision| self.flows.insert(decision.flow)).is_some()
    }

    pub fn learned(&self, kind: Kind) -> Vec<Flow> {
        self.flows.iter().filter(|flow| Cookie(flow.cookie).kind() == Some(kind)).cloned().collect()
    }

    /// Forgets every learned flow.
    pub fn forget(&mut self) {
        self.flows = self.scene.statics().into_iter().collect();
    }

    fn run(&mut self, packet: Packet) -> Vec<(u32, Packet)> {
        let before = self.flows.clone();
        let trace = Simulator::new(&before).run(packet, &mut self.connections);
        self.settle(trace)
    }

    /// Answers what was punted, until the packet has left or is dropped.
    fn settle(&mut self, trace: Trace<'_>) -> Vec<(u32, Packet)> {
        assert!(!trace.looped && trace.undone.is_empty(), "{:?}", trace.undone);
        agree(&trace);
        let mut outputs = trace.outputs;
        for punt in trace.punts {
            let Some(rest) = punt.continuation.filter(|_| self.answers) else { continue };
            assert_eq!(punt.controller.userdata, [PUNTED]);
            let answer = answer(&read(&punt.packet), &self.scene.context(), false);
            let flows = answer.learned.into_iter().map(|(_, decision)| decision.flow);
            self.flows.extend(flows);
            if answer.verdict == Verdict::Resume {
                let after = self.flows.clone();
                let trace = Simulator::new(&after).resume(rest, &mut self.connections);
                outputs.extend(self.settle(trace));
            }
        }
        outputs
    }
}

/// Flows of one priority that match the same packet do the same with it: all drop it, or all let it go on to one table.
fn agree(trace: &Trace<'_>) {
    let goes = |flow: &Flow| flow.actions.last().cloned();
    for step in &trace.steps {
        let ways: BTreeSet<String> =
            step.flow.iter().chain(&step.rivals).map(|flow| format!("{:?}", goes(flow))).collect();
        assert!(ways.len() <= 1, "{:?} and {:?}", step.flow, step.rivals);
    }
}

/// The packet as it goes over a wire.
fn headers(packet: &Packet) -> Packet {
    let fields = [
        Field::ETH_TYPE,
        Field::ETH_SRC,
        Field::ETH_DST,
        Field::IP_PROTO,
        Field::IP_TTL,
        Field::IP_FRAG,
        Field::IPV4_SRC,
        Field::IPV4_DST,
        Field::IPV6_SRC,
        Field::IPV6_DST,
        Field::TCP_SRC,
        Field::TCP_DST,
        Field::UDP_SRC,
        Field::UDP_DST,
        Field::SCTP_SRC,
        Field::SCTP_DST,
    ];
    let mut bare = Packet::new();
    bare.about = packet.about.clone();
    bare.piece_of = packet.piece_of.clone();
    fields.into_iter().fold(bare, |to, field| to.with(field, packet.get(field)))
}

/// A punted packet as the agent reads it.
fn read(packet: &Packet) -> Punt {
    let small = |field: Field| u32::try_from(packet.get(field)).unwrap();
    let reg0 = small(Field::REG0);
    let shown = packet.piece_of.as_deref().unwrap_or(packet);
    let address = |v4: Field, v6: Field| match packet.get(Field::ETH_TYPE) {
        0x0800 => IpAddr::V4(u32::try_from(packet.get(v4)).unwrap().into()),
        _ => IpAddr::V6(packet.get(v6).into()),
    };
    let part = match packet.get(Field::IP_FRAG) {
        1 => Part::First,
        3 => Part::Later,
        _ => Part::Whole,
    };
    let protocol = u8::try_from(shown.get(Field::IP_PROTO)).unwrap();
    let port = |fields: [Field; 3]| {
        let shows = matches!(protocol, 6 | 17 | 132) && part != Part::Later;
        let port = fields.iter().map(|field| shown.get(*field)).max().unwrap();
        shows.then(|| u16::try_from(port).unwrap())
    };
    let state = packet.get(Field::CT_STATE);
    let outer = Some(small(Field::TUN_SRC)).filter(|outer| *outer != 0);
    Punt {
        table: missed_in(reg0).unwrap(),
        origin: Origin::from_reg0(reg0).unwrap(),
        in_port: small(Field::IN_PORT),
        segment: Some(small(REG_SEGMENT)).filter(|segment| *segment != 0),
        tunnel: outer.map(|outer| IpAddr::V4(outer.into())),
        asks_peer: reg0 & PEER != 0,
        tracked: Tracked {
            reply: state & 0x08 != 0,
            related: state & 0x04 != 0,
            seen: packet.get(Field::CT_MARK) & u128::from(SEEN) != 0,
        },
        tuple: Tuple {
            source: address(Field::IPV4_SRC, Field::IPV6_SRC),
            destination: address(Field::IPV4_DST, Field::IPV6_DST),
            traffic: Traffic { protocol, port: port([Field::TCP_DST, Field::UDP_DST, Field::SCTP_DST]) },
            source_port: port([Field::TCP_SRC, Field::UDP_SRC, Field::SCTP_SRC]),
            part,
        },
    }
}
