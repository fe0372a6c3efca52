//! A thousand creates and deletes of pods in an order that a seed gives, while the agents are killed between the claim of
//! an address and their answer: no address twice, none lost for good.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fabric_tests::lab::cni::Attachment;
use fabric_tests::lab::record::PodRecord;
use fabric_tests::lab::{cni, find_program, netns, pods};
use fabric_tests::random::Random;
use fabric_tests::trial::manifest::network;
use fabric_tests::trial::{Trial, holds_within, pod_of};
use serde_json::{Value, json};

/// Creates and deletes in all.
const OPERATIONS: usize = 1_000;
/// Those that are under way at the same time.
const WORKERS: usize = 10;
/// Pods of each worker that may live at the same time. The first keeps its addresses.
const SLOTS: usize = 3;
/// Addresses of the IPv4 pool, a /26: without both edges and the gateway.
const POOL: usize = 61;
/// How long kept addresses wait, and how soon a pod must be back for its address to be surely kept.
const RETENTION: Duration = Duration::from_secs(8);
const SURELY: Duration = Duration::from_secs(5);
const SEED: u64 = 0x5eed_0005;
const NODES: [&str; 2] = ["n1", "n2"];

#[test]
fn no_address_is_given_twice_or_lost_while_agents_are_killed() {
    let network = network("10.244.7.0/26, 'fd44:7::/120'", "");
    let config =
        json!({ "claimRestSeconds": 0, "claimRetentionSeconds": RETENTION.as_secs(), "reconcileSeconds": 2 });
    let trial = Trial::up("rbaddress", 2, &network, config);
    let run = Run { trial: &trial, operations: AtomicUsize::new(0), state: Mutex::default() };
    let began = Instant::now();
    let kills = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|worker| (worker, &run)).collect();
        let workers: Vec<_> = workers.into_iter().map(|(n, run)| scope.spawn(move || run.work(n))).collect();
        let kills = run.kill(|| workers.iter().all(|worker| worker.is_finished()));
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        kills
    });
    run.report(kills, began.elapsed());
    settle(&trial);
    every_address_is_to_be_had(&trial);
    another_plugin_gives_addresses(&trial);
}

/// The containers are gone; what is left of them goes with what the runtime does then, and with what the agents sweep.
fn settle(trial: &Trial) {
    for node in NODES {
        cni::gc(trial.node(node), trial.lab.programs().unwrap(), &[]).unwrap();
    }
    let empty = holds_within(RETENTION + Duration::from_secs(15), || claims(trial).is_empty());
    assert!(empty, "claims that nobody gives back: {:#?}", claims(trial));
    for node in NODES {
        assert_eq!(trial.problems(node), [""; 0]);
    }
}

/// The whole pool is given out, to as many pods at once, and then it is full.
fn every_address_is_to_be_had(trial: &Trial) {
    let (next, records) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let add = |number: usize| {
        let name = format!("all{number}");
        let text = manifest(&name, NODES[number % 2], "u", false);
        trial.lab.write_manifest(&format!("{name}.yaml"), &text).unwrap();
        let node = trial.node(NODES[number % 2]);
        pods::attach(&trial.lab.layout().name, node, trial.lab.programs().unwrap(), &pod_of(&text))
    };
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < POOL) {
                    let (record, _) = add(number).unwrap();
                    records.lock().unwrap().push(record);
                }
            });
        }
    });
    let records = records.into_inner().unwrap();
    let four: BTreeSet<String> =
        records.iter().flat_map(|record| record.addresses.clone()).filter(|ip| ip.contains('.')).collect();
    assert_eq!(four.len(), POOL, "{four:?}");
    let pools = ipam(trial, &["-o", "json"]);
    let pools: Value = serde_json::from_str(&pools).unwrap();
    let (claimed, free) = (&pools["pools"][0]["claimed"], &pools["pools"][0]["free"]);
    assert_eq!((claimed.as_u64(), free.as_u64()), (Some(61), Some(0)), "{pools}");
    let table = ipam(trial, &["--claims"]);
    assert_eq!(table.lines().count(), 1 + 2 * POOL, "{table}");
    assert!(table.contains("default/all0") && table.contains("  claimed  "), "{table}");
    let full = add(POOL).unwrap_err().to_string();
    assert!(full.contains("no free address") && full.contains("61 held"), "{full}");
    for record in &records {
        pods::detach(trial.node(&record.node), trial.lab.programs().unwrap(), record).unwrap();
    }
}

