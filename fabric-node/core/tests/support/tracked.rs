//! The simulator's connections as the node sees those of a switch, and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fabric_core::node::{Connection, Detail, Tuple};
use openflow::table;

const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;

/// What the switch lists of a connection.
pub fn listed(zone: u16, found: &table::Connection) -> Connection {
    Connection {
        zone,
        original: direction(&found.original),
        reply: direction(&found.reply),
        mark: u32::try_from(found.mark).unwrap(),
        label: found.label,
    }
}

fn direction(tuple: &table::Tuple) -> Tuple {
    let port = |port: u128| u16::try_from(port).unwrap();
    let protocol = u8::try_from(tuple.protocol).unwrap();
    let detail = match protocol {
        1 | 58 => Detail::Icmp { id: 0, kind: 8, code: 0 },
        _ => Detail::Ports { source: port(tuple.src.1), destination: port(tuple.dst.1) },
    };
    let address = |number: u128| match tuple.eth_type {
        IPV4 => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap())),
        _ => IpAddr::V6(Ipv6Addr::from(number)),
    };
    Tuple { source: address(tuple.src.0), destination: address(tuple.dst.0), protocol, detail }
}

/// The simulator's tuple.
pub fn tuple(tuple: &Tuple) -> table::Tuple {
    let number = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let port = |port: Option<u16>| u128::from(port.unwrap_or_default());
    table::Tuple {
        eth_type: if tuple.source.is_ipv4() { IPV4 } else { IPV6 },
        protocol: tuple.protocol.into(),
        src: (number(tuple.source), port(tuple.source_port())),
        dst: (number(tuple.destination), port(tuple.port())),
    }
}
