//! Policies and tenants among pods of an overlay and pods in VLANs, with machines outside and the nodes: every question
//! asked with real packets, and compared with the oracle. And what two pods that may not meet try at the same time.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fabric_tests::frames::Mark;
use fabric_tests::frames::build::{EVERYBODY, ethernet, udp};
use fabric_tests::frames::segment::TCP;
use fabric_tests::oracle::Answer;
use fabric_tests::probe::ask::UDP;
use fabric_tests::probe::{Bed, Question, ask, object, serve};
use fabric_tests::traffic;
use serde_json::{Value, json};

/// A denied conversation gets this long, in which a SYN is sent twice at least.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two questions.
const PACE: Duration = Duration::from_millis(4);
/// What is asked: open to few, open to some, open to nobody where anything is said.
const PORTS: [(u8, u16); 3] = [(TCP, 80), (UDP, 53), (TCP, 81)];
/// How often forbidden pairs send to each other at once, each time from other ports.
const ROUNDS: u16 = 10;

/// Name, node, and number of the network: 0 the overlay, else the VLAN.
const PODS: [(&str, &str, u16); 13] = [
    ("shop/web", "n1", 0),
    ("shop/till", "n1", 100),
    ("shop/camera", "n2", 200),
    ("shop/db", "n2", 100),
    ("shop/vault", "n1", 0),
    ("red/over", "n2", 0),
    ("red/desk", "n1", 100),
    ("red/phone", "n2", 200),
    ("blue/over", "n1", 0),
    ("blue/desk", "n1", 100),
    ("blue/phone", "n1", 200),
    ("blue/far", "n2", 100),
    // A namespace that all tenants share.
    ("kube-system/dns", "n1", 100),
];

fn underlay(vlan: u16, v4: u8, v6: u16) -> Value {
    json!({
        "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": format!("vlan{vlan}") },
        "spec": {
            "mode": "underlay", "physicalNetwork": "office", "vlan": vlan,
            "cidrs": [format!("10.{v4}.0.0/16"), format!("fd{v6}::/64")],
        },
    })
}

fn objects() -> Vec<Value> {
    let mut objects = vec![
        object::network(&["10.244.0.0/16", "fd44::/64"]),
        underlay(100, 100, 10),
        underlay(200, 200, 20),
    ];
    let tenant = |name: &str| json!({ "fabric.io/tenant": name });
    objects.push(object::namespace("shop", json!({ "name": "shop" }), json!({})));
    objects.push(object::namespace("kube-system", json!({}), json!({})));
    objects.push(object::namespace("red", json!({ "name": "red" }), tenant("red")));
    objects.push(object::namespace("blue", json!({ "name": "blue" }), tenant("blue")));
    objects.extend(policies());
    for (n, (reference, node, net)) in (20..).zip(PODS) {
        let (four, six) = match net {
            0 => ("10.244", "fd44"),
            100 => ("10.100", "fd10"),
            _ => ("10.200", "fd20"),
        };
        let ips: [IpAddr; 2] =
            [format!("{four}.1.{n}").parse().unwrap(), format!("{six}::1:{n}").parse().unwrap()];
        let name = reference.split('/').nth(1).unwrap_or_default();
        let mut pod = object::pod(reference, node, json!({ "app": name }), &ips);
        if net != 0 {
            pod["metadata"]["annotations"] = json!({ "fabric.io/network": format!("vlan{net}") });
        }
        objects.push(pod);
    }
    objects
}

