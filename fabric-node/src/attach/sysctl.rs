//! Settings below `/proc/sys/net`, which belong to the namespace of the thread that opens them.

use std::fs;
use std::io;
use std::path::PathBuf;

/// A setting of one device.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// `ipv4` or `ipv6`.
    pub family: &'static str,
    /// The name below `conf/DEVICE/`.
    pub name: &'static str,
    /// What it is to be.
    pub value: &'static str,
}

/// The other end of a pair, on the host: the switch alone handles its packets. On a userspace datapath
/// the host's own network stack sees them too, and must not answer or forward them.
pub const HOST: [Setting; 2] = [
    Setting { family: "ipv6", name: "disable_ipv6", value: "1" },
    // From a device without an address nothing is accepted, with either kind of this filter.
    Setting { family: "ipv4", name: "rp_filter", value: "1" },
];

/// Inside: addresses are unique by their claims and routes are given, so nobody need be asked.
pub const CONTAINER: [Setting; 2] = [
    Setting { family: "ipv6", name: "accept_dad", value: "0" },
    Setting { family: "ipv6", name: "accept_ra", value: "0" },
];

/// Inside, for an IPv6 address: container runtimes start namespaces with IPv6 off.
pub const IPV6_ON: [Setting; 1] = [Setting { family: "ipv6", name: "disable_ipv6", value: "0" }];

/// Whether the kernel of this node speaks IPv6 at all.
pub fn has_ipv6() -> bool {
    PathBuf::from("/proc/sys/net/ipv6").is_dir()
}

/// Writes the settings of a device. Without IPv6 in the kernel its settings are as good as written.
pub fn write(device: &str, settings: &[Setting]) -> Result<(), String> {
    for setting in settings {
        let path =
            PathBuf::from("/proc/sys/net").join(setting.family).join("conf").join(device).join(setting.name);
        match fs::write(&path, setting.value) {
            Ok(()) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && !has_ipv6() => {}
            Err(cause) => {
                let advice = "the agent needs /proc/sys/net to be writable (a privileged container)";
                return Err(format!(
                    "cannot write {} to {}: {cause}; {advice}",
                    setting.value,
                    path.display()
                ));
            }
        }
    }
    Ok(())
}
