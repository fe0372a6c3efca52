//! Messages of our own, printed by the installed `ovs-ofctl ofp-print` and by this library: kinds that the recording
//! lacks, and many values of those that it has.
#![allow(clippy::expect_used, clippy::panic)] // a failed expectation is a failed test

mod common {
    pub mod flows;
}

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::Duration;

use common::flows::{Rng, flow};
use openflow::message::{
    Aggregate, AsyncConfig, AsyncForm, AsyncKind, AsyncMasks, BUCKET_ALL, BUCKET_FIRST, BUCKET_LAST, BURST,
    Band, BandKind, Body, Bucket, BundleAdd, BundleControl, BundleStep, CtFlush, CtTuple, Ethernet, Features,
    FlowRemoved, FlowRequest, GROUP_ALL, GROUP_ANY, GroupCommand, GroupDesc, GroupFeatures, GroupMod,
    GroupStats, GroupType, Hello, KBPS, METER_ALL, MORE, Message, MeterCommand, MeterConfig, MeterFeatures,
    MeterMod, MeterStats, MultipartReply, MultipartRequest, OfError, PKTPS, PacketIn, PacketInFormat,
    PacketOut, PortDesc, PortReason, PortStatus, RemovedReason, Reply, Request, STATS, SwitchConfig,
    VERSION_13, VERSION_15,
};
use openflow::{Action, Field, Flow, FlowMod, FlowModCommand, FlowStats, Mac, Match, port};

const SEED: u64 = 7;

