//! `fabric-lab status`, `list` and `flows`.

use std::collections::BTreeSet;
use std::io::Write as _;

use serde_json::{Value, json};

use super::args::Format;
use crate::lab::names::{LabName, Layout};
use crate::lab::node::BRIDGE_FABRIC;
use crate::lab::record::{self, PodRecord, Record, State};
use crate::lab::{Lab, LabError, Node, agent, cni, flows, process, switch, teardown};

/// Prints the flows of a bridge.
pub fn flows(name: &LabName, node: &str, bridge: &str, format: Format) -> Result<(), LabError> {
    let lab = Lab::open(name)?;
    let node = lab.node(node)?;
    let lines = flows::dump(node, bridge)?.into_iter().map(|flow| flow.to_string());
    let lines = lines.map(|text| if bridge == BRIDGE_FABRIC { flows::named(&text) } else { text });
    print(&match format {
        Format::Text => lines.map(|line| line + "\n").collect(),
        Format::Json => format!("{:#}\n", Value::from_iter(lines)),
    })
}

/// Prints the lab's nodes and pods.
pub fn status(name: &LabName, format: Format) -> Result<(), LabError> {
    let lab = Lab::open(name)?;
    let record: Record = record::load(&lab.layout().record())?;
    let nodes: Vec<(&Node, &str)> = lab.nodes().iter().map(|node| (node, node_state(&lab, node))).collect();
    let supervised = process::find(&lab.layout().supervisor_pid(), &lab.layout().directory).is_some();
    print(&match format {
        Format::Json => format!("{:#}\n", as_json(&lab, &record, &nodes, supervised)),
        Format::Text => as_text(&lab, &record, &nodes, supervised),
    })?;
    let well = supervised
        && nodes.iter().all(|(_, state)| *state == "ready" || *state == "no agent")
        && lab.pods().all(|pod| pod.state != State::Failed);
    if well { Ok(()) } else { Err(LabError::NotReady(format!("lab {name} is not well"))) }
}

fn node_state(lab: &Lab, node: &Node) -> &'static str {
    let Ok(programs) = lab.programs() else {
        return if switch::runs(node) { "no agent" } else { "no switch" };
    };
    match (switch::runs(node), agent::runs(node)) {
        (false, _) => "no switch",
        (true, false) => "agent away",
        (true, true) if cni::status(node, programs).is_ok() => "ready",
        (true, true) => "not ready",
    }
}

fn as_json(lab: &Lab, record: &Record, nodes: &[(&Node, &str)], supervised: bool) -> Value {
    let nodes = nodes.iter().map(|(node, state)| {
        json!({
            "name": node.name, "state": state, "addresses": node.addresses(),
            "netns": node.namespace, "directory": node.directory,
        })
    });
    json!({
        "name": record.name,
        "world": record.source.clone().unwrap_or_else(|| lab.layout().world()),
        "supervised": supervised,
        "problems": problems(lab),
        "nodes": nodes.collect::<Vec<_>>(),
        "pods": lab.pods().collect::<Vec<_>>(),
    })
}

fn as_text(lab: &Lab, record: &Record, nodes: &[(&Node, &str)], supervised: bool) -> String {
    let world = record.source.clone().unwrap_or_else(|| lab.layout().world());
    let mut text = format!("lab {}, manifests in {}\n", record.name, world.display());
    if !supervised {
        text += "the supervisor has ended: edits of the manifests have no effect on pods\n";
    }
    text += &format!("\n{:<8} {:<12} {:<30} FOLDER\n", "NODE", "STATE", "ADDRESSES");
    for (node, state) in nodes {
        let addresses = node.addresses().map(|ip| ip.to_string()).join(",");
        text += &format!("{:<8} {state:<12} {addresses:<30} {}\n", node.name, node.directory.display());
    }
    text += &format!("\n{:<28} {:<6} {:<9} {:<40} NAMESPACE\n", "POD", "NODE", "STATE", "ADDRESSES");
    lab.pods().for_each(|pod| text += &pod_line(pod));
    let problems = problems(lab);
    if !problems.is_empty() {
        text += "\nPROBLEMS\n";
        problems.iter().for_each(|problem| text += &format!("{problem}\n"));
    }
    text
}

/// What the agents cannot read or do, each told once.
fn problems(lab: &Lab) -> BTreeSet<String> {
    let statuses = lab.nodes().iter().filter_map(|node| lab.agent_status(&node.name).ok());
    statuses.flat_map(|status| status.problems).map(|problem| problem.to_string()).collect()
}

fn pod_line(pod: &PodRecord) -> String {
    let state = match pod.state {
        State::Attached => "attached",
        State::Host => "host",
        State::Failed => "failed",
        State::Unplaced => "no node",
    };
    let addresses = pod.addresses.join(",");
    let error = pod.error.iter().map(|error| format!("    {error}\n"));
    format!("{:<28} {:<6} {state:<9} {addresses:<40} {}\n", pod.pod, pod.node, pod.netns)
        + &error.collect::<String>()
}

/// Lists the labs of this machine.
pub fn list(format: Format) -> Result<(), LabError> {
    let labs = teardown::labs().into_iter().filter_map(|name| {
        let layout = Layout::new(&name).ok()?;
        let record: Option<Record> = record::load(&layout.record()).ok();
        Some((layout, record))
    });
    print(&match format {
        Format::Json => {
            let labs = labs.map(|(layout, record)| {
                json!({ "name": layout.name.as_str(), "directory": layout.directory, "record": record })
            });
            format!("{:#}\n", Value::from_iter(labs))
        }
        Format::Text => labs.map(|(layout, record)| lab_line(&layout, record)).collect(),
    })
}

fn lab_line(layout: &Layout, record: Option<Record>) -> String {
    let what = record.map_or("incomplete".to_owned(), |record| format!("{} nodes", record.nodes));
    format!("{:<20} {what:<12} {}\n", layout.name.as_str(), layout.directory.display())
}

/// Prints to a reader that may have seen enough.
fn print(text: &str) -> Result<(), LabError> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(LabError::io("print")(error)),
        _ => Ok(()),
    }
}
