//! `fabric-cni` as a container runtime runs it: environment, configuration on its
//! standard input, result or error on its standard output (CNI specification 1.1.0).

use std::net::IpAddr;
use std::process::Command;

use serde_json::{Value, json};

use super::command::{command, failure};
use super::error::LabError;
use super::netns;
use super::node::Node;
use super::programs::Programs;

/// Name of the network configuration.
pub const NETWORK: &str = "fabric";
/// Where Debian puts the plugins of others.
pub const OTHERS: &str = "/usr/lib/cni";
/// Name of a pod's interface.
pub const IFNAME: &str = "eth0";

/// An attachment as CNI names it.
#[derive(Debug, Clone)]
pub struct Attachment<'a> {
    /// `CNI_CONTAINERID`.
    pub container: &'a str,
    /// Namespace of the pod, by name.
    pub netns: &'a str,
    /// `NS/NAME` of the pod; empty for a container that is none.
    pub pod: &'a str,
    /// `metadata.uid` of the pod, where it has one.
    pub uid: Option<&'a str>,
}

/// CNI ADD; the result of the plugin.
///
/// # Errors
/// [`LabError::Cni`] with the plugin's error.
pub fn add(node: &Node, programs: &Programs, of: &Attachment<'_>, ips: &[IpAddr]) -> Result<Value, LabError> {
    let mut config = configuration(node);
    if !ips.is_empty() {
        config["runtimeConfig"] = json!({ "ips": ips.iter().map(IpAddr::to_string).collect::<Vec<_>>() });
    }
    call(node, programs, "ADD", Some(of), &config)
}

/// CNI DEL.
///
/// # Errors
/// [`LabError::Cni`] with the plugin's error.
pub fn del(node: &Node, programs: &Programs, of: &Attachment<'_>) -> Result<(), LabError> {
    call(node, programs, "DEL", Some(of), &configuration(node)).map(drop)
}

/// A command with a configuration that is not the lab's own; the result, where there is one.
///
/// # Errors
/// [`LabError::Cni`] with the plugin's error.
pub fn run(
    node: &Node,
    programs: &Programs,
    verb: &'static str,
    of: &Attachment<'_>,
    config: &Value,
) -> Result<Value, LabError> {
    call(node, programs, verb, Some(of), config)
}

/// CNI CHECK against the result of ADD.
///
/// # Errors
/// [`LabError::Cni`] with what differs.
pub fn check(node: &Node, programs: &Programs, of: &Attachment<'_>, result: &Value) -> Result<(), LabError> {
    let mut config = configuration(node);
    config["prevResult"] = result.clone();
    call(node, programs, "CHECK", Some(of), &config).map(drop)
}

/// CNI STATUS: whether the agent would serve an ADD.
///
/// # Errors
/// [`LabError::Cni`] with the reason.
pub fn status(node: &Node, programs: &Programs) -> Result<(), LabError> {
    call(node, programs, "STATUS", None, &configuration(node)).map(drop)
}

/// CNI GC: the attachments in use are `(container, interface)`, all others go.
///
/// # Errors
/// [`LabError::Cni`] with the plugin's error.
pub fn gc(node: &Node, programs: &Programs, valid: &[(&str, &str)]) -> Result<(), LabError> {
    let mut config = configuration(node);
    let valid = valid.iter().map(|(container, ifname)| json!({ "containerID": container, "ifname": ifname }));
    config["cni.dev/valid-attachments"] = valid.collect();
    call(node, programs, "GC", None, &config).map(drop)
}

/// The addresses of a result, with their prefix lengths.
pub fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().into_iter().flatten();
    ips.filter_map(|ip| ip["address"].as_str()).map(str::to_owned).collect()
}

/// The network configuration of a node.
pub fn configuration(node: &Node) -> Value {
    json!({
        "cniVersion": "1.1.0",
        "name": NETWORK,
        "type": "fabric-cni",
        "capabilities": { "ips": true },
        "socket": node.cni_socket(),
    })
}

fn call(
    node: &Node,
    programs: &Programs,
    verb: &'static str,
    of: Option<&Attachment<'_>>,
    config: &Value,
) -> Result<Value, LabError> {
    let mut plugin = command([&programs.cni]);
    let own = programs.cni.parent().unwrap_or("/".as_ref()).display();
    plugin.env("CNI_COMMAND", verb).env("CNI_PATH", format!("{own}:{OTHERS}"));
    if let Some(of) = of {
        attachment(&mut plugin, of);
    }
    let output = netns::output_in(&node.namespace, &mut plugin, config.to_string().as_bytes())?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if output.status.success() {
        return Ok(said);
    }
    let Some(code) = said["code"].as_u64() else { return Err(failure(&plugin, &output)) };
    let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
    let details = text("details");
    let message = if details.is_empty() { text("msg") } else { format!("{}: {details}", text("msg")) };
    let pod = of.map_or_else(|| "-".to_owned(), |of| of.pod.to_owned());
    Err(LabError::Cni { command: verb, pod, node: node.name.clone(), code, message })
}

fn attachment(plugin: &mut Command, of: &Attachment<'_>) {
    plugin
        .env("CNI_CONTAINERID", of.container)
        .env("CNI_NETNS", netns::path(of.netns))
        .env("CNI_IFNAME", IFNAME);
    if of.pod.is_empty() {
        return;
    }
    let (namespace, name) = of.pod.split_once('/').unwrap_or(("default", of.pod));
    let mut args = format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_INFRA_CONTAINER_ID={}",
        of.container
    );
    if let Some(uid) = of.uid {
        args += &format!(";K8S_POD_UID={uid}");
    }
    plugin.env("CNI_ARGS", args);
}
