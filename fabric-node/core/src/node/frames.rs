//! Frames that the agent makes itself: who has an address, who tells that it has one, and what is too big.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    Icmpv6Header, Icmpv6Type, IpNumber, Ipv6ExtensionSlice, LaxNetSlice, LaxSlicedPacket, PacketBuilder,
};
use openflow::message::packet_fields;
use openflow::{Field, Mac, Match};

use crate::pipeline::protocols::{
    ADVERTISEMENT, DISCOVERY_HOPS, ETH_ARP, ETH_IPV6, ICMPV6, LISTENER_HOPS, REDIRECT, REPORT, SOLICITATION,
};
use crate::pipeline::vocabulary::ALL_MLD_ROUTERS;

/// `ff02::1`, and the hardware address of its group (RFC 2464 §7).
const ALL_NODES: (Ipv6Addr, Mac) =
    (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), Mac([0x33, 0x33, 0, 0, 0, 1]));
/// What routers are made to look at reports of listeners by: an option of the header before, of which this is the whole, up
/// to the next header's number (RFC 3810 §5, RFC 2711 §2.1, RFC 8200 §4.3).
const ROUTER_ALERT: [u8; 7] = [0, 5, 2, 0, 0, 1, 0];
/// Number of the header with options for every hop (RFC 8200 §4.3).
const HOP_OPTIONS: u8 = 0;
/// A record that says: I listen to this group, whoever sends (CHANGE_TO_EXCLUDE_MODE, RFC 3810 §5.2.12).
const JOINS: [u8; 4] = [4, 0, 0, 0];
/// The flag of an advertisement that replaces what is known (RFC 4861 §4.4).
const OVERRIDE: [u8; 4] = [0x20, 0, 0, 0];
/// Option of a target's link-layer address, in units of eight bytes (RFC 4861 §4.6.1).
const TARGET_OPTION: [u8; 2] = [2, 1];
/// Hops of the agent's own ICMP.
const HOPS: u8 = 64;
/// Bytes of a packet that an ICMPv4 error shows: 576 in all (RFC 1812 §4.3.2.3).
const SHOWN_V4: usize = 576 - 20 - 8;
/// Bytes of a packet that an ICMPv6 error shows: the least MTU in all (RFC 4443 §3.2).
const SHOWN_V6: usize = LEAST_V6 as usize - 40 - 8;
/// The least MTU of IPv4 (RFC 791 §3.2) and of IPv6 (RFC 8200 §5).
const LEAST_V4: u16 = 68;
const LEAST_V6: u32 = 1280;

/// Asks whether somebody has the address (RFC 5227 §2.1.1, RFC 4862 §5.4.2).
pub(super) fn probe(mac: Mac, address: IpAddr) -> Option<Vec<u8>> {
    match address {
        IpAddr::V4(address) => Some(arp(mac, Ipv4Addr::UNSPECIFIED, address)),
        IpAddr::V6(address) => {
            let (group, group_mac) = solicited_group(address);
            let builder = PacketBuilder::ethernet2(mac.0, group_mac.0)
                .ipv6([0; 16], group.octets(), DISCOVERY_HOPS)
                .icmpv6_raw(SOLICITATION, 0, [0; 4]);
            let mut frame = Vec::new();
            builder.write(&mut frame, &address.octets()).ok()?;
            Some(frame)
        }
    }
}

/// Tells switches that somebody listens to the group of questions about an address (RFC 4862 §5.4.2): those that look
/// after listeners (RFC 4541) keep from others what is sent to a group.
pub(super) fn joins(mac: Mac, address: Ipv6Addr) -> Option<Vec<u8>> {
    let (group, _) = solicited_group(address);
    let (routers, routers_mac) = ALL_MLD_ROUTERS;
    let record = [&JOINS[..], &group.octets()].concat();
    let kind = Icmpv6Type::Unknown { type_u8: REPORT, code_u8: 0, bytes5to8: [0, 0, 0, 1] };
    let report = Icmpv6Header::with_checksum(kind, [0; 16], routers.octets(), &record).ok()?;
    let body = [&[ICMPV6][..], &ROUTER_ALERT, &report.to_bytes(), &record].concat();
    let length = u16::try_from(body.len()).ok()?.to_be_bytes();
    let ip =
        [&[0x60, 0, 0, 0][..], &length, &[HOP_OPTIONS, LISTENER_HOPS], &[0; 16], &routers.octets()].concat();
    Some([&routers_mac.0[..], &mac.0, &ETH_IPV6.to_be_bytes(), &ip, &body].concat())
}

