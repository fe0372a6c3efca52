//! A pod that may not talk to others, and tries to: by the reply's side first, by both sides at once, by errors, by
//! fragments, by well-chosen source ports, by connections that were allowed once. Nothing of it arrives. What belongs to
//! an allowed conversation does.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fabric_tests::frames::Mark;
use fabric_tests::frames::build::{ICMPV6, ethernet, icmpv6, ip, udp, udp_datagram};
use fabric_tests::frames::forgery::ROUTER;
use fabric_tests::frames::segment::{
    ICMP, Piece, SCTP, TCP, chunk, flag, icmp_error, piece, sctp, tcp, tcp_segment,
};
use fabric_tests::probe::ask::UDP;
use fabric_tests::probe::attack::{Attack, Pair, THROUGH, pairs};
use fabric_tests::probe::station::ask_udp;
use fabric_tests::probe::{Bed, Outcome, Place, Question, Sighting, Talk, object, serve};
use serde_json::{Value, json};

/// Ports that the victims open to the attacker.
const OPEN: u16 = 80;
const OPEN_UNSERVED: u16 = 90;
const OPEN_SCTP: u16 = 3868;
/// A port that is open to nobody.
const SHUT: u16 = 81;
/// Conversations that are forbidden stop within this.
const STOP: Duration = Duration::from_secs(1);
/// Bytes of a first fragment: Open vSwitch takes smaller ones for an attack by themselves.
const FIRST: usize = 1208;

/// The attacker `t/att` and its victims: `t/near` on the same node, `t/far` on another, both open to it on few ports, and
/// `t/shut` and `t/shutfar`, which are open to nobody. Who is open to whom is a matter of what comes in; anybody may send.
fn bed(purpose: &str) -> Bed {
    let cidrs = ["10.60.0.0/24", "fd60::/64"];
    let pods = ["att", "near", "far", "friend", "shut", "shutfar"];
    let ips = |n: usize| -> [IpAddr; 2] {
        [format!("10.60.0.{}", 10 + n).parse().unwrap(), format!("fd60::{}", 10 + n).parse().unwrap()]
    };
    let pods = pods.iter().enumerate().map(|(n, name)| {
        let node = if name.ends_with("far") { "n2" } else { "n1" };
        object::pod(&format!("t/{name}"), node, json!({ "app": name }), &ips(n))
    });
    let mut objects = vec![object::network(&cidrs), object::namespace("t", json!({}), json!({}))];
    objects.extend(pods);
    objects.push(isolation(&["att", "shut", "shutfar"]));
    objects.push(opening(&json!(["att", "friend"])));
    let mut bed = Bed::up(purpose, 2, json!({}), objects);
    bed.applied();
    bed
}

fn isolation(apps: &[&str]) -> Value {
    let selector = json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": apps }] });
    object::policy("t/closed", json!({ "podSelector": selector, "policyTypes": ["Ingress"] }))
}

/// What the victims `near` and `far` are open to.
fn opening(apps: &Value) -> Value {
    let victims =
        json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": ["near", "far"] }] });
    let who = json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": apps }] });
    let ports = json!([
        { "port": OPEN },
        { "port": OPEN, "protocol": "UDP" },
        { "port": OPEN_UNSERVED, "protocol": "UDP" },
        { "port": OPEN_SCTP, "protocol": "SCTP" },
    ]);
    let rule = json!({ "from": [{ "podSelector": who }], "ports": ports });
    object::policy(
        "t/opening",
        json!({ "podSelector": victims, "policyTypes": ["Ingress"], "ingress": [rule] }),
    )
}

const VICTIMS: [&str; 4] = ["t/near", "t/far", "t/shut", "t/shutfar"];
const ATTACKER: &str = "t/att";

