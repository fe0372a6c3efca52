//! What goes away comes back: agent, switch and database of a node, one after another,
//! while pods talk; and what a foreign hand changes is put right.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::Cookie;
use fabric_tests::lab::node::BRIDGE_FABRIC;
use fabric_tests::lab::{LabError, cni, process};
use fabric_tests::trial::manifest::{network, pod};
use fabric_tests::trial::traffic::Stream;
use fabric_tests::trial::watch::FlowWatch;
use fabric_tests::trial::{Trial, wait};
use nix::sys::signal::Signal;
use openflow::FlowKey;
use serde_json::json;

const SEC: Duration = Duration::from_secs(1);

fn up(purpose: &str, reconcile_seconds: u32) -> Trial {
    let network = network("10.244.0.0/16, 'fd44::/64'", "");
    let mut trial = Trial::up(purpose, 2, &network, json!({ "reconcileSeconds": reconcile_seconds }));
    let names = [("a", "n1"), ("b", "n1"), ("q1", "n1"), ("q2", "n1"), ("c", "n2"), ("q3", "n2")];
    trial.add("pods.yaml", &names.map(|(name, node)| pod(name, node)).concat());
    trial
}

/// Learned flows with their cookies, and for how long each has been there.
fn learned(trial: &Trial, node: &str) -> BTreeMap<FlowKey, (u64, Duration)> {
    let flows = trial.lab.dump_flows(node).unwrap().into_iter();
    let learned =
        flows.filter(|stats| Cookie(stats.flow.cookie).kind().is_some_and(|kind| kind.is_learned()));
    learned.map(|stats| (stats.flow.key(), (stats.flow.cookie, stats.duration))).collect()
}

/// All pods that talk reach each other, and the flows are those of a compile from nothing.
fn healed(trial: &Trial, patience: Duration) {
    let took = wait("old pods talk again", patience, || trial.pings("a", "b") && trial.pings("a", "c"));
    println!("  old pods talk after {took:?}");
    for node in ["n1", "n2"] {
        trial.lab.wait_agent(node).unwrap();
        trial.wait_compiled(node);
    }
    assert!(trial.pings("b", "c") && trial.pings("c", "a"));
}

/// A pod that comes after a failure talks at once.
fn fresh_pod_talks(trial: &mut Trial, name: &str) {
    trial.try_add(name, &pod(name, "n1")).unwrap();
    assert!(trial.pings(name, "b") && trial.pings(name, "c") && trial.pings("c", name));
    trial.lab.remove_pod(&format!("default/{name}")).unwrap();
}

#[test]
fn what_was_killed_comes_back() {
    let mut trial = up("rbback", 300);
    agent_killed(&trial);
    agent_killed_first_conversation(&trial);
    vswitchd_killed(&trial);
    fresh_pod_talks(&mut trial, "fresh1");
    vswitchd_busy(&trial);
    fresh_pod_talks(&mut trial, "fresh2");
    database_away(&mut trial);
    fresh_pod_talks(&mut trial, "fresh3");
}

/// The agent goes and comes back in the middle of connections: none breaks, and nobody touches a flow that holds.
fn agent_killed(trial: &Trial) {
    println!("agent of n1 killed");
    let streams = [Stream::start(trial, "a", "b", 6), Stream::start(trial, "b", "c", 6)];
    assert!(trial.pings("a", "c"));
    let before = learned(trial, "n1");
    assert!(before.len() >= 3, "{before:?}");
    let (watch, began) = (FlowWatch::start(trial, "n1"), Instant::now());
    trial.lab.kill_agent("n1").unwrap();
    thread::sleep(SEC);
    assert!(trial.pings("a", "b") && trial.pings("a", "c"), "what was learned goes on without the agent");
    trial.lab.start_agent("n1").unwrap();
    trial.lab.wait_agent("n1").unwrap();
    trial.wait_compiled("n1");
    for (stream, name) in streams.into_iter().zip(["local", "across"]) {
        println!("  {name} stream");
        stream.finish(0);
    }
    assert_eq!(watch.changes(), Vec::<String>::new(), "nobody touched a flow");
    let after = learned(trial, "n1");
    for (key, (cookie, age)) in before {
        let (now_cookie, now_age) = after.get(&key).unwrap_or_else(|| panic!("gone: {key:?}"));
        assert_eq!(cookie, *now_cookie, "{key:?}");
        assert!(*now_age >= age + began.elapsed() - 2 * SEC, "{key:?} is {now_age:?} old, and was {age:?}");
    }
}

/// A conversation that nobody had before, begun at the moment when the agent dies.
fn agent_killed_first_conversation(trial: &Trial) {
    for (from, to) in [("q1", "q2"), ("q2", "q3")] {
        trial.lab.kill_agent("n1").unwrap();
        let killed = Instant::now();
        trial.lab.start_agent("n1").unwrap();
        wait("a first answer", 10 * SEC, || trial.pings_within(from, to, "0.1"));
        let took = killed.elapsed();
        println!("  first new conversation {from} to {to} {took:?} after the kill");
        assert!(took <= SEC, "{from} to {to}: first answer {took:?} after the kill");
        trial.lab.wait_agent("n1").unwrap();
    }
}

