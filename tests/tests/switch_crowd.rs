//! Hundreds of pods in one VLAN on one node: what is for everybody reaches everybody once, and what concerns none of them
//! costs the agent nothing. Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use fabric_tests::frames::build::{self, EVERYBODY, ethernet, udp};
use fabric_tests::frames::{Mark, Tap, marks};
use fabric_tests::lab::office::Lan;
use fabric_tests::lab::record::PodRecord;
use fabric_tests::lab::world::{Pod, documents, pods};
use fabric_tests::lab::{Lab, LabError, Wiring, cni, netns};
use fabric_tests::office::{OfficeBed, discovery};
use serde_json::{Map, json};

/// Pods of the VLAN.
const CROWD: usize = 300;
/// ADDs under way at once: each looks for a duplicate on the wire for more than half a second.
const AT_ONCE: usize = 50;
/// ARP requests of a second.
const REQUESTS: u16 = 10_000;
/// How long a frame may take to all.
const PATIENCE: Duration = Duration::from_secs(10);

/// A folder with the Networks of the office, and these pods in VLAN 100 on n1.
fn bed(purpose: &str, names: &[String]) -> (OfficeBed, Vec<Pod>) {
    let bed = OfficeBed::bare(purpose, Wiring::SecondNic, 1, Map::new());
    let manifest = |name: &String| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "shop", "name": name, "annotations": { "fabric.io/network": "vlan100" } },
            "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "x" }] },
        })
    };
    let text: String = names.iter().map(|name| format!("---\n{}\n", manifest(name))).collect();
    bed.lab.write_manifest("pods.yaml", &text).unwrap();
    (bed, pods(&documents(&text)))
}