#[test]
fn no_first_packet_opens_what_is_shut() {
    let bed = bed("swtricks");
    let mut attack = Attack::default();
    for pair in pairs(&bed, ATTACKER, &VICTIMS) {
        segments(&bed, &mut attack, &pair);
        datagrams(&bed, &mut attack, &pair);
        chunks(&bed, &mut attack, &pair);
        echoes(&bed, &mut attack, &pair);
    }
    // What shows that a witness would have seen it.
    for pair in pairs(&bed, ATTACKER, &["t/near", "t/far"]) {
        let mark = attack.next_mark().bytes();
        let packet = udp((pair.from, 7000), (pair.to, OPEN), &mark);
        attack.add(&bed, ATTACKER, &format!("{}: honest UDP", pair.name), packet, true);
        let mark = attack.next_mark().bytes();
        let packet = sctp((pair.from, 7000), (pair.to, OPEN_SCTP), chunk::INIT, &mark);
        attack.add(&bed, ATTACKER, &format!("{}: honest SCTP", pair.name), packet, true);
    }
    let first = attack.faults(&bed, &VICTIMS);
    // Once more, when the switch and the agent have seen it all.
    let second = attack.faults(&bed, &VICTIMS);
    println!("{} packets, twice", attack.len());
    assert!(
        first.is_empty() && second.is_empty(),
        "first:\n{}\nsecond:\n{}",
        first.join("\n"),
        second.join("\n")
    );
}

/// Every kind of segment from ports of its own and from ports that look like an answer's.
fn segments(bed: &Bed, attack: &mut Attack, pair: &Pair) {
    use flag::{ACK, FIN, PSH, RST, SYN};
    let kinds = [SYN, SYN | ACK, ACK, PSH | ACK, RST, RST | ACK, FIN | ACK, 0, SYN | FIN, SYN | RST];
    for (n, flags) in (0u16..).zip(kinds) {
        for (source, port) in [(5000 + n, SHUT), (OPEN, SHUT), (OPEN, 40_000 + n), (SHUT, 50_000 + n)] {
            let mark = attack.next_mark().bytes();
            let packet = tcp((pair.from, source), (pair.to, port), flags, &mark);
            let name = format!("{}: TCP {source} to {port}, flags {flags:#04x}", pair.name);
            attack.trick(bed, ATTACKER, &name, packet);
        }
    }
}

fn datagrams(bed: &Bed, attack: &mut Attack, pair: &Pair) {
    for (source, port) in [(OPEN, SHUT), (OPEN, 40_000), (53, 40_001), (SHUT, SHUT), (6000, SHUT)] {
        let mark = attack.next_mark().bytes();
        let packet = udp((pair.from, source), (pair.to, port), &mark);
        attack.trick(bed, ATTACKER, &format!("{}: UDP {source} to {port}", pair.name), packet);
    }
}

fn chunks(bed: &Bed, attack: &mut Attack, pair: &Pair) {
    for kind in [chunk::INIT_ACK, chunk::DATA, chunk::COOKIE_ECHO, chunk::ABORT, chunk::INIT] {
        for (source, port) in [(OPEN_SCTP, 3869), (OPEN_SCTP, 40_000), (3869, 3870)] {
            let mark = attack.next_mark().bytes();
            let packet = sctp((pair.from, source), (pair.to, port), kind, &mark);
            let name = format!("{}: SCTP {source} to {port}, chunk {kind}", pair.name);
            attack.trick(bed, ATTACKER, &name, packet);
        }
    }
}

/// Echoes and their answers, and protocols that are neither.
fn echoes(bed: &Bed, attack: &mut Attack, pair: &Pair) {
    let kinds: &[u8] = if pair.from.is_ipv4() { &[8, 0, 13] } else { &[128, 129] };
    for kind in kinds {
        let mark = attack.next_mark().bytes();
        let body = [&[0, 7, 0, 1], mark.as_slice()].concat();
        let packet = match (pair.from, pair.to) {
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                ip(pair.from, pair.to, ICMPV6, &icmpv6(from, to, *kind, &body))
            }
            _ => icmp_message(pair, *kind, &body),
        };
        attack.trick(bed, ATTACKER, &format!("{}: ICMP type {kind}", pair.name), packet);
    }
    for protocol in [47, 253] {
        let mark = attack.next_mark().bytes();
        let packet = ip(pair.from, pair.to, protocol, &mark);
        attack.trick(bed, ATTACKER, &format!("{}: protocol {protocol}", pair.name), packet);
    }
}

/// As an error, of which the first bytes are others.
fn icmp_message(pair: &Pair, kind: u8, body: &[u8]) -> (u16, Vec<u8>) {
    let about = [&[0; 0], body].concat();
    icmp_error(pair.from, pair.to, (kind, 0), &about)
}