fn ofp_print(message: &[u8]) -> String {
    let hex: String = message.iter().map(|byte| format!("{byte:02x}")).collect();
    let ran = Command::new("ovs-ofctl").args(["-voff", "ofp-print", &hex, "3"]).output();
    let ran =
        ran.unwrap_or_else(|e| panic!("cannot run ovs-ofctl ({e}): install the package openvswitch-common"));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// Holds what we print against what `ovs-ofctl` prints, in both versions.
fn compare(bodies: impl IntoIterator<Item = Body>) {
    let mut wrong = Vec::new();
    for body in bodies {
        for version in [VERSION_13, VERSION_15] {
            let message = Message { version, xid: 0x1234, body: body.clone() };
            let bytes = message.encode();
            // What a version cannot say is lost on the way: the decoded message is what counts.
            let read = Message::decode(&bytes).unwrap_or_else(|error| panic!("{message:?}: {error}"));
            let (ours, theirs) = (read.to_string(), ofp_print(&bytes));
            if ours != theirs {
                wrong.push(format!("ours\n{ours}\ntheirs\n{theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

fn flows(rng: &mut Rng, count: usize) -> Vec<Flow> {
    std::iter::repeat_with(|| flow(rng)).filter_map(|text| text.parse().ok()).take(count).collect()
}

fn number(rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(1 << 32)).expect("32 bits")
}

#[test]
fn handshake_and_configuration() {
    let features =
        Features { datapath_id: 0x1234_5678_9abc, n_tables: 254, capabilities: 0x14f, ..Features::default() };
    let auxiliary = Features { auxiliary_id: 3, n_buffers: 7, capabilities: 0x8000_0000, ..features };
    compare([
        Body::Hello(Hello::only(6)),
        Body::Hello(Hello { versions: Some(0x7e), other: Vec::new() }),
        Body::Hello(Hello { versions: None, other: Vec::new() }),
        Body::EchoRequest(Vec::new()),
        Body::EchoReply((0..40).collect()),
        Body::FeaturesRequest,
        Body::FeaturesReply(features),
        Body::FeaturesReply(auxiliary),
        Body::GetConfigRequest,
        Body::GetConfigReply(SwitchConfig { flags: 1, miss_send_len: 128 }),
        Body::SetConfig(SwitchConfig { flags: 2, miss_send_len: 0xffff }),
        Body::SetPacketInFormat(PacketInFormat::Nxt2),
        Body::BarrierRequest,
        Body::BarrierReply,
        Body::CtFlushZone(65535),
    ]);
}

#[test]
fn asynchronous_configuration() {
    let masks = |packet_in, port, removed| {
        AsyncMasks::default()
            .with(AsyncKind::PacketIn, packet_in)
            .with(AsyncKind::PortStatus, port)
            .with(AsyncKind::FlowRemoved, removed)
    };
    let form = AsyncForm::Standard;
    let config = AsyncConfig { form, primary: masks(0x7, 0x7, 0xf), secondary: masks(0, 0x4, 0) };
    let older = AsyncConfig { form: AsyncForm::Nxt, ..config };
    compare([
        Body::SetAsync(config),
        Body::SetAsync(older),
        Body::GetAsyncReply(config),
        Body::GetAsyncRequest,
    ]);
    let properties = Body::SetAsync(AsyncConfig { form: AsyncForm::Nxt2, ..config });
    let message = Message { version: VERSION_13, xid: 1, body: properties };
    assert_eq!(message.to_string(), ofp_print(&message.encode()));
}

#[test]
fn errors() {
    let quoted = Message { version: VERSION_15, xid: 9, body: Body::BarrierRequest }.encode();
    let packet_out = Body::PacketOut(PacketOut::new(tcp(), vec![Action::output(1)]));
    let brief = Message { version: VERSION_15, xid: 9, body: packet_out }.encode();
    let error = |kind, code, data: &[u8]| {
        Body::Error(OfError { version: VERSION_15, kind, code, vendor: 0, data: data.to_vec() })
    };
    let nicira = OfError { version: VERSION_15, kind: 35, code: 0, vendor: 0x2320, data: quoted.clone() };
    compare([
        error(0, 0, b"you are\ttoo old"),
        error(1, 5, &quoted),
        error(4, 9, &quoted[..5]),
        error(4, 9, &[]),
        error(5, 3, &brief),
        Body::Error(nicira),
    ]);
}

#[test]
fn flow_mods_and_removed_flows() {
    let mut rng = Rng::new(SEED);
    let mut bodies = Vec::new();
    for (i, flow) in flows(&mut rng, 60).into_iter().enumerate() {
        let commands = [
            FlowModCommand::Add,
            FlowModCommand::Modify,
            FlowModCommand::ModifyStrict,
            FlowModCommand::Delete,
            FlowModCommand::DeleteStrict,
        ];
        let removed = FlowRemoved {
            table: flow.table,
            reason: [RemovedReason::Idle, RemovedReason::Hard, RemovedReason::GroupDelete][i % 3],
            priority: flow.priority,
            cookie: flow.cookie,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            matches: flow.matches.clone(),
            duration_sec: number(&mut rng),
            duration_nsec: number(&mut rng) % 1_000_000_000,
            packets: rng.next(),
            bytes: rng.next() >> 1,
        };
        let mut flow_mod = FlowMod::new(commands[i % 5], flow);
        if i % 5 > 0 {
            flow_mod.cookie_mask = [0, 0xff, u64::MAX][i % 3];
            flow_mod.out_port = [port::ANY, 7, port::CONTROLLER][i % 3];
        }
        bodies.extend([Body::FlowMod(flow_mod), Body::FlowRemoved(removed)]);
    }
    compare(bodies);
}

#[test]
fn flow_statistics() {
    let mut rng = Rng::new(SEED + 1);
    let parts = [0, 1_000_000, 120_000_000, 123_456_789, 123_000_100, 5_000, 50_000, 1_234_000];
    let mut stats = Vec::new();
    for (i, flow) in flows(&mut rng, 40).into_iter().enumerate() {
        stats.push(FlowStats {
            flow,
            duration: Duration::new(rng.below(1000), parts[i % 8]),
            packets: rng.next(),
            bytes: rng.next(),
            idle_age: (i % 2 == 0).then_some(3),
            ..FlowStats::default()
        });
    }
    let sums = Aggregate { packets: 5, bytes: 600, flows: 7 };
    let reply = |flags, body| Body::MultipartReply(MultipartReply { flags, body });
    let asked = FlowRequest {
        table: 3,
        out_port: 4,
        matches: Match::new().with(Field::ETH_TYPE, 0x0806_u16),
        ..FlowRequest::default()
    };
    let mut bodies: Vec<Body> =
        stats.chunks(7).map(|chunk| reply(MORE, Reply::Flow(chunk.to_vec()))).collect();
    bodies.push(reply(0, Reply::Aggregate(sums)));
    for request in
        [Request::Flow(asked.clone()), Request::Aggregate(asked), Request::Flow(FlowRequest::default())]
    {
        bodies.push(Body::MultipartRequest(request.into()));
    }
    compare(bodies);
}

fn groups() -> Vec<GroupDesc> {
    let plain = Bucket { weight: 0, ..Bucket::new(4, vec![Action::output(2), Action::resubmit(5)]) };
    let watching = Bucket { weight: 0, watch_port: 3, watch_group: 9, ..Bucket::new(7, vec![]) };
    let weighted = |id, weight| Bucket { weight, ..Bucket::new(id, vec![Action::output(id)]) };
    vec![
        GroupDesc::new(1, GroupType::All, vec![plain.clone()]),
        GroupDesc::new(2, GroupType::Select, vec![weighted(0, 1), weighted(1, 100)]),
        GroupDesc::new(3, GroupType::Indirect, vec![plain]),
        GroupDesc::new(4, GroupType::FastFailover, vec![watching]),
        GroupDesc::new(5, GroupType::All, Vec::new()),
    ]
}

#[test]
fn group_messages() {
    let mut bodies = Vec::new();
    for group in groups() {
        for command in [GroupCommand::Add, GroupCommand::Modify, GroupCommand::AddOrModify] {
            bodies.push(Body::GroupMod(GroupMod::new(command, group.clone())));
        }
    }
    let stats = |id, buckets| GroupStats {
        id,
        references: 2,
        packets: 10,
        bytes: 1000,
        duration_sec: 3,
        duration_nsec: 456_000_000,
        buckets,
    };
    let features = GroupFeatures {
        types: 0b1011,
        capabilities: 5,
        max_groups: [1, 2, 3, 4],
        actions: [1, 0, 0x40_0001, 0],
    };
    for reply in [
        Reply::Group(vec![stats(1, vec![(1, 2), (3, 4)]), stats(2, Vec::new())]),
        Reply::GroupDesc(groups()),
        Reply::GroupFeatures(features),
    ] {
        bodies.push(Body::MultipartReply(MultipartReply { flags: 0, body: reply }));
    }
    for request in
        [Request::Group(GROUP_ANY), Request::Group(7), Request::GroupDesc(GROUP_ALL), Request::GroupFeatures]
    {
        bodies.push(Body::MultipartRequest(MultipartRequest::from(request)));
    }
    compare(bodies);
}

#[test]
fn bucket_commands() {
    let group = groups().remove(1);
    for (command, bucket) in [
        (GroupCommand::InsertBucket, BUCKET_FIRST),
        (GroupCommand::InsertBucket, BUCKET_LAST),
        (GroupCommand::InsertBucket, 17),
        (GroupCommand::RemoveBucket, BUCKET_ALL),
    ] {
        let mut group = group.clone();
        if command == GroupCommand::RemoveBucket {
            group.buckets.clear();
        }
        let body = Body::GroupMod(GroupMod { command, command_bucket: bucket, group });
        let message = Message { version: VERSION_15, xid: 1, body };
        assert_eq!(message.to_string(), ofp_print(&message.encode()));
    }
}

#[test]
fn meter_messages() {
    let drop = Band { kind: BandKind::Drop, rate: 100, burst: 20 };
    let remark = Band { kind: BandKind::DscpRemark(2), rate: 5, burst: 0 };
    let meters = [
        MeterConfig { id: 1, flags: KBPS, bands: vec![drop, remark] },
        MeterConfig { id: 0xffff_fffd, flags: PKTPS | BURST | STATS, bands: vec![drop] },
        MeterConfig { id: METER_ALL, flags: 0, bands: Vec::new() },
    ];
    let mut bodies = Vec::new();
    for (meter, command) in meters.iter().zip([MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete])
    {
        bodies.push(Body::MeterMod(MeterMod { command, meter: meter.clone() }));
    }
    let stats = MeterStats {
        id: 3,
        flows: 4,
        packets: 5,
        bytes: 6,
        duration_sec: 7,
        duration_nsec: 8,
        bands: vec![(9, 10), (11, 12)],
    };
    let features = MeterFeatures {
        max_meters: 9,
        band_types: 6,
        capabilities: 0xf,
        max_bands: 2,
        max_color: 1,
        extra: [0; 2],
    };
    for reply in [
        Reply::MeterConfig(meters[..2].to_vec()),
        Reply::Meter(vec![stats.clone(), stats]),
        Reply::MeterFeatures(features),
    ] {
        bodies.push(Body::MultipartReply(MultipartReply { flags: 0, body: reply }));
    }
    for request in [Request::Meter(METER_ALL), Request::MeterConfig(5), Request::MeterFeatures] {
        bodies.push(Body::MultipartRequest(MultipartRequest::from(request)));
    }
    compare(bodies);
}

#[test]
fn port_messages() {
    let mut name_bytes = [0; 16];
    name_bytes[..4].copy_from_slice(b"eth0");
    let ethernet = Ethernet {
        current: 0x840,
        advertised: 0xffff,
        supported: 0x20,
        peer: 1,
        current_speed: 10_000_000,
        max_speed: 40_000_000,
    };
    let one = PortDesc {
        number: 7,
        mac: Mac([2, 0, 0, 0, 0, 9]),
        name_bytes,
        config: 0x65,
        state: 0x7,
        ethernet: Some(ethernet),
        other: Vec::new(),
    };
    let local = PortDesc {
        number: port::LOCAL,
        config: 0,
        state: 0,
        ethernet: Some(Ethernet::default()),
        ..one.clone()
    };
    let status = |reason, port: &PortDesc| Body::PortStatus(PortStatus { reason, port: port.clone() });
    compare([
        Body::MultipartReply(MultipartReply {
            flags: 0,
            body: Reply::PortDesc(vec![local.clone(), one.clone()]),
        }),
        Body::MultipartRequest(Request::PortDesc(port::ANY).into()),
        status(PortReason::Add, &one),
        status(PortReason::Delete, &local),
        status(PortReason::Modify, &one),
    ]);
}

#[test]
fn conntrack_flushes() {
    let v4 = |last| Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)));
    let v6 = |last| Some(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last)));
    let tcp = CtTuple { src: v4(1), dst: v4(2), src_port: Some(1), dst_port: Some(2), icmp: None };
    let six = CtTuple { src: v6(1), dst: v6(2), ..tcp };
    let ping = CtTuple { src: v4(1), dst: v4(2), icmp: Some((7, 8, 0)), ..CtTuple::default() };
    compare([
        Body::CtFlush(CtFlush::default()),
        Body::CtFlush(CtFlush::zone(7)),
        Body::CtFlush(CtFlush { protocol: 6, original: tcp, reply: tcp, zone: None }),
        Body::CtFlush(CtFlush { protocol: 17, original: six, zone: Some(1), ..CtFlush::default() }),
        Body::CtFlush(CtFlush { protocol: 1, original: ping, zone: Some(1), ..CtFlush::default() }),
    ]);
}

#[test]
fn bundles() {
    let steps = [
        BundleStep::OpenRequest,
        BundleStep::OpenReply,
        BundleStep::CloseRequest,
        BundleStep::CloseReply,
        BundleStep::CommitRequest,
        BundleStep::CommitReply,
        BundleStep::DiscardRequest,
        BundleStep::DiscardReply,
    ];
    compare(
        (0..4).zip(steps).map(|(flags, step)| Body::BundleControl(BundleControl { id: 0x1f, step, flags })),
    );
    for version in [VERSION_13, VERSION_15] {
        let body = Body::PacketOut(PacketOut::new(tcp(), vec![Action::output(1)]));
        let message = Box::new(Message { version, xid: 3, body });
        let add = BundleAdd { id: 1, flags: 3, message, properties: Vec::new() };
        let outer = Message { version, xid: 3, body: Body::BundleAdd(add) };
        assert_eq!(outer.to_string(), ofp_print(&outer.encode()));
    }
}

fn ethernet(eth_type: u16, rest: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &eth_type.to_be_bytes(), rest].concat()
}

