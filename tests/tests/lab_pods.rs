//! The lab with agents: pods come, go and change as the manifests say.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use fabric_tests::lab::command::command;
use fabric_tests::lab::world::{documents, pods};
use fabric_tests::lab::{Lab, LabError, Spec, netns};
use serde_json::Value;

const LAB: &str = env!("CARGO_BIN_EXE_fabric-lab");

/// A lab in the background with a folder of its own, taken down at the end.
struct Background {
    name: String,
    world: PathBuf,
}

impl Background {
    fn new(purpose: &str, manifests: &str) -> Self {
        let name = format!("{purpose}-{}", std::process::id());
        let world = std::env::temp_dir().join(&name);
        fs::create_dir_all(&world).unwrap();
        let lab = Self { name, world };
        lab.write(manifests);
        lab
    }

    fn write(&self, manifests: &str) {
        fs::write(self.world.join("pods.yaml"), manifests).unwrap();
    }

    fn up(&self, more: &[&str]) -> Output {
        let world = self.world.display().to_string();
        let words = [&["up", "--name", &self.name, "--world", &world], more].concat();
        Command::new(LAB).args(words).output().unwrap()
    }

    fn run(&self, verb: &str, words: &[&str]) -> Output {
        Command::new(LAB).args([verb, "--name", &self.name]).args(words).output().unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.run("status", &["-o", "json"]).stdout).unwrap()
    }

    /// Addresses of a pod, once it is attached.
    fn addresses(&self, pod: &str) -> Option<Vec<String>> {
        let status = self.status();
        let record = status["pods"].as_array()?.iter().find(|record| record["pod"] == pod)?.clone();
        let attached = record["state"] == "attached";
        attached.then(|| serde_json::from_value(record["addresses"].clone()).unwrap())
    }

    fn pings(&self, from: &str, to: &str) -> bool {
        self.run("exec", &[from, "--", "ping", "-c1", "-W1", to]).status.success()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let down = self.run("down", &[]);
        fs::remove_dir_all(&self.world).unwrap();
        assert!(std::thread::panicking() || down.status.success(), "{down:?}");
    }
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn pod(name: &str, node: &str, more: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default{more}\nspec: {{nodeName: {node}}}\n"
    )
}

const FIXED: &str = ", annotations: {fabric.io/ip: 10.244.5.5}}";

#[test]
fn pods_have_the_addresses_that_their_manifests_name() {
    let status = "}\nstatus: {podIPs: [{ip: 10.244.6.6}, {ip: 'fd44::6'}]}";
    let host =
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: host}\nspec: {nodeName: n1, hostNetwork: true}\n";
    let world = pod("fixed", "n1", FIXED) + &pod("told", "n2", status) + &pod("free", "n2", "}") + host;
    let lab = Background::new("told", &world);
    let up = lab.up(&[]);
    assert!(up.status.success(), "{up:?}");
    assert!(lab.addresses("default/fixed").unwrap().contains(&"10.244.5.5/32".to_owned()));
    let told = lab.addresses("default/told").unwrap();
    assert_eq!(told, ["10.244.6.6/32", "fd44::6/128"]);
    assert!(!lab.addresses("default/free").unwrap().is_empty());
    assert!(lab.pings("pod/default/fixed", "10.244.6.6"));
    assert!(lab.pings("pod/default/free", "10.244.5.5"));
    let host = lab.run("exec", &["pod/default/host", "--", "ip", "-br", "addr", "show", "br-phy"]);
    assert!(String::from_utf8_lossy(&host.stdout).contains("192.168.77.1/24"), "{host:?}");
}

