//! What policies cost in flows.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::{Cookie, Kind, REG_OUTPUT, Table};
use fabric_tests::frames::Mark;
use fabric_tests::frames::build::ethernet;
use fabric_tests::frames::forgery::ROUTER;
use fabric_tests::frames::segment::{TCP, flag, tcp};
use fabric_tests::oracle::Answer;
use fabric_tests::probe::village::{OPEN, asked, assert_all, lab, pod, question};
use fabric_tests::probe::{Bed, Question, bed, object, serve};
use fabric_tests::trial::watch::FlowWatch;
use openflow::{Field, Flow, FlowKey, FlowStats};
use serde_json::{Value, json};

/// Issue 4: flows of a full port scan of an isolated pod.
const SCAN: usize = 64;

fn flows(bed: &Bed, node: &str) -> Vec<FlowStats> {
    bed.lab().dump_flows(node).unwrap()
}

fn keys(bed: &Bed, node: &str) -> BTreeSet<FlowKey> {
    flows(bed, node).iter().map(|stats| stats.flow.key()).collect()
}

/// Flows that were not there before, by the kind of their cookies.
fn new(bed: &Bed, node: &str, before: &BTreeSet<FlowKey>) -> BTreeMap<&'static str, Vec<Flow>> {
    let mut new: BTreeMap<&'static str, Vec<Flow>> = BTreeMap::new();
    for stats in flows(bed, node).into_iter().filter(|stats| !before.contains(&stats.flow.key())) {
        let kind = Cookie(stats.flow.cookie).kind().map_or("foreign", Kind::name);
        new.entry(kind).or_default().push(stats.flow);
    }
    new
}

fn counts(new: &BTreeMap<&'static str, Vec<Flow>>) -> String {
    let counts: Vec<String> = new.iter().map(|(kind, flows)| format!("{kind} {}", flows.len())).collect();
    counts.join(", ")
}

/// The number of the port of a pod.
fn port_of(bed: &Bed, pod: &str) -> u32 {
    let place = bed.place(pod);
    let node = bed.trial.node(place.node.as_deref().unwrap());
    let status = bed::status(node);
    let attached =
        status["attachments"].as_array().unwrap().iter().find(|attached| attached["pod"] == pod).unwrap();
    u32::try_from(attached["ofport"].as_u64().unwrap()).unwrap()
}

/// Flows of the verdict tables that are about a pod as the one whose rules are asked.
fn verdicts_of(bed: &Bed, pod: &str) -> Vec<Flow> {
    let (port, node) = (u128::from(port_of(bed, pod)), bed.place(pod).node.clone().unwrap());
    let of_pod = |flow: &Flow| match Cookie(flow.cookie).kind() {
        Some(Kind::Egress) => flow.matches.exact(Field::IN_PORT) == Some(port),
        Some(Kind::Ingress) => flow.matches.exact(REG_OUTPUT) == Some(port),
        _ => false,
    };
    flows(bed, &node).into_iter().map(|stats| stats.flow).filter(of_pod).collect()
}

#[test]
fn a_pod_without_policy_costs_no_flow_per_peer() {
    let mut objects = vec![pod("free", "n1", 10, json!({ "app": "free" }))];
    let peers: Vec<(String, bool)> = (0..30).map(|n| (format!("peer{n}"), n % 3 == 0)).collect();
    for (n, (name, shut)) in (20u16..).zip(&peers) {
        let app = if *shut { "shut" } else { "peer" };
        objects.push(pod(name, if n % 2 == 0 { "n1" } else { "n2" }, n, json!({ "app": app })));
    }
    let rule = json!({ "from": [{ "podSelector": { "matchLabels": { "app": "free" } } }], "ports": [{ "port": OPEN }] });
    objects.push(object::policy(
        "f/shut",
        json!({ "podSelector": { "matchLabels": { "app": "shut" } }, "ingress": [rule] }),
    ));
    let bed = lab("swpeers", 2, objects);
    let both = |peer: &str| {
        [true, false].map(|v4| {
            [question(&bed, "f/free", peer, v4, TCP, OPEN), question(&bed, peer, "f/free", v4, TCP, OPEN)]
        })
    };
    let all: Vec<Question> =
        peers.iter().flat_map(|(name, _)| both(&format!("f/{name}"))).flatten().collect();
    serve(&bed, &all);
    // One peer here, one there, none of them isolated.
    let few: Vec<Question> = ["f/peer2", "f/peer1"].iter().flat_map(|peer| both(peer)).flatten().collect();
    assert_all(&bed, &few, Answer::Allow);
    let own: BTreeSet<FlowKey> = verdicts_of(&bed, "f/free").iter().map(Flow::key).collect();
    let before = keys(&bed, "n1");
    assert_all(&bed, &all, Answer::Allow);
    let grown: Vec<String> = verdicts_of(&bed, "f/free")
        .iter()
        .filter(|flow| !own.contains(&flow.key()))
        .map(Flow::to_string)
        .collect();
    assert_eq!(grown, Vec::<String>::new(), "flows of free's own verdicts grew with its peers");
    let new = new(&bed, "n1", &before);
    println!(
        "free has {} verdict flows; 30 peers in both directions added on its node: {}",
        own.len(),
        counts(&new)
    );
    // Whom nothing guards costs a way and the knowledge whose its address is; both ends of isolated ones are judged.
    let guarded: BTreeSet<IpAddr> = peers
        .iter()
        .filter(|(_, shut)| *shut)
        .flat_map(|(name, _)| bed.place(&format!("f/{name}")).addresses.clone())
        .collect();
    for flow in new.get("peer").into_iter().chain(new.get("gate")).flatten() {
        let names = |field: Field| flow.matches.exact(field).is_some_and(|value| is_one_of(value, &guarded));
        assert!(names(Field::IPV4_DST) || names(Field::IPV6_DST), "for a peer that nothing guards: {flow}");
    }
}

