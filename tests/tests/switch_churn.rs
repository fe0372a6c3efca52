//! Five hundred pods come and go on two nodes, twenty at a time, in an order that a seed
//! gives: no address twice, each one reachable as long as it lives, and nothing stays.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use fabric_tests::lab::command::command;
use fabric_tests::lab::node::BRIDGE_FABRIC;
use fabric_tests::lab::record::PodRecord;
use fabric_tests::lab::{netns, pods};
use fabric_tests::random::Random;
use fabric_tests::trial::manifest::{network, pod};
use fabric_tests::trial::{Trial, holds_within, pod_of};
use serde_json::json;

/// Pods in all, half of them before the agents are restarted.
const PODS: usize = 500;
/// Pods that come and go at the same time.
const WORKERS: u64 = 20;
/// Pods that live at the same time, at most.
const ALIVE: usize = 60;
const SEED: u64 = 0x5eed_0003;

/// Pods that stay: one a node.
const FIXED: [&str; 2] = ["stay1", "stay2"];

#[test]
fn five_hundred_pods_come_and_go() {
    // 125 addresses for 500 pods.
    let network = network("10.244.7.0/25, 'fd44:7::/120'", "");
    let mut trial =
        Trial::up("rbchurn", 2, &network, json!({ "claimRestSeconds": 1, "reconcileSeconds": 5 }));
    trial.add("stay.yaml", &(pod("stay1", "n1") + &pod("stay2", "n2")));
    for (at, from) in [(0, "stay2"), (1, "stay1")] {
        let record = trial.lab.pod(&format!("default/{}", FIXED[at])).unwrap();
        assert_eq!(reachable(&trial, record, "at the start"), 0, "{from} loses packets");
    }
    let before = ["n1", "n2"].map(|node| remains(&trial, node));
    let churn = Churn::default();
    let mut ofports = Vec::new();
    for last in [PODS / 2, PODS] {
        let numbers = churn.wave(&trial, last);
        ofports.push(numbers);
        // Their zones and ports are counted from the start again, and so are used again.
        for node in ["n1", "n2"] {
            trial.lab.stop_agent(node).unwrap();
            trial.lab.start_agent(node).unwrap();
            trial.lab.wait_agent(node).unwrap();
        }
    }
    churn.report();
    let again = ofports[0].intersection(&ofports[1]).count();
    assert!(again > 10, "port numbers are used again: {again}");
    for (node, before) in ["n1", "n2"].into_iter().zip(before) {
        let mut after = BTreeMap::new();
        let same = holds_within(Duration::from_secs(30), || {
            after = remains(&trial, node);
            after == before
        });
        assert!(same, "{node} before:\n{before:#?}\nand after:\n{after:#?}");
        trial.wait_compiled(node);
    }
}

/// All that a node holds on behalf of pods, by kind.
fn remains(trial: &Trial, node: &str) -> BTreeMap<&'static str, BTreeSet<String>> {
    let lines = |words: &[&str]| trial.on_node(node, words).lines().map(str::to_owned).collect::<Vec<_>>();
    let flows = trial.lab.dump_flows(node).unwrap().into_iter().map(|stats| stats.flow.to_string());
    let bridge = format!("unix:{}", trial.node(node).openflow(BRIDGE_FABRIC).display());
    let meters = lines(&["ovs-ofctl", "-O", "OpenFlow15", "dump-meters", &bridge]).into_iter();
    let devices =
        lines(&["ip", "-o", "link"]).into_iter().filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()));
    let pid = fs::read_to_string(trial.node(node).directory.join("ovs-vswitchd.pid")).unwrap();
    let control = trial.node(node).directory.join(format!("ovs-vswitchd.{}.ctl", pid.trim()));
    let connections = lines(&["ovs-appctl", "-t", &control.display().to_string(), "dpctl/dump-conntrack"]);
    let zone = |line: &String| Some(line.split("zone=").nth(1)?.split(',').next()?.to_owned());
    let pods = trial.vsctl(node, &["--bare", "--columns=external_ids", "list", "Interface"]);
    let lived = |zone: &String| pods.split_whitespace().any(|id| id == format!("fabric.zone={zone}"));
    let claims = fs::read_dir(trial.lab.layout().world().join(".claims")).unwrap().flatten();
    let claims = claims.filter_map(|entry| entry.file_name().into_string().ok());
    BTreeMap::from([
        ("flows", flows.collect()),
        ("meters", meters.filter(|line| line.contains("meter=")).collect()),
        ("ports", trial.vsctl(node, &["list-ports", BRIDGE_FABRIC]).lines().map(str::to_owned).collect()),
        ("devices", devices.collect()),
        ("zones without a pod", connections.iter().filter_map(zone).filter(|zone| !lived(zone)).collect()),
        ("claims", claims.filter(|name| name.ends_with(".json")).collect()),
        ("namespaces", netns::of_lab(&trial.lab.layout().name).into_iter().collect()),
    ])
}

/// What the workers share.
#[derive(Default)]
struct Churn {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Pods that came so far, those that are just coming included.
    begun: usize,
    /// Pods that live and that nobody works on.
    alive: Vec<PodRecord>,
    /// Addresses in use, with their pods.
    addresses: BTreeMap<String, String>,
    /// How often each address was given out.
    given: BTreeMap<String, usize>,
    adds: Vec<Duration>,
    dels: Vec<Duration>,
    /// Packets without an answer.
    lost: usize,
}

