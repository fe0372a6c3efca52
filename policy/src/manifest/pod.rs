//! Pods. A pod whose labels, node or phase cannot be read is refused: it would be judged as what it is not.

use std::net::IpAddr;

use super::meta::{Annotations, labels_of, text};
use super::values::{
    bandwidth, boolean, ip, ip_pair, name, object_name, port, port_name, protocol_or_tcp, ranges,
};
use super::walk::{At, Read};
use crate::name::{Name, PodRef};
use crate::object::{NamedPort, Pod, PodAnnotations};

pub(super) fn read(root: &At<'_>, reference: PodRef) -> Read<Pod> {
    let uid = text(root, "uid");
    let labels = labels_of(root);
    let (annotations, keeps) = annotations(root);
    let keeps_addresses = keeps.unwrap_or_else(|| is_of_a_stateful_set(root));
    let node = root.within("spec", |at| at.optional("nodeName", name));
    let host_network = root.within("spec", |at| at.optional("hostNetwork", boolean));
    let phase = root
        .within("status", |at| at.optional("phase", |at| Ok(matches!(at.text()?, "Succeeded" | "Failed"))));
    let terminating = text(root, "deletionTimestamp").ok().flatten().is_some();
    let ports = root.within("spec", |at| Ok(ports(at)))?;
    let ips = root.within("status", |at| Ok(ips(at)))?;
    Ok(Pod {
        reference,
        uid: uid?.unwrap_or_default(),
        labels: labels?,
        annotations,
        node: node?.filter(|node| !node.is_empty()),
        ips,
        host_network: host_network?.unwrap_or(false),
        finished: phase?.unwrap_or(false),
        keeps_addresses,
        terminating,
        ports,
    })
}

/// The annotations, and what `fabric.io/keep-ip` says.
fn annotations(root: &At<'_>) -> (PodAnnotations, Option<bool>) {
    let mut annotations = Annotations::of(root);
    let network = annotations.get("fabric.io/network", object_name);
    let fixed_ips = annotations.get("fabric.io/ip", ip_pair).unwrap_or_default();
    let ip_ranges = annotations.get("fabric.io/ip-range", ranges).unwrap_or_default();
    let keeps = annotations.get("fabric.io/keep-ip", yes_or_no);
    let ingress_bandwidth = annotations.get("kubernetes.io/ingress-bandwidth", bandwidth);
    let egress_bandwidth = annotations.get("kubernetes.io/egress-bandwidth", bandwidth);
    let unreadable = annotations.unreadable;
    let annotations =
        PodAnnotations { network, fixed_ips, ip_ranges, ingress_bandwidth, egress_bandwidth, unreadable };
    (annotations, keeps)
}

fn yes_or_no(at: &At<'_>) -> Read<bool> {
    at.one_of(&[("true", true), ("false", false)])
}

/// Whether the controller of the pod is a StatefulSet, of whichever API group; what cannot be read is none.
fn is_of_a_stateful_set(root: &At<'_>) -> bool {
    let owner = |at: &At<'_>| {
        let kind: Option<Name> = at.optional("kind", name)?;
        let controls = at.optional("controller", boolean)?.unwrap_or(false);
        Ok(controls && kind.is_some_and(|kind| kind == "StatefulSet"))
    };
    let owners = root.within("metadata", |at| at.optional("ownerReferences", |at| at.those(owner)));
    owners.ok().flatten().is_some_and(|owners| owners.contains(&true))
}

/// `podIPs`, else `podIP`; an address that cannot be read is left out.
fn ips(status: &At<'_>) -> Vec<IpAddr> {
    let all = status.optional("podIPs", |at| at.those(|at| at.need("ip", ip)));
    match all.ok().flatten() {
        Some(ips) if !ips.is_empty() => ips,
        _ => status
            .optional("podIP", |at| if at.text()?.is_empty() { Ok(None) } else { ip(at).map(Some) })
            .ok()
            .flatten()
            .flatten()
            .into_iter()
            .collect(),
    }
}

/// The named ports of the containers, and of the init containers that keep running beside them.
fn ports(spec: &At<'_>) -> Vec<NamedPort> {
    let all = |at: &At<'_>| at.those(container_ports);
    let sidecars = |at: &At<'_>| {
        at.those(|at| {
            let restarts: Option<Name> = at.optional("restartPolicy", name)?;
            if restarts.is_some_and(|policy| policy == "Always") {
                container_ports(at)
            } else {
                Ok(Vec::new())
            }
        })
    };
    let containers = spec.optional("containers", all).ok().flatten().unwrap_or_default();
    let init_containers = spec.optional("initContainers", sidecars).ok().flatten().unwrap_or_default();
    containers.into_iter().chain(init_containers).flatten().collect()
}

fn container_ports(container: &At<'_>) -> Read<Vec<NamedPort>> {
    let named = container.optional("ports", |at| at.those(named_port))?;
    Ok(named.into_iter().flatten().flatten().collect())
}

fn named_port(at: &At<'_>) -> Read<Option<NamedPort>> {
    let Some(name) = at
        .optional("name", |at| if at.text()?.is_empty() { Ok(None) } else { port_name(at).map(Some) })?
        .flatten()
    else {
        return Ok(None);
    };
    let number = at.need("containerPort", port);
    let protocol = protocol_or_tcp(at);
    Ok(Some(NamedPort { name, protocol: protocol?, port: number? }))
}