fn is_one_of(value: u128, addresses: &BTreeSet<IpAddr>) -> bool {
    addresses.iter().any(|address| match address {
        IpAddr::V4(v4) => u128::from(u32::from(*v4)) == value,
        IpAddr::V6(v6) => u128::from(*v6) == value,
    })
}

#[test]
fn a_full_port_scan_of_an_isolated_pod_adds_few_flows() {
    let rule = json!({ "ports": [{ "port": OPEN }] });
    let objects = vec![
        pod("target", "n1", 10, json!({ "app": "target" })),
        pod("near", "n1", 11, json!({ "app": "near" })),
        pod("far", "n2", 12, json!({ "app": "far" })),
        object::policy(
            "f/one-port",
            json!({ "podSelector": { "matchLabels": { "app": "target" } }, "ingress": [rule] }),
        ),
    ];
    let bed = lab("swscan", 2, objects);
    for (scanner, node, kind) in [("f/near", "n1", "ingress"), ("f/far", "n2", "peer")] {
        for v4 in [true, false] {
            let question = question(&bed, scanner, "f/target", v4, TCP, OPEN);
            let nodes = ["n1", "n2"];
            let before = nodes.map(|node| keys(&bed, node));
            let noted = bed.place("f/target").witness.noted();
            let began = Instant::now();
            let (mut rounds, mut added) = (0, Default::default());
            let mut found = 0;
            while found < 1 << 16 && rounds < 4 {
                scan(&bed, &question, 40_000 + rounds);
                rounds += 1;
                added = [0, 1].map(|n| new(&bed, nodes[n], &before[n]));
                found = covered(added[usize::from(node == "n2")].get(kind).map_or(&[], Vec::as_slice));
            }
            println!(
                "{scanner} by {}: {found} ports covered after {rounds} rounds, {:?}; added on n1: {}; on n2: {}",
                if v4 { "IPv4" } else { "IPv6" },
                began.elapsed(),
                counts(&added[0]),
                counts(&added[1])
            );
            assert_eq!(found, 1 << 16, "every port was judged: {:?}", added.each_ref().map(counts));
            for added in &added {
                for (kind, flows) in added {
                    assert!(flows.len() <= SCAN, "{} flows of kind {kind}", flows.len());
                }
            }
            let arrived = bed.place("f/target").witness.since(noted);
            let through: BTreeSet<u16> = arrived
                .iter()
                .filter(|seen| seen.mark.is_some())
                .map(|seen| seen.packet.destination)
                .collect();
            assert_eq!(through, BTreeSet::from([OPEN]), "what a scan finds open");
        }
    }
}

