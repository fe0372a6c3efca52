//! The wire: namespaces of the nodes, and the bridge that joins them.
//!
//! The wire is a plain Linux bridge in a namespace of its own, whose own address plays
//! a host outside the cluster. A node's end of the wire belongs to its switch, so the
//! node's kernel must not answer there: it speaks no ARP and no IPv6, and the node's
//! address sits on `br-phy`, whose hardware address differs from the wire's.

use super::command::command;
use super::error::LabError;
use super::names::LabName;
use super::netns;
use super::node::{Node, OUTSIDE, addresses};
use super::wiring::UPLINK;

/// MTU of the wire, bytes.
pub const MTU: u32 = 1500;
/// Name of the bridge inside the wire's namespace.
pub const BRIDGE: &str = "wire";

/// Makes the namespaces of the wire and the nodes and joins them.
///
/// # Errors
/// [`LabError::Command`] or [`LabError::Io`] with what the system refused.
pub fn lay(lab: &LabName, nodes: &[Node]) -> Result<(), LabError> {
    let wire = lab.wire();
    netns::add(std::iter::once(wire.as_str()).chain(nodes.iter().map(|n| n.namespace.as_str())))?;
    quiet(&wire)?;
    nodes.iter().try_for_each(|node| quiet(&node.namespace))?;
    netns::batch(&wire, &wire_lines(nodes))?;
    let on_wire = || nodes.iter().filter(|node| node.is_on_wire());
    on_wire().try_for_each(|node| netns::batch(&node.namespace, &node_lines()))?;
    plain_checksums(&wire, BRIDGE)?;
    on_wire().try_for_each(|node| {
        plain_checksums(&wire, &node.name)?;
        plain_checksums(&node.namespace, UPLINK)
    })
}

/// Addresses are usable at once, without duplicate detection, and packets are forwarded
/// as on any Kubernetes node.
///
/// # Errors
/// [`LabError::Io`] with what the system refused.
pub fn quiet(namespace: &str) -> Result<(), LabError> {
    netns::sysctl(
        namespace,
        &[
            ("net/ipv6/conf/all/accept_dad", "0"),
            ("net/ipv6/conf/default/accept_dad", "0"),
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/ipv6/conf/default/forwarding", "1"),
            ("net/ipv4/ip_forward", "1"),
        ],
    )
}

fn wire_lines(nodes: &[Node]) -> String {
    let mut lines = format!("link set lo up\nlink add {BRIDGE} type bridge mcast_snooping 0\n");
    let [v4, v6] = addresses(OUTSIDE);
    lines += &format!(
        "addr add {v4}/24 dev {BRIDGE}\naddr add {v6}/64 dev {BRIDGE} nodad\nlink set {BRIDGE} up\n"
    );
    for Node { name, namespace, .. } in nodes.iter().filter(|node| node.is_on_wire()) {
        lines +=
            &format!("link add {name} mtu {MTU} type veth peer name {UPLINK} mtu {MTU} netns {namespace}\n");
        lines += &format!("link set {name} master {BRIDGE} up\n");
    }
    lines
}

fn node_lines() -> String {
    format!("link set lo up\nlink set {UPLINK} addrgenmode none\nlink set {UPLINK} arp off up\n")
}

/// A veth leaves checksums to hardware that does not exist, and the userspace datapath
/// would call such packets invalid: has them computed.
///
/// # Errors
/// [`LabError::Command`] with what `ethtool` said.
pub fn plain_checksums(namespace: &str, device: &str) -> Result<(), LabError> {
    netns::run_in(namespace, &mut command(["ethtool", "-K", device, "tx", "off"])).map(drop)
}
