use super::*;

const LISTED: &str = include_str!("tests/listed.txt");

fn all() -> BTreeSet<u16> {
    (0..=u16::MAX).collect()
}

fn one(line: &str) -> Connection {
    let listing = read(line, &all());
    assert_eq!(listing.unreadable, 0, "{line}");
    listing.connections[0]
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn every_line_of_a_switch_is_read() {
    let listing = read(LISTED, &all());
    assert_eq!((listing.unreadable, listing.connections.len()), (0, LISTED.lines().count()));
    let protocols: Vec<u8> = listing.connections.iter().map(|c| c.original.protocol).collect();
    assert_eq!(protocols, [132, 17, 58, 1, 47, 6, 6, 17, 6, 17]);
}

#[test]
fn a_tcp_connection_says_all() {
    let tcp = one(
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=80),reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=1000),zone=5,mark=1,labels=0x1234,protoinfo=(state=SYN_SENT)",
    );
    let original = Tuple {
        source: ip("10.0.0.1"),
        destination: ip("10.0.0.2"),
        protocol: 6,
        detail: Detail::Ports { source: 1000, destination: 80 },
    };
    let reply = Tuple {
        source: ip("10.0.0.2"),
        destination: ip("10.0.0.1"),
        detail: Detail::Ports { source: 80, destination: 1000 },
        ..original
    };
    assert_eq!(tcp, Connection { zone: 5, original, reply, mark: 1, label: 0x1234 });
    assert_eq!(
        tuple(&original),
        "ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=6,ct_tp_src=1000,ct_tp_dst=80"
    );
}

#[test]
fn icmp_is_told_apart_by_its_identifier() {
    let ping = one(
        "icmpv6,orig=(src=fd00::1,dst=fd00::2,id=78,type=128,code=0),reply=(src=fd00::2,dst=fd00::9,id=78,type=129,code=0),zone=5,mark=2",
    );
    assert_eq!(ping.original.detail, Detail::Icmp { id: 78, kind: 128, code: 0 });
    assert_eq!((ping.original.port(), ping.label), (None, 0));
    assert_eq!(
        tuple(&ping.original),
        "ct_ipv6_src=fd00::1,ct_ipv6_dst=fd00::2,ct_nw_proto=58,icmp_id=78,icmp_type=128,icmp_code=0"
    );
}

#[test]
fn where_addresses_are_changed_the_reply_shows_the_real_end() {
    let service = one(
        "udp,orig=(src=10.0.0.1,dst=10.96.0.10,sport=9,dport=53),reply=(src=10.0.0.7,dst=10.0.0.1,sport=5353,dport=9),zone=3,labels=0x10000000000000002",
    );
    assert_eq!((service.reply.source, service.reply.source_port()), (ip("10.0.0.7"), Some(5353)));
    assert_eq!((service.mark, service.label), (0, (1 << 64) + 2));
}

#[test]
fn statistics_and_other_fields_are_passed_over() {
    let counted = one(
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=80,packets=4,bytes=300),reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=1,packets=3,bytes=200),start=2026-01-02T03:04:05.678,id=7,zone=9,status=SEEN_REPLY|ASSURED,timeout=86399,mark=1,protoinfo=(state_orig=ESTABLISHED,state_reply=ESTABLISHED,wscale_orig=7,wscale_reply=7,flags_orig=WINDOW_SCALE|SACK_PERM,flags_reply=WINDOW_SCALE),helper=ftp,master=(src=1.1.1.1,dst=2.2.2.2,sport=1,dport=21)",
    );
    assert_eq!((counted.zone, counted.mark, counted.original.port()), (9, 1, Some(80)));
}

#[test]
fn other_zones_are_left_out() {
    let listing = read(LISTED, &[6].into());
    assert_eq!((listing.connections.len(), listing.unreadable), (1, 0));
}

#[test]
fn what_cannot_be_read_is_counted_and_shown() {
    let lines = [
        "tcp",
        "quic,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1)",
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1)",
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2)",
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=99999),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1)",
        "tcp,orig=(src=10.0.0.1,dst=fd00::2,sport=1,dport=2),reply=(src=fd00::2,dst=10.0.0.1,sport=2,dport=1)",
        "tcp,orig=(Unsupported address family: 7. HEX:",
        "icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id=1),reply=(src=10.0.0.2,dst=10.0.0.1,id=1)",
        "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=2),reply=(src=10.0.0.2,dst=10.0.0.1,sport=2,dport=1),zone=70000",
    ];
    let listing = read(&lines.join("\n"), &all());
    assert_eq!((listing.unreadable, listing.connections.len()), (lines.len() as u64, 0));
    assert_eq!(listing.example.as_deref(), Some("tcp"));
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd(text: String) {
        let listing = read(&text, &all());
        proptest::prop_assert!(listing.connections.len() <= text.lines().count());
    }
}