/// The group that is asked who has an address (RFC 4291 §2.7.1), and the frames to it (RFC 2464 §7).
fn solicited_group(address: Ipv6Addr) -> (Ipv6Addr, Mac) {
    let [.., a, b, c] = address.octets();
    let [high, low] = [u16::from(a) | 0xff00, u16::from_be_bytes([b, c])];
    (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low), Mac([0x33, 0x33, 0xff, a, b, c]))
}

/// An Ethernet frame that tells everybody on a link who has the address (RFC 5227 §2.3, RFC 4861 §7.2.6); `None` where it
/// cannot be written.
#[must_use]
pub fn announcement(mac: Mac, address: IpAddr) -> Option<Vec<u8>> {
    match address {
        IpAddr::V4(address) => Some(arp(mac, address, address)),
        IpAddr::V6(address) => {
            let (group, group_mac) = ALL_NODES;
            let builder = PacketBuilder::ethernet2(mac.0, group_mac.0)
                .ipv6(address.octets(), group.octets(), DISCOVERY_HOPS)
                .icmpv6_raw(ADVERTISEMENT, 0, OVERRIDE);
            let body = [&address.octets()[..], &TARGET_OPTION, &mac.0].concat();
            let mut frame = Vec::new();
            builder.write(&mut frame, &body).ok()?;
            Some(frame)
        }
    }
}

/// A request to all (RFC 826), Ethernet and IPv4.
fn arp(sender: Mac, from: Ipv4Addr, of: Ipv4Addr) -> Vec<u8> {
    let ethernet = [&Mac::BROADCAST.0[..], &sender.0, &ETH_ARP.to_be_bytes()].concat();
    let request = [0, 1, 8, 0, 6, 4, 0, 1];
    [&ethernet[..], &request, &sender.0, &from.octets(), &[0; 6], &of.octets()].concat()
}

/// Whose address a frame claims, and the hardware address that claims it: by using it in ARP, in an advertisement or as
/// the source of a question, or by asking whether anybody has it. None of discovery that a router has passed on.
pub(super) fn claimant(frame: &[u8]) -> Option<(IpAddr, Mac)> {
    let fields = packet_fields(frame);
    if fields.exact(Field::ETH_TYPE) == Some(ETH_ARP.into()) {
        let (from, of) = (v4(&fields, Field::ARP_SPA)?, v4(&fields, Field::ARP_TPA)?);
        let claimed = if from.is_unspecified() { of } else { from };
        return Some((claimed.into(), mac(&fields, Field::ARP_SHA)?));
    }
    if fields.exact(Field::IP_TTL)? != DISCOVERY_HOPS.into() {
        return None;
    }
    let (target, source) = (v6(&fields, Field::ND_TARGET)?, v6(&fields, Field::IPV6_SRC)?);
    let (claimed, shown) = match u8::try_from(fields.exact(Field::ICMPV6_TYPE)?).ok()? {
        ADVERTISEMENT => (target, Field::ND_TLL),
        SOLICITATION if source.is_unspecified() => (target, Field::ND_SLL),
        SOLICITATION => (source, Field::ND_SLL),
        _ => return None,
    };
    let shown = mac(&fields, shown).filter(|mac| *mac != Mac::default());
    Some((claimed.into(), shown.or_else(|| mac(&fields, Field::ETH_SRC))?))
}

/// What tells the sender of a frame that it is too big: an ICMP error that comes from the router that the frame was for,
/// under one of its addresses.
///
/// The router is asked for by the packet's ends. None where no error may be sent (RFC 1122 §3.2.2, RFC 4443 §2.4): about
/// an error, about what went to many, from nobody in particular, about a later fragment.
pub(super) fn too_big(frame: &[u8], mtu: u32, router: impl Fn(Ends) -> Option<IpAddr>) -> Option<Vec<u8>> {
    let Head { from, to, source, destination, .. } = Head::read(frame).filter(Head::may_be_answered)?;
    let packet = frame.get(14..)?;
    let ethernet = PacketBuilder::ethernet2(to, from);
    let mut error = Vec::new();
    match (source, destination, router(Ends { source, destination })?) {
        (IpAddr::V4(source), IpAddr::V4(_), IpAddr::V4(router)) => {
            let [high, low] = u16::try_from(mtu).unwrap_or(u16::MAX).max(LEAST_V4).to_be_bytes();
            let shown = packet.get(..SHOWN_V4).unwrap_or(packet);
            let ip = ethernet.ipv4(router.octets(), source.octets(), HOPS);
            ip.icmpv4_raw(3, 4, [0, 0, high, low]).write(&mut error, shown).ok()?;
        }
        (IpAddr::V6(source), IpAddr::V6(_), IpAddr::V6(router)) => {
            let shown = packet.get(..SHOWN_V6).unwrap_or(packet);
            let ip = ethernet.ipv6(router.octets(), source.octets(), HOPS);
            ip.icmpv6_raw(2, 0, mtu.max(LEAST_V6).to_be_bytes()).write(&mut error, shown).ok()?;
        }
        _ => return None,
    }
    Some(error)
}

