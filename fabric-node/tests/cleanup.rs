//! The agent's program on a host with a NIC: killed at any time, and cleaned up after.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[allow(dead_code, reason = "each test program uses a part")]
mod support;

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "uplinks/bed.rs"]
mod bed;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use bed::{Bed, Pings};
use support::{PATIENCE, Process, in_namespace, run, try_run, until};

/// Whether an agent has come so far.
type Reached = fn(&Bed) -> bool;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fabric-node");

/// A node file for the bed.
fn node_file(bed: &Bed) -> PathBuf {
    let (world, sockets) = (bed.ovs.file("world"), bed.ovs.file("sockets"));
    std::fs::create_dir_all(&world).expect("a folder");
    let text = format!(
        "node: n1\nstore: {{ directory: {} }}\novs: {{ database: {}, runDir: {} }}\nsockets: {{ directory: {} }}\n\
         physicalNetworks: {{ lan: {{ nic: eth1 }} }}\n",
        world.display(),
        bed.ovs.socket().display(),
        bed.ovs.file("").display(),
        sockets.display()
    );
    let file = bed.ovs.file("node.yaml");
    std::fs::write(&file, text).expect("a node file");
    file
}

fn agent(bed: &Bed) -> Process {
    let file = node_file(bed).display().to_string();
    Process::start(PROGRAM, &["run", "--config", &file], &bed.ovs.file("agent.log"), &[])
}

/// Exit code, and what was printed on standard output and standard error.
fn cleanup(bed: &Bed) -> (Option<i32>, String, String) {
    let output =
        Command::new(PROGRAM).args(["cleanup", "--config"]).arg(node_file(bed)).output().expect(PROGRAM);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn on(device: &str, address: &str) -> bool {
    let shown = Command::new("ip").args(["-o", "addr", "show", "dev", device]).output().expect("ip");
    String::from_utf8_lossy(&shown.stdout).contains(address)
}

/// Waits until all is in place.
async fn in_place(bed: &Bed) {
    let rules = || run("nft", &["list", "ruleset"]).contains("eth1");
    until("all is in place", || on("br-lan", "10.5.0.1/24") && !on("eth1", "10.5.0.1/24") && rules()).await;
    until("the agent answers", || bed.ovs.file("sockets/agent.sock").exists()).await;
}

/// Nothing of Fabric's is left, and the NIC is as it was.
fn clean(bed: &Bed, before: &str) {
    assert_eq!(bed.state("eth1"), before);
    assert_eq!(bed.ovs.vsctl(&["list-br"]), "");
    assert_eq!(run("nft", &["list", "ruleset"]), "");
    let devices = run("ip", &["-br", "link"]);
    assert!(!devices.contains("br-") && !devices.contains("fab"), "{devices}");
    assert_eq!(run("ip", &["route", "show", "table", "all", "proto", "250"]), "");
}

#[test]
fn an_agent_that_is_killed_anywhere_leaves_what_cleanup_puts_back() {
    in_namespace(|| async {
        let bed = Bed::quick().await;
        let before = bed.state("eth1");
        let moments: [(&str, Reached); 7] = [
            ("at once", |_| true),
            ("with the bridge", |bed| bed.ovs.vsctl(&["list-br"]).contains("br-lan")),
            ("with its device", |_| try_run("ip", &["link", "show", "br-lan"])),
            ("with the NIC in the bridge", |bed| {
                bed.ovs.vsctl(&["--columns=name", "list", "Port"]).contains("eth1")
            }),
            ("with the addresses on the bridge", |_| on("br-lan", "10.5.0.1/24")),
            ("with the addresses off the NIC", |_| on("br-lan", "10.5.0.1/24") && !on("eth1", "10.5.0.1/24")),
            ("with the rules", |_| run("nft", &["list", "ruleset"]).contains("eth1")),
        ];
        for (round, (when, reached)) in moments.iter().enumerate() {
            println!("killed {when}");
            let killed = agent(&bed);
            let end = Instant::now() + PATIENCE;
            while !reached(&bed) {
                assert!(Instant::now() < end, "not reached: {when}");
            }
            drop(killed);
            if round % 2 == 1 {
                // The next agent goes on from there.
                let next = agent(&bed);
                in_place(&bed).await;
                bed.moved();
                drop(next);
            }
            let (code, said, complained) = cleanup(&bed);
            assert_eq!((code, complained.as_str()), (Some(0), ""), "{said}");
            clean(&bed, &before);
            assert!(try_run("ping", &["-c", "1", "-W", "2", "10.5.0.2"]));
        }
    });
}

#[test]
fn cleanup_refuses_beside_an_agent_and_says_what_it_did() {
    in_namespace(|| async {
        let mut bed = Bed::quick().await;
        let before = bed.state("eth1");
        let running = agent(&bed);
        in_place(&bed).await;
        until("the agent listens", || cleanup(&bed).0 == Some(2)).await;
        let (code, said, complained) = cleanup(&bed);
        assert_eq!((code, said.as_str()), (Some(2), ""));
        assert!(complained.contains("agent.sock") && complained.contains("stop it first"), "{complained}");
        assert!(on("br-lan", "10.5.0.1/24"));
        drop(running);

        let pings = Pings::start(&bed);
        let (code, said, complained) = cleanup(&bed);
        tokio::time::sleep(Duration::from_millis(300)).await;
        pings.lost_at_most(5);
        assert_eq!((code, complained.as_str()), (Some(0), ""), "{said}");
        for line in ["bridge br-lan removed", "moved back to eth1", "bridge br-fabric removed"] {
            assert!(said.contains(line), "{said}");
        }
        clean(&bed, &before);
        assert_eq!(cleanup(&bed).0, Some(0), "twice is fine");
        clean(&bed, &before);

        // Without Open vSwitch, the host gets its addresses all the same, and what is left is said.
        let running = agent(&bed);
        in_place(&bed).await;
        drop(running);
        bed.ovs.kill_database();
        bed.ovs.kill_switch();
        let (code, said, complained) = cleanup(&bed);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("moved back to eth1"), "{said}");
        assert!(
            complained.contains("bridge br-fabric") && complained.contains("run this again"),
            "{complained}"
        );
        assert_eq!(bed.state("eth1"), before);
        bed.ovs.start_database().await;
        bed.ovs.start_switch().await;
        until("the rest goes", || cleanup(&bed).0 == Some(0)).await;
        clean(&bed, &before);
    });
}
