//! Keeps the kernel from taking a second look at what the userspace datapath has taken from a NIC.
//!
//! With the userspace datapath, frames that a NIC receives go to the switch and to the kernel's own stack beside it,
//! which would answer a second time: its addresses are the host's, whatever device they are on. So the stack's copy
//! is dropped where it comes in, behind the sockets that the switch reads from. The kernel's datapath takes frames
//! away from the stack by itself.

/// Name of the table, with its family.
const TABLE: &str = "netdev fabric-uplinks";

/// The script that drops what the NIC of a physical network hands to the stack.
pub fn on(network: &str, nic: &str) -> String {
    let hook = format!("type filter hook ingress device \"{nic}\" priority -500; policy drop;");
    format!("{}add chain {TABLE} nic-{network} {{ {hook} }}\n", off(network))
}

/// The script that lets it through again.
pub fn off(network: &str) -> String {
    // Made first, so that the deletion cannot fail.
    format!("add table {TABLE}\nadd chain {TABLE} nic-{network}\ndelete chain {TABLE} nic-{network}\n")
}

/// The script that leaves nothing.
pub fn none() -> String {
    format!("add table {TABLE}\ndelete table {TABLE}\n")
}
