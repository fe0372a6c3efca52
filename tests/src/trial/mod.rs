//! What the tests of failures share: a lab with pods, commands in them, and waiting for
//! what should come true.
//!
//! Every helper panics where the lab fails, as an assertion does: a test has no better
//! use for the error.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

pub mod compile;
pub mod manifest;
pub mod proxy;
pub mod traffic;
pub mod watch;

use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::lab::command::command;
use crate::lab::world::{Pod, documents, pods};
use crate::lab::{Lab, LabError, Node, Spec, Wiring, find_program, switch};

/// Time between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// A lab with agents, and what tests ask of it again and again.
#[derive(Debug)]
pub struct Trial {
    /// The lab.
    pub lab: Lab,
}

impl Trial {
    /// A lab of `nodes` nodes whose only Network is `network` (YAML), with `config`
    /// (JSON) added to the agents' node files.
    #[must_use]
    pub fn up(purpose: &str, nodes: usize, network: &str, config: Value) -> Self {
        Self::wired(purpose, nodes, None, network, config)
    }

    /// As [`Trial::up`], with an office beside the nodes where they are wired to one.
    #[must_use]
    pub fn wired(purpose: &str, nodes: usize, office: Option<Wiring>, network: &str, config: Value) -> Self {
        let config: Map<String, Value> = serde_json::from_value(config).unwrap();
        let spec = Spec { config, office, ..Spec::for_test(purpose, nodes).unwrap() };
        let lab = Lab::up_without_agents(&spec).unwrap();
        lab.write_manifest("fabric-lab-network.yaml", network).unwrap();
        lab.start_agents().unwrap();
        Self { lab }
    }

    /// Writes a file of manifests and attaches its pods.
    pub fn add(&mut self, file: &str, manifests: &str) {
        self.lab.write_manifest(file, manifests).unwrap();
        for pod in pods(&documents(manifests)) {
            self.lab.add_pod(&pod).unwrap();
        }
    }

    /// Writes a pod's manifest into a file of its own, and tries to attach it.
    ///
    /// # Errors
    /// As [`Lab::add_pod`].
    pub fn try_add(&mut self, name: &str, manifest: &str) -> Result<Value, LabError> {
        self.lab.write_manifest(&format!("pod-{name}.yaml"), manifest).unwrap();
        self.lab.add_pod(&pod_of(manifest))
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> &Node {
        self.lab.node(name).unwrap()
    }

    /// The IPv4 address of a pod of the namespace `default`.
    #[must_use]
    pub fn ip(&self, pod: &str) -> String {
        let record = self.lab.pod(&format!("default/{pod}")).unwrap();
        let v4 = record.addresses.iter().find(|address| address.contains('.')).unwrap();
        v4.split('/').next().unwrap_or_default().to_owned()
    }

    /// Runs words in a pod of the namespace `default`.
    #[must_use]
    pub fn in_pod(&self, pod: &str, words: &[&str]) -> Output {
        self.lab.exec_pod(&format!("default/{pod}"), &mut command(words)).unwrap()
    }

    /// Runs words on a node, which have to succeed; what they print.
    pub fn on_node(&self, node: &str, words: &[&str]) -> String {
        let output = self.lab.exec_node(node, &mut command(words)).unwrap();
        assert!(output.status.success(), "{words:?} on {node}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// `ovs-vsctl` on a node's database; what it prints.
    pub fn vsctl(&self, node: &str, words: &[&str]) -> String {
        crate::lab::command::run(&mut switch::vsctl(self.node(node), &[], words)).unwrap()
    }

    /// Whether one ping from a pod to another, both of the namespace `default`, is
    /// answered in this time.
    #[must_use]
    pub fn pings_within(&self, from: &str, to: &str, seconds: &str) -> bool {
        self.in_pod(from, &["ping", "-n", "-q", "-c1", "-W", seconds, &self.ip(to)]).status.success()
    }

    /// Whether one ping is answered within a second.
    #[must_use]
    pub fn pings(&self, from: &str, to: &str) -> bool {
        self.pings_within(from, to, "1")
    }

    /// `fabric-node status -o json` of a node; nothing where the agent does not answer.
    #[must_use]
    pub fn status(&self, node: &str) -> Value {
        let program = find_program("fabric-node", "fabric-node").unwrap();
        let socket = self.node(node).agent_socket();
        let mut status = command([program.as_os_str(), "status".as_ref(), "-o".as_ref(), "json".as_ref()]);
        let output = self.lab.exec_node(node, status.arg("--socket").arg(socket)).unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The problems that `fabric-node status` of a node shows, as it prints them.
    #[must_use]
    pub fn problems(&self, node: &str) -> Vec<String> {
        let problems = self.status(node)["problems"].clone();
        let problems: Vec<fabric_api::Problem> = serde_json::from_value(problems).unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    /// Waits until the flows of a node are what a compile from nothing gives.
    pub fn wait_compiled(&self, node: &str) {
        let mut differences = Vec::new();
        let equal = holds_within(Duration::from_secs(15), || {
            differences = compile::differences(self, node);
            differences.is_empty()
        });
        assert!(
            equal,
            "flows of {node} are not those of a compile from nothing:\n{}",
            differences.join("\n")
        );
    }
}

/// The pod of a manifest.
#[must_use]
pub fn pod_of(manifest: &str) -> Pod {
    pods(&documents(manifest)).pop().unwrap()
}

/// Waits until something holds; how long that took.
pub fn wait(what: &str, patience: Duration, holds: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    assert!(holds_within(patience, holds), "not within {} s: {what}", patience.as_secs());
    began.elapsed()
}

/// Whether something comes to hold in time.
pub fn holds_within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}
