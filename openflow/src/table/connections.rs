//! A model of connection tracking for the simulator: zones, commit, marks, labels, replies and
//! translation of addresses.
//!
//! A connection is new until a packet of its reply direction was seen, as in OVS. An ICMP error is related to the
//! connection of the packet that it is about, or invalid. A fragment is of the connection of its whole packet.

use std::collections::BTreeMap;

use super::Packet;
use super::simulator::{Tracker, change};
use crate::action::{Ct, Nat, NatKind};
use crate::field::{Field, Value};

/// Bits of `ct_state`.
mod state {
    pub(super) const NEW: u128 = 0x01;
    pub(super) const EST: u128 = 0x02;
    pub(super) const REL: u128 = 0x04;
    pub(super) const RPL: u128 = 0x08;
    pub(super) const INV: u128 = 0x10;
    pub(super) const TRK: u128 = 0x20;
    pub(super) const SNAT: u128 = 0x40;
    pub(super) const DNAT: u128 = 0x80;
}

const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;
const SCTP: u128 = 132;
/// `nw_frag` of a later fragment.
const LATER: u128 = 3;

/// One direction of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tuple {
    /// `eth_type`.
    pub eth_type: u128,
    /// IP protocol.
    pub protocol: u128,
    /// Source address and port.
    pub src: (u128, u128),
    /// Destination address and port.
    pub dst: (u128, u128),
}

/// The fields of addresses and ports that a kind of packet has.
struct Places {
    addresses: (Field, Field),
    ports: Option<(Field, Field)>,
}

fn places(eth_type: u128, protocol: u128) -> Option<Places> {
    let addresses = match eth_type {
        IPV4 => (Field::IPV4_SRC, Field::IPV4_DST),
        IPV6 => (Field::IPV6_SRC, Field::IPV6_DST),
        _ => return None,
    };
    let ports = match protocol {
        6 => Some((Field::TCP_SRC, Field::TCP_DST)),
        17 => Some((Field::UDP_SRC, Field::UDP_DST)),
        132 => Some((Field::SCTP_SRC, Field::SCTP_DST)),
        _ => None,
    };
    Some(Places { addresses, ports })
}

impl Tuple {
    /// The tuple of a packet; `None` if it is not IP.
    #[must_use]
    pub fn of(packet: &Packet) -> Option<Tuple> {
        let (eth_type, protocol) = (packet.get(Field::ETH_TYPE), packet.get(Field::IP_PROTO));
        let Places { addresses, ports } = places(eth_type, protocol)?;
        let port = |field: Option<Field>| field.map_or(0, |field| packet.get(field));
        Some(Tuple {
            eth_type,
            protocol,
            src: (packet.get(addresses.0), port(ports.map(|p| p.0))),
            dst: (packet.get(addresses.1), port(ports.map(|p| p.1))),
        })
    }

    /// The other direction.
    #[must_use]
    pub fn reversed(self) -> Tuple {
        Tuple { src: self.dst, dst: self.src, ..self }
    }

    /// Gives a packet these ends. A fragment shows no ports, and ports of 0 are not known.
    fn write(self, packet: &mut Packet) {
        let Some(Places { addresses, ports }) = places(self.eth_type, self.protocol) else { return };
        packet.set(addresses.0, self.src.0);
        packet.set(addresses.1, self.dst.0);
        let shows = packet.piece_of.is_none() && (self.src.1, self.dst.1) != (0, 0);
        if let Some(ports) = ports.filter(|_| shows) {
            packet.set(ports.0, self.src.1);
            packet.set(ports.1, self.dst.1);
        }
    }
}

/// A connection that was committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    /// As its first packet was.
    pub original: Tuple,
    /// As its replies are.
    pub reply: Tuple,
    /// `ct_mark`.
    pub mark: u128,
    /// `ct_label`.
    pub label: u128,
    /// Whether a reply was seen.
    pub established: bool,
}

/// The connections of all zones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Connections {
    zones: BTreeMap<u16, Vec<Connection>>,
    /// Whether SCTP has one connection a pair, with ports of 0.
    without_sctp_ports: bool,
}

impl Connections {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// None, as the userspace datapath tracks them: it knows no ports of SCTP.
    #[must_use]
    pub fn in_userspace() -> Self {
        Connections { without_sctp_ports: true, ..Self::default() }
    }

    /// The connections of `zone`.
    #[must_use]
    pub fn zone(&self, zone: u16) -> &[Connection] {
        self.zones.get(&zone).map_or(&[], Vec::as_slice)
    }

    /// Forgets the connections of `zone`.
    pub fn flush(&mut self, zone: u16) {
        self.zones.remove(&zone);
    }

    /// Forgets the connection of `zone` whose first packet was so; false where there is none.
    pub fn forget(&mut self, zone: u16, original: Tuple) -> bool {
        let Some(connections) = self.zones.get_mut(&zone) else { return false };
        let before = connections.len();
        connections.retain(|connection| connection.original != original);
        connections.len() < before
    }