/// The ends of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub source: IpAddr,
    pub destination: IpAddr,
}

/// What is to be known of a packet before an error about it may be sent; the packet may be cut short.
struct Head {
    from: [u8; 6],
    to: [u8; 6],
    source: IpAddr,
    destination: IpAddr,
    /// Whether it is an ICMP error, or may be one.
    is_error: bool,
    is_later_fragment: bool,
}

impl Head {
    fn read(frame: &[u8]) -> Option<Head> {
        let sliced = LaxSlicedPacket::from_ethernet(frame).ok()?;
        let (to, rest) = frame.split_first_chunk()?;
        let from = rest.first_chunk()?;
        let (source, destination, payload) = match sliced.net.as_ref()? {
            LaxNetSlice::Ipv4(v4) => {
                (v4.header().source_addr().into(), v4.header().destination_addr().into(), v4.payload())
            }
            LaxNetSlice::Ipv6(v6) => {
                (v6.header().source_addr().into(), v6.header().destination_addr().into(), v6.payload())
            }
            LaxNetSlice::Arp(_) => return None,
        };
        let kind = payload.payload.first().copied();
        let is_error = match payload.ip_number {
            IpNumber::ICMP => kind.is_none_or(|kind| !asks_or_answers(kind)),
            IpNumber::IPV6_ICMP => kind.is_none_or(|kind| kind < 128 || kind == REDIRECT),
            _ => false,
        };
        Some(Head {
            from: *from,
            to: *to,
            source,
            destination,
            is_error,
            is_later_fragment: payload.fragmented && is_later(sliced.net.as_ref()?),
        })
    }

    /// RFC 1122 §3.2.2, RFC 4443 §2.4.
    fn may_be_answered(&self) -> bool {
        let group = |mac: &[u8; 6]| Mac(*mac).is_multicast();
        let nobody = self.source.is_unspecified() || self.source.is_multicast() || self.source.is_loopback();
        let all = |address: IpAddr| address == IpAddr::V4(Ipv4Addr::BROADCAST);
        let several = self.destination.is_multicast() || all(self.destination) || all(self.source);
        let sound = !group(&self.from) && !group(&self.to) && !nobody && !several;
        sound && !self.is_error && !self.is_later_fragment
    }
}

/// Whether the packet is a fragment other than the first.
fn is_later(net: &LaxNetSlice<'_>) -> bool {
    match net {
        LaxNetSlice::Ipv4(v4) => v4.header().fragments_offset().value() > 0,
        LaxNetSlice::Ipv6(v6) => v6.extensions().clone().into_iter().any(|extension| match extension {
            Ipv6ExtensionSlice::Fragment(fragment) => fragment.fragment_offset().value() > 0,
            _ => false,
        }),
        LaxNetSlice::Arp(_) => false,
    }
}

/// Whether an ICMPv4 message of this type is no error: echo, timestamp, address mask, router discovery.
fn asks_or_answers(kind: u8) -> bool {
    matches!(kind, 0 | 8 | 9 | 10 | 13..=18 | 42 | 43)
}

fn v4(fields: &Match, field: Field) -> Option<Ipv4Addr> {
    fields.exact(field).and_then(|value| u32::try_from(value).ok()).map(Ipv4Addr::from)
}

fn v6(fields: &Match, field: Field) -> Option<Ipv6Addr> {
    fields.exact(field).map(Ipv6Addr::from)
}

fn mac(fields: &Match, field: Field) -> Option<Mac> {
    let [_, _, bytes @ ..] = u64::try_from(fields.exact(field)?).ok()?.to_be_bytes();
    Some(Mac(bytes))
}

#[cfg(test)]
mod tests;
