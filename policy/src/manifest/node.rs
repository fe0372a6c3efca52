//! Namespaces and nodes. A namespace whose labels cannot be read is refused; one whose tenant cannot be read
//! is a tenant by itself.

use std::net::IpAddr;

use super::meta::{Annotations, annotation, labels_of};
use super::values::{ip, ip_pair, name, object_name};
use super::walk::{At, Read};
use crate::label::Labels;
use crate::name::Name;
use crate::object::{Namespace, Node, Tenant};

const TENANT: &str = "fabric.io/tenant";

/// The label that the API server sets on every namespace (Kubernetes: "Automatic labelling").
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn namespace(root: &At<'_>, own: Name) -> Read<Namespace> {
    let labels = labels_of(root);
    let mut annotations = Annotations::of(root);
    let tenant = annotations.get(TENANT, tenant);
    let network = annotations.get("fabric.io/network", object_name);
    let log_denied =
        annotations.get("fabric.io/log-denied", |at| at.one_of(&[("true", true), ("false", false)]));
    let egress_ips = annotations.get("fabric.io/egress-ip", ip_pair);
    let unreadable = annotations.unreadable;
    let tenant = if unreadable.contains(&TENANT) { Tenant::Unreadable } else { tenant.unwrap_or_default() };
    let named = [(Name::from(NAME_LABEL), own.clone())];
    let labels = labels?;
    let labels: Labels =
        labels.iter().map(|(key, value)| (key.clone(), value.clone())).chain(named).collect();
    Ok(Namespace {
        name: own,
        labels,
        tenant,
        network,
        log_denied: log_denied.unwrap_or(false),
        egress_ips: egress_ips.unwrap_or_default(),
        unreadable,
    })
}

fn tenant(at: &At<'_>) -> Read<Tenant> {
    at.parsed("the name of a tenant, or * for a namespace that all share", |text| match text.trim() {
        "" => None,
        "*" => Some(Tenant::Shared),
        name => Some(Tenant::Named(Name::from(name))),
    })
}

pub(super) fn node(root: &At<'_>, own: Name) -> Read<Node> {
    let labels = labels_of(root);
    let tunnel = annotation(root, "fabric.io/tunnel-address", ip);
    let given = root.within("status", |at| at.optional("addresses", |at| at.those(address)));
    let given: Vec<(u8, IpAddr)> = given.ok().flatten().unwrap_or_default().into_iter().flatten().collect();
    let of = |wanted: u8| given.iter().filter(move |(rank, _)| *rank == wanted).map(|(_, ip)| *ip);
    let addresses: Vec<IpAddr> = of(INTERNAL).chain(of(EXTERNAL)).collect();
    let tunnel_address = match tunnel {
        Ok(None) => of(INTERNAL).next(),
        Ok(chosen) => chosen,
        Err(_) => None,
    };
    Ok(Node { name: own, labels: labels?, addresses, tunnel_address })
}

const INTERNAL: u8 = 0;
const EXTERNAL: u8 = 1;

fn address(at: &At<'_>) -> Read<Option<(u8, IpAddr)>> {
    let rank = match at.need("type", name)?.as_str() {
        "InternalIP" => INTERNAL,
        "ExternalIP" => EXTERNAL,
        _ => return Ok(None),
    };
    at.need("address", ip).map(|ip| Some((rank, ip)))
}