#[test]
fn two_pods_that_send_at_once_open_no_way() {
    let bed = bed("swmirror");
    let ways = [("t/att", "t/shut"), ("t/att", "t/shutfar"), ("t/att", "t/near"), ("t/att", "t/far")];
    let mut faults = Vec::new();
    let mut count = 0;
    for (from, to) in ways {
        for pair in pairs(&bed, from, &[to]) {
            let (here, there) = (bed.place(from), bed.place(to));
            let noted = [here.witness.noted(), there.witness.noted()];
            count += mirrored(&pair, here, there);
            std::thread::sleep(THROUGH);
            for (place, noted) in [here, there].into_iter().zip(noted) {
                let seen: Vec<Sighting> = place.witness.since(noted);
                let seen = seen.iter().filter(|seen| seen.mark.is_some()).map(|seen| {
                    format!("{} from {from}: arrived at {}: {:?}", pair.name, place.name, seen.packet)
                });
                faults.extend(seen);
            }
        }
    }
    println!("{count} packets");
    assert!(faults.is_empty(), "{} packets:\n{}", faults.len(), faults.join("\n"));
}

/// Both ends send the same conversation from either side at the same time, in several rhythms; how many packets.
fn mirrored(pair: &Pair, here: &Place, there: &Place) -> usize {
    let mark = Mark(1).bytes();
    let sends = |source: &Place, from: IpAddr, to: IpAddr, port: u16, kind: usize| {
        let (from, to) = ((from, port), (to, port + 1000));
        let (from, to) = if source.name == here.name { (from, to) } else { ((from.0, to.1), (to.0, from.1)) };
        let (ethertype, packet) = match kind {
            0 => udp(from, to, &mark),
            1 => tcp(from, to, flag::SYN, &mark),
            2 if source.name == here.name => tcp(from, to, flag::SYN, &mark),
            2 => tcp(from, to, flag::SYN | flag::ACK, &mark),
            _ => tcp(from, to, flag::ACK, &mark),
        };
        source.tap.send(&ethernet(ROUTER, source.tap.mac(), ethertype, &packet)).unwrap();
    };
    let rounds = 40u16;
    let start = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        for (own, from, to) in [(here, pair.from, pair.to), (there, pair.to, pair.from)] {
            let (start, sends) = (&start, &sends);
            scope.spawn(move || {
                for round in 0..rounds {
                    start.wait();
                    // Sometimes one is a little ahead, sometimes the other.
                    let lag = u64::from(round % 7) * 100;
                    if (round % 2 == 0) == (own.name == here.name) {
                        std::thread::sleep(Duration::from_micros(lag));
                    }
                    for kind in 0..4u16 {
                        for _ in 0..3 {
                            sends(own, from, to, 20_000 + round * 8 + kind, usize::from(kind));
                            std::thread::sleep(Duration::from_micros(700));
                        }
                    }
                }
            });
        }
    });
    usize::from(rounds) * 4 * 3 * 2
}

