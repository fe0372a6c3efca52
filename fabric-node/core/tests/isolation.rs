//! What isolation promises, on simulated switches of two nodes with the flows of the pipeline: tricks open nothing, and
//! what is allowed passes, with its answers.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::net::IpAddr;

use fabric_core::pipeline::learned::{Query, revive};
use fabric_core::pipeline::vocabulary::{JUDGED, Kind, SEEN, Table};
use policy::{Direction, Question, Traffic};
use support::switch::{Fabric, Sent};

const UDP: u8 = 17;
const TCP: u8 = 6;
const SCTP: u8 = 132;

/// `web` may reach `db` on some ports, on either node; `db` and `safe` are isolated, `web` is not.
const WORLD: &str = include_str!("golden/isolation/world.yaml");
const DB: &str = "10.244.0.11";
const WEB: &str = "10.244.0.10";
const SAFE: &str = "10.244.0.12";
const FAR_DB: &str = "10.244.0.20";
const FAR_WEB: &str = "10.244.0.21";
/// The same pods in IPv6.
const DB_V6: &str = "fd44::11";
const WEB_V6: &str = "fd44::10";
const FAR_DB_V6: &str = "fd44::20";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn sent(from: &str, to: &str, protocol: u8, ports: (u16, u16)) -> Sent {
    Sent { from: ip(from), to: ip(to), protocol, ports }
}

/// Sends both fragments; how many arrive.
fn send_fragments(fabric: &mut Fabric, sent: Sent) -> usize {
    sent.fragments().into_iter().filter(|piece| fabric.send_packet(sent.from, sent.to, piece.clone())).count()
}

#[test]
fn what_is_allowed_passes_with_its_answers_and_nothing_else_does() {
    let mut fabric = Fabric::new(WORLD);
    for (from, to) in [(WEB, DB), (WEB_V6, DB_V6), (WEB, FAR_DB), (FAR_WEB, DB), (WEB_V6, FAR_DB_V6)] {
        let asks = sent(from, to, UDP, (4000, 5001));
        for _ in 0..2 {
            assert!(fabric.send(asks), "{from} to {to}");
            assert!(fabric.send(asks.back()), "{to} answers {from}");
        }
        assert!(!fabric.send(sent(from, to, UDP, (4000, 5008))), "{from} to another port of {to}");
        assert!(!fabric.send(sent(from, to, TCP, (4000, 5001))), "{from} to {to} in another protocol");
        for pod in [from, to] {
            let marks = fabric.home(ip(pod)).marks(ip(pod));
            assert!(!marks.is_empty() && marks.iter().all(|mark| *mark == u128::from(JUDGED)), "{marks:?}");
        }
    }
}

#[test]
fn two_that_may_not_reach_each_other_open_nothing_by_sending_at_once() {
    for (one, other) in [(DB, SAFE), (DB, FAR_DB), (DB_V6, FAR_DB_V6)] {
        let mut fabric = Fabric::new(WORLD);
        for protocol in [UDP, SCTP] {
            let there = sent(one, other, protocol, (4000, 4000));
            for _ in 0..3 {
                assert!(!fabric.send(there), "{one} to {other}");
                assert!(!fabric.send(there.back()), "{other} to {one}");
            }
        }
        for pod in [one, other] {
            let marks = fabric.home(ip(pod)).marks(ip(pod));
            assert!(
                marks.iter().all(|mark| *mark == u128::from(SEEN)),
                "nothing of {pod} passes by {marks:?}"
            );
        }
    }
}

#[test]
fn an_answer_that_comes_first_opens_nothing() {
    let mut fabric = Fabric::new(WORLD);
    let asks = sent(WEB, SAFE, TCP, (4000, 80));
    // The one that may not be reached sends what looks like the answer; the web, which nothing isolates, gets it.
    assert!(fabric.send(asks.back()));
    assert!(fabric.send(asks), "as the answer to what came from there");
    assert!(!fabric.send(sent(WEB, SAFE, TCP, (4001, 80))), "and nothing else");
    // Between two that are isolated neither gets anything.
    let between = sent(FAR_DB, SAFE, TCP, (4000, 80));
    assert!(!fabric.send(between.back()));
    assert!(!fabric.send(between));
}

#[test]
fn the_other_end_is_asked_before_a_packet_leaves_the_node() {
    let mut fabric = Fabric::new(WORLD);
    assert!(fabric.send(sent(WEB, FAR_DB, TCP, (4000, 80))));
    assert!(!fabric.send(sent(WEB, FAR_DB, TCP, (4000, 81))));
    let far = fabric.home(ip(FAR_DB));
    let denies = far.learned(Kind::Ingress).into_iter().filter(|flow| flow.actions.is_empty()).count();
    assert_eq!(denies, 0, "the other node never saw the second packet");
    let near = fabric.home(ip(WEB));
    assert_eq!((near.learned(Kind::Gate).len(), near.learned(Kind::Peer).len()), (1, 2));
    assert!(fabric.send(sent(WEB, FAR_WEB, TCP, (4000, 81))));
    assert_eq!(fabric.home(ip(WEB)).learned(Kind::Gate).len(), 1, "one that nobody guards has no gate");
}

