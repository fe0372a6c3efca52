//! A second wire of a lab, which carries the frames of VLANs: each node has a NIC on it that nothing else uses.

use crate::lab::wire::{MTU, plain_checksums};
use crate::lab::{Lab, LabError, netns};

/// The bridge that joins the NICs, in the wire's namespace. It knows nothing of VLANs and passes their tags.
const BRIDGE: &str = "lan";
/// A node's NIC.
pub const NIC: &str = "eth1";

/// Lays it.
///
/// # Errors
/// With what the system refused.
pub fn lay(lab: &Lab) -> Result<(), LabError> {
    let wire = lab.layout().name.wire();
    netns::batch(&wire, &format!("link add {BRIDGE} type bridge mcast_snooping 0\nlink set {BRIDGE} up\n"))?;
    lab.nodes().iter().try_for_each(|node| {
        let (port, namespace) = (format!("lan-{}", node.name), &node.namespace);
        netns::batch(
            &wire,
            &format!(
                "link add {port} mtu {MTU} type veth peer name {NIC} mtu {MTU} netns {namespace}\n\
                 link set {port} master {BRIDGE} up\n"
            ),
        )?;
        netns::batch(namespace, &format!("link set {NIC} addrgenmode none\nlink set {NIC} arp off up\n"))?;
        plain_checksums(&wire, &port)?;
        plain_checksums(namespace, NIC)
    })
}