/// Sends a SYN to every port, and waits for what comes of it. Where the agent is asked about too many at once, some are
/// lost: the first of a block that gets through is the answer for all of it.
fn scan(bed: &Bed, question: &Question, source: u16) {
    let place = bed.place(&question.from);
    for port in 1..=u16::MAX {
        let (from, to) = ((question.from_address, source), (question.to_address, port));
        let (ethertype, packet) = tcp(from, to, flag::SYN, &Mark(u32::from(port)).bytes());
        place.tap.send(&ethernet(ROUTER, place.tap.mac(), ethertype, &packet)).unwrap();
        if port % 32 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::thread::sleep(Duration::from_millis(500));
}

/// How many ports flows of TCP are about, which do not overlap.
fn covered(flows: &[Flow]) -> usize {
    let ports = |flow: &Flow| {
        let field = [Field::TCP_DST, Field::CT_TP_DST].into_iter().find_map(|field| flow.matches.get(field));
        field.map_or(1 << 16, |(_, mask)| 1usize << (16 - mask.count_ones()))
    };
    flows.iter().map(ports).sum()
}

/// A policy of 500 prefixes of each family, each with an exception.
fn long_policy() -> Value {
    let mut peers = Vec::new();
    for n in 0..500u32 {
        let (high, low) = (n / 256, n % 256);
        peers.push(json!({ "ipBlock": { "cidr": format!("172.{}.{low}.0/24", 16 + high), "except": [format!("172.{}.{low}.128/25", 16 + high)] } }));
        peers.push(json!({ "ipBlock": { "cidr": format!("fd99:{n:x}::/32"), "except": [format!("fd99:{n:x}:8000::/33")] } }));
    }
    let rule = json!({ "from": peers, "ports": [{ "port": OPEN }] });
    object::policy(
        "f/long",
        json!({ "podSelector": { "matchLabels": { "app": "target" } }, "ingress": [rule] }),
    )
}

#[test]
fn a_long_policy_costs_nothing_until_somebody_talks() {
    let objects = vec![
        pod("target", "n1", 10, json!({ "app": "target" })),
        pod("near", "n1", 11, json!({ "app": "near" })),
        pod("far", "n2", 12, json!({ "app": "far" })),
    ];
    let mut bed = lab("swlong", 2, objects);
    let before = ["n1", "n2"].map(|node| keys(&bed, node));
    bed.put(long_policy());
    let took = bed.applied();
    for (node, before) in ["n1", "n2"].into_iter().zip(&before) {
        assert_eq!(keys(&bed, node), *before, "{node}: a policy costs nothing before somebody talks");
    }
    let outside: BTreeSet<IpAddr> = ["172.16.7.9", "172.16.7.200", "fd99:7::9", "fd99:7:8000::9"]
        .iter()
        .map(|ip| ip.parse().unwrap())
        .collect();
    bed.add_outside(&outside);
    bed.lead_to_pods();
    let target = bed.place("f/target").addresses.clone();
    let questions: Vec<(Question, Answer)> = outside
        .iter()
        .map(|from| {
            let to_address = *target.iter().find(|to| to.is_ipv4() == from.is_ipv4()).unwrap();
            let question =
                Question { from: "wire".into(), from_address: *from, to_address, protocol: TCP, port: OPEN };
            let answer = bed.cluster.verdict(*from, to_address, TCP, Some(OPEN));
            (question, answer)
        })
        .collect();
    assert_eq!(questions.iter().filter(|(_, answer)| *answer == Answer::Allow).count(), 2);
    let wanted: Vec<Answer> = questions.iter().map(|(_, answer)| *answer).collect();
    let questions: Vec<Question> = questions.into_iter().map(|(question, _)| question).collect();
    serve(&bed, &questions);
    for ((question, finding), wanted) in questions.iter().zip(asked(&bed, &questions)).zip(wanted) {
        assert_eq!(finding.answer(), Some(wanted), "{question}: {finding:?}");
    }
    println!("applied after {took:?}; 4 conversations added: {}", counts(&new(&bed, "n1", &before[0])));
}

/// What allows `friend` and `far` by several rules, peers and ports, in one order or in another, and `late` only then.
fn rules(turned: bool, late: bool) -> Value {
    let app = |name: &str| json!({ "podSelector": { "matchLabels": { "app": name } } });
    let block = |excepts: &[&str]| json!({ "ipBlock": { "cidr": "172.16.0.0/12", "except": excepts } });
    let mut peers = vec![app("friend"), app("nobody"), block(&["172.16.1.0/24", "172.16.2.0/24"])];
    let mut ports =
        vec![json!({ "port": OPEN }), json!({ "port": 9090 }), json!({ "port": 53, "protocol": "UDP" })];
    let mut excepts = vec!["172.20.1.0/24", "172.20.2.0/24"];
    let mut values = vec!["far", "farther"];
    if turned {
        peers.reverse();
        ports.reverse();
        excepts.reverse();
        values.reverse();
        peers[0] = block(&["172.16.2.0/24", "172.16.1.0/24"]);
    }
    let far = json!({ "podSelector": { "matchExpressions": [{ "key": "app", "operator": "In", "values": values }] } });
    let mut rules = vec![
        json!({ "from": peers, "ports": ports }),
        json!({ "from": [far, { "ipBlock": { "cidr": "172.20.0.0/16", "except": excepts } }], "ports": [{ "port": OPEN }] }),
    ];
    if late {
        rules.insert(0, json!({ "from": [app("late")], "ports": [{ "port": OPEN }] }));
    }
    if turned {
        rules.reverse();
    }
    object::policy(
        "f/rules",
        json!({ "podSelector": { "matchLabels": { "app": "target" } }, "ingress": rules }),
    )
}

#[test]
fn what_changes_nothing_sends_nothing() {
    let names = [("target", "n1"), ("friend", "n1"), ("far", "n2"), ("late", "n1"), ("other", "n2")];
    let pods =
        (10u16..).zip(names).map(|(place, (name, node))| pod(name, node, place, json!({ "app": name })));
    let mut bed = lab("sworder", 2, pods.chain([rules(false, false)]).collect());
    let of = |bed: &Bed, from: &str| [true, false].map(|v4| question(bed, from, "f/target", v4, TCP, OPEN));
    let allowed: Vec<Question> = ["f/friend", "f/far"].iter().flat_map(|from| of(&bed, from)).collect();
    let denied: Vec<Question> = ["f/late", "f/other"].iter().flat_map(|from| of(&bed, from)).collect();
    serve(&bed, &allowed);
    assert_all(&bed, &allowed, Answer::Allow);
    assert_all(&bed, &denied, Answer::Deny);
    let watches = ["n1", "n2"].map(|node| FlowWatch::start(&bed.trial, node));
    bed.put(rules(true, false));
    bed.applied();
    assert_all(&bed, &allowed, Answer::Allow);
    assert_all(&bed, &denied, Answer::Deny);
    for watch in &watches {
        assert_eq!(watch.changes(), Vec::<String>::new(), "the same rules in another order");
    }
    // A change, and its undoing, without anybody who talks in between.
    let ages = ["n1", "n2"].map(|node| ages(&bed, node));
    let began = Instant::now();
    bed.put(rules(true, true));
    bed.applied();
    let between: Vec<usize> = watches.iter().map(|watch| watch.changes().len()).collect();
    bed.put(rules(true, false));
    bed.applied();
    let changes: Vec<String> = watches.iter().flat_map(FlowWatch::changes).collect();
    println!("changes by the edit {between:?}, with its undoing {}", changes.len());
    let late = bed.place("f/late").addresses.clone();
    let strange: Vec<&String> =
        changes.iter().filter(|line| !late.iter().any(|ip| line.contains(&format!("={ip}")))).collect();
    assert_eq!(strange, Vec::<&String>::new(), "only the flows of late may change");
    let slack = Duration::from_millis(1500);
    for (node, before) in ["n1", "n2"].into_iter().zip(ages) {
        let after = self::ages(&bed, node);
        for (key, (cookie, age)) in before {
            let late_one = late.iter().any(|ip| format!("{key:?}").contains(&format!("{ip}")));
            let Some((cookie_after, age_after)) = after.get(&key) else {
                assert!(late_one, "{node}: gone: {key:?}");
                continue;
            };
            if !late_one {
                assert_eq!(cookie, *cookie_after, "{node}: {key:?}");
                assert!(*age_after + slack >= age + began.elapsed(), "{node}: {key:?} was made anew");
            }
        }
    }
    assert_all(&bed, &allowed, Answer::Allow);
    assert_all(&bed, &denied, Answer::Deny);
    bed.put(rules(false, true));
    bed.applied();
    assert_all(&bed, &of(&bed, "f/late"), Answer::Allow);
    assert!(between[0] > 0, "the watch of n1 saw nothing of an edit that changes late's flows");
}

/// Learned flows with their cookies, and for how long each has been there.
fn ages(bed: &Bed, node: &str) -> BTreeMap<FlowKey, (u64, Duration)> {
    let learned = |stats: &FlowStats| Cookie(stats.flow.cookie).kind().is_some_and(Kind::is_learned);
    let verdict = |stats: &FlowStats| {
        learned(stats) && [Table::Egress, Table::Ingress].iter().any(|table| table.id() == stats.flow.table)
    };
    let flows = flows(bed, node).into_iter().filter(verdict);
    flows.map(|stats| (stats.flow.key(), (stats.flow.cookie, stats.duration))).collect()
}