/// `fabric-node ipam` on the first node.
fn ipam(trial: &Trial, words: &[&str]) -> String {
    let program = find_program("fabric-node", "fabric-node").unwrap().display().to_string();
    let socket = trial.node("n1").agent_socket().display().to_string();
    let words = [&[program.as_str(), "ipam", "--socket", &socket], words].concat();
    trial.on_node("n1", &words)
}

/// The real host-local gives the one address that it has: to the container, to nobody else, and again when it is free.
fn another_plugin_gives_addresses(trial: &Trial) {
    let (node, programs, name) = (trial.node("n1"), trial.lab.programs().unwrap(), "delegated");
    trial.lab.write_manifest("delegated.yaml", &manifest(name, "n1", "u", false)).unwrap();
    let netns = trial.lab.layout().name.pod(&format!("default/{name}"));
    netns::add([netns.as_str()]).unwrap();
    let pod = format!("default/{name}");
    let of = |container| Attachment { container, netns: &netns, pod: &pod, uid: Some("u") };
    let data = trial.lab.layout().world().join(".host-local");
    let mut config = cni::configuration(node);
    config["cniVersion"] = json!("1.0.0");
    config["ipam"] = json!({ "type": "host-local", "dataDir": data,
        "ranges": [[{ "subnet": "10.244.7.0/26", "rangeStart": "10.244.7.20", "rangeEnd": "10.244.7.20" }]] });
    for container in ["first", "second"] {
        let result = cni::run(node, programs, "ADD", &of(container), &config).unwrap();
        assert_eq!(cni::addresses(&result), ["10.244.7.20/32"], "{result}");
        assert_eq!(claims(trial).len(), 1, "and none of IPv6");
        trial.on_node("n1", &["ping", "-n", "-q", "-c1", "-W5", "10.244.7.20"]);
        let full = cni::run(node, programs, "ADD", &of("third"), &config).unwrap_err().to_string();
        assert!(full.contains("ipam plugin host-local"), "{full}");
        cni::run(node, programs, "DEL", &of(container), &config).unwrap();
        assert!(holds_within(Duration::from_secs(5), || claims(trial).is_empty()), "{:?}", claims(trial));
    }
    netns::remove([netns.as_str()]).unwrap();
}

fn manifest(name: &str, node: &str, uid: &str, keeps: bool) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: default\n  uid: {uid}\n  \
         annotations: {{fabric.io/keep-ip: \"{keeps}\"}}\nspec: {{nodeName: {node}}}\n"
    )
}

fn folder(trial: &Trial) -> PathBuf {
    trial.lab.layout().world().join(".claims")
}

/// The claims in the store, by file name.
fn claims(trial: &Trial) -> BTreeMap<String, Value> {
    let files = fs::read_dir(folder(trial)).unwrap().flatten();
    let names =
        files.filter_map(|file| file.file_name().into_string().ok()).filter(|name| name.ends_with(".json"));
    names.filter_map(|name| Some((name.clone(), claim(trial, &name)?))).collect()
}

fn claim(trial: &Trial, name: &str) -> Option<Value> {
    let text = fs::read_to_string(folder(trial).join(name)).ok()?;
    serde_json::from_str(&text).ok()
}

/// What the workers share.
struct Run<'a> {
    trial: &'a Trial,
    operations: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Addresses in use, with their pods.
    used: BTreeMap<String, String>,
    /// What pods that keep their addresses had last, and when they went.
    kept: BTreeMap<String, (Vec<String>, Instant)>,
    /// Creates that succeeded and that did not, by the error's number.
    created: usize,
    failed: BTreeMap<String, usize>,
    /// Pods that came back to their addresses.
    returned: usize,
}

