//! The real agent in a large cluster: its memory, and an edit of a file until the switch has the flows.
//!
//! The cluster lies in the folder as the API server would page it: files of 2,000 manifests, and a claim for each
//! address. Memory is read after the first list, and after every pod was given another label and its own again.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use policy::{claim_name, to_manifest};
use serde_json::Value;

use super::cluster::{Cluster, namespace};
use super::rig::{LOCAL, NAMESPACE, local_pod, toggled};
use super::verdicts::middle;
use crate::bench::first::socket;
use crate::bench::packets::PORT;
use crate::bench::plain::Place;
use crate::bench::pods::{resident, text};
use crate::bench::report::{Limit, Row};
use crate::lab::command::{command, spawn};
use crate::lab::node::BRIDGE_FABRIC;
use crate::lab::world::{documents, pods};
use crate::lab::{Lab, LabError, agent, interrupt, switch};

/// Objects in one file of manifests.
const FILE: usize = 2_000;
/// How long an agent may take to read a cluster.
const PATIENCE: Duration = Duration::from_secs(60);
/// After which nothing more is expected to happen.
const QUIET: Duration = Duration::from_millis(100);
/// Each local pod talks to so many others.
const NEIGHBOURS: u16 = 5;
/// Times that the policy is changed.
const ROUNDS: u16 = 20;
/// Numbers of namespaces that only tell when an edit was read.
const MARKS: usize = 500_000;

