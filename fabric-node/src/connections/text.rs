//! `dpctl/dump-conntrack` in words: one connection a line, as Open vSwitch prints it
//! (ovs-vswitchd(8), "CONNECTION TRACKING TABLE COMMANDS"; the form is that of `lib/ct-dpif.c`, 2.17 to 3.x).
//!
//! ```text
//! tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=80),reply=(...),zone=5,mark=1,labels=0x2,protoinfo=(state=ESTABLISHED)
//! ```
//!
//! A field that is not known is passed over; a line without one of those that are needed is not a connection.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use fabric_core::node::{Connection, Detail, Tuple};

#[cfg(test)]
mod tests;

/// What a text lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The connections of the zones asked for.
    pub connections: Vec<Connection>,
    /// Lines that could not be read.
    pub unreadable: u64,
    /// The first of them.
    pub example: Option<String>,
}

/// Reads the connections of these zones.
#[must_use]
pub fn read(text: &str, zones: &BTreeSet<u16>) -> Listing {
    let mut listing = Listing::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match connection(line) {
            Some(connection) if zones.contains(&connection.zone) => listing.connections.push(connection),
            Some(_) => {}
            None => {
                listing.unreadable += 1;
                listing.example.get_or_insert_with(|| line.chars().take(256).collect());
            }
        }
    }
    listing
}

/// Reads one line.
fn connection(line: &str) -> Option<Connection> {
    let (protocol, rest) = line.split_once(',')?;
    let protocol = match protocol {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "igmp" => 2,
        "dccp" => 33,
        "icmpv6" => 58,
        "sctp" => 132,
        "udplite" => 136,
        number => number.parse().ok()?,
    };
    let (mut original, mut reply, mut zone, mut mark, mut label) = (None, None, 0, 0, 0);
    for (name, value) in Fields(rest) {
        match name {
            "orig" => original = Some(direction(protocol, value)?),
            "reply" => reply = Some(direction(protocol, value)?),
            "zone" => zone = value.parse().ok()?,
            "mark" => mark = value.parse().ok()?,
            "labels" => label = u128::from_str_radix(value.strip_prefix("0x")?, 16).ok()?,
            _ => {}
        }
    }
    Some(Connection { zone, original: original?, reply: reply?, mark, label })
}

fn direction(protocol: u8, text: &str) -> Option<Tuple> {
    let (mut from, mut to) = (None::<IpAddr>, None::<IpAddr>);
    let (mut source, mut destination) = (None, None);
    let (mut id, mut kind, mut code) = (None, None, None);
    for (name, value) in Fields(text) {
        match name {
            "src" => from = Some(value.parse().ok()?),
            "dst" => to = Some(value.parse().ok()?),
            "sport" => source = Some(value.parse().ok()?),
            "dport" => destination = Some(value.parse().ok()?),
            "id" => id = Some(value.parse().ok()?),
            "type" => kind = Some(value.parse().ok()?),
            "code" => code = Some(value.parse().ok()?),
            _ => {}
        }
    }
    let (from, to) = (from?, to?);
    let detail = match protocol {
        1 | 58 => Detail::Icmp { id: id?, kind: kind?, code: code? },
        _ => Detail::Ports { source: source?, destination: destination? },
    };
    (from.is_ipv4() == to.is_ipv4()).then_some(Tuple { source: from, destination: to, protocol, detail })
}

/// `name=value` and `name=(...)`, separated by commas.
struct Fields<'a>(&'a str);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('(') {
            Some(inner) => {
                let (value, rest) = inner.split_once(')')?;
                (value, rest.strip_prefix(',').unwrap_or(rest))
            }
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        self.0 = rest;
        Some((name, value))
    }
}

/// A direction as `dpctl/flush-conntrack` wants it.
pub(super) fn tuple(tuple: &Tuple) -> String {
    let Tuple { source, destination, protocol, detail } = tuple;
    let family = if source.is_ipv4() { "nw" } else { "ipv6" };
    let mut text = format!("ct_{family}_src={source},ct_{family}_dst={destination},ct_nw_proto={protocol}");
    // Writing to a string does not fail.
    let _ = match detail {
        Detail::Ports { source, destination } => {
            write!(text, ",ct_tp_src={source},ct_tp_dst={destination}")
        }
        Detail::Icmp { id, kind, code } => write!(text, ",icmp_id={id},icmp_type={kind},icmp_code={code}"),
    };
    text
}
