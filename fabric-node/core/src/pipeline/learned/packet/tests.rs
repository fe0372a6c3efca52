use etherparse::{IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, PacketBuilder};
use openflow::Match;

use super::super::super::protocols::{TCP, UDP};
use super::*;

const ETHERNET_V4: [u8; 14] = [2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x08, 0x00];
const ETHERNET_V6: [u8; 14] = [2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 0x86, 0xdd];

/// A piece of a packet: its offset in bytes, and whether more follows.
fn piece_v4(protocol: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let mut header = Ipv4Header::new(length, 64, IpNumber(protocol), [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
    header.fragment_offset = IpFragOffset::try_new(offset / 8).unwrap();
    header.more_fragments = more;
    let mut frame = ETHERNET_V4.to_vec();
    header.write(&mut frame).unwrap();
    frame.extend(payload);
    frame
}

fn piece_v6(protocol: u8, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    let offset = IpFragOffset::try_new(offset / 8).unwrap();
    let fragment = Ipv6FragmentHeader::new(IpNumber(protocol), offset, more, 7);
    let header = Ipv6Header {
        payload_length: u16::try_from(payload.len() + 8).unwrap(),
        next_header: IpNumber(44),
        hop_limit: 64,
        source: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        destination: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        ..Ipv6Header::default()
    };
    let mut frame = ETHERNET_V6.to_vec();
    header.write(&mut frame).unwrap();
    fragment.write(&mut frame).unwrap();
    frame.extend(payload);
    frame
}

/// What a packet shows: protocol, source port, destination port, which piece it is.
fn shown(frame: &[u8]) -> (u8, Option<u16>, Option<u16>, Part) {
    let tuple = read_frame(frame).unwrap();
    (tuple.traffic.protocol, tuple.source_port, tuple.traffic.port, tuple.part)
}

/// Source port 1000, destination port 3868, and four bytes more.
const PORTS: [u8; 8] = [0x03, 0xe8, 0x0f, 0x1c, 0, 0, 0, 0];

#[test]
fn ports_are_read_of_whole_packets_and_first_fragments() {
    for piece in [piece_v4, piece_v6] {
        for protocol in [TCP, UDP, SCTP] {
            let ports = (Some(1000), Some(3868));
            let whole = shown(&piece(protocol, 0, false, &PORTS));
            assert_eq!(whole, (protocol, ports.0, ports.1, Part::Whole));
            let first = shown(&piece(protocol, 0, true, &PORTS));
            assert_eq!(first, (protocol, ports.0, ports.1, Part::First));
            for more in [true, false] {
                let later = shown(&piece(protocol, 8, more, &PORTS));
                assert_eq!(later, (protocol, None, None, Part::Later), "what looks like ports is data");
            }
        }
        assert_eq!(shown(&piece(1, 0, false, &PORTS)), (1, None, None, Part::Whole));
        assert_eq!(shown(&piece(UDP, 0, true, &PORTS[..3])), (UDP, None, None, Part::First));
    }
}

#[test]
fn what_is_cut_or_no_ip_is_not_read() {
    let frame = piece_v4(UDP, 0, false, &PORTS);
    for length in 0..frame.len() {
        let _ = read_frame(&frame[..length]);
    }
    assert_eq!(read_frame(&frame[..14 + 19]), None);
    let mut arp = frame;
    arp[13] = 0x06;
    assert_eq!(read_frame(&arp), None);
}

fn packet_in(frame: Vec<u8>, metadata: Match) -> PacketIn {
    PacketIn { packet: frame, metadata, continuation: Some(vec![1]), ..PacketIn::default() }
}

/// A packet-in of Egress with these bits of `ct_state` and this mark.
fn punt(frame: Vec<u8>, state: u32, mark: u32) -> Punt {
    let reg0 = Origin::Pod.bit() | u32::from(Table::Egress.id()) << 20;
    let metadata = Match::new().with(REG_FLAGS, reg0).with(Field::IN_PORT, 5u32);
    let metadata = metadata.with(Field::CT_STATE, state).with(Field::CT_MARK, mark);
    Punt::read(&packet_in(frame, metadata)).unwrap()
}

const NEW: u32 = state::TRACKED | state::NEW;
const ANSWER: u32 = state::TRACKED | state::REPLY;
const ERROR: u32 = state::TRACKED | state::RELATED;

#[test]
fn a_packet_is_to_its_conversation_what_connection_tracking_says() {
    let course =
        |protocol, more, state, mark| punt(piece_v4(protocol, 0, more, &PORTS), state, mark).course();
    assert_eq!(course(UDP, false, NEW, 0), Course::Judged(Part::Whole));
    assert_eq!(course(UDP, true, NEW, 0), Course::Judged(Part::First));
    for state in [NEW, ANSWER] {
        assert_eq!(course(SCTP, false, state, SEEN), Course::Judged(Part::There(1000)));
    }
    assert_eq!(course(1, false, ERROR, SEEN), Course::Related);
    for (protocol, more, state, mark) in [
        (UDP, false, ANSWER, 0),
        (UDP, false, ANSWER, SEEN),
        (1, false, ERROR, 0),
        (1, false, ERROR | ANSWER, 0),
    ] {
        assert_eq!(course(protocol, more, state, mark), Course::Stray, "{protocol} {more} {state:#x} {mark}");
    }
    let cut = punt(piece_v4(UDP, 0, false, &PORTS[..3]), NEW, 0);
    assert_eq!(cut.course(), Course::Stray, "no ports, no verdict");
}

#[test]
fn connection_tracking_knows_the_protocol_of_later_fragments() {
    let metadata = Match::new().with(Field::CT_STATE, NEW).with(Field::CT_NW_PROTO, UDP);
    // The rest begins with a destination header (60), which a later fragment does not show.
    let tuple = Tuple::read(&packet_in(piece_v6(60, 8, false, &PORTS), metadata)).unwrap();
    assert_eq!((tuple.traffic.protocol, tuple.part), (UDP, Part::Later));
}

#[test]
fn a_copy_says_which_question_its_flow_answers() {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.udp(1000, 53).write(&mut frame, b"x").unwrap();
    let copy = |kind| PacketIn {
        continuation: None,
        userdata: vec![DENIED],
        cookie: Cookie::new(kind, 77).0,
        ..packet_in(frame.clone(), Match::new())
    };
    let read = |kind| Denied::read(&copy(kind)).unwrap();
    assert!(Denied::is_copy(&copy(Kind::Egress)));
    assert_eq!(read(Kind::Egress).question.direction, Direction::Egress);
    assert_eq!(read(Kind::Egress).question.subject, IpAddr::from([10, 0, 0, 1]));
    for kind in [Kind::Ingress, Kind::Peer] {
        assert_eq!(read(kind).question.direction, Direction::Ingress);
        assert_eq!(read(kind).question.subject, IpAddr::from([10, 0, 0, 2]));
        assert_eq!((read(kind).source_port, read(kind).question.traffic.port), (Some(1000), Some(53)));
    }
    assert_eq!(Denied::read(&copy(Kind::Route)), Err(PuntError::Metadata("the cookie of a verdict")));
    assert!(!Denied::is_copy(&packet_in(frame.clone(), Match::new())), "it waits");
}
