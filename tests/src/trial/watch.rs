//! Everything that is done to the flows of a bridge, as `ovs-ofctl monitor` tells it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::{Trial, wait};
use crate::lab::command::{command, spawn};
use crate::lab::node::BRIDGE_FABRIC;
use crate::lab::switch;

/// A running monitor; it ends when it is dropped.
#[derive(Debug)]
pub struct FlowWatch {
    child: Child,
    log: PathBuf,
}

impl FlowWatch {
    /// Watches `br-fabric` of a node, and returns once the switch has taken the request.
    #[must_use]
    pub fn start(trial: &Trial, node: &str) -> Self {
        let folder = &trial.node(node).directory;
        let (log, socket) = (folder.join("watch.log"), trial.node(node).openflow(BRIDGE_FABRIC));
        // What is there at first is told on standard output, what changes on standard error.
        let out = File::create(&log).unwrap();
        let err = out.try_clone().unwrap();
        let mut monitor = command(["ovs-ofctl", "-O", "OpenFlow15", "monitor"]);
        monitor.envs(switch::environment(trial.node(node)));
        monitor.arg(format!("unix:{}", socket.display())).arg("watch:");
        let child = spawn(monitor.stdin(Stdio::null()).stdout(out).stderr(err)).unwrap();
        let watch = Self { child, log };
        // The first reply lists every flow that is there.
        wait("the monitor has begun", Duration::from_secs(10), || watch.text().contains("INITIAL"));
        watch
    }

    /// Flows that were added, deleted or modified since, a line each.
    #[must_use]
    pub fn changes(&self) -> Vec<String> {
        let text = self.text();
        let changed = ["event=ADDED", "event=DELETED", "event=MODIFIED"];
        text.lines().filter(|line| changed.iter().any(|c| line.contains(c))).map(str::to_owned).collect()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for FlowWatch {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