fn ipv4(protocol: u8, fragment: u16, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + body.len()).expect("a short packet").to_be_bytes();
    let [f0, f1] = fragment.to_be_bytes();
    let header =
        [0x45, 0xb9, length[0], length[1], 0, 1, f0, f1, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    ethernet(0x0800, &[&header[..], body].concat())
}

fn ipv6(next: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("a short packet").to_be_bytes();
    let header = [0x6b, 0x91, 0x23, 0x45, length[0], length[1], next, 255];
    let addresses = [Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)];
    ethernet(0x86dd, &[&header[..], &addresses[0].octets(), &addresses[1].octets(), body].concat())
}

fn tcp_header() -> Vec<u8> {
    vec![0x04, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 1, 0, 0xab, 0xcd, 0, 0]
}

fn tcp() -> Vec<u8> {
    ipv4(6, 0, &tcp_header())
}

fn frames() -> Vec<Vec<u8>> {
    let udp = [4, 0, 8, 0, 0, 12, 0x12, 0x34, 1, 2, 3, 4];
    let icmp = [8, 0, 0x55, 0x66, 0, 1, 0, 2, 9, 9];
    let sctp = [4, 0, 8, 0, 0, 0, 0, 1, 0xde, 0xad, 0xbe, 0xef];
    let arp = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let target = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets();
    let solicit = [&[135, 0, 1, 2, 0, 0, 0, 0][..], &target, &[1, 1, 2, 0, 0, 0, 0, 1]].concat();
    let advert = [&[136, 0, 1, 2, 0x60, 0, 0, 0][..], &target, &[2, 1, 2, 0, 0, 0, 0, 2]].concat();
    let extended = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &tcp_header()].concat();
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &udp].concat();
    let later = [&[17, 0, 0x10, 1, 0, 0, 0, 9][..], &udp].concat();
    let tagged = [&[0x20, 0x64][..], &0x0800_u16.to_be_bytes(), &tcp()[14..]].concat();
    let mut short = tcp();
    short.truncate(40);
    let mut lying = tcp();
    lying[17] = 200;
    vec![
        tcp(),
        ipv4(17, 0, &udp),
        ipv4(1, 0, &icmp),
        ipv4(132, 0, &sctp),
        ipv4(47, 0, &udp),
        ipv4(17, 0x2000, &udp),
        ipv4(17, 0x2010, &udp),
        ipv4(6, 0, &tcp_header()[..10]),
        ipv6(6, &tcp_header()),
        ipv6(17, &udp),
        ipv6(58, &[128, 0, 0x11, 0x22, 0, 1, 0, 2]),
        ipv6(58, &solicit),
        ipv6(58, &advert),
        ipv6(0, &extended),
        ipv6(44, &fragment),
        ipv6(44, &later),
        ethernet(0x0806, &arp),
        ethernet(0x0806, &arp[..20]),
        ethernet(0x8100, &tagged),
        ethernet(0x88cc, &[1, 2, 3]),
        ethernet(0x0026, &[0x42, 0x42, 3, 0, 0, 0, 0, 0]),
        short,
        lying,
        vec![1, 2, 3],
    ]
}

