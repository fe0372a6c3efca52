//! Keeps the kernel from taking a second look at what the userspace datapath has taken from a NIC.
//!
//! With the userspace datapath, frames that a NIC receives go to the switch and to the kernel's own stack beside it,
//! which would answer a second time: its addresses are the host's, whatever device they are on. So the stack's copy
//! is dropped where it comes in, behind the sockets that the switch reads from. The kernel's datapath takes frames
//! away from the stack by itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Name of the table.
const TABLE: &str = "fabric-uplinks";

/// The script that drops what these NICs hand to the stack: name of the device by that of its physical network.
pub fn script(nics: &BTreeMap<String, String>) -> String {
    // Made first, so that the deletion cannot fail.
    let mut script = format!("table netdev {TABLE}\ndelete table netdev {TABLE}\n");
    if nics.is_empty() {
        return script;
    }
    let _ = writeln!(script, "table netdev {TABLE} {{");
    for (network, nic) in nics {
        let _ = writeln!(
            script,
            "  chain nic-{network} {{\n    type filter hook ingress device \"{nic}\" priority -500; policy drop;\n  }}"
        );
    }
    script.push_str("}\n");
    script
}
