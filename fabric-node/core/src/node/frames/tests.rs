use super::*;

const MAC: Mac = Mac([0x0e, 1, 2, 3, 4, 5]);
const ROUTER: Mac = Mac([0x0a, 0x58, 0, 0, 0, 1]);

fn number(frame: &[u8], field: Field) -> u128 {
    packet_fields(frame).exact(field).unwrap_or_else(|| panic!("no {field:?} in {frame:02x?}"))
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// The sum over which a good checksum makes all ones (RFC 1071), with a pseudo-header of IPv6 for ICMPv6.
fn sums_up(frame: &[u8]) -> bool {
    let (pseudo, body) = match number(frame, Field::ETH_TYPE) {
        0x0800 => (Vec::new(), &frame[34..]),
        _ => {
            // Options for every hop are eight bytes here, and no part of the sum.
            let at = if frame[20] == HOP_OPTIONS { 62 } else { 54 };
            let length = u32::try_from(frame.len() - at).unwrap();
            ([&frame[22..54], &length.to_be_bytes(), &[0, 0, 0, ICMPV6]].concat(), &frame[at..])
        }
    };
    let all = [&pseudo[..], body, if body.len() % 2 == 1 { &[0] } else { &[] }].concat();
    let mut sum: u32 = all.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

#[test]
fn a_probe_of_ipv4_says_nothing_of_its_sender() {
    let frame = probe(MAC, v4("10.100.0.5").into()).unwrap();
    assert_eq!(frame.len(), 42);
    assert_eq!(number(&frame, Field::ETH_DST), Mac::BROADCAST.to_u64().into());
    assert_eq!(number(&frame, Field::ETH_SRC), MAC.to_u64().into());
    assert_eq!(number(&frame, Field::ARP_OP), 1);
    assert_eq!(number(&frame, Field::ARP_SHA), MAC.to_u64().into());
    assert_eq!((number(&frame, Field::ARP_SPA), number(&frame, Field::ARP_THA)), (0, 0));
    assert_eq!(number(&frame, Field::ARP_TPA), u32::from(v4("10.100.0.5")).into());
}

#[test]
fn a_probe_of_ipv6_is_a_solicitation_from_nobody_to_the_group_of_the_address() {
    let frame = probe(MAC, v6("fd64::12:3456").into()).unwrap();
    assert_eq!(&frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
    assert_eq!(number(&frame, Field::IPV6_SRC), 0);
    assert_eq!(number(&frame, Field::IPV6_DST), u128::from(v6("ff02::1:ff12:3456")));
    assert_eq!(number(&frame, Field::IP_TTL), 255);
    assert_eq!(number(&frame, Field::ICMPV6_TYPE), 135);
    assert_eq!(number(&frame, Field::ND_TARGET), u128::from(v6("fd64::12:3456")));
    assert_eq!(frame.len(), 14 + 40 + 24, "no option of a link-layer address (RFC 4861 §4.3)");
    assert!(sums_up(&frame));
}

#[test]
fn who_looks_for_an_address_joins_its_group_before() {
    let frame = joins(MAC, v6("fd64::12:3456")).unwrap();
    assert_eq!(&frame[..12], [[0x33, 0x33, 0, 0, 0, 0x16], MAC.0].concat());
    assert_eq!(number(&frame, Field::IPV6_SRC), 0);
    assert_eq!(number(&frame, Field::IPV6_DST), u128::from(v6("ff02::16")));
    assert_eq!((number(&frame, Field::IP_TTL), number(&frame, Field::ICMPV6_TYPE)), (1, 143));
    assert_eq!(frame[18..20], 36u16.to_be_bytes(), "the length of what follows");
    assert_eq!(frame[54..62], [ICMPV6, 0, 5, 2, 0, 0, 1, 0], "a router alert for MLD");
    assert_eq!(frame[68..74], [0, 1, 4, 0, 0, 0], "one record: everything that is sent to");
    assert_eq!(frame[74..], v6("ff02::1:ff12:3456").octets());
    assert!(sums_up(&frame));
}

#[test]
fn announcements_name_address_and_owner() {
    let frame = announcement(MAC, v4("10.100.0.5").into()).unwrap();
    assert_eq!(number(&frame, Field::ARP_SPA), number(&frame, Field::ARP_TPA));
    assert_eq!(number(&frame, Field::ARP_OP), 1, "a request: RFC 5227 §3");
    let frame = announcement(MAC, v6("fd64::5").into()).unwrap();
    assert_eq!(number(&frame, Field::IPV6_DST), u128::from(v6("ff02::1")));
    assert_eq!(number(&frame, Field::ND_TLL), MAC.to_u64().into());
    assert_eq!(frame[58], 0x20, "override");
    assert!(sums_up(&frame));
}

#[test]
fn whoever_uses_an_address_or_looks_for_it_is_a_claimant() {
    for address in ["10.100.0.5", "fd64::5"] {
        let address: IpAddr = address.parse().unwrap();
        for frame in [probe(MAC, address), announcement(MAC, address)] {
            assert_eq!(claimant(&frame.unwrap()), Some((address, MAC)));
        }
    }
    // A question of somebody who has an address of his own claims that one.
    let asks = arp(MAC, v4("10.100.0.1"), v4("10.100.0.5"));
    assert_eq!(claimant(&asks), Some((v4("10.100.0.1").into(), MAC)));
    let mut asks = probe(MAC, v6("fd64::5").into()).unwrap();
    asks[22..38].copy_from_slice(&v6("fd64::1").octets());
    assert_eq!(claimant(&asks), Some((v6("fd64::1").into(), MAC)));
    asks[21] = 254;
    assert_eq!(claimant(&asks), None, "a router has passed it on");
    assert_eq!(claimant(&[]), None);
    assert_eq!(claimant(&udp(v4("10.0.0.1"), v4("10.0.0.2"), 10)), None);
}

#[test]
fn an_advertisement_without_option_is_its_senders() {
    let address = v6("fd64::5");
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MAC.0, ROUTER.0)
        .ipv6(address.octets(), v6("fd64::1").octets(), 255)
        .icmpv6_raw(ADVERTISEMENT, 0, [0x60, 0, 0, 0])
        .write(&mut frame, &address.octets())
        .unwrap();
    assert_eq!(claimant(&frame), Some((address.into(), MAC)));
}

fn udp(from: Ipv4Addr, to: Ipv4Addr, length: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MAC.0, ROUTER.0)
        .ipv4(from.octets(), to.octets(), 63)
        .udp(1000, 2000)
        .write(&mut frame, &vec![0x55; length])
        .unwrap();
    frame
}

fn udp6(from: Ipv6Addr, to: Ipv6Addr, length: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MAC.0, ROUTER.0)
        .ipv6(from.octets(), to.octets(), 63)
        .udp(1000, 2000)
        .write(&mut frame, &vec![0x55; length])
        .unwrap();
    frame
}

