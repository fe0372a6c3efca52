//! ARP and neighbour discovery by hand.

use std::net::{IpAddr, Ipv6Addr};

use super::trunk::{ADVERTISEMENT, Mac, SOLICITATION};
use crate::frames::build::{ARP, EVERYBODY, ICMPV6, IPV6, arp, ethernet, icmpv6, ipv6, option};

/// Options of neighbour discovery that name the sender's, or the target's hardware address (RFC 4861 §4.6.1).
const SOURCE: u8 = 1;
const TARGET: u8 = 2;
/// The flag of an advertisement that replaces what others remember.
const OVERRIDE: u8 = 0x20;

/// Asks everybody who has an address, or those whose address ends alike.
#[must_use]
pub fn question(mac: Mac, own: IpAddr, target: IpAddr) -> Vec<u8> {
    match (own, target) {
        (IpAddr::V4(own), IpAddr::V4(target)) => {
            ethernet(EVERYBODY, mac, ARP, &arp(1, (mac, own), ([0; 6], target), &[0; 18]))
        }
        (IpAddr::V6(own), IpAddr::V6(target)) => {
            let [.., a, b, c] = target.octets();
            let group =
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
            let body = [[0; 4].as_slice(), &target.octets(), &option(SOURCE, &mac)].concat();
            let packet = ipv6(own, group, ICMPV6, 255, &icmpv6(own, group, SOLICITATION, &body));
            ethernet([0x33, 0x33, 0xff, a, b, c], mac, IPV6, &packet)
        }
        _ => Vec::new(),
    }
}

/// Tells `to` that an address is at a hardware address, as an answer that nobody asked for.
#[must_use]
pub fn claim(mac: Mac, address: IpAddr, to: Mac) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => ethernet(to, mac, ARP, &arp(2, (mac, address), (to, address), &[0; 18])),
        IpAddr::V6(address) => {
            let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let body = [[OVERRIDE, 0, 0, 0].as_slice(), &address.octets(), &option(TARGET, &mac)].concat();
            let packet = ipv6(address, all, ICMPV6, 255, &icmpv6(address, all, ADVERTISEMENT, &body));
            ethernet(to, mac, IPV6, &packet)
        }
    }
}