fn policies() -> [Value; 4] {
    let app = |name: &str| json!({ "matchLabels": { "app": name } });
    let apps = |names: [&str; 2]| json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": names }] });
    let ports = json!([{ "port": 80 }, { "port": 53, "protocol": "UDP" }]);
    [
        // What the shop keeps is asked by its web and its till alone.
        object::policy(
            "shop/kept",
            json!({
                "podSelector": apps(["db", "vault"]), "policyTypes": ["Ingress"],
                "ingress": [{ "from": [{ "podSelector": apps(["web", "till"]) }], "ports": ports }],
            }),
        ),
        // A camera shows its pictures in VLAN 100 and nowhere else.
        object::policy(
            "shop/camera",
            json!({
                "podSelector": app("camera"), "policyTypes": ["Egress"],
                "egress": [{ "to": [
                    { "ipBlock": { "cidr": "10.100.0.0/16" } }, { "ipBlock": { "cidr": "fd10::/64" } },
                ] }],
            }),
        ),
        // The till is asked from VLAN 200, machines and pods, and by the web.
        object::policy(
            "shop/till",
            json!({
                "podSelector": app("till"), "policyTypes": ["Ingress"],
                "ingress": [
                    { "from": [{ "ipBlock": { "cidr": "10.200.0.0/16" } }, { "ipBlock": { "cidr": "fd20::/64" } }] },
                    { "from": [{ "podSelector": app("web") }], "ports": ports },
                ],
            }),
        ),
        // A phone of blue talks with its own side only.
        object::policy(
            "blue/phone",
            json!({
                "podSelector": app("phone"), "policyTypes": ["Ingress", "Egress"],
                "ingress": [{ "from": [{ "podSelector": app("desk") }] }],
                "egress": [{ "to": [{ "podSelector": apps(["desk", "over"]) }], "ports": ports }],
            }),
        ),
    ]
}

fn is_server(name: &str) -> bool {
    name.starts_with("server")
}

/// Everybody to everybody, as far as there is a way: none into the overlay for machines outside. A node is asked by the
/// pods that come to it by the fabric.
fn questions(bed: &Bed) -> Vec<Question> {
    let overlay = |name: &str| PODS.iter().any(|(pod, _, net)| *pod == name && *net == 0);
    let is_pod = |name: &str| PODS.iter().any(|(pod, ..)| *pod == name);
    let mut questions = Vec::new();
    for from in bed.places.values().filter(|place| place.name != "wire") {
        for to in bed.places.values().filter(|place| place.name != "wire" && place.name != from.name) {
            if !(is_pod(&from.name) || is_pod(&to.name)) || is_server(&from.name) && overlay(&to.name) {
                continue;
            }
            if to.name.starts_with("node/") && from.node != to.node && !overlay(&from.name) {
                continue;
            }
            for (from_address, to_address) in from.addresses.iter().zip(&to.addresses) {
                for (protocol, port) in PORTS {
                    let (from_address, to_address) = (*from_address, *to_address);
                    questions.push(Question {
                        from: from.name.clone(),
                        from_address,
                        to_address,
                        protocol,
                        port,
                    });
                }
            }
        }
    }
    questions
}

#[test]
fn whoever_may_reaches_whom_he_may_across_overlay_and_vlans() {
    let mut bed = Bed::in_office("unmixed", 2, json!({}), objects());
    bed.applied();
    let questions = questions(&bed);
    serve(&bed, &questions);
    let began = Instant::now();
    // What leaves the overlay for outside comes from the node's address there.
    let findings = ask(&bed, &questions, PACE, |_| PATIENCE);
    let (mut faults, mut denied) = (Vec::new(), 0);
    for (question, finding) in questions.iter().zip(&findings) {
        let Question { from_address, to_address, protocol, port, .. } = *question;
        let wanted = bed.cluster.verdict(from_address, to_address, protocol, Some(port));
        denied += usize::from(wanted == Answer::Deny);
        if finding.answer() != Some(wanted) {
            let to = &bed.place_of(to_address).name;
            faults.push(format!("{question} ({to}): wanted {wanted}, found {finding:?}"));
        }
    }
    println!("{} questions, {denied} denied, in {:?}", questions.len(), began.elapsed());
    let some = faults.iter().take(30).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {}:\n{some}", faults.len(), questions.len());
    at_once(&bed);
    for_everybody(&bed);
}

