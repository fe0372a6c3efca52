//! Messages that nobody sent: random, cut, flipped, generated. Nothing panics, and what decodes survives encoding.
#![allow(clippy::expect_used, clippy::panic)] // a failed expectation is a failed test

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use openflow::message::{
    AsyncConfig, AsyncKind, AsyncMasks, Band, BandKind, Body, Bucket, BundleAdd, CtFlush, CtTuple,
    GroupCommand, GroupDesc, GroupMod, GroupType, MAX_LEN, Message, MeterCommand, MeterConfig, MeterMod,
    PacketIn, PacketInFormat, PacketOut, VERSION_13, VERSION_15, packet_fields,
};
use openflow::session::{Session, SessionConfig};
use openflow::{Action, Field, Flow, FlowMod, Match};
use proptest::collection::vec;
use proptest::prelude::*;

/// The recorded messages of OpenFlow 1.3 and 1.5.
fn recorded() -> Vec<Vec<u8>> {
    include_str!("vectors/openflow.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a vector per line"))
        .map(|vector| {
            let hex = vector["hex"].as_str().expect("hex digits").to_owned();
            (0..hex.len())
                .step_by(2)
                .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex digits"))
                .collect()
        })
        .filter(|bytes: &Vec<u8>| matches!(bytes[0], VERSION_13 | VERSION_15))
        .collect()
}

/// What decodes prints, and encodes to something that decodes and encodes to the same bytes.
fn survives(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        let _ = message.to_string();
        let again = message.encode();
        if again.len() <= MAX_LEN {
            let twice = Message::decode(&again).map(|message| message.encode());
            assert_eq!(twice, Ok(again), "{bytes:02x?}\n{message:?}");
        }
    }
}

fn set_length(bytes: &mut [u8]) {
    let length = u16::try_from(bytes.len()).expect("a short message");
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
}

#[test]
fn every_truncation_of_every_recorded_message_is_an_error_or_survives() {
    for message in recorded() {
        for length in 8..message.len() {
            let mut cut = message[..length].to_vec();
            assert!(Message::decode(&cut).is_err(), "the header's length must be believed");
            set_length(&mut cut);
            survives(&cut);
        }
    }
}

#[test]
fn every_flipped_bit_of_every_recorded_message_is_an_error_or_survives() {
    for message in recorded() {
        for bit in 0..message.len().min(256) * 8 {
            let mut flipped = message.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            survives(&flipped);
        }
    }
}

fn any_match() -> impl Strategy<Value = Match> {
    (any::<u32>(), any::<[u32; 3]>(), any::<u64>(), any::<bool>()).prop_map(|(port, regs, tunnel, ct)| {
        let mut matches = Match::new().with(Field::IN_PORT, port);
        for (n, value) in (0..).zip(regs) {
            matches = matches.with(Field::reg(n * 5), value);
        }
        if ct {
            matches = matches.with(Field::CT_ZONE, 5_u16).with(Field::CT_MARK, regs[0]);
        }
        matches.with(Field::TUN_ID, tunnel)
    })
}

fn any_packet_in() -> impl Strategy<Value = PacketIn> {
    let bytes = || vec(any::<u8>(), 0..40);
    let head = (any::<u8>(), any::<u64>(), any::<u8>(), any_match());
    (vec(any::<u8>(), 1..100), 0_u32..2000, head, bytes(), proptest::option::of(bytes())).prop_map(
        |(packet, more, (table, cookie, reason, metadata), userdata, continuation)| PacketIn {
            format: PacketInFormat::Nxt2,
            full_len: u32::try_from(packet.len()).expect("a short packet") + more,
            packet,
            table,
            cookie,
            reason,
            metadata,
            userdata,
            continuation,
            ..PacketIn::default()
        },
    )
}

fn any_actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        any::<u32>().prop_map(Action::output),
        (0..255_u8).prop_map(Action::resubmit),
        any::<u32>().prop_map(|value| Action::set(Field::REG1, value)),
    ];
    vec(action, 0..5)
}

fn any_group_mod() -> impl Strategy<Value = GroupMod> {
    let bucket = (0..1000_u32, any::<u16>(), any_actions())
        .prop_map(|(id, weight, actions)| Bucket { weight, ..Bucket::new(id, actions) });
    let kind = prop_oneof![Just(GroupType::All), Just(GroupType::Select), Just(GroupType::FastFailover)];
    let command =
        prop_oneof![Just(GroupCommand::Add), Just(GroupCommand::Modify), Just(GroupCommand::InsertBucket)];
    (command, kind, any::<u32>(), vec(bucket, 0..4))
        .prop_map(|(command, kind, id, buckets)| GroupMod::new(command, GroupDesc::new(id, kind, buckets)))
}

fn any_meter_mod() -> impl Strategy<Value = MeterMod> {
    let kind = prop_oneof![Just(BandKind::Drop), any::<u8>().prop_map(BandKind::DscpRemark)];
    let band = (kind, any::<u32>(), any::<u32>()).prop_map(|(kind, rate, burst)| Band { kind, rate, burst });
    (any::<u32>(), any::<u16>(), vec(band, 0..4)).prop_map(|(id, flags, bands)| MeterMod {
        command: MeterCommand::Modify,
        meter: MeterConfig { id, flags, bands },
    })
}