/// The memory of the agent in a cluster.
///
/// # Errors
/// Where the agent is late.
pub fn memory(lab: &Lab, cluster: Cluster) -> Result<Row, LabError> {
    let _ = lab.kill_agent("n1");
    write(lab, cluster)?;
    let began = Instant::now();
    lab.start_agent("n1")?;
    let namespaces = read(lab, |world| world.pods >= count(cluster.pods) && world.claims > 0)?;
    let synced = began.elapsed().as_secs_f64();
    let node = lab.node("n1")?;
    let after_sync = resident(node)?;
    for (round, relabelled) in [true, false].into_iter().enumerate() {
        write_pods(lab, cluster, relabelled)?;
        // Read after them, or with them.
        lab.write_manifest(&format!("z{round}.json"), &text_of(&[namespace(MARKS + round, false)]))?;
        read(lab, |world| world.namespaces > namespaces + count(round))?;
    }
    std::thread::sleep(QUIET);
    let note = format!(
        "after one edit of every pod and its undoing; {after_sync:.0} MiB after the first list, which took {synced:.1} s; \
         {} policies, {} Services, a claim for each address",
        cluster.policies(),
        cluster.services()
    );
    let row = Row::new(&format!("memory of the agent, {} pods", cluster.pods), resident(node)?, "MiB", note);
    Ok(match cluster.pods {
        10_000 => row.bound("≤ 64 MiB", Limit::AtMost(64.0)),
        100_000 => row.bound("≤ 200 MiB", Limit::AtMost(200.0)),
        _ => row,
    })
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Waits until the agent has read so much of the world; returns how many namespaces it knows.
fn read(lab: &Lab, enough: impl Fn(&fabric_api::WorldCounts) -> bool) -> Result<u64, LabError> {
    let until = Instant::now() + PATIENCE;
    loop {
        interrupt::check()?;
        if let Ok(status) = agent::status(lab.node("n1")?, lab.programs()?)
            && status.store.synced
            && enough(&status.world)
        {
            return Ok(status.world.namespaces);
        }
        if Instant::now() >= until {
            return Err(LabError::Timeout {
                what: "the agent to read the cluster".to_owned(),
                after: PATIENCE,
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Puts the cluster in the place of the one before.
fn write(lab: &Lab, cluster: Cluster) -> Result<(), LabError> {
    let world = lab.layout().world();
    let clean = |path: &Path| {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    };
    let failed = |error| LabError::io(format!("write below {}", world.display()))(error);
    clean(&world).map_err(failed)?;
    let claims = world.join(".claims");
    fs::create_dir_all(&claims).and_then(|()| clean(&claims)).map_err(failed)?;
    for claim in (0..cluster.pods).flat_map(|pod| cluster.claims(pod)) {
        let file = claims.join(format!("{}.json", claim_name(claim.ip)));
        fs::write(file, to_manifest(&claim).to_string()).map_err(failed)?;
    }
    lab.write_manifest("base.json", &text_of(&cluster.base(false)))?;
    let services: Vec<Value> = (0..cluster.services()).flat_map(|number| cluster.service(number)).collect();
    write_parts(lab, "services", &services)?;
    write_parts(lab, "policies", &cluster.every_policy())?;
    write_pods(lab, cluster, false)
}

fn write_parts(lab: &Lab, name: &str, objects: &[Value]) -> Result<(), LabError> {
    let mut parts = objects.chunks(FILE).enumerate();
    parts
        .try_for_each(|(part, objects)| lab.write_manifest(&format!("{name}-{part}.json"), &text_of(objects)))
}

fn write_pods(lab: &Lab, cluster: Cluster, relabelled: bool) -> Result<(), LabError> {
    for (part, first) in (0..cluster.pods).step_by(FILE).enumerate() {
        let pods: Vec<Value> =
            (first..cluster.pods.min(first + FILE)).map(|pod| cluster.pod(pod, relabelled)).collect();
        lab.write_manifest(&format!("pods-{part}.json"), &text_of(&pods))?;
    }
    Ok(())
}

/// Manifests as JSON, one value after another.
fn text_of(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("{object}\n")).collect()
}

/// An edit of a file of policies until the flows of the node's conversations are changed.
///
/// # Errors
/// Where a pod cannot talk, or an edit has no effect.
pub fn edit(lab: &mut Lab, cluster: Cluster) -> Result<Row, LabError> {
    let local: Vec<Value> = (0..LOCAL).map(local_pod).collect();
    let own =
        serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    lab.write_manifest("local.json", &text_of(&[&[own], &local[..]].concat()))?;
    lab.write_manifest("toggled.json", &text_of(&[toggled(PORT)]))?;
    for pod in pods(&documents(&text(&local))) {
        lab.add_pod(&pod)?;
    }
    let verdicts = talk(lab)?;
    let (changes, _watcher) = watch(lab)?;
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        interrupt::check()?;
        while changes.recv_timeout(QUIET).is_ok() {}
        let start = Instant::now();
        lab.write_manifest("toggled.json", &text_of(&[toggled(PORT + (round + 1) % 2)]))?;
        let mut last = start;
        for seen in 0..verdicts {
            last = changes.recv_timeout(Duration::from_secs(2)).map_err(|_| {
                LabError::NotReady(format!("an edit of the policy changed {seen} of {verdicts} flows"))
            })?;
        }
        took.push(last.saturating_duration_since(start));
    }
    let note = format!(
        "p50 of {ROUNDS}, from before the file is put in place until the last of {verdicts} flows is changed; the agent \
         waits 3 ms for more before it reads a file"
    );
    Ok(Row::new(
        &format!("policy file written to flows committed, {} pods", cluster.pods),
        middle(&took) / 1e3,
        "ms",
        note,
    ))
}

/// Conversations of the local pods; returns how many verdicts they took.
fn talk(lab: &Lab) -> Result<usize, LabError> {
    let place = |number: u16| {
        let pod = lab.pod(&format!("{NAMESPACE}/l{number}"))?;
        let ip = pod.ips().first().copied();
        let none = || LabError::NotReady(format!("pod {} has no address", pod.pod));
        Ok::<_, LabError>(Place { netns: pod.netns.clone(), ip: ip.ok_or_else(none)? })
    };
    let places = (0..LOCAL).map(place).collect::<Result<Vec<Place>, LabError>>()?;
    let mut verdicts = 0;
    for (number, to) in places.iter().enumerate() {
        let receiver = socket(to, PORT)?;
        for step in 1..=usize::from(NEIGHBOURS) {
            let Some(from) = places.get((number + step) % places.len()) else { continue };
            let sent = socket(from, 0)?.send_to(b"hello", SocketAddr::new(to.ip, PORT));
            let heard = sent.and_then(|_| receiver.recv(&mut [0; 16]));
            heard.map_err(LabError::io(format!("send from {} to {}", from.netns, to.netns)))?;
            verdicts += 2;
        }
    }
    Ok(verdicts)
}

/// `ovs-ofctl monitor`, ended with its value.
struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sees every change of a verdict in the switch, when it happens.
fn watch(lab: &Lab) -> Result<(Receiver<Instant>, Watcher), LabError> {
    let node = lab.node("n1")?;
    let socket = format!("unix:{}", node.openflow(BRIDGE_FABRIC).display());
    let mut monitor = command(["ovs-ofctl", "monitor", &socket, "watch:!initial"]);
    monitor.envs(switch::environment(node)).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut watcher = spawn(&mut monitor)?;
    let (seen, changes) = mpsc::channel();
    if let Some(output) = watcher.stderr.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let verdict = ["cookie=0x5", "cookie=0x7"].iter().any(|cookie| line.contains(cookie));
                if verdict && line.contains("event=ADDED") && seen.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
    }
    Ok((changes, Watcher(watcher)))
}