#[test]
fn packets() {
    compare(frames().into_iter().map(|frame| {
        Body::PacketOut(PacketOut {
            metadata: Match::new().with(Field::IN_PORT, 3_u32),
            ..PacketOut::new(frame, vec![Action::output(1)])
        })
    }));
}

#[test]
fn packet_ins_and_resumes() {
    let metadata =
        Match::new().with(Field::IN_PORT, 5_u32).with(Field::REG1, 6_u32).with(Field::TUN_ID, 7_u64);
    let punt = PacketIn {
        packet: tcp(),
        full_len: 54,
        table: 9,
        cookie: 0x77,
        reason: 1,
        metadata,
        userdata: vec![1, 0xff],
        continuation: Some(continuation()),
        ..PacketIn::default()
    };
    let cut = PacketIn { full_len: 1500, ..punt.clone() };
    let buffered = PacketIn { buffer_id: 0x1f, ..punt.clone() };
    let standard = PacketIn { format: PacketInFormat::Standard, ..punt.clone() };
    let older = PacketIn { format: PacketInFormat::Nxt, reason: 2, ..punt.clone() };
    let bodies = [punt.clone(), cut, buffered, standard, older].map(Body::PacketIn);
    compare(bodies.into_iter().chain([Body::Resume(punt.into_resume())]));
}

/// Stack, table, cookie and actions, as `ovs-vswitchd` 3.1 lays them out.
fn continuation() -> Vec<u8> {
    let hex = "80010008000000ff8003000400000000800400050300000080050010000000000000000000000009\
               800600180000000000000010000000020000000000000000";
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex digits")).collect()
}
