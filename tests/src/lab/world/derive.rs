//! The objects that a cluster would have and a folder of manifests may leave out:
//! Nodes, the Namespaces that pods name, and a Network that covers the pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::{Value, json};

use super::read::{self, Document, all_addresses, kind, name};
use crate::lab::node::addresses;

/// Where pods get addresses when no manifest says otherwise.
const DEFAULT_V4: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16);
const DEFAULT_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xfd44, 0, 0, 0, 0, 0, 0, 0), 64);
/// Prefix lengths to try around the addresses of pods, widest first.
const WIDTHS_V4: [u8; 4] = [16, 20, 24, 28];
const WIDTHS_V6: [u8; 4] = [64, 96, 112, 120];
/// Identifier of the overlay.
const VNI: u32 = 77;

/// Text of the files to add, by a short name: `nodes`, `namespaces`, `network`.
pub fn derived(documents: &[Document], nodes: usize) -> BTreeMap<&'static str, String> {
    let files = [
        ("nodes", missing_nodes(documents, nodes)),
        ("namespaces", missing_namespaces(documents)),
        ("network", missing_network(documents)),
    ];
    files.into_iter().filter(|(_, objects)| !objects.is_empty()).map(|(file, o)| (file, text(&o))).collect()
}

/// JSON is YAML, one document after another.
fn text(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object:#}\n")).collect()
}

fn names<'a>(documents: &'a [Document], wanted: &str) -> BTreeSet<&'a str> {
    documents.iter().filter(|document| kind(document) == wanted).map(name).collect()
}

fn missing_nodes(documents: &[Document], nodes: usize) -> Vec<Value> {
    let given = names(documents, "Node");
    let wanted = (1..=nodes).filter_map(|index| Some((format!("n{index}"), u8::try_from(index).ok()?)));
    let wanted = wanted.filter(|(name, _)| !given.contains(name.as_str()));
    wanted.map(|(name, index)| node(&name, index)).collect()
}

fn node(name: &str, index: u8) -> Value {
    let ips = addresses(index).map(|ip| json!({ "type": "InternalIP", "address": ip }));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "addresses": ips },
    })
}

fn missing_namespaces(documents: &[Document]) -> Vec<Value> {
    let given = names(documents, "Namespace");
    let pods = documents.iter().filter(|document| kind(document) == "Pod").map(read::namespace);
    let wanted: BTreeSet<&str> = pods.chain(["default"]).filter(|name| !given.contains(name)).collect();
    wanted.into_iter().map(namespace).collect()
}

fn namespace(name: &str) -> Value {
    let labels = json!({ "kubernetes.io/metadata.name": name });
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

fn missing_network(documents: &[Document]) -> Vec<Value> {
    if documents.iter().any(|document| kind(document) == "Network") {
        return Vec::new();
    }
    let hosted = |document: &&Document| document["spec"]["hostNetwork"] != json!(true);
    let pods = documents.iter().filter(|document| kind(document) == "Pod").filter(hosted);
    let used: BTreeSet<IpAddr> = pods.flat_map(all_addresses).collect();
    let v4 = cover(DEFAULT_V4.into(), WIDTHS_V4, &used);
    let v6 = cover(DEFAULT_V6.into(), WIDTHS_V6, &used);
    let mut spec =
        json!({ "mode": "overlay", "default": true, "encap": "vxlan", "vni": VNI, "cidrs": [v4, v6] });
    let gateways = [v4, v6].map(|net| gateway(net, &used));
    if gateways != [v4, v6].map(first_host) {
        spec["gateway"] = json!(gateways);
    }
    vec![json!({
        "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": "default" }, "spec": spec,
    })]
}

/// The usual prefix where it covers the pods' addresses of its family, else the widest
/// prefix around them that does not meet the nodes' wire, else the narrowest.
fn cover(usual: IpNet, widths: [u8; 4], used: &BTreeSet<IpAddr>) -> IpNet {
    let of_family = |ip: &&IpAddr| ip.is_ipv4() == usual.addr().is_ipv4();
    let used: Vec<IpAddr> = used.iter().filter(of_family).copied().collect();
    let (Some(first), Some(last)) = (used.first(), used.last()) else { return usual };
    if used.iter().all(|ip| usual.contains(ip)) {
        return usual;
    }
    let common = common_prefix(*first, *last);
    let wire = addresses(1);
    let free = |net: &IpNet| !wire.iter().any(|ip| net.contains(ip));
    let wide = widths.iter().filter(|width| **width <= common.prefix_len());
    wide.filter_map(|width| IpNet::new(*first, *width).ok())
        .map(|net| net.trunc())
        .find(free)
        .unwrap_or(common)
}

/// The longest prefix that two addresses of one family share, and so all between them.
fn common_prefix(a: IpAddr, b: IpAddr) -> IpNet {
    let mut net = IpNet::from(a);
    while !net.contains(&b) {
        match net.supernet() {
            Some(wider) => net = wider,
            None => break,
        }
    }
    net
}

fn first_host(net: IpNet) -> Option<IpAddr> {
    nth(net, 1)
}

/// The first host's address, or the first after it that no pod has.
fn gateway(net: IpNet, used: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    (1..=256).filter_map(|n| nth(net, n)).find(|ip| !used.contains(ip))
}

fn nth(net: IpNet, n: u32) -> Option<IpAddr> {
    let address = match net.network() {
        IpAddr::V4(base) => Ipv4Addr::from(u32::from(base).checked_add(n)?).into(),
        IpAddr::V6(base) => Ipv6Addr::from(u128::from(base).checked_add(u128::from(n))?).into(),
    };
    net.contains(&address).then_some(address)
}