#[test]
fn without_its_gate_a_guarded_way_is_shut_for_new_conversations_and_open_for_others() {
    let mut fabric = Fabric::new(WORLD);
    let asks = sent(WEB, FAR_DB, TCP, (4000, 80));
    assert!(fabric.send(asks));
    let near = fabric.home(ip(WEB));
    for flow in near.learned(Kind::Gate).into_iter().chain(near.learned(Kind::Peer)) {
        near.flows.remove(&flow.key());
    }
    near.answers = false;
    assert!(!fabric.send(sent(WEB, FAR_DB, TCP, (4001, 80))));
    assert!(fabric.send(asks.back()) && fabric.send(asks), "what is established does not need the agent");
    fabric.home(ip(WEB)).answers = true;
    assert!(fabric.send(sent(WEB, FAR_DB, TCP, (4001, 80))));
}

#[test]
fn fragments_pass_where_their_port_does() {
    for (from, to) in [(WEB, DB), (WEB_V6, DB_V6), (WEB, FAR_DB), (WEB_V6, FAR_DB_V6)] {
        let mut fabric = Fabric::new(WORLD);
        assert_eq!(send_fragments(&mut fabric, sent(from, to, UDP, (4000, 5001))), 2, "{from} to {to}");
        assert!(fabric.send(sent(from, to, UDP, (4000, 5001)).back()));
        // The later one passes for some port; without the first there is no packet.
        let [first, _] = sent(from, to, UDP, (4000, 53)).fragments();
        assert!(!fabric.send_packet(ip(from), ip(to), first));
    }
    let mut fabric = Fabric::new(WORLD);
    assert_eq!(send_fragments(&mut fabric, sent(FAR_DB, DB, UDP, (4000, 5001))), 0, "no port, no fragments");
    assert_eq!(send_fragments(&mut fabric, sent(DB, WEB, UDP, (4000, 53))), 2, "every port, all fragments");
    let icmp = sent(WEB, DB, 1, (0, 0));
    assert_eq!(send_fragments(&mut fabric, icmp), 0);
}

/// Only ports up to 4,095 are left: a block that holds port 0.
const LOW_PORTS: &str = "---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: low}
spec:
  tier: Admin
  priority: 1
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}}
  ingress:
  - action: Deny
    from: [{namespaces: {}}]
    protocols: [{udp: {destinationPort: {range: {start: 4096, end: 65535}}}}]
";

#[test]
fn a_block_that_begins_at_port_0_lets_no_fragments_in() {
    for (from, to) in [(DB, WEB), (DB_V6, WEB_V6), (DB, FAR_WEB)] {
        let mut fabric = Fabric::new(&format!("{WORLD}{LOW_PORTS}"));
        assert!(fabric.send(sent(from, to, UDP, (4000, 53))));
        let flows = fabric.home(ip(to)).learned(Kind::Ingress);
        assert!(flows.iter().any(|flow| flow.to_string().contains("tp_dst=0x0/0xf000")), "{flows:?}");
        let [first, later] = sent(from, to, UDP, (4000, 5000)).fragments();
        assert!(!fabric.send_packet(ip(from), ip(to), first), "{from} to {to}");
        // Some port is allowed.
        assert!(fabric.send_packet(ip(from), ip(to), later));
        assert_eq!(send_fragments(&mut fabric, sent(from, to, UDP, (4001, 54))), 2);
    }
}

#[test]
fn sctp_is_judged_packet_by_packet() {
    for (from, to) in [(WEB, DB), (WEB_V6, DB_V6), (WEB, FAR_DB), (FAR_WEB, DB)] {
        let mut fabric = Fabric::new(WORLD);
        let asks = sent(from, to, SCTP, (4000, 3868));
        assert!(fabric.send(asks) && fabric.send(asks.back()) && fabric.send(asks), "{from} to {to}");
        for pod in [from, to] {
            assert_eq!(fabric.home(ip(pod)).marks(ip(pod)), [u128::from(SEEN)], "nothing passes unjudged");
        }
        assert!(!fabric.send(sent(from, to, SCTP, (4000, 3869))), "another port of the same pair");
        assert!(fabric.send(sent(to, from, SCTP, (9, 22))), "what the other may open");
        let before = fabric.home(ip(to)).flows.len();
        for from_port in 4001..4020 {
            let asks = sent(from, to, SCTP, (from_port, 3868));
            assert!(fabric.send(asks) && fabric.send(asks.back()));
        }
        assert_eq!(fabric.home(ip(to)).flows.len(), before, "no flow for each association");
        let [first, later] = asks.fragments();
        assert!(!fabric.send_packet(asks.from, asks.to, first), "its ports are not to be seen");
        assert!(fabric.send_packet(asks.from, asks.to, later));
    }
}

