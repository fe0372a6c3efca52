//! CNI ADD and DEL, as a container runtime calls them, beside the reference plugins
//! `bridge` and `host-local`.
//!
//! What is timed is the plugin's process from its start to its end. Both sides get a
//! fresh network namespace that exists before the clock starts, and take turns. The
//! comparison is with one IPv4 address on both sides; Fabric with an address of each
//! family stands beside it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::plain::Plain;
use super::pods::{DUAL_STACK, SINGLE_STACK};
use super::report::{Limit, Row};
use super::stats::Samples;
use crate::lab::cni::configuration;
use crate::lab::command::{command, failure};
use crate::lab::{Lab, LabError, Node, interrupt, netns};

/// Where Debian's package containernetworking-plugins puts them.
const REFERENCE: &str = "/usr/lib/cni";
/// ADDs of each side.
const ROUNDS: usize = 60;
/// ADDs with two families.
const DUAL_ROUNDS: usize = 30;

/// One plugin with its configuration, on one node.
struct Side<'a> {
    node: &'a Node,
    plugin: &'a Path,
    config: Value,
    pod: &'static str,
    add: Samples,
    del: Samples,
}

/// Measures both sides.
///
/// # Errors
/// With what a plugin refused, or where the reference is not installed.
pub fn measure(lab: &Lab, plain: &Plain) -> Result<Vec<Row>, LabError> {
    let reference = Path::new(REFERENCE).join("bridge");
    if !reference.is_file() {
        return Err(LabError::MissingTool {
            tool: "the reference CNI plugin bridge",
            package: "containernetworking-plugins",
        });
    }
    let node = lab.node("n1")?;
    let fabric = &lab.programs()?.cni;
    let data = plain.node()?.directory.join("host-local");
    let mut ours = Side::new(node, fabric, configuration(node), SINGLE_STACK);
    let mut theirs = Side::new(plain.node()?, &reference, bridge(&data), SINGLE_STACK);
    let mut dual = Side::new(node, fabric, configuration(node), DUAL_STACK);
    for round in 0..ROUNDS {
        interrupt::check()?;
        ours.cycle(&plain.namespace("cni/ours"), round)?;
        theirs.cycle(&plain.namespace("cni/theirs"), round)?;
        if round < DUAL_ROUNDS {
            dual.cycle(&plain.namespace("cni/dual"), round)?;
        }
    }
    Ok(rows(&ours, &theirs, &dual))
}

fn bridge(data: &Path) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": "reference", "type": "bridge", "bridge": "cni-reference", "isGateway": true,
        "ipam": {
            "type": "host-local", "dataDir": data, "ranges": [[{ "subnet": "10.88.0.0/16" }]],
            "routes": [{ "dst": "0.0.0.0/0" }],
        },
    })
}

fn rows(ours: &Side<'_>, theirs: &Side<'_>, dual: &Side<'_>) -> Vec<Row> {
    let row = |what: &str, samples: &Samples| {
        let p90 = samples.percentile(90) / 1e3;
        let note = format!("median of {}, p90 {p90:.1} ms", samples.count());
        Row::new(what, samples.median() / 1e3, "ms", note)
    };
    vec![
        row("CNI ADD, IPv4", &ours.add)
            .budget("≤ 2 × bridge + host-local", theirs.add.median() / 1e3, Limit::AtMost(2.0))
            .budget("aim: ≤ 1 × bridge + host-local", theirs.add.median() / 1e3, Limit::AtMost(1.0)),
        row("CNI DEL, IPv4", &ours.del),
        row("CNI ADD, IPv4 and IPv6", &dual.add),
        row("CNI DEL, IPv4 and IPv6", &dual.del),
        row("peer: CNI ADD, bridge + host-local, IPv4", &theirs.add),
        row("peer: CNI DEL, bridge + host-local, IPv4", &theirs.del),
    ]
}

impl<'a> Side<'a> {
    fn new(node: &'a Node, plugin: &'a Path, config: Value, pod: &'static str) -> Self {
        Self { node, plugin, config, pod, add: Samples::default(), del: Samples::default() }
    }

    /// One life of a pod.
    fn cycle(&mut self, namespace: &str, round: usize) -> Result<(), LabError> {
        netns::remove([namespace])?;
        netns::add([namespace])?;
        let container = format!("{namespace}-{round}");
        let added = self.call("ADD", namespace, &container)?;
        self.add.add(Some(added));
        let removed = self.call("DEL", namespace, &container)?;
        self.del.add(Some(removed));
        netns::remove([namespace])
    }

    fn call(&self, verb: &str, namespace: &str, container: &str) -> Result<Duration, LabError> {
        let (pod_namespace, pod_name) = self.pod.split_once('/').unwrap_or(("default", self.pod));
        let arguments = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={pod_namespace};K8S_POD_NAME={pod_name}");
        let mut plugin = command([self.plugin]);
        plugin.env("CNI_COMMAND", verb).env("CNI_PATH", REFERENCE).env("CNI_IFNAME", "eth0");
        plugin.env("CNI_CONTAINERID", container).env("CNI_NETNS", netns::path(namespace));
        plugin.env("CNI_ARGS", arguments);
        let input = self.config.to_string();
        let start = Instant::now();
        let output = netns::output_in(&self.node.namespace, &mut plugin, input.as_bytes())?;
        let took = start.elapsed();
        if output.status.success() {
            return Ok(took);
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Err(LabError::NotReady(format!("CNI {verb}: {said}{}", failure(&plugin, &output))))
    }
}