#[test]
fn made_up_errors_arrive_nowhere_and_honest_ones_do() {
    let bed = bed("swerrors");
    let mut attack = Attack::default();
    let mut talks = Vec::new();
    for pair in pairs(&bed, "t/friend", &["t/near", "t/far"]) {
        let question = Question {
            from: "t/friend".to_owned(),
            from_address: pair.from,
            to_address: pair.to,
            protocol: UDP,
            port: OPEN,
        };
        serve(&bed, [&question]);
        talks.push(Talk::open(&bed, &question));
    }
    for pair in pairs(&bed, ATTACKER, &["t/near", "t/far"]) {
        let talk = talks.iter().find(|talk| talk.question.to_address == pair.to).unwrap();
        let friend = talk.question.from_address;
        // A packet that the victim never sent, one that it did send to somebody else, and one that it got from there.
        for (what, from, to) in [
            ("that nobody has", (pair.to, 1234), (pair.from, 9)),
            ("of the victim with another", (pair.to, OPEN), (friend, talk.port)),
            ("of another with the victim", (friend, talk.port), (pair.to, OPEN)),
        ] {
            errors(&bed, &mut attack, &pair, what, (from, to));
        }
    }
    let faults = attack.faults(&bed, &["t/near", "t/far", "t/friend"]);
    println!("{} errors", attack.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for talk in talks {
        let progress = talk.finish();
        assert_eq!(progress.sent, progress.returned, "a conversation suffered from errors about it");
    }
    honest_errors(&bed);
}

fn errors(
    bed: &Bed,
    attack: &mut Attack,
    pair: &Pair,
    what: &str,
    (from, to): ((IpAddr, u16), (IpAddr, u16)),
) {
    let kinds: &[(u8, u8)] = if pair.from.is_ipv4() {
        &[(3, 0), (3, 1), (3, 3), (3, 4), (4, 0), (5, 0), (11, 0), (12, 0)]
    } else {
        &[(1, 0), (1, 4), (2, 0), (3, 0), (4, 1)]
    };
    for kind in kinds {
        let mark = attack.next_mark().bytes();
        let (_, about) = udp(from, to, &mark);
        let packet = icmp_error(pair.from, pair.to, *kind, &about);
        let name = format!("{}: ICMP error {kind:?} about a conversation {what}", pair.name);
        attack.trick(bed, ATTACKER, &name, packet);
    }
}

/// Nobody listens on an open port: the attacker, who is open to nobody, is told so.
fn honest_errors(bed: &Bed) {
    for pair in pairs(bed, ATTACKER, &["t/near", "t/far"]) {
        let outcome = datagram(bed, &pair, OPEN_UNSERVED, 10);
        assert_eq!(outcome, Outcome::Refused, "{}: an error of an allowed conversation", pair.name);
    }
}

fn datagram(bed: &Bed, pair: &Pair, port: u16, bytes: usize) -> Outcome {
    let from = SocketAddr::new(pair.from, 6000 + port + u16::try_from(bytes).unwrap());
    let to = SocketAddr::new(pair.to, port);
    let pending = bed.place(ATTACKER).station.run(move || ask_udp(from, to, bytes, Duration::from_secs(3)));
    pending.wait().unwrap()
}

#[test]
fn fragments_open_nothing_and_those_of_allowed_conversations_pass() {
    let bed = bed("swfrag");
    let mut attack = Attack::default();
    for (number, pair) in (0u16..).zip(pairs(&bed, ATTACKER, &VICTIMS)) {
        fragments(&bed, &mut attack, &pair, number * 100);
    }
    let faults = attack.faults(&bed, &VICTIMS);
    println!("{} fragments", attack.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for pair in pairs(&bed, ATTACKER, &["t/near", "t/far"]) {
        bed.place_of(pair.to).station.serve_udp(SocketAddr::new(pair.to, OPEN)).unwrap();
        for bytes in [2000, 4000, 9000] {
            let outcome = datagram(&bed, &pair, OPEN, bytes);
            assert!(
                matches!(outcome, Outcome::Reached(_)),
                "{}: {bytes} bytes in fragments: {outcome:?}",
                pair.name
            );
        }
    }
}

/// Pieces of packets, as an attacker sends them to a victim.
struct Cutter<'a> {
    bed: &'a Bed,
    attack: &'a mut Attack,
    pair: &'a Pair,
    identification: u16,
}

impl Cutter<'_> {
    /// Bytes that show the mark of the frame that comes `ahead` frames later, wherever they are cut.
    fn marked(&self, ahead: u32, length: usize) -> Vec<u8> {
        Mark(self.attack.next_mark().0 + ahead).bytes().repeat(length / 16)
    }

    /// A datagram that shows such a mark.
    fn datagram(&self, ahead: u32, port: u16, length: usize) -> Vec<u8> {
        udp_datagram((self.pair.from, 5000), (self.pair.to, port), &self.marked(ahead, length))
    }

    /// Sends pieces of one packet: offset in bytes, whether others follow, bytes.
    fn send(&mut self, what: &str, protocol: u8, pieces: &[(usize, bool, &[u8])]) {
        self.identification += 1;
        for (offset, more, bytes) in pieces {
            let (identification, offset) = (self.identification, u16::try_from(offset / 8).unwrap());
            let piece_of = Piece { identification, offset, more: *more, bytes };
            let packet = piece(self.pair.from, self.pair.to, protocol, piece_of);
            let name = format!("{}: {what}, offset {offset}", self.pair.name);
            self.attack.trick(self.bed, ATTACKER, &name, packet);
        }
    }
}