#[test]
fn edits_take_effect_while_it_runs() {
    let lab = Background::new("live", &pod("a", "n1", FIXED));
    let up = lab.up(&["--nodes", "2"]);
    assert!(up.status.success(), "{up:?}");
    lab.write(&(pod("a", "n1", FIXED) + &pod("b", "n2", "}")));
    wait("b appears", || lab.addresses("default/b").is_some());
    assert!(lab.pings("pod/default/b", "10.244.5.5"));
    lab.write(&pod("a", "n2", FIXED));
    wait("b goes, a moves", || {
        let status = lab.status();
        let pods = status["pods"].as_array().unwrap();
        pods.len() == 1 && pods[0]["node"] == "n2" && pods[0]["state"] == "attached"
    });
    assert_eq!(lab.run("exec", &["pod/default/b", "--", "true"]).status.code(), Some(5));
}

#[test]
fn a_pod_that_cannot_be_attached_is_told_and_the_rest_goes_on() {
    let outside = ", annotations: {fabric.io/ip: 172.16.0.1}}";
    let network = "---\napiVersion: fabric.io/v1alpha1\nkind: Network\nmetadata: {name: pods}\n\
                   spec: {mode: overlay, default: true, cidrs: [10.244.0.0/16]}\n";
    let lab = Background::new("bad", &(pod("good", "n1", FIXED) + &pod("bad", "n1", outside) + network));
    let up = lab.up(&["--timeout", "3"]);
    assert_eq!(up.status.code(), Some(4), "{up:?}");
    assert!(String::from_utf8_lossy(&up.stderr).contains("172.16.0.1"), "{up:?}");
    assert!(lab.addresses("default/good").is_some(), "the lab stays up");
    assert_eq!(lab.run("status", &[]).status.code(), Some(4));
    lab.write(&(pod("good", "n1", FIXED) + &pod("bad", "n1", "}") + network));
    wait("the corrected pod is attached", || lab.addresses("default/bad").is_some());
    assert!(lab.run("status", &[]).status.success());
}

#[test]
fn what_is_wrong_with_manifests_is_told_by_status() {
    let lab = Background::new("wrong", &(pod("a", "n1", "}") + &pod("lost", "n9", "}")));
    let up = lab.up(&["--nodes", "1"]);
    assert!(up.status.success(), "{up:?}");
    assert!(String::from_utf8_lossy(&up.stderr).contains("no node n9"), "{up:?}");
    fs::write(lab.world.join("bad.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: [1]}\n").unwrap();
    wait("the problem is told", || lab.status()["problems"].to_string().contains("bad.yaml"));
    let text = lab.run("status", &[]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("no node"), "{text:?}");
}

#[test]
fn flows_are_shown_with_the_names_of_tables() {
    let lab = Background::new("flows", &pod("a", "n1", "}"));
    assert!(lab.up(&[]).status.success());
    let text = lab.run("flows", &["n1"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("table=Classify") && text.contains("resubmit(,Guard)"), "{text}");
    let json: Vec<String> = serde_json::from_slice(&lab.run("flows", &["n1", "-o", "json"]).stdout).unwrap();
    assert_eq!(json.len(), text.lines().count());
}

#[test]
fn a_test_attaches_pods_by_itself() {
    let mut lab = Lab::up(&Spec::for_test("direct", 2).unwrap()).unwrap();
    let manifests = pod("a", "n1", FIXED) + &pod("b", "n2", "}");
    lab.write_manifest("pods.yaml", &manifests).unwrap();
    for pod in pods(&documents(&manifests)) {
        lab.add_pod(&pod).unwrap();
    }
    let netns = lab.pod("default/b").unwrap().netns.clone();
    let answer = lab.exec_pod("default/b", &mut command(["ping", "-c1", "-W1", "10.244.5.5"])).unwrap();
    assert!(answer.status.success(), "{answer:?}");
    lab.remove_pod("default/b").unwrap();
    assert!(!netns::exists(&netns));
    assert!(matches!(lab.remove_pod("default/b"), Err(LabError::NoSuchPlace { .. })));
}

#[test]
fn an_agent_that_was_killed_comes_back() {
    let lab = Lab::up(&Spec::for_test("again", 1).unwrap()).unwrap();
    lab.kill_agent("n1").unwrap();
    lab.start_agent("n1").unwrap();
    lab.wait_agent("n1").unwrap();
    assert!(!lab.dump_flows("n1").unwrap().is_empty());
}