/// The switch daemon dies. The agent is the same before and after.
fn vswitchd_killed(trial: &Trial) {
    println!("ovs-vswitchd of n1 killed");
    let since = agent_pid(trial, "n1");
    trial.lab.kill_vswitchd("n1").unwrap();
    thread::sleep(SEC);
    assert!(!trial.pings("a", "b"), "there is no switch");
    trial.lab.start_vswitchd("n1").unwrap();
    healed(trial, 10 * SEC);
    assert_eq!(agent_pid(trial, "n1"), since, "the agent was not restarted");
}

/// A switch daemon that does not answer for so long that every probe is missed.
fn vswitchd_busy(trial: &Trial) {
    println!("ovs-vswitchd of n1 stopped for 12 s");
    let agent = agent_pid(trial, "n1");
    let node = trial.node("n1");
    let vswitchd = process::find(&node.directory.join("ovs-vswitchd.pid"), &node.directory).unwrap();
    process::signal(vswitchd, Signal::SIGSTOP).unwrap();
    thread::sleep(12 * SEC);
    process::signal(vswitchd, Signal::SIGCONT).unwrap();
    healed(trial, 10 * SEC);
    assert_eq!(agent_pid(trial, "n1"), agent, "the agent was not restarted");
}

/// The database is away for 20 s; a pod that comes and one that goes in that time get an answer.
fn database_away(trial: &mut Trial) {
    println!("ovsdb-server of n1 away for 20 s");
    let agent = agent_pid(trial, "n1");
    trial.try_add("leaver", &pod("leaver", "n1")).unwrap();
    trial.lab.stop_ovsdb("n1").unwrap();
    let stopped = Instant::now();
    wait("status says so", 5 * SEC, || trial.status("n1")["switch"]["databaseConnected"] == false);
    let refused = trial.try_add("comer", &pod("comer", "n1"));
    match &refused {
        Err(LabError::Cni { code: 11, message, .. }) if message.contains("database") => {}
        other => panic!("wanted CNI error 11 that names the database: {other:?}"),
    }
    println!("  ADD refused after {:?}", stopped.elapsed());
    let asked = Instant::now();
    trial.lab.remove_pod("default/leaver").unwrap();
    println!("  DEL done after {:?}", asked.elapsed());
    assert!(asked.elapsed() < 15 * SEC);
    thread::sleep((20 * SEC).saturating_sub(stopped.elapsed()));
    trial.lab.start_ovsdb("n1").unwrap();
    healed(trial, 10 * SEC);
    assert_eq!(agent_pid(trial, "n1"), agent, "the agent was not restarted");
    wait("the port of the pod that went is gone", 10 * SEC, || ports(trial, "n1") == 4);
    trial.try_add("comer", &pod("comer", "n1")).unwrap();
    assert!(trial.pings("comer", "c"));
    trial.lab.remove_pod("default/comer").unwrap();
}

/// Ports of containers on `br-fabric`.
fn ports(trial: &Trial, node: &str) -> usize {
    trial
        .vsctl(node, &["list-ports", BRIDGE_FABRIC])
        .lines()
        .filter(|port| !port.starts_with("fabric-"))
        .count()
}

fn agent_pid(trial: &Trial, node: &str) -> String {
    let file = trial.node(node).directory.join("fabric-node.pid");
    assert!(process::find(&file, &trial.node(node).directory).is_some(), "the agent of {node} runs");
    fs::read_to_string(file).unwrap()
}

/// What a foreign hand does to flows and ports is put right by the next compare.
#[test]
fn what_a_foreign_hand_changes_is_put_right() {
    let trial = up("rbhand", 2);
    assert!(trial.pings("a", "b") && trial.pings("a", "c"));
    trial.wait_compiled("n1");
    let bridge = format!("unix:{}", trial.node("n1").openflow(BRIDGE_FABRIC).display());
    let ofctl = |words: &[&str]| {
        let words = [&["ovs-ofctl", "-O", "OpenFlow15"], words].concat();
        trial.on_node("n1", &words);
    };
    println!("all flows deleted");
    ofctl(&["del-flows", &bridge]);
    healed(&trial, 10 * SEC);
    println!("a foreign flow added, one of ours changed");
    ofctl(&["add-flow", &bridge, "table=0, priority=60000, ip, nw_dst=10.9.9.9 actions=NORMAL"]);
    ofctl(&["mod-flows", &bridge, "table=0 actions=drop"]);
    healed(&trial, 10 * SEC);
    println!("a port deleted");
    let pod = trial.lab.pod("default/a").unwrap();
    let find = format!("external_ids:fabric.container={}", pod.container);
    let port = trial.vsctl("n1", &["--bare", "--columns=name", "find", "Interface", &find]);
    trial.vsctl("n1", &["del-port", BRIDGE_FABRIC, port.trim()]);
    healed(&trial, 10 * SEC);
    assert_eq!(ports(&trial, "n1"), 4);
    println!("the tunnel port deleted");
    trial.vsctl("n1", &["del-port", BRIDGE_FABRIC, "fabric-vxlan"]);
    healed(&trial, 10 * SEC);
    println!("the bridge deleted");
    trial.vsctl("n1", &["del-br", BRIDGE_FABRIC]);
    healed(&trial, 15 * SEC);
    let programs = trial.lab.programs().unwrap();
    cni::status(trial.node("n1"), programs).unwrap();
}
