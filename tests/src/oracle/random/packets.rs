//! Addresses, protocols and ports that are worth asking about in a world.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::dice::Dice;
use crate::oracle::cluster::Cluster;
use crate::oracle::prefix::{Prefix, address, number};
use crate::oracle::words::{Packet, Who};

/// Where the world changes: its addresses, the corners of its prefixes, its ports, and what is beside them.
#[derive(Clone, Debug)]
pub struct Landmarks {
    /// The addresses of pods, containers and unknown pods.
    pub subjects: Vec<IpAddr>,
    addresses: [Vec<IpAddr>; 2],
    ports: Vec<u16>,
}

impl Landmarks {
    /// The landmarks of a cluster.
    pub fn of(cluster: &Cluster) -> Landmarks {
        let mut addresses = BTreeSet::new();
        for text in [
            "8.8.8.8",
            "10.10.0.0",
            "10.10.2.3",
            "11.0.0.1",
            "2001:db8::1",
            "fd00:10::",
            "fd00:11::1",
            "::ffff:10.10.0.1",
            "::",
        ] {
            addresses.extend(text.parse::<IpAddr>().ok());
        }
        for manifest in cluster.manifests() {
            mentioned(manifest, &mut addresses);
        }
        let subjects = addresses.iter().copied();
        let subjects = subjects
            .filter(|ip| matches!(cluster.who(*ip), Who::Pod { .. } | Who::Container { .. } | Who::Unknown));
        let subjects = subjects.collect();
        let (four, six) = addresses.into_iter().partition(IpAddr::is_ipv4);
        Landmarks {
            subjects,
            addresses: [four, six],
            ports: cluster.ports_that_matter().into_iter().collect(),
        }
    }

    /// All addresses of a family, IPv4's or IPv6's.
    pub fn addresses(&self, four: bool) -> &[IpAddr] {
        let [of_four, of_six] = &self.addresses;
        if four { of_four } else { of_six }
    }

    /// All ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// An address of the family of another one.
    pub fn address(&self, dice: &mut Dice, like: IpAddr) -> IpAddr {
        let known = dice.pick(self.addresses(like.is_ipv4())).unwrap_or(like);
        let resident = dice.pick(&self.subjects).filter(|ip| ip.is_ipv4() == like.is_ipv4());
        if dice.percent(40) {
            return resident.unwrap_or(known);
        }
        match dice.below(20) {
            0 => any_address(dice, like),
            1 => address(known, number(known).wrapping_add(1)),
            2 => address(known, number(known) ^ (1 << dice.below(if like.is_ipv4() { 32 } else { 128 }))),
            _ => known,
        }
    }

    /// A packet: of TCP, UDP or SCTP with a port most of the time.
    pub fn packet(&self, dice: &mut Dice) -> Packet {
        let protocol = match dice.below(20) {
            0 => dice.pick(&[0, 1, 2, 4, 41, 47, 50, 58, 89, 255]).unwrap_or(1),
            1..4 => 132,
            4..9 => 17,
            _ => 6,
        };
        self.packet_of(dice, protocol)
    }

    /// A packet of a protocol; seldom a later fragment.
    pub fn packet_of(&self, dice: &mut Dice, protocol: u8) -> Packet {
        let shows = matches!(protocol, 6 | 17 | 132) && !dice.percent(2);
        Packet { protocol, port: shows.then(|| self.port(dice)) }
    }

    /// A port.
    pub fn port(&self, dice: &mut Dice) -> u16 {
        if dice.percent(10) { dice.port() } else { dice.pick(&self.ports).unwrap_or(80) }
    }
}

/// Any address of the family of another one.
pub(super) fn any_address(dice: &mut Dice, like: IpAddr) -> IpAddr {
    address(like, u128::from(dice.number()) << 64 | u128::from(dice.number()))
}

/// Collects the addresses in a manifest, the corners of its prefixes, and what is beside those.
fn mentioned(value: &Value, addresses: &mut BTreeSet<IpAddr>) {
    match value {
        Value::String(text) => {
            addresses.extend(text.parse::<IpAddr>().ok());
            if let Some((first, last)) = Prefix::parse(text).map(|prefix| prefix.bounds()) {
                let before = address(first, number(first).wrapping_sub(1));
                let after = address(last, number(last).wrapping_add(1));
                addresses.extend([before, first, last, after]);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| mentioned(value, addresses)),
        Value::Object(fields) => fields.values().for_each(|value| mentioned(value, addresses)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
