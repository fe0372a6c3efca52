//! `fabric-lab exec`: becomes `ip netns exec` in the namespace of the place.

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use crate::lab::command::command;
use crate::lab::names::{LabName, OFFICE};
use crate::lab::{Lab, LabError, Node, switch};

pub fn exec(name: &LabName, place: &str, words: &[String]) -> Result<ExitCode, LabError> {
    let lab = Lab::open(name)?;
    let (namespace, environment) = find(&lab, place)?;
    let mut exec = command(["ip", "netns", "exec", namespace.as_str()]);
    exec.args(words).envs(environment);
    // Returns only where `ip` could not be started.
    Err(LabError::io("run ip netns exec")(exec.exec()))
}

type Environment = Vec<(&'static str, std::path::PathBuf)>;

fn find(lab: &Lab, place: &str) -> Result<(String, Environment), LabError> {
    if place == "wire" {
        return Ok((lab.layout().name.wire(), Vec::new()));
    }
    if lab.nodes().iter().any(|node| node.wiring.is_some()) && OFFICE.contains(&place) {
        let office = Node::office(lab.layout());
        let environment = switch::environment(&office).map(|(name, path)| (name, path.to_owned()));
        return Ok((lab.layout().name.office(place), environment.to_vec()));
    }
    if let Some(pod) = place.strip_prefix("pod/") {
        return Ok((lab.pod(pod)?.netns.clone(), Vec::new()));
    }
    let node = lab
        .node(place.strip_prefix("node/").unwrap_or(place))
        .map_err(|_| LabError::NoSuchPlace { lab: lab.layout().name.to_string(), place: place.to_owned() })?;
    let environment = switch::environment(node).map(|(name, path)| (name, path.to_owned()));
    Ok((node.namespace.clone(), environment.to_vec()))
}
