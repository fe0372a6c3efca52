//! What a pod may send and receive: what iperf3 measures against what the pod's annotations say, one way and both ways
//! at once, and when they change.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::process::Stdio;
use std::time::Duration;

use fabric_tests::lab::command::command;
use fabric_tests::lab::netns;
use fabric_tests::lab::node::BRIDGE_FABRIC;
use fabric_tests::trial::manifest::{annotated, network, pod};
use fabric_tests::trial::{Trial, wait};
use serde_json::{Value, json};

const SEC: Duration = Duration::from_secs(1);
/// What may be more or less, of the figure set.
const TOLERANCE: f64 = 0.10;
/// Rates at the start, Mbit/s: out and into.
const OUT: u32 = 20;
const INTO: u32 = 40;
/// What a sender of UDP sends, Mbit/s: above every rate.
const OFFERED: u32 = 60;

/// A conversation of a pod with another one, measured.
#[derive(Debug, Clone, Copy)]
struct Run {
    pod: &'static str,
    peer: &'static str,
    v6: bool,
    udp: bool,
    way: Way,
}

/// Which way its bytes go, seen from the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    Into,
    Both,
}

#[test]
fn rates_hold_in_each_direction_and_change_while_the_pod_runs() {
    let network = network("10.244.0.0/16, 'fd44::/64'", "");
    let mut trial = Trial::up("rarate", 2, &network, json!({}));
    trial.add("pods.yaml", &[pod("near", "n1"), pod("far", "n2"), pod("aside", "n1")].concat());
    for name in ["slow", "late"] {
        trial.try_add(name, &annotated(name, "n1", &annotations(Some(OUT), Some(INTO)))).unwrap();
    }
    every_way(&trial);
    changes(&trial);
    agent_and_switch_go(&trial);
}

fn annotations(out: Option<u32>, into: Option<u32>) -> String {
    let note = |name, rate: Option<u32>| rate.map(|rate| format!("kubernetes.io/{name}-bandwidth: {rate}M"));
    let notes: Vec<String> = note("egress", out).into_iter().chain(note("ingress", into)).collect();
    notes.join(", ")
}

/// TCP and UDP, out, in, and both at once: IPv4 with a pod of the same node, IPv6 with one behind the tunnel.
fn every_way(trial: &Trial) {
    let runs = |pod, peer, v6| {
        for udp in [false, true] {
            for way in [Way::Out, Way::Into, Way::Both] {
                holds(trial, Run { pod, peer, v6, udp, way }, (Some(OUT), Some(INTO)));
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| runs("slow", "near", false));
        threads.spawn(|| runs("late", "far", true));
    });
}

/// What a run measures is as set. TCP has three tries: how long it takes to recover from the end of the first burst is
/// a matter of chance.
fn holds(trial: &Trial, run: Run, set: (Option<u32>, Option<u32>)) {
    let tries = if run.udp { 1 } else { 3 };
    let held = (0..tries).any(|_| {
        let measured = run.measure(trial);
        println!(
            "  {run:?}: Mbit/s out {:.1} of {:?}, into {:.1} of {:?}",
            measured.0, set.0, measured.1, set.1
        );
        (run.way == Way::Into || within(measured.0, set.0))
            && (run.way == Way::Out || within(measured.1, set.1))
    });
    assert!(held, "{run:?} is not {set:?} Mbit/s");
}

/// Whether a figure is near the one set; `None` is what the sender offers, or more.
fn within(measured: f64, set: Option<u32>) -> bool {
    let most = set.map_or(f64::INFINITY, |set| f64::from(set) * (1.0 + TOLERANCE));
    let least = f64::from(set.unwrap_or(OFFERED)) * (1.0 - TOLERANCE);
    (least..=most).contains(&measured)
}

/// One way gets another rate, then none, then one again; the other keeps its own; who has none notices nothing.
fn changes(trial: &Trial) {
    for (out, into) in [(Some(5), Some(INTO)), (None, Some(10)), (None, None), (Some(OUT), Some(INTO))] {
        annotate(trial, out, into);
        holds(trial, both_ways("slow"), (out, into));
    }
    holds(trial, both_ways("aside"), (None, None));
}