fn fragments(bed: &Bed, attack: &mut Attack, pair: &Pair, identification: u16) {
    let mut cut = Cutter { bed, attack, pair, identification };
    let (whole, later) = (cut.datagram(0, SHUT, 2400), cut.marked(1, 1200));
    cut.send("UDP to a shut port", UDP, &[(0, true, &whole[..FIRST]), (FIRST, false, &later)]);
    let marked = cut.marked(2, 64);
    let tiny = tcp_segment((pair.from, 5001), (pair.to, SHUT), flag::SYN, &marked);
    let pieces = [(0, true, &tiny[..8]), (8, true, &tiny[8..16]), (16, false, &tiny[16..])];
    cut.send("TCP cut inside its header", TCP, &pieces);
    let tiny = cut.datagram(1, SHUT, 64);
    cut.send("UDP behind its header", UDP, &[(0, true, &tiny[..8]), (8, false, &tiny[8..])]);
    // The allowed beginning carries no mark; what is to take its place does.
    let decoy = udp_datagram((pair.from, 5002), (pair.to, OPEN), &[0; 2400]);
    let over = cut.datagram(1, SHUT, 2400);
    let pieces =
        [(0, true, &decoy[..FIRST]), (0, true, &over[..FIRST]), (FIRST - 16, false, &decoy[FIRST - 16..])];
    cut.send("a shut first fragment over an allowed one", UDP, &pieces);
    let over = cut.datagram(0, SHUT, 2400);
    cut.send(
        "a shut first fragment before an allowed one",
        UDP,
        &[(0, true, &over[..FIRST]), (0, true, &decoy[..FIRST])],
    );
    // Where some port is open, later fragments may pass.
    if pair.name.contains("shut") {
        for protocol in [UDP, TCP, SCTP, if pair.from.is_ipv4() { ICMP } else { ICMPV6 }] {
            let later = cut.marked(0, 1200);
            cut.send(
                &format!("a later fragment of protocol {protocol} alone"),
                protocol,
                &[(FIRST, false, &later)],
            );
        }
    }
}

/// A connection that a new rule forbids stops in both directions and stays so, though its server goes on sending and
/// nothing would keep the server from opening a conversation with the client.
#[test]
fn what_a_new_rule_forbids_stops_and_stays_so() {
    let mut bed = bed("swcut");
    let mut questions = Vec::new();
    for pair in pairs(&bed, "t/friend", &["t/near", "t/far"]) {
        for protocol in [TCP, UDP] {
            let (from_address, to_address) = (pair.from, pair.to);
            let from = "t/friend".to_owned();
            questions.push(Question { from, from_address, to_address, protocol, port: OPEN });
        }
    }
    serve(&bed, &questions);
    let talks: Vec<Talk> = questions.iter().map(|question| Talk::open(&bed, question)).collect();
    std::thread::sleep(Duration::from_millis(300));
    let (written, places) = (Instant::now(), noted(&bed));
    bed.put(opening(&json!(["att"])));
    let applied = bed.applied();
    std::thread::sleep(Duration::from_secs(4));
    let mut faults = Vec::new();
    for talk in &talks {
        let last = last_seen(&bed, talk, &places).map(|at| at.saturating_duration_since(written));
        println!("{}: last packet {last:?} after the edit, applied after {applied:?}", talk.question);
        if last.is_some_and(|last| last > STOP) {
            faults.push(format!("{} went on for {last:?}", talk.question));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Allowed again, what tries again goes on.
    bed.put(opening(&json!(["att", "friend"])));
    bed.applied();
    let before: Vec<u64> = talks.iter().map(|talk| talk.progress().returned).collect();
    std::thread::sleep(Duration::from_secs(3));
    for (talk, before) in talks.into_iter().zip(before) {
        if talk.question.protocol == UDP {
            assert!(talk.progress().returned > before, "{}: allowed again, and silent", talk.question);
        }
    }
    for question in &questions {
        drop(Talk::open(&bed, question));
    }
}

/// Where the logs of all witnesses end.
fn noted(bed: &Bed) -> BTreeMap<String, usize> {
    bed.places.iter().map(|(name, place)| (name.clone(), place.witness.noted())).collect()
}

/// When the last packet of a conversation arrived at either end.
fn last_seen(bed: &Bed, talk: &Talk, noted: &BTreeMap<String, usize>) -> Option<Instant> {
    let ends = [talk.question.from_address, talk.question.to_address].map(|address| bed.place_of(address));
    let seen = ends.into_iter().flat_map(|place| place.witness.since(noted[&place.name]));
    seen.filter(|seen| talk.has(seen)).map(|seen| seen.at).max()
}
