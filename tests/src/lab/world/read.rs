//! What the lab needs to know of a manifest: which pods there are and where, as a
//! kubelet would. Judging manifests is the agents' part; the lab passes over what it
//! cannot read.

use std::net::IpAddr;

use serde_json::Value;

/// One document of a manifest.
pub type Document = Value;

/// A pod that a node is to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// `NS/NAME`.
    pub reference: String,
    /// `metadata.uid`.
    pub uid: Option<String>,
    /// `spec.nodeName`.
    pub node: String,
    /// Addresses to ask for: those of `status.podIPs`, unless `fabric.io/ip` tells the
    /// agent the addresses by itself.
    pub ips: Vec<IpAddr>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
}

/// The documents of a text, and of the lists in it. A text with an error in it yields
/// what stands before the error.
pub fn documents(text: &str) -> Vec<Document> {
    let options = || serde_saphyr::options! { strict_booleans: true };
    let whole = serde_saphyr::from_multiple_with_options::<Value>(text, options());
    let documents = whole.unwrap_or_else(|_| {
        let parts = split(text).into_iter();
        parts.filter_map(|part| serde_saphyr::from_str_with_options(&part, options()).ok()).collect()
    });
    documents.into_iter().flat_map(unlist).collect()
}

/// The documents as text, for a file in which one is broken.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        match parts.last_mut() {
            Some(part) if !line.starts_with("---") => {
                part.push_str(line);
                part.push('\n');
            }
            _ => parts.push(String::new()),
        }
    }
    parts
}

fn unlist(document: Document) -> Vec<Document> {
    let is_list = kind(&document).ends_with("List");
    match document.get("items") {
        Some(Value::Array(items)) if is_list => items.clone(),
        _ => vec![document],
    }
}

/// `kind` of a document.
pub fn kind(document: &Document) -> &str {
    document["kind"].as_str().unwrap_or_default()
}

/// `metadata.name` of a document.
pub fn name(document: &Document) -> &str {
    document["metadata"]["name"].as_str().unwrap_or_default()
}

/// `metadata.namespace` of a document, or the one that an API server would choose.
pub fn namespace(document: &Document) -> &str {
    document["metadata"]["namespace"].as_str().unwrap_or("default")
}

/// The pods that run on a node: those with `spec.nodeName` that have not finished.
pub fn pods(documents: &[Document]) -> Vec<Pod> {
    documents.iter().filter(|document| kind(document) == "Pod").filter_map(pod).collect()
}

fn pod(document: &Document) -> Option<Pod> {
    let node = document["spec"]["nodeName"].as_str().filter(|node| !node.is_empty())?;
    let finished = matches!(document["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if finished || name(document).is_empty() {
        return None;
    }
    let fixed = document["metadata"]["annotations"]["fabric.io/ip"].is_string();
    Some(Pod {
        reference: format!("{}/{}", namespace(document), name(document)),
        uid: document["metadata"]["uid"].as_str().map(str::to_owned),
        node: node.to_owned(),
        ips: if fixed { Vec::new() } else { status_addresses(document) },
        host_network: document["spec"]["hostNetwork"].as_bool().unwrap_or(false),
    })
}

/// The addresses that `status.podIPs` or `status.podIP` names.
pub fn status_addresses(document: &Document) -> Vec<IpAddr> {
    let status = &document["status"];
    let listed = status["podIPs"].as_array().into_iter().flatten().map(|ip| &ip["ip"]);
    let mut addresses: Vec<IpAddr> =
        listed.chain([&status["podIP"]]).filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    let mut seen = std::collections::BTreeSet::new();
    addresses.retain(|address| seen.insert(*address));
    addresses
}

/// All addresses that a pod's manifest names: those of its status and of `fabric.io/ip`.
pub fn all_addresses(document: &Document) -> Vec<IpAddr> {
    let fixed = document["metadata"]["annotations"]["fabric.io/ip"].as_str().unwrap_or_default();
    let fixed = fixed.split(',').filter_map(|ip| ip.trim().parse().ok());
    status_addresses(document).into_iter().chain(fixed).collect()
}