/// UDP: it takes no time to find its rate.
fn both_ways(pod: &'static str) -> Run {
    Run { pod, peer: "near", v6: false, udp: true, way: Way::Both }
}

/// The annotations of the running pod become these.
fn annotate(trial: &Trial, out: Option<u32>, into: Option<u32>) {
    let before = meters(trial);
    let manifest = annotated("slow", "n1", &annotations(out, into));
    trial.lab.write_manifest("pod-slow.yaml", &manifest).unwrap();
    wait("the meters change", SEC * 10, || meters(trial) != before);
}

/// The meters that count kilobits.
fn meters(trial: &Trial) -> Vec<String> {
    let socket = format!("unix:{}", trial.node("n1").openflow(BRIDGE_FABRIC).display());
    let text = trial.on_node("n1", &["ovs-ofctl", "-O", "OpenFlow15", "dump-meters", &socket]);
    let blocks = text.split("meter=").filter(|block| block.contains("kbps"));
    blocks.map(str::to_owned).collect()
}

/// The rates are the same after a restart of the agent, and of the switch.
fn agent_and_switch_go(trial: &Trial) {
    let before = meters(trial);
    assert_eq!(before.len(), 8, "two pods, two ways, large packets and all: {before:?}");
    trial.lab.kill_agent("n1").unwrap();
    trial.lab.start_agent("n1").unwrap();
    trial.lab.wait_agent("n1").unwrap();
    holds(trial, both_ways("slow"), (Some(OUT), Some(INTO)));
    trial.lab.kill_vswitchd("n1").unwrap();
    trial.lab.start_vswitchd("n1").unwrap();
    wait("the meters are back", SEC * 15, || meters(trial).len() == before.len());
    wait("the pods talk", SEC * 15, || trial.pings("slow", "near"));
    holds(trial, both_ways("slow"), (Some(OUT), Some(INTO)));
}

impl Run {
    /// What the pod sends and what it receives, Mbit/s of payload as the receiver has it, once the first burst is over.
    fn measure(self, trial: &Trial) -> (f64, f64) {
        let record = |name: &str| trial.lab.pod(&format!("default/{name}")).unwrap();
        let peer = record(self.peer);
        let address = peer.addresses.iter().find(|address| address.contains(':') == self.v6).unwrap();
        let ip = address.split('/').next().unwrap();
        let mut server = command(["iperf3", "-s", "-1", "-B", ip]);
        let mut server = netns::spawn_in(&peer.netns, server.stdout(Stdio::null())).unwrap();
        wait("iperf3 listens", SEC * 10, || {
            !trial.in_pod(self.peer, &["ss", "-Hltn", "sport = :5201"]).stdout.is_empty()
        });
        let offered = format!("{OFFERED}M");
        let output = trial.in_pod(self.pod, &self.client(ip, &offered));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert!(output.status.success(), "{self:?}: {}", report["error"]);
        assert!(server.wait().unwrap().success());
        let arrived = |sum: &str| report["end"][sum]["bits_per_second"].as_f64().unwrap() / 1e6;
        match self.way {
            Way::Out => (arrived("sum_received"), 0.0),
            Way::Into => (0.0, arrived("sum_received")),
            Way::Both => (arrived("sum_received"), arrived("sum_received_bidir_reverse")),
        }
    }

    /// A second for the burst; TCP then needs some more to be measured than UDP.
    fn client<'a>(self, ip: &'a str, offered: &'a str) -> Vec<&'a str> {
        let mut words = vec!["iperf3", "-c", ip, "-J", "-O", "1"];
        if self.udp {
            words.extend(["-t", "1", "-l", "1300", "-u", "-b", offered]);
        } else {
            words.extend(["-t", "5"]);
        }
        words.extend(match self.way {
            Way::Out => None,
            Way::Into => Some("-R"),
            Way::Both => Some("--bidir"),
        });
        words
    }
}
