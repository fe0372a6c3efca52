//! The lab itself, without agents: real switches and namespaces, made and taken down.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabric_tests::lab::command::command;
use fabric_tests::lab::{Lab, LabName, Spec, netns, process};

const LAB: &str = env!("CARGO_BIN_EXE_fabric-lab");

fn spec(purpose: &str, nodes: usize) -> Spec {
    Spec { agents: false, ..Spec::for_test(purpose, nodes).unwrap() }
}

/// A name that no other process has; what carries it is taken down after a failure too.
struct Name(String);

impl std::ops::Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        lab(&["down", "--name", self]);
    }
}

fn name(purpose: &str) -> Name {
    Name(format!("{purpose}-{}", std::process::id()))
}

fn lab(words: &[&str]) -> Output {
    Command::new(LAB).args(words).output().unwrap()
}

fn remains(name: &str) -> Vec<String> {
    let name: LabName = name.parse().unwrap();
    let mut remains = netns::of_lab(&name);
    let folder = Path::new("/run/fabric-lab").join(name.as_str());
    remains.extend(folder.exists().then(|| folder.display().to_string()));
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    remains.extend(numbers.filter(|pid| process::names(*pid, &folder)).map(|pid| format!("process {pid}")));
    remains
}

fn assert_gone(name: &str) {
    assert!(remains(name).is_empty(), "{:?}", remains(name));
}