#[test]
fn answers_in_sctp_pass_to_an_isolated_pod_and_new_associations_do_not() {
    for (from, to) in [(DB, WEB), (DB_V6, WEB_V6), (DB, FAR_WEB)] {
        let mut fabric = Fabric::new(WORLD);
        let asks = sent(from, to, SCTP, (4000, 22));
        assert!(!fabric.send(asks.back()), "an answer to nothing");
        assert!(fabric.send(asks) && fabric.send(asks.back()), "{from} to {to}");
        for ports in [(22, 4001), (23, 4000), (9, 5000)] {
            assert!(!fabric.send(sent(to, from, SCTP, ports)), "{to} to {from}, {ports:?}");
        }
        let other = sent(from, to, SCTP, (4001, 23));
        assert!(!fabric.send(other.back()) && fabric.send(other) && fabric.send(other.back()));
        assert!(fabric.send(asks) && fabric.send(asks.back()), "still");
        assert!(fabric.send(sent(to, from, SCTP, (22, 3868))), "what is allowed to everybody");
    }
}

#[test]
fn errors_about_what_was_allowed_pass_and_invented_ones_do_not() {
    for (from, to) in [(WEB, DB), (WEB_V6, DB_V6), (WEB, FAR_DB)] {
        for (protocol, port) in [(UDP, 5001), (SCTP, 3868)] {
            let mut fabric = Fabric::new(WORLD);
            let asks = sent(from, to, protocol, (4000, port));
            let error = Sent::error_about(asks);
            assert!(!fabric.send_packet(ip(to), ip(from), error.clone()), "about nothing yet");
            assert!(fabric.send(asks));
            assert!(fabric.send_packet(ip(to), ip(from), error), "{from} to {to}, {protocol}");
            if protocol == UDP {
                let other = Sent::error_about(sent(from, to, protocol, (4001, port)));
                assert!(!fabric.send_packet(ip(to), ip(from), other), "about another conversation");
            }
        }
    }
}

fn question(direction: Direction, subject: &str, peer: &str, (protocol, port): (u8, u16)) -> Question {
    let traffic = Traffic { protocol, port: Some(port) };
    Question { direction, subject: ip(subject), peer: ip(peer), traffic }
}

#[test]
fn what_was_cut_does_not_come_back_from_the_other_end() {
    cut(TCP);
    cut(UDP);
}

fn cut(protocol: u8) {
    let mut fabric = Fabric::new(WORLD);
    // Was allowed once; then its connections were removed.
    let cut = sent(WEB, SAFE, protocol, (4000, 80));
    assert!(fabric.send(cut.back()), "otherwise the server's packets would open a conversation of its own");
    for (pod, other, direction) in [(WEB, SAFE, Direction::Egress), (SAFE, WEB, Direction::Ingress)] {
        fabric.home(ip(pod)).flush(ip(pod));
        let node = fabric.home(ip(pod));
        let zone = node.zone(ip(pod));
        let question = question(direction, pod, other, (protocol, 80));
        let query = Query::Ended { zone, question, source_port: 4000 };
        assert!(node.learn(query));
        let mut flows = node.learned(Kind::Ended).into_iter();
        assert!(flows.any(|flow| revive(&flow, &node.scene.local) == Some(query)), "it is found again");
    }
    assert!(!fabric.send(cut.back()) && !fabric.send(cut));
    assert!(fabric.send(sent(SAFE, WEB, protocol, (80, 4001))), "another one");
    let node = fabric.home(ip(WEB));
    let tables: Vec<u8> = node.learned(Kind::Ended).iter().map(|flow| flow.table).collect();
    assert_eq!(tables, [Table::Egress.id(), Table::Ingress.id()], "one at each end");
    let zone = node.zone(ip(WEB));
    let allowed = question(Direction::Egress, WEB, DB, (TCP, 80));
    assert!(!node.learn(Query::Ended { zone, question: allowed, source_port: 4000 }), "it is allowed");
}

#[test]
fn denied_packets_are_copied_for_the_log_where_the_namespace_asks() {
    let mut fabric = Fabric::new(WORLD);
    assert!(!fabric.send(sent(WEB, SAFE, TCP, (4000, 80))));
    assert!(!fabric.send(sent(WEB, DB, TCP, (4000, 81))));
    let denies = |fabric: &mut Fabric, pod: &str| {
        let flows = fabric.home(ip(pod)).learned(Kind::Ingress).into_iter();
        flows.map(|flow| flow.to_string()).filter(|flow| !flow.contains("resubmit")).collect::<Vec<_>>()
    };
    let flows = denies(&mut fabric, SAFE);
    assert_eq!(
        flows.iter().filter(|flow| flow.ends_with("meter:3,controller(max_len=128,userdata=02)")).count(),
        1
    );
    assert_eq!(flows.iter().filter(|flow| flow.ends_with("actions=drop")).count(), 1);
}
