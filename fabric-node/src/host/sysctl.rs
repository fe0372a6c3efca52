//! Kernel settings below `/proc/sys/net` of the calling thread's network namespace.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Where the settings are.
const ROOT: &str = "/proc/sys/net";

/// Settings of the bridge's own device, IPv4 (kernel's `networking/ip-sysctl.rst`).
const DEVICE_V4: [(&str, &str); 5] = [
    // Loose: the answer to a pod may leave by another device than the question came in by.
    ("rp_filter", "2"),
    // Answer no ARP for any local address, and claim none: the switch answers for the router.
    ("arp_ignore", "8"),
    ("arp_announce", "2"),
    ("proxy_arp", "0"),
    ("send_redirects", "0"),
];

/// Settings of the bridge's own device, IPv6. No router advertises itself there.
const DEVICE_V6: [(&str, &str); 4] =
    [("disable_ipv6", "0"), ("accept_ra", "0"), ("router_solicitations", "0"), ("proxy_ndp", "0")];

/// Settings of a device for the families in use.
pub fn device(name: &str, v4: bool, v6: bool) -> Vec<String> {
    let v4 = DEVICE_V4.iter().filter(|_| v4).map(|entry| ("ipv4", entry));
    let v6 = DEVICE_V6.iter().filter(|_| v6).map(|entry| ("ipv6", entry));
    v4.chain(v6)
        .filter_map(|(family, (key, value))| ensure(&[family, "conf", name, key], value).err())
        .collect()
}

/// Switches IPv4 forwarding on.
///
/// # Errors
/// The setting cannot be read or written.
pub fn forward_v4() -> Result<(), String> {
    ensure(&["ipv4", "ip_forward"], "1")
}

/// Whether IPv6 forwarding is on.
pub fn forwards_v6() -> bool {
    read(&path(&["ipv6", "conf", "all", "forwarding"])).is_ok_and(|value| value == "1")
}

/// Switches IPv6 forwarding on. A device that is named keeps its default route: it takes router advertisements from
/// a router too (`accept_ra` 2), where it took them before.
///
/// # Errors
/// A setting cannot be read or written.
pub fn forward_v6<'a>(advertised: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    for device in advertised {
        let name = ["ipv6", "conf", device, "accept_ra"];
        if read(&path(&name)).is_ok_and(|value| value == "1") {
            ensure(&name, "2")?;
        }
    }
    ensure(&["ipv6", "conf", "all", "forwarding"], "1")
}

fn path(name: &[&str]) -> PathBuf {
    std::iter::once(ROOT).chain(name.iter().copied()).collect()
}

fn read(path: &PathBuf) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

/// Writes a setting that has another value.
fn ensure(name: &[&str], value: &str) -> Result<(), String> {
    let path = path(name);
    let told = |error: io::Error| format!("setting {} to {value}: {error}", path.display());
    if read(&path).map_err(told)? == value {
        return Ok(());
    }
    fs::write(&path, value).map_err(told)
}
