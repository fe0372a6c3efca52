//! What passes between the nodes and the office's switch: every frame of every trunk, in both directions, with its tag.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::frames::build::{ARP, ICMPV6, IPV6, SERVICE_VLAN, VLAN};
use crate::frames::{Mark, Tap, marks};
use crate::lab::Lab;
use crate::lab::node::Node;
use crate::probe::Packet;

/// Longest pause between two looks at a device.
const LOOK: Duration = Duration::from_millis(5);
/// ICMPv6 types of neighbour discovery (RFC 4861 §4).
pub const SOLICITATION: u8 = 135;
/// An answer to one, or an announcement.
pub const ADVERTISEMENT: u8 = 136;

/// A hardware address.
pub type Mac = [u8; 6];

/// A frame on a trunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The node of the trunk.
    pub node: String,
    /// Whether the node sent it; else the switch did.
    pub by_node: bool,
    /// Destination.
    pub to: Mac,
    /// Source.
    pub from: Mac,
    /// VLAN of its tag, 0 for a tag that gives a priority only.
    pub vlan: Option<u16>,
    /// Ethernet type behind the tag.
    pub ethertype: u16,
    /// What follows.
    pub inside: Vec<u8>,
    /// The first mark in it.
    pub mark: Option<Mark>,
}

/// What a frame says of who has an address (ARP, or neighbour discovery).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The address; unspecified where the sender only asks whether he may have it.
    pub address: IpAddr,
    /// The hardware address it names; none in discovery without the option.
    pub mac: Option<Mac>,
    /// Who is asked for or told of.
    pub target: IpAddr,
    /// Whether it is an answer or an announcement, and no question.
    pub answers: bool,
}

impl Frame {
    fn of(node: &str, by_node: bool, bytes: &[u8]) -> Option<Frame> {
        let outer = u16::from_be_bytes(array(bytes, 12)?);
        let tagged = outer == VLAN || outer == SERVICE_VLAN;
        let vlan = if tagged { Some(u16::from_be_bytes(array(bytes, 14)?) & 0xfff) } else { None };
        let at = if tagged { 16 } else { 12 };
        Some(Frame {
            node: node.to_owned(),
            by_node,
            to: array(bytes, 0)?,
            from: array(bytes, 6)?,
            vlan,
            ethertype: u16::from_be_bytes(array(bytes, at)?),
            inside: bytes.get(at + 2..)?.to_vec(),
            mark: marks(bytes).next(),
        })
    }

    /// Its IP packet.
    #[must_use]
    pub fn packet(&self) -> Option<Packet> {
        let head = [self.to.as_slice(), &self.from, &self.ethertype.to_be_bytes()].concat();
        Packet::of(&[head.as_slice(), &self.inside].concat())
    }

    /// Whether it is for several.
    #[must_use]
    pub fn is_for_group(&self) -> bool {
        self.to[0] & 1 == 1
    }

    /// What it says of who has an address.
    #[must_use]
    pub fn claim(&self) -> Option<Claim> {
        let bytes = &self.inside;
        if self.ethertype == ARP {
            let address = |at| array::<4>(bytes, at).map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
            let (address, target) = (address(14)?, address(24)?);
            let answers = u16::from_be_bytes(array(bytes, 6)?) == 2 || address == target;
            return Some(Claim { address, mac: array(bytes, 8), target, answers });
        }
        let packet = self.packet()?;
        if self.ethertype != IPV6 || packet.protocol != ICMPV6 {
            return None;
        }
        let target = IpAddr::from(Ipv6Addr::from(array::<16>(bytes, 48)?));
        let mac = option_mac(bytes.get(64..).unwrap_or_default());
        match packet.kind {
            SOLICITATION => Some(Claim { address: packet.from, mac, target, answers: false }),
            ADVERTISEMENT => Some(Claim { address: target, mac, target, answers: true }),
            _ => None,
        }
    }
}

/// The link-layer address of the first option that has one (RFC 4861 §4.6.1).
fn option_mac(mut options: &[u8]) -> Option<Mac> {
    while let [kind, words, ..] = *options {
        if kind == 1 || kind == 2 {
            return array(options, 2);
        }
        options = options.get(usize::from(words.max(1)) * 8..)?;
    }
    None
}

fn array<const N: usize>(of: &[u8], at: usize) -> Option<[u8; N]> {
    of.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Captures on all trunks from its making to its end.
#[derive(Debug)]
pub struct Trunks {
    log: Arc<Mutex<Vec<Frame>>>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Trunks {
    /// Begins. A frame is seen where it is sent, since it still has its tag there.
    #[must_use]
    pub fn watch(lab: &Lab) -> Self {
        let (log, ended) = (Arc::default(), Arc::default());
        let office = Node::office(lab.layout());
        let ends = lab.nodes().iter().flat_map(|node| {
            let nic = node.wiring.unwrap().nic();
            [
                (node, true, node.namespace.as_str(), nic),
                (node, false, office.namespace.as_str(), node.name.as_str()),
            ]
        });
        let threads = ends.map(|(node, by_node, namespace, device)| {
            let (tap, node) = (Tap::open(namespace, device).unwrap(), node.name.clone());
            let (log, ended) = (Arc::clone(&log), Arc::clone(&ended));
            thread::spawn(move || note(&tap, &node, by_node, &log, &ended))
        });
        let threads = threads.collect();
        Self { log, ended, threads }
    }

    /// What was captured since the last call, in no order between trunks.
    #[must_use]
    pub fn take(&self) -> Vec<Frame> {
        // A look may be under way.
        thread::sleep(2 * LOOK);
        std::mem::take(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Trunks {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn note(tap: &Tap, node: &str, by_node: bool, log: &Mutex<Vec<Frame>>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        let Ok(frames) = tap.sent() else { return };
        let frames = frames.iter().filter_map(|bytes| Frame::of(node, by_node, bytes));
        log.lock().unwrap_or_else(PoisonError::into_inner).extend(frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::build::{arp, ethernet, icmpv6, ipv6, option, tag};

    #[test]
    fn what_claims_an_address_is_read_behind_a_tag() {
        let (mac, v4) = ([2, 0, 0, 0, 0, 7], Ipv4Addr::new(10, 100, 1, 7));
        let gratuitous = arp(1, (mac, v4), ([0; 6], v4), &[]);
        let frame =
            Frame::of("n1", true, &ethernet([0xff; 6], mac, VLAN, &tag(100, ARP, &gratuitous))).unwrap();
        assert_eq!((frame.vlan, frame.is_for_group()), (Some(100), true));
        let claim = Claim { address: v4.into(), mac: Some(mac), target: v4.into(), answers: true };
        assert_eq!(frame.claim(), Some(claim));
        let v6: Ipv6Addr = "fd10::7".parse().unwrap();
        let body = [[0; 4].as_slice(), &v6.octets(), &option(2, &mac)].concat();
        let message = icmpv6(v6, v6, ADVERTISEMENT, &body);
        let packet = ipv6(v6, v6, ICMPV6, 255, &message);
        let frame = Frame::of("n1", true, &ethernet(mac, mac, IPV6, &packet)).unwrap();
        let claim = Claim { address: v6.into(), mac: Some(mac), target: v6.into(), answers: true };
        assert_eq!((frame.vlan, frame.claim()), (None, Some(claim)));
    }
}
