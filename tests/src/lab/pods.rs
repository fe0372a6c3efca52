//! Pods of a lab: a network namespace each, attached by `fabric-cni`, as a container
//! runtime would.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::cni::{self, Attachment};
use super::error::LabError;
use super::names::{LabName, hash};
use super::node::Node;
use super::programs::Programs;
use super::record::{PodRecord, State};
use super::world::Pod;
use super::{netns, process};

/// Makes the pod's namespace and attaches it.
///
/// # Errors
/// With the plugin's error; the namespace is then gone again.
pub fn attach(
    lab: &LabName,
    node: &Node,
    programs: &Programs,
    pod: &Pod,
) -> Result<(PodRecord, Value), LabError> {
    let mut record = blank(lab, pod);
    // One that a supervisor left which was killed.
    netns::remove([record.netns.as_str()])?;
    netns::add([record.netns.as_str()])?;
    let result = netns::batch(&record.netns, "link set lo up\n")
        .and_then(|()| cni::add(node, programs, &attachment(&record), &pod.ips));
    match result {
        Ok(result) => {
            record.addresses = cni::addresses(&result);
            Ok((record, result))
        }
        Err(error) => {
            // The runtime answers a failed ADD with DEL; the first error is the one to tell.
            let _ = detach(node, programs, &record);
            Err(error)
        }
    }
}

/// Detaches the pod, ends what runs in its namespace and removes that.
///
/// # Errors
/// With the plugin's error; the namespace goes all the same.
pub fn detach(node: &Node, programs: &Programs, record: &PodRecord) -> Result<(), LabError> {
    process::end_all(&netns::processes(std::slice::from_ref(&record.netns)));
    let detached = cni::del(node, programs, &attachment(record));
    let removed = netns::remove([record.netns.as_str()]);
    detached.and(removed)
}

/// How CNI names the pod of a record.
pub fn attachment(record: &PodRecord) -> Attachment<'_> {
    Attachment {
        container: &record.container,
        netns: &record.netns,
        pod: &record.pod,
        uid: record.uid.as_deref(),
    }
}

/// The record of a pod that shares its node's namespace.
pub fn on_host(node: &Node, pod: &Pod) -> PodRecord {
    PodRecord {
        pod: pod.reference.clone(),
        node: pod.node.clone(),
        netns: node.namespace.clone(),
        container: String::new(),
        uid: pod.uid.clone(),
        state: State::Host,
        addresses: node.addresses().map(|ip| ip.to_string()).to_vec(),
        error: None,
    }
}

/// The record of a pod that could not be attached.
pub fn failed(lab: &LabName, pod: &Pod, error: &LabError) -> PodRecord {
    PodRecord { state: State::Failed, error: Some(error.to_string()), ..blank(lab, pod) }
}

/// The record of a pod whose node the lab does not have.
pub fn unplaced(lab: &LabName, pod: &Pod) -> PodRecord {
    let error = format!("pod {}: the lab has no node {}", pod.reference, pod.node);
    PodRecord { state: State::Unplaced, error: Some(error), ..blank(lab, pod) }
}

fn blank(lab: &LabName, pod: &Pod) -> PodRecord {
    PodRecord {
        pod: pod.reference.clone(),
        node: pod.node.clone(),
        netns: lab.pod(&pod.reference),
        container: container_id(lab, &pod.reference),
        uid: pod.uid.clone(),
        state: State::Attached,
        addresses: Vec::new(),
        error: None,
    }
}

/// An identifier for one life of a pod, as a runtime makes one for each sandbox.
fn container_id(lab: &LabName, pod: &str) -> String {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    (0..4).map(|part| format!("{:016x}", hash(&format!("{part}/{lab}/{pod}/{nanos}")))).collect()
}