    /// The ends of a packet, as far as they tell its connection.
    fn tuple(&self, packet: &Packet) -> Option<Tuple> {
        let tuple = Tuple::of(packet.piece_of.as_deref().unwrap_or(packet))?;
        let portless = self.without_sctp_ports && tuple.protocol == SCTP;
        let end = |(address, port): (u128, u128)| (address, if portless { 0 } else { port });
        Some(Tuple { src: end(tuple.src), dst: end(tuple.dst), ..tuple })
    }

    /// Sets the `ct_*` fields of an error about a packet.
    fn relate(&self, packet: &mut Packet, zone: u16, about: &Packet) {
        let found = self.tuple(about).and_then(|tuple| self.find(zone, tuple));
        let Some((connection, reply)) = found.and_then(|(at, reply)| Some((self.zone(zone).get(at)?, reply)))
        else {
            return packet.set(Field::CT_STATE, state::TRK | state::INV);
        };
        show(packet, connection, !reply);
        let back = packet.get(Field::CT_STATE) & state::RPL;
        packet.set(Field::CT_STATE, state::TRK | state::REL | back);
    }

    /// The place of a packet's connection and whether the packet is a reply.
    fn find(&self, zone: u16, tuple: Tuple) -> Option<(usize, bool)> {
        let connections = self.zone(zone);
        let place = |of: &dyn Fn(&Connection) -> Tuple| connections.iter().position(|c| of(c) == tuple);
        let original = place(&|c| c.original).map(|at| (at, false));
        original.or_else(|| place(&|c| c.reply).map(|at| (at, true)))
    }
}

impl Tracker for Connections {
    fn track(&mut self, packet: &mut Packet, zone: u16, ct: &Ct) {
        packet.set(Field::CT_ZONE, zone.into());
        packet.set(Field::CT_MARK, 0);
        packet.set(Field::CT_LABEL, 0);
        if let Some(about) = packet.about.clone() {
            return self.relate(packet, zone, &about);
        }
        let Some(tuple) = self.tuple(packet) else {
            packet.set(Field::CT_STATE, state::TRK | state::INV);
            return;
        };
        let mut found = self.find(zone, tuple);
        if let Some((at, true)) = found
            && ct.force
        {
            self.zones.entry(zone).or_default().remove(at);
            found = None;
        }
        let fresh = || Connection {
            original: tuple,
            reply: translated(tuple, ct.nat.as_ref()).reversed(),
            mark: 0,
            label: 0,
            established: false,
        };
        let connections = self.zones.entry(zone).or_default();
        let (mut connection, reply) =
            match found.and_then(|(at, reply)| Some((connections.get(at)?.clone(), reply))) {
                Some((connection, reply)) => (connection, reply),
                None => (fresh(), false),
            };
        connection.established |= reply;
        show(packet, &connection, reply);
        if ct.commit {
            ct.exec.iter().for_each(|action| {
                change(packet, action);
            });
            connection.mark = packet.get(Field::CT_MARK);
            connection.label = packet.get(Field::CT_LABEL);
        }
        if ct.nat.is_some() {
            let arrives = if reply { connection.original.reversed() } else { connection.reply.reversed() };
            arrives.write(packet);
        }
        match found {
            Some((at, _)) => {
                if let Some(place) = connections.get_mut(at) {
                    *place = connection;
                }
            }
            None if ct.commit => connections.push(connection),
            None => {}
        }
    }
}

/// The tuple after translation.
fn translated(tuple: Tuple, nat: Option<&Nat>) -> Tuple {
    let Some(nat) = nat else { return tuple };
    let moved = |(address, port): (u128, u128)| {
        let address = match nat.addr_min {
            Some(std::net::IpAddr::V4(a)) => Value::from(a).0,
            Some(std::net::IpAddr::V6(a)) => Value::from(a).0,
            None => address,
        };
        (address, nat.port_min.map_or(port, u128::from))
    };
    match nat.kind {
        NatKind::Existing => tuple,
        NatKind::Src => Tuple { src: moved(tuple.src), ..tuple },
        NatKind::Dst => Tuple { dst: moved(tuple.dst), ..tuple },
    }
}

/// Sets the packet's `ct_*` fields.
fn show(packet: &mut Packet, connection: &Connection, reply: bool) {
    let Connection { original, reply: back, mark, label, established } = connection;
    let flag = |set: bool, bit: u128| if set { bit } else { 0 };
    packet.set(
        Field::CT_STATE,
        state::TRK
            | flag(*established, state::EST)
            | flag(!*established, state::NEW)
            | flag(reply, state::RPL)
            | flag(back.dst != original.src, state::SNAT)
            | flag(back.src != original.dst, state::DNAT),
    );
    packet.set(Field::CT_MARK, *mark);
    packet.set(Field::CT_LABEL, *label);
    packet.set(Field::CT_NW_PROTO, original.protocol);
    let ports = if packet.get(Field::IP_FRAG) == LATER { (0, 0) } else { (original.src.1, original.dst.1) };
    packet.set(Field::CT_TP_SRC, ports.0);
    packet.set(Field::CT_TP_DST, ports.1);
    let (src, dst) = match original.eth_type {
        IPV6 => (Field::CT_IPV6_SRC, Field::CT_IPV6_DST),
        _ => (Field::CT_NW_SRC, Field::CT_NW_DST),
    };
    packet.set(src, original.src.0);
    packet.set(dst, original.dst.0);
}