impl Run<'_> {
    /// Kills agents until the workers are done: each time the one that made a claim a moment ago.
    fn kill(&self, done: impl Fn() -> bool) -> usize {
        let (mut random, mut kills) = (Random(SEED), 0);
        while !done() {
            thread::sleep(Duration::from_millis(250 + random.below(400) as u64));
            let before: BTreeSet<String> = claims(self.trial).into_keys().collect();
            let Some(node) = self.next_claim(&before, &done) else { continue };
            self.trial.lab.kill_agent(&node).unwrap();
            kills += 1;
            self.trial.lab.start_agent(&node).unwrap();
            self.trial.lab.wait_agent(&node).unwrap();
        }
        kills
    }

    /// Waits for a claim that is not known; the node that made it.
    fn next_claim(&self, before: &BTreeSet<String>, done: impl Fn() -> bool) -> Option<String> {
        while !done() {
            let found = fs::read_dir(folder(self.trial)).unwrap().flatten();
            let names = found.filter_map(|file| file.file_name().into_string().ok());
            let fresh = names.filter(|name| name.ends_with(".json") && !before.contains(name));
            if let Some(claim) = fresh.filter_map(|name| claim(self.trial, &name)).next() {
                return claim["spec"]["node"].as_str().map(str::to_owned);
            }
            thread::sleep(Duration::from_micros(300));
        }
        None
    }

    fn work(&self, worker: usize) {
        let mut random = Random(SEED ^ (worker as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut slots: [Option<PodRecord>; SLOTS] = Default::default();
        let mut lives = 0;
        while self.operations.fetch_add(1, Ordering::Relaxed) < OPERATIONS {
            let slot = random.below(SLOTS);
            slots[slot] = match slots[slot].take() {
                Some(record) => {
                    self.remove(&record);
                    None
                }
                None => {
                    lives += 1;
                    self.add(&format!("p{worker}-{slot}"), &format!("u{lives}"), slot == 0, &mut random)
                }
            };
        }
        slots.iter().flatten().for_each(|record| self.remove(record));
    }

    /// A pod comes, as its runtime tries it: some times, until the pod is taken back.
    fn add(&self, name: &str, uid: &str, keeps: bool, random: &mut Random) -> Option<PodRecord> {
        let (lab, node) = (&self.trial.lab, NODES[random.below(2)]);
        let text = manifest(name, node, uid, keeps);
        lab.write_manifest(&format!("{name}.yaml"), &text).unwrap();
        for _ in 0..=random.below(3) {
            let attached = pods::attach(
                &lab.layout().name,
                self.trial.node(node),
                lab.programs().unwrap(),
                &pod_of(&text),
            );
            match attached {
                Ok((record, _)) => {
                    self.came(name, &record, keeps);
                    return Some(record);
                }
                Err(error) => self.refused(&error.to_string()),
            }
        }
        lab.remove_manifest(&format!("{name}.yaml")).unwrap();
        None
    }

    fn came(&self, name: &str, record: &PodRecord, keeps: bool) {
        let mut state = self.state.lock().unwrap();
        state.created += 1;
        assert_eq!(record.addresses.len(), 2, "one of each family: {record:?}");
        for address in &record.addresses {
            let other = state.used.insert(address.clone(), record.pod.clone());
            assert_eq!(other, None, "{address} was given to {} too", record.pod);
        }
        if let Some((had, went)) = state.kept.remove(name).filter(|_| keeps)
            && went.elapsed() < SURELY
        {
            assert_eq!(record.addresses, had, "{name} has other addresses than before");
            state.returned += 1;
        }
    }

    /// An agent that is away or was killed, or an address whose last container is not cleaned up yet.
    fn refused(&self, error: &str) {
        let expected = ["error 11", "try again later"];
        assert!(expected.iter().any(|text| error.contains(text)), "{error}");
        let kind = if error.contains("not gone yet") { "not gone yet" } else { "agent away" };
        *self.state.lock().unwrap().failed.entry(kind.to_owned()).or_default() += 1;
    }

    fn remove(&self, record: &PodRecord) {
        let name = record.pod.trim_start_matches("default/").to_owned();
        {
            let mut state = self.state.lock().unwrap();
            record.addresses.iter().for_each(|address| drop(state.used.remove(address)));
            if name.ends_with("-0") {
                state.kept.insert(name.clone(), (record.addresses.clone(), Instant::now()));
            }
        }
        let lab = &self.trial.lab;
        pods::detach(self.trial.node(&record.node), lab.programs().unwrap(), record).unwrap();
        lab.remove_manifest(&format!("{name}.yaml")).unwrap();
    }

    fn report(&self, kills: usize, took: Duration) {
        let state = self.state.lock().unwrap();
        let State { created, failed, returned, .. } = &*state;
        println!(
            "{OPERATIONS} creates and deletes in {took:.1?} with {kills} kills: {created} pods came, {failed:?} tries \
             failed, {returned} pods came back to their addresses"
        );
        assert!(kills >= 5 && *returned >= 10 && *created >= OPERATIONS / 4, "it was too quiet");
        assert!(failed.get("agent away").is_some_and(|times| *times >= 5), "nobody met a killed agent");
    }
}