fn answer(frame: &[u8], mtu: u32) -> Option<Vec<u8>> {
    too_big(frame, mtu, |ends| {
        Some(if ends.source.is_ipv4() { v4("10.244.0.1").into() } else { v6("fd44::1").into() })
    })
}

#[test]
fn too_big_for_ipv4_tells_the_mtu_and_shows_the_packet() {
    let (from, to) = (v4("10.244.0.5"), v4("10.244.1.6"));
    let frame = udp(from, to, 1441);
    let error = answer(&frame, 1438).unwrap();
    assert_eq!((number(&error, Field::ICMP_TYPE), number(&error, Field::ICMP_CODE)), (3, 4));
    assert_eq!(error[40..42], 1438u16.to_be_bytes());
    assert_eq!(number(&error, Field::ETH_SRC), ROUTER.to_u64().into());
    assert_eq!(number(&error, Field::ETH_DST), MAC.to_u64().into());
    assert_eq!(number(&error, Field::IPV4_SRC), u32::from(v4("10.244.0.1")).into());
    assert_eq!(number(&error, Field::IPV4_DST), u32::from(from).into());
    assert_eq!(error.len(), 14 + 576);
    assert_eq!(error[42..], frame[14..14 + 548]);
    assert!(sums_up(&error));
    // A head that the switch cut short is shown whole.
    let error = answer(&frame[..100], 1438).unwrap();
    assert_eq!(error[42..], frame[14..100]);
    assert!(sums_up(&error));
}

#[test]
fn too_big_for_ipv6_fits_into_the_least_mtu() {
    let (from, to) = (v6("fd44::5"), v6("fd44::6"));
    let frame = udp6(from, to, 1400);
    let error = answer(&frame, 1418).unwrap();
    assert_eq!((number(&error, Field::ICMPV6_TYPE), number(&error, Field::ICMPV6_CODE)), (2, 0));
    assert_eq!(error[58..62], 1418u32.to_be_bytes());
    assert_eq!(error.len(), 14 + 1280);
    assert_eq!(error[62..], frame[14..14 + 1232]);
    assert!(sums_up(&error));
    assert_eq!(answer(&frame, 900).unwrap()[58..62], 1280u32.to_be_bytes(), "no less than the least");
}

#[test]
fn what_must_not_be_answered_is_not() {
    let (pod, peer) = (v4("10.244.0.5"), v4("10.244.1.6"));
    assert!(answer(&udp(pod, peer, 1441), 1400).is_some());
    for (from, to) in
        [(pod, v4("224.0.0.5")), (pod, Ipv4Addr::BROADCAST), (v4("0.0.0.0"), peer), (v4("127.0.0.1"), peer)]
    {
        assert_eq!(answer(&udp(from, to, 1441), 1400), None, "{from} to {to}");
    }
    assert_eq!(answer(&udp6(v6("fd44::5"), v6("ff02::5"), 1441), 1400), None);
    assert_eq!(answer(&udp6(v6("::"), v6("fd44::5"), 1441), 1400), None);
    let mut later = udp(pod, peer, 1441);
    later[21] = 0x10;
    assert_eq!(answer(&later, 1400), None, "a later fragment");
    let mut group = udp(pod, peer, 1441);
    group[0] = 0x01;
    assert_eq!(answer(&group, 1400), None, "sent to a group of machines");
    let error = answer(&udp(pod, peer, 1441), 1400).unwrap();
    assert_eq!(answer(&error, 100), None, "an error");
    let error = answer(&udp6(v6("fd44::5"), v6("fd44::6"), 1441), 1400).unwrap();
    assert_eq!(answer(&error, 1280), None, "an error");
    assert_eq!(answer(&udp(pod, peer, 1441)[..20], 1400), None);
}

#[test]
fn big_pings_are_answered() {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MAC.0, ROUTER.0)
        .ipv4([10, 244, 0, 5], [10, 244, 0, 6], 63)
        .icmpv4_echo_request(1, 1)
        .write(&mut frame, &[0; 1440])
        .unwrap();
    assert!(answer(&frame, 1400).is_some());
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MAC.0, ROUTER.0)
        .ipv6(v6("fd44::5").octets(), v6("fd44::6").octets(), 63)
        .icmpv6_echo_request(1, 1)
        .write(&mut frame, &[0; 1440])
        .unwrap();
    assert!(answer(&frame, 1400).is_some());
}