enum Step {
    Add(usize),
    Remove(PodRecord),
    Wait,
    End,
}

impl Churn {
    /// Lets pods come until there were `last`, and all of them go; the port numbers that `status` showed meanwhile.
    fn wave(&self, trial: &Trial, last: usize) -> BTreeSet<u64> {
        let mut ofports = BTreeSet::new();
        thread::scope(|scope| {
            let worker = |number: u64| SEED ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let seeds = (1..=WORKERS).map(worker);
            let workers: Vec<_> =
                seeds.map(|seed| scope.spawn(move || self.work(trial, last, seed))).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                let status = trial.status("n1");
                let attachments = status["attachments"].as_array().into_iter().flatten();
                ofports.extend(attachments.filter_map(|attachment| attachment["ofport"].as_u64()));
                thread::sleep(Duration::from_millis(500));
            }
        });
        ofports
    }

    fn work(&self, trial: &Trial, last: usize, seed: u64) {
        let mut random = Random(seed);
        loop {
            match self.next(last, &mut random) {
                Step::Add(number) => self.add(trial, number, &mut random),
                Step::Remove(record) => self.remove(trial, &record),
                Step::Wait => thread::sleep(Duration::from_millis(20)),
                Step::End => return,
            }
        }
    }

    fn next(&self, last: usize, random: &mut Random) -> Step {
        let mut state = self.state.lock().unwrap();
        let alive = state.alive.len();
        let more = state.begun < last;
        if more && alive < ALIVE - usize::try_from(WORKERS).unwrap() && (alive == 0 || random.below(3) > 0) {
            state.begun += 1;
            return Step::Add(state.begun);
        }
        match alive {
            0 if !more => Step::End,
            0 => Step::Wait,
            _ => Step::Remove(state.alive.swap_remove(random.below(alive))),
        }
    }

    fn add(&self, trial: &Trial, number: usize, random: &mut Random) {
        let node = ["n1", "n2"][random.below(2)];
        let (name, lab) = (format!("pod{number}"), &trial.lab);
        let manifest = pod(&name, node);
        lab.write_manifest(&format!("{name}.yaml"), &manifest).unwrap();
        let began = Instant::now();
        let attached =
            pods::attach(&lab.layout().name, trial.node(node), lab.programs().unwrap(), &pod_of(&manifest));
        let (record, _) = attached.unwrap();
        let took = began.elapsed();
        {
            let mut state = self.state.lock().unwrap();
            state.adds.push(took);
            for address in &record.addresses {
                let other = state.addresses.insert(address.clone(), record.pod.clone());
                assert_eq!(other, None, "{address} was given to {} too", record.pod);
                *state.given.entry(address.clone()).or_default() += 1;
            }
        }
        let lost = reachable(trial, &record, "at once");
        let mut state = self.state.lock().unwrap();
        state.lost += lost;
        state.alive.push(record);
    }

    fn remove(&self, trial: &Trial, record: &PodRecord) {
        let lost = reachable(trial, record, "at its end");
        {
            let mut state = self.state.lock().unwrap();
            state.lost += lost;
            for address in &record.addresses {
                state.addresses.remove(address);
            }
        }
        let lab = &trial.lab;
        let began = Instant::now();
        pods::detach(trial.node(&record.node), lab.programs().unwrap(), record).unwrap();
        self.state.lock().unwrap().dels.push(began.elapsed());
        let name = record.pod.trim_start_matches("default/");
        lab.remove_manifest(&format!("{name}.yaml")).unwrap();
    }

    fn report(&self) {
        let mut state = self.state.lock().unwrap();
        let distinct = state.given.len();
        let given: usize = state.given.values().sum();
        println!("{given} addresses given out, {distinct} different ones");
        assert!(given == 2 * PODS && distinct < given / 2, "addresses are used again");
        println!("{} packets lost in {} conversations", state.lost, 4 * PODS);
        let State { adds, dels, .. } = &mut *state;
        for (what, times) in [("ADD", adds), ("DEL", dels)] {
            times.sort();
            let at = |share: usize| times[(times.len() - 1) * share / 100];
            println!(
                "{what}, {WORKERS} at a time: p50 {:?}, p99 {:?}, longest {:?}",
                at(50),
                at(99),
                at(100)
            );
        }
    }
}

/// The pod of the other node reaches it, over both families; packets that were lost on the way.
fn reachable(trial: &Trial, record: &PodRecord, when: &str) -> usize {
    let from = FIXED[usize::from(record.node == "n1")];
    let ips = record.addresses.iter().filter_map(|address| address.split('/').next());
    let lost = ips.map(|ip| {
        // One packet after another until one is answered.
        let ping = ["ping", "-n", "-c1", "-i0.2", "-w5", ip];
        let answer = trial.lab.exec_pod(&format!("default/{from}"), &mut command(ping)).unwrap();
        assert!(answer.status.success(), "{} at {ip} does not answer {from} {when}: {answer:?}", record.pod);
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let sent = text.split(" packets transmitted").next().and_then(|text| text.rsplit('\n').next());
        sent.and_then(|number| number.parse::<usize>().ok()).unwrap() - 1
    });
    lost.sum()
}
