//! The agent of a node: its configuration, its process, and whether it is ready.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fabric_api::Status;
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};

use super::command::{command, line, run, spawn};
use super::error::LabError;
use super::node::{BRIDGE_FABRIC, BRIDGE_PHYSICAL, Node};
use super::programs::Programs;
use super::{cni, interrupt, process};

/// Writes the node's `node.yaml`; `world` is the folder of manifests, `more` holds
/// fields beside those that the lab sets.
///
/// # Errors
/// [`LabError::Io`] where it cannot be written.
pub fn configure(node: &Node, world: &Path, more: &Map<String, Value>) -> Result<(), LabError> {
    let mut config = json!({
        "node": node.name,
        "store": { "directory": world },
        "ovs": { "database": node.database(), "runDir": node.directory, "datapath": "netdev" },
        "bridge": BRIDGE_FABRIC,
        "tunnels": { "interface": BRIDGE_PHYSICAL },
        "sockets": { "directory": node.agent() },
        "log": std::env::var("FABRIC_LAB_LOG").unwrap_or_else(|_| "info".to_owned()),
    });
    for (field, value) in node.wiring.iter().flat_map(|wiring| wiring.config()).chain(more.clone()) {
        config[field] = value;
    }
    let file = node.config();
    let text = serde_saphyr::to_string(&config).map_err(std::io::Error::other);
    text.and_then(|text| fs::write(&file, text)).map_err(LabError::io(format!("write {}", file.display())))
}

/// Starts the agent; its output is added to the node's `agent.log`.
///
/// # Errors
/// Where it cannot be started.
pub fn start(node: &Node, programs: &Programs) -> Result<(), LabError> {
    let log = node.agent_log();
    let open = || OpenOptions::new().create(true).append(true).open(&log);
    let (out, err) = open()
        .and_then(|out| Ok((out.try_clone()?, out)))
        .map_err(LabError::io(format!("open {}", log.display())))?;
    let mut agent = command(["ip", "netns", "exec", node.namespace.as_str()]);
    agent.arg(&programs.node).args(["run", "--config"]).arg(node.config());
    agent.stdin(std::process::Stdio::null()).stdout(out).stderr(err).process_group(0);
    let mut child = spawn(&mut agent)?;
    let file = pid_file(node);
    fs::write(&file, child.id().to_string()).map_err(LabError::io(format!("write {}", file.display())))?;
    // Takes note of its end, so that it leaves no zombie while this process lives.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Ends the agent: SIGKILL as a crash would, SIGTERM as an upgrade does.
///
/// # Errors
/// Where it cannot be signalled.
pub fn end(node: &Node, signal: Signal) -> Result<(), LabError> {
    process::end(&pid_file(node), &node.directory, signal)
}

/// Whether the agent's process runs.
pub fn runs(node: &Node) -> bool {
    process::find(&pid_file(node), &node.directory).is_some()
}

/// What the agent says of itself (`fabric-node status`).
///
/// # Errors
/// Where it does not answer.
pub fn status(node: &Node, programs: &Programs) -> Result<Status, LabError> {
    let mut ask = command([&programs.node]);
    ask.args(["status", "-o", "json", "--socket"]).arg(node.agent_socket());
    let text = run(&mut ask)?;
    let bad = |error: serde_json::Error| LabError::Command { command: line(&ask), reason: error.to_string() };
    serde_json::from_str(&text).map_err(bad)
}

/// Waits until the agent would serve: CNI STATUS succeeds, as a container runtime asks it.
///
/// # Errors
/// [`LabError::Timeout`] with the last answer, or at once where the agent has ended.
pub fn wait_ready(node: &Node, programs: &Programs, patience: Duration) -> Result<(), LabError> {
    let until = Instant::now() + patience;
    loop {
        let Err(error) = cni::status(node, programs) else { return Ok(()) };
        if !runs(node) {
            let last = last_lines(&node.agent_log());
            return Err(LabError::NotReady(format!("the agent of {} has ended:\n{last}", node.name)));
        }
        if Instant::now() >= until {
            let what = format!("readiness of {} ({error}; see {})", node.name, node.agent_log().display());
            return Err(LabError::Timeout { what, after: patience });
        }
        interrupt::check()?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn pid_file(node: &Node) -> PathBuf {
    node.directory.join("fabric-node.pid")
}

fn last_lines(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
