//! DEL while the agent is away, on real namespaces. Needs root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod common;

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use common::{Agent, CONF, Run, conf, error, plugin};
use fabric_cni::protocol::Answer;
use fabric_cni::{Code, Error};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Uid, gettid};
use serde_json::{Value, json};

/// A container beside a node of the calling thread's own, joined by a pair of devices.
struct Container {
    netns: String,
    keeper: thread::JoinHandle<()>,
    end: mpsc::Sender<()>,
}

impl Container {
    /// `host` is the name of the host's end.
    fn joined(host: &str) -> Container {
        assert!(Uid::effective().is_root(), "this test makes network namespaces: run it as root");
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        let (give, thread_id) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let keeper = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            give.send(gettid()).unwrap();
            let _ = ended.recv();
        });
        let thread_id = thread_id.recv().unwrap();
        let netns = format!("/proc/{}/task/{thread_id}/ns/net", std::process::id());
        sh(&format!("ip link add {host} type veth peer name eth0 netns {thread_id}"));
        Container { netns, keeper, end }
    }

    fn gone(self) {
        drop(self.end);
        self.keeper.join().unwrap();
    }

    fn del(&self, conf: &Value) -> Run {
        plugin("DEL").env("CNI_NETNS", &self.netns).conf(conf).run()
    }
}

fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn away() -> Value {
    serde_json::from_str(CONF).unwrap()
}

fn with_result(mut conf: Value, container: &Container, host: &str) -> Value {
    conf["prevResult"] = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": host}, {"name": "eth0", "sandbox": container.netns}],
    });
    conf
}

#[test]
fn the_interface_goes_by_the_previous_result() {
    let container = Container::joined("fab000000000aa");
    let run = container.del(&with_result(away(), &container, "fab000000000aa"));
    assert!(run.ok, "{run:?}");
    assert!(!sh("ip link").contains("fab000000000aa"));
}

#[test]
fn the_interface_goes_by_the_container_alone() {
    let container = Container::joined("fab000000000ab");
    assert!(container.del(&away()).ok);
    assert!(!sh("ip link").contains("fab000000000ab"));
    assert!(container.del(&away()).ok, "a second DEL");
}

#[test]
fn what_fabric_did_not_make_stays() {
    let container = Container::joined("veth7");
    assert!(container.del(&away()).ok);
    assert!(container.del(&with_result(away(), &container, "veth7")).ok);
    assert!(sh("ip link").contains("veth7"));
}

#[test]
fn a_container_that_is_gone_is_no_error() {
    let container = Container::joined("fab000000000ac");
    let conf = with_result(away(), &container, "fab000000000ac");
    let run = plugin("DEL").env("CNI_NETNS", &container.netns).conf(&conf);
    container.gone();
    assert!(run.run().ok);
    assert!(plugin("DEL").env("CNI_NETNS", "/nonexistent/net").conf(&away()).run().ok);
}

#[test]
fn an_agent_that_cannot_serve_leaves_the_interface_to_the_plugin() {
    let container = Container::joined("fab000000000ad");
    let agent = Agent::answering(|_| Answer::Error(Error::new(Code::TRY_AGAIN, "OVS is away")));
    assert!(container.del(&conf(&agent, "1.1.0")).ok);
    assert!(!sh("ip link").contains("fab000000000ad"));
}

#[test]
fn an_agent_that_failed_is_believed() {
    let container = Container::joined("fab000000000ae");
    let agent = Agent::answering(|_| Answer::Error(Error::new(Code::FAILED, "no")));
    assert_eq!(error(&container.del(&conf(&agent, "1.1.0"))).code, Code::FAILED);
    assert!(sh("ip link").contains("fab000000000ae"));
    let agent = Agent::answering(|_| Answer::Error(Error::new(Code::UNKNOWN_CONTAINER, "who")));
    assert!(container.del(&conf(&agent, "1.1.0")).ok, "DEL of what is not known succeeds");
}