fn ping(lab: &Lab, from: &str, to: &str) -> bool {
    lab.exec_node(from, &mut command(["ping", "-c1", "-W2", to])).unwrap().status.success()
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(15);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nodes_reach_each_other_and_nothing_stays_behind() {
    let spec = spec("reach", 3);
    let lab = Lab::up(&spec).unwrap();
    for to in ["192.168.77.2", "192.168.77.3", "fd77::2", "fd77::3", "192.168.77.254", "fd77::254"] {
        assert!(ping(&lab, "n1", to), "{to}");
    }
    let answers = lab.exec_node("n1", &mut command(["ping", "-c3", "-i0.2", "192.168.77.2"])).unwrap();
    assert!(!String::from_utf8_lossy(&answers.stdout).contains("DUP"), "a node's kernel answers once");
    let bridges = lab.exec_node("n2", &mut command(["ovs-vsctl", "list-br"])).unwrap();
    assert_eq!(String::from_utf8_lossy(&bridges.stdout), "br-phy\n");
    lab.down().unwrap();
    assert_gone(spec.name.as_str());
}

#[test]
fn large_tcp_segments_cross_the_wire() {
    let lab = Lab::up(&spec("tcp", 2)).unwrap();
    let server = netns::spawn_in(
        &lab.node("n2").unwrap().namespace,
        command(["sh", "-c", "nc -l -N 192.168.77.2 7000 | wc -c"]).stdout(Stdio::piped()),
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let send = "head -c 3000000 /dev/zero | nc -N -w 5 192.168.77.2 7000";
    assert!(lab.exec_node("n1", &mut command(["sh", "-c", send])).unwrap().status.success());
    let output = server.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "3000000");
}

#[test]
fn a_panic_takes_the_lab_down() {
    let spec = spec("panic", 1);
    let copy = spec.clone();
    let panicked = std::thread::spawn(move || {
        let _lab = Lab::up(&copy).unwrap();
        assert!(!remains(copy.name.as_str()).is_empty());
        panic!("as a failing test does");
    });
    assert!(panicked.join().is_err());
    assert_gone(spec.name.as_str());
}

#[test]
fn a_switch_that_was_killed_comes_back_with_its_address() {
    let lab = Lab::up(&spec("kill", 2)).unwrap();
    lab.kill_vswitchd("n1").unwrap();
    assert!(!ping(&lab, "n1", "192.168.77.2"));
    lab.start_vswitchd("n1").unwrap();
    wait("n1 reaches n2 again", || ping(&lab, "n1", "192.168.77.2") && ping(&lab, "n1", "fd77::2"));
    // Without its database, a vswitchd of OVS 3.1 forwards nothing in the userspace datapath.
    lab.stop_ovsdb("n1").unwrap();
    lab.start_ovsdb("n1").unwrap();
    wait("n1 reaches n2 again", || ping(&lab, "n1", "192.168.77.2"));
}

#[test]
fn a_second_up_replaces_and_two_names_do_not_meet() {
    let one = name("one");
    let two = Name(format!("{}-n1", &*one));
    assert!(lab(&["up", "--no-agent", "-n", "2", "--name", &one]).status.success());
    assert!(lab(&["up", "--no-agent", "-n", "1", "--name", &two]).status.success());
    assert!(lab(&["up", "--no-agent", "-n", "1", "--name", &one]).status.success());
    let missing = lab(&["exec", "--name", &one, "node/n2", "--", "true"]);
    assert_eq!(missing.status.code(), Some(5), "{missing:?}");
    assert!(lab(&["down", "--name", &one]).status.success());
    assert_gone(&one);
    let there = lab(&["exec", "--name", &two, "node/n1", "--", "ping", "-c1", "-W2", "192.168.77.254"]);
    assert!(there.status.success(), "{there:?}");
    assert!(lab(&["down", "--name", &two]).status.success());
    assert_gone(&two);
    assert_eq!(lab(&["down", "--name", &two]).status.code(), Some(5));
}

#[test]
fn exec_exits_as_its_command_does() {
    let name = name("exec");
    assert!(lab(&["up", "--no-agent", "-n", "1", "--name", &name]).status.success());
    assert_eq!(lab(&["exec", "--name", &name, "n1", "--", "sh", "-c", "exit 17"]).status.code(), Some(17));
    let pods = lab(&["exec", "--name", &name, "pod/default/none", "--", "true"]);
    assert_eq!(pods.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&pods.stderr).contains("pod/default/none"), "{pods:?}");
    let status = lab(&["status", "--name", &name, "-o", "json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["nodes"][0]["state"], "no agent");
    assert!(lab(&["down", "--name", &name]).status.success());
}

fn foreground(name: &str) -> Child {
    let mut up = Command::new(LAB);
    up.args(["up", "--no-agent", "-n", "1", "--foreground", "--name", name]);
    let child = up.stdout(Stdio::null()).spawn().unwrap();
    let pid_file = PathBuf::from(format!("/run/fabric-lab/{name}/supervisor.pid"));
    wait("the lab is up", || pid_file.exists());
    child
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn ctrl_c_takes_a_foreground_lab_down() {
    let name = name("ctrlc");
    let mut child = foreground(&name);
    send(&child, "-INT");
    assert!(child.wait().unwrap().success());
    assert_gone(&name);
}

#[test]
fn what_a_killed_lab_left_is_removed_by_the_next_one() {
    let name = name("crash");
    let mut child = foreground(&name);
    send(&child, "-KILL");
    child.wait().unwrap();
    assert!(!remains(&name).is_empty(), "a killed process takes nothing down");
    let _another = Lab::up(&spec("next", 1)).unwrap();
    assert_gone(&name);
}

#[test]
fn a_process_left_in_a_namespace_does_not_hold_the_lab() {
    let lab = Lab::up(&spec("left", 1)).unwrap();
    let namespace = lab.node("n1").unwrap().namespace.clone();
    let mut left = netns::spawn_in(&namespace, &mut command(["sleep", "600"])).unwrap();
    let name = lab.layout().name.to_string();
    lab.down().unwrap();
    assert!(!left.wait().unwrap().success(), "it was ended");
    assert_gone(&name);
}

#[test]
fn the_supervisor_carries_edits_over() {
    let name = name("edits");
    let world = std::env::temp_dir().join(&*name);
    fs::create_dir_all(&world).unwrap();
    fs::write(world.join("a.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n").unwrap();
    let folder = world.display().to_string();
    assert!(lab(&["up", "--no-agent", "-n", "1", "--world", &folder, "--name", &name]).status.success());
    let mirrored = PathBuf::from(format!("/run/fabric-lab/{}/world", &*name));
    assert!(mirrored.join("a.yaml").exists() && mirrored.join("fabric-lab-nodes.yaml").exists());
    fs::rename(world.join("a.yaml"), world.join("b.yaml")).unwrap();
    wait("the edit arrives", || mirrored.join("b.yaml").exists() && !mirrored.join("a.yaml").exists());
    assert!(lab(&["down", "--name", &name]).status.success());
    fs::remove_dir_all(&world).unwrap();
    assert_gone(&name);
}

/// A folder with programs that stand in for Fabric's: an agent that does what the script
/// says, and a plugin that always fails.
fn stand_ins(name: &str, agent: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    for (program, script) in [("fabric-node", agent), ("fabric-cni", "exit 1")] {
        let file = folder.join(program);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn ctrl_c_while_agents_start_leaves_nothing() {
    let name = name("early");
    let programs = stand_ins(&name, "exec sleep 600");
    let mut up = Command::new(LAB);
    up.args(["up", "-n", "2", "--name", &name]).env("FABRIC_BIN_DIR", &programs);
    let mut child = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let agent = PathBuf::from(format!("/run/fabric-lab/{}/n1/fabric-node.pid", &*name));
    wait("an agent starts", || agent.exists());
    send(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_gone(&name);
    fs::remove_dir_all(&programs).unwrap();
}

#[test]
fn an_agent_that_ends_is_told_with_its_last_words() {
    let name = name("ends");
    let programs = stand_ins(&name, "echo 'no such switch' >&2; exit 1");
    let up =
        Command::new(LAB).args(["up", "-n", "1", "--name", &name]).env("FABRIC_BIN_DIR", &programs).output();
    let up = up.unwrap();
    assert_eq!(up.status.code(), Some(4), "{up:?}");
    assert!(String::from_utf8_lossy(&up.stderr).contains("no such switch"), "{up:?}");
    assert_gone(&name);
    fs::remove_dir_all(&programs).unwrap();
}

#[test]
fn without_root_it_says_so() {
    // Where nobody can read the folder of the build, a copy can still be run.
    let copy = std::env::temp_dir().join(format!("fabric-lab-{}", std::process::id()));
    fs::copy(LAB, &copy).unwrap();
    let mut up = Command::new(&copy);
    let up = up.args(["up", "--name", "any"]).uid(65534).gid(65534).output().unwrap();
    fs::remove_file(&copy).unwrap();
    assert_eq!(up.status.code(), Some(3), "{up:?}");
    assert!(String::from_utf8_lossy(&up.stderr).contains("root"), "{up:?}");
}

#[test]
fn wrong_use_is_told() {
    assert_eq!(lab(&["up", "--name", "No/Name"]).status.code(), Some(2));
    assert_eq!(lab(&["up", "--no-agent", "-n", "0", "--name", &name("zero")]).status.code(), Some(2));
    assert_eq!(
        lab(&["up", "--no-agent", "--world", "/nowhere", "--name", &name("w")]).status.code(),
        Some(1)
    );
    assert_eq!(lab(&["status", "--name", &name("none")]).status.code(), Some(5));
}
