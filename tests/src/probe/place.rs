//! A place that can talk: a pod, a node, or what is outside.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::packet::Packet;
use super::station::Station;
use super::witness::Witness;
use crate::frames::Tap;

/// Source ports that probes use; the kernel chooses higher ones by itself.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
/// Port of iperf3, whose packets nobody notes one by one.
const IPERF: u16 = 5201;

/// A source port that no probe had for a long time, at any place.
#[must_use]
pub fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some((n + 1) % count));
    PORTS.start + next.unwrap_or_default()
}

/// A place, with its sockets and a witness of what arrives.
#[derive(Debug)]
pub struct Place {
    /// `NAMESPACE/NAME` of a pod, `node/nN`, or `wire`.
    pub name: String,
    /// Its network namespace.
    pub netns: String,
    /// Its device there.
    pub device: String,
    /// The node that it is on, where it is on one.
    pub node: Option<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its sockets.
    pub station: Station,
    /// What arrives.
    pub witness: Witness,
    /// For frames made by hand.
    pub tap: Arc<Tap>,
}

impl Place {
    /// Opens a device of a namespace.
    #[must_use]
    pub fn open(name: &str, netns: &str, device: &str, node: Option<&str>, addresses: Vec<IpAddr>) -> Self {
        let interest = |packet: &Packet| packet.source != IPERF && packet.destination != IPERF;
        Self {
            name: name.to_owned(),
            netns: netns.to_owned(),
            device: device.to_owned(),
            node: node.map(str::to_owned),
            addresses,
            station: Station::start(netns).unwrap(),
            witness: Witness::start(netns, device, interest).unwrap(),
            tap: Arc::new(Tap::open(netns, device).unwrap()),
        }
    }

    /// Its address of a family.
    #[must_use]
    pub fn address(&self, like: IpAddr) -> IpAddr {
        let mut addresses = self.addresses.iter().copied();
        addresses.find(|address| address.is_ipv4() == like.is_ipv4()).unwrap()
    }
}