/// What is for everybody of a VLAN cannot be judged for each who hears it: only whoever is open to all gets it, and
/// nobody gets it of a pod that may not send it.
fn for_everybody(bed: &Bed) {
    let groups: [(IpAddr, [u8; 6]); 2] =
        [(Ipv4Addr::BROADCAST.into(), EVERYBODY), ("ff02::fb".parse().unwrap(), [0x33, 0x33, 0, 0, 0, 0xfb])];
    let mut faults = Vec::new();
    let mut number = 0;
    for (sender, heard) in [
        ("server100", ["kube-system/dns"].as_slice()),
        ("red/desk", &["kube-system/dns", "server100"]),
        ("shop/db", &["kube-system/dns", "server100"]),
        ("shop/camera", &[]),
    ] {
        let from = bed.place(sender);
        for (group, mac) in groups {
            number += 1;
            let mark = Mark(7000 + number);
            let noted: Vec<_> = bed.places.values().map(|place| (place, place.witness.noted())).collect();
            let (ethertype, packet) = udp((from.address(group), 53), (group, 53), &mark.bytes());
            from.tap.send(&ethernet(mac, from.tap.mac(), ethertype, &packet)).unwrap();
            std::thread::sleep(Duration::from_millis(400));
            let got = noted.iter().filter(|(place, noted)| {
                place.witness.since(*noted).iter().any(|seen| seen.mark == Some(mark))
            });
            let got: Vec<&str> = got.map(|(place, _)| place.name.as_str()).collect();
            if got != heard {
                faults.push(format!("{sender} to {group}: heard by {got:?}, not by {heard:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether a datagram came, behind whatever errors.
fn received(socket: &UdpSocket) -> bool {
    loop {
        match socket.recv(&mut [0; 16]) {
            Ok(_) => return true,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            Err(_) => {}
        }
    }
}

/// Pairs of pods that may not talk in either direction send to each other at the same time, each packet a possible
/// answer to the other's: nothing arrives.
fn at_once(bed: &Bed) {
    let mut pairs = Vec::new();
    for (n, (a, ..)) in PODS.iter().enumerate() {
        for (b, ..) in PODS.iter().skip(n + 1) {
            let (a, b) = (bed.place(a), bed.place(b));
            for (a_address, b_address) in a.addresses.iter().zip(&b.addresses) {
                let shut = |from: &IpAddr, to: &IpAddr| {
                    bed.cluster.verdict(*from, *to, UDP, Some(5353)) == Answer::Deny
                };
                if shut(a_address, b_address) && shut(b_address, a_address) {
                    pairs.push((a, *a_address, b, *b_address));
                }
            }
        }
    }
    assert!(pairs.len() > 50, "{} pairs that may not meet", pairs.len());
    let mut arrived = Vec::new();
    for round in 0..ROUNDS {
        let sockets: Vec<(UdpSocket, UdpSocket)> = (0..)
            .zip(&pairs)
            .map(|(n, (a, a_address, b, b_address))| {
                let port = 31_000 + round * 200 + n;
                let (a_end, b_end) = (SocketAddr::new(*a_address, port), SocketAddr::new(*b_address, port));
                let (one, other) =
                    (traffic::udp(&a.netns, a_end).unwrap(), traffic::udp(&b.netns, b_end).unwrap());
                one.connect(b_end).unwrap();
                other.connect(a_end).unwrap();
                (one, other)
            })
            .collect();
        for _ in 0..5 {
            for (one, other) in &sockets {
                // A refusal of an earlier one, by ICMP, is none of the packet's.
                let _ = (one.send(b"to b"), other.send(b"to a"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for ((one, other), (a, from, b, to)) in sockets.iter().zip(&pairs) {
            for (socket, at) in [(one, a), (other, b)] {
                socket.set_nonblocking(true).unwrap();
                if received(socket) {
                    arrived
                        .push(format!("{} ({from}) and {} ({to}): arrived at {}", a.name, b.name, at.name));
                }
            }
        }
    }
    arrived.sort();
    arrived.dedup();
    println!("{} pairs that may not meet, {ROUNDS} times at once", pairs.len());
    assert!(arrived.is_empty(), "{}:\n{}", arrived.len(), arrived.join("\n"));
}