fn any_ct_flush() -> impl Strategy<Value = CtFlush> {
    let address = prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits))),
        (1_u128 << 64..).prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits))),
    ];
    let tuple = (
        proptest::option::of(address.clone()),
        proptest::option::of(address),
        any::<(Option<u16>, Option<u16>)>(),
        any::<Option<(u16, u8, u8)>>(),
    )
        .prop_map(|(src, dst, (src_port, dst_port), icmp)| CtTuple {
            src,
            dst,
            src_port,
            dst_port,
            icmp,
        });
    (any::<u8>(), any::<Option<u16>>(), tuple.clone(), tuple)
        .prop_map(|(protocol, zone, original, reply)| CtFlush { protocol, zone, original, reply })
}

fn any_async() -> impl Strategy<Value = AsyncConfig> {
    any::<[u32; 6]>().prop_map(|masks| {
        let kinds = |masks: &[u32]| {
            AsyncMasks::default()
                .with(AsyncKind::PacketIn, masks[0])
                .with(AsyncKind::PortStatus, masks[1])
                .with(AsyncKind::FlowRemoved, masks[2])
        };
        AsyncConfig { primary: kinds(&masks[..3]), secondary: kinds(&masks[3..]), ..AsyncConfig::default() }
    })
}

fn any_body() -> impl Strategy<Value = Body> {
    let flow = (any::<u8>(), any::<u16>(), any::<u64>(), any_match(), any_actions()).prop_map(
        |(table, priority, cookie, matches, actions)| Flow {
            table,
            priority,
            cookie,
            matches,
            actions,
            ..Flow::default()
        },
    );
    let packet_out = (vec(any::<u8>(), 0..100), any_actions())
        .prop_map(|(packet, actions)| Body::PacketOut(PacketOut::new(packet, actions)));
    prop_oneof![
        any_packet_in().prop_map(Body::PacketIn),
        any_packet_in().prop_map(|packet_in| Body::Resume(packet_in.into_resume())),
        packet_out,
        flow.prop_map(|flow| Body::FlowMod(FlowMod::add(flow))),
        any_group_mod().prop_map(Body::GroupMod),
        any_meter_mod().prop_map(Body::MeterMod),
        any_ct_flush().prop_map(Body::CtFlush),
        any_async().prop_map(Body::SetAsync),
        vec(any::<u8>(), 0..50).prop_map(Body::EchoRequest),
    ]
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        version in prop_oneof![Just(VERSION_13), Just(VERSION_15), any::<u8>()],
        kind in 0_u8..36,
        body in vec(any::<u8>(), 0..200),
        vendor in prop_oneof![Just(None), (0_u8..40).prop_map(Some)],
    ) {
        let mut bytes = [&[version, kind, 0, 0, 0, 0, 0, 1][..], &body].concat();
        if let Some(subtype) = vendor && bytes.len() > 16 {
            bytes[1] = 4;
            bytes[8..16].copy_from_slice(&[0, 0, 0x23, 0x20, 0, 0, 0, subtype]);
        }
        set_length(&mut bytes);
        survives(&bytes);
    }

    #[test]
    fn random_frames_never_panic(frame in vec(any::<u8>(), 0..120), eth_type in 0_usize..6) {
        let mut frame = frame;
        if frame.len() > 24 {
            let types = [0x0800_u16, 0x86dd, 0x0806, 0x8100, 0x0026, 0x88cc];
            frame[12..14].copy_from_slice(&types[eth_type].to_be_bytes());
            frame[14] = if eth_type == 1 { 0x60 } else { 0x45 };
        }
        let _ = packet_fields(&frame).to_string();
    }

    #[test]
    fn a_session_never_panics(pieces in vec(vec(any::<u8>(), 0..60), 0..10), at in 0_usize..475) {
        let now = Instant::now();
        let mut session = Session::new(SessionConfig::default(), now);
        let hello = Message { version: VERSION_15, xid: 0, body: Body::Hello(openflow::message::Hello::only(6)) };
        session.handle_bytes(&hello.encode(), now);
        session.handle_bytes(&recorded()[at], now);
        for piece in pieces {
            session.handle_bytes(&piece, now);
            while session.poll_event().is_some() {}
            let _ = session.poll_output();
        }
        session.handle_end();
    }

    #[test]
    fn what_is_generated_survives(body in any_body(), xid in any::<u32>()) {
        let message = Message { version: VERSION_15, xid, body };
        let bytes = message.encode();
        prop_assert_eq!(Message::decode(&bytes), Ok(message.clone()));
        let _ = message.to_string();
        let in_bundle = BundleAdd { id: 1, flags: 3, message: Box::new(message), properties: Vec::new() };
        let outer = Message { version: VERSION_15, xid, body: Body::BundleAdd(in_bundle) };
        prop_assert_eq!(Message::decode(&outer.encode()), Ok(outer));
    }
}