/// Attaches pods, many at once.
fn attach(lab: &Lab, pods: &[Pod]) -> Vec<PodRecord> {
    let (node, programs, name) = (lab.node("n1").unwrap(), lab.programs().unwrap(), &lab.layout().name);
    let one = |pod: &Pod| {
        let until = Instant::now() + 3 * PATIENCE;
        loop {
            match fabric_tests::lab::pods::attach(name, node, programs, pod) {
                Err(LabError::Cni { code: 11, .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                attached => return attached.unwrap().0,
            }
        }
    };
    std::thread::scope(|scope| {
        let chunks = pods.chunks(pods.len().div_ceil(AT_ONCE));
        let threads: Vec<_> =
            chunks.map(|chunk| scope.spawn(move || chunk.iter().map(one).collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// A datagram for everybody of a VLAN.
fn broadcast(mac: [u8; 6], from: IpAddr, mark: Mark) -> Vec<u8> {
    let (ethertype, packet) = udp((from, 9), (Ipv4Addr::BROADCAST.into(), 9), &mark.bytes());
    ethernet(EVERYBODY, mac, ethertype, &packet)
}

/// How often each of the taps has got what `is` tells, at the end of a wait for all to have it.
fn counted(taps: &[Tap], is: impl Fn(&[u8]) -> bool, wanted: usize) -> Vec<usize> {
    let until = Instant::now() + PATIENCE;
    let mut counts = vec![0; taps.len()];
    let mut settled = false;
    while !settled {
        // One look more after all have it: what comes twice comes soon.
        settled = counts.iter().filter(|count| **count > 0).count() >= wanted || Instant::now() > until;
        std::thread::sleep(Duration::from_millis(200));
        for (count, tap) in counts.iter_mut().zip(taps) {
            *count += tap.captured().unwrap().iter().filter(|frame| is(frame)).count();
        }
    }
    counts
}

fn address(record: &PodRecord) -> IpAddr {
    record.ips().into_iter().find(IpAddr::is_ipv4).unwrap()
}

#[test]
fn what_is_for_everybody_reaches_each_of_hundreds_once() {
    let names: Vec<String> = (0..CROWD).map(|n| format!("p{n}")).collect();
    let (bed, pods) = bed("uncrowd", &names);
    let began = Instant::now();
    let records = attach(&bed.lab, &pods);
    println!("{CROWD} pods attached in {:?}", began.elapsed());
    let taps: Vec<Tap> = records.iter().map(|pod| Tap::open(&pod.netns, cni::IFNAME).unwrap()).collect();
    let server = bed.server(Lan::Vlan100);
    let (far, own) = (server.tap(), server.addresses[0]);
    let (first, its) = (&taps[0], address(&records[0]));
    let nobody = Lan::Vlan100.host(77)[0];
    let mut faults = Vec::new();
    // From the wire, and from one of them: a datagram, and a question who has an address.
    let marked = |mark: Mark| move |frame: &[u8]| marks(frame).any(|other| other == mark);
    let asked = |by: [u8; 6]| {
        move |frame: &[u8]| {
            frame[..12] == [EVERYBODY, by].concat() && frame[12..14] == build::ARP.to_be_bytes()
        }
    };
    let mut judge = |what: &str, counts: Vec<usize>, sender: Option<usize>| {
        let wanted = |n: usize| usize::from(Some(n) != sender);
        let wrong: Vec<_> = counts.iter().enumerate().filter(|(n, count)| **count != wanted(*n)).collect();
        if !wrong.is_empty() {
            faults.push(format!(
                "{what}: {} pods of {CROWD}: {:?}",
                wrong.len(),
                &wrong[..wrong.len().min(10)]
            ));
        }
    };
    far.send(&broadcast(far.mac(), own, Mark(1))).unwrap();
    judge("a datagram from the wire", counted(&taps, marked(Mark(1)), CROWD), None);
    far.send(&discovery::question(far.mac(), own, nobody)).unwrap();
    judge("a question from the wire", counted(&taps, asked(far.mac()), CROWD), None);
    drop(far.captured().unwrap());
    first.send(&broadcast(first.mac(), its, Mark(2))).unwrap();
    judge("a datagram of a pod", counted(&taps, marked(Mark(2)), CROWD - 1), Some(0));
    first.send(&discovery::question(first.mac(), its, nobody)).unwrap();
    judge("a question of a pod", counted(&taps, asked(first.mac()), CROWD - 1), Some(0));
    let frames = far.captured().unwrap();
    let (marked, asked) = (marked(Mark(2)), asked(first.mac()));
    let at_server = [frames.iter().filter(|f| marked(f)).count(), frames.iter().filter(|f| asked(f)).count()];
    assert_eq!(at_server, [1, 1], "of a pod's datagram and question at the server");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // One pod reaches another, among so many.
    let (from, to) = (&records[0].netns, &records[CROWD - 1]);
    fabric_tests::traffic::exchange(from, &to.netns, address(to), 1000).unwrap();
}

#[test]
fn questions_about_others_cost_the_agent_nothing() {
    let names = ["one", "two", "three"].map(str::to_owned);
    let (bed, pods) = bed("unquest", &names);
    let records = attach(&bed.lab, &pods);
    let server = bed.server(Lan::Vlan100);
    let (tap, own) = (server.tap(), server.addresses[0]);
    let at_pod = Tap::open(&records[0].netns, cni::IFNAME).unwrap();
    // What is learned about the pods' own traffic is learned before.
    netns::output_in(
        &records[0].netns,
        &mut fabric_tests::lab::command::command(["ping", "-c1", "-W2", "10.100.0.10"]),
        &[],
    )
    .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let before = bed.punts("n1");
    let began = Instant::now();
    for n in 0..REQUESTS {
        let [high, low] = n.to_be_bytes();
        let target = Ipv4Addr::new(10, 100, 100 + high, low).into();
        tap.send(&discovery::question(tap.mac(), own, target)).unwrap();
        let due = Duration::from_micros(u64::from(n) * 100);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    let took = began.elapsed();
    std::thread::sleep(Duration::from_secs(1));
    let after = bed.punts("n1");
    let heard = at_pod.captured().unwrap().iter().filter(|frame| frame[6..12] == tap.mac()).count();
    println!(
        "{REQUESTS} ARP requests in {took:?}; a pod heard {heard}; punts before and after {before:?} {after:?}"
    );
    assert!(took < Duration::from_secs(3), "{took:?} for {REQUESTS} requests");
    assert!(heard > usize::from(REQUESTS) / 2, "a pod of the VLAN heard {heard} of {REQUESTS}");
    assert_eq!(before, after, "packets that the agent was asked about");
}
