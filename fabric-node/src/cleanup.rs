//! `fabric-node cleanup`: takes everything of Fabric's off a node that is to be without it.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;

use fabric_node::attach::wire;
use fabric_node::config::NodeConfig;
use fabric_node::{host, ports, uplinks};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

/// What was removed, and what could not be.
#[derive(Debug, Default)]
pub struct Report {
    /// Removed or moved back, a line each.
    pub done: Vec<String>,
    /// Left, a line each with the reason.
    pub left: Vec<String>,
}

/// Whether an agent runs on this node: its socket answers, and whoever listens there is alive. The socket of one that was
/// killed lives on for a moment in a program that it had just started.
pub fn agent_runs(config: &NodeConfig) -> bool {
    let Ok(stream) = UnixStream::connect(config.agent_socket()) else { return false };
    match getsockopt(&stream, PeerCredentials) {
        // 0 stands for a process of another namespace.
        Ok(listener) if listener.pid() > 0 => Path::new(&format!("/proc/{}", listener.pid())).exists(),
        _ => true,
    }
}

/// Takes everything off. NICs come first, so that the host has its network back whatever happens to the rest. It goes
/// on after a failure, and doing it twice does no harm.
pub async fn run(config: &NodeConfig) -> Report {
    let mut report = Report::default();
    let undone = uplinks::cleanup(crate::agent::uplinks_config(config)).await;
    report.done.extend(undone.done);
    report.left.extend(undone.left);
    let removal = ports::cleanup(&crate::agent::ports_config(config)).await;
    if removal.removed {
        report.done.push(format!("bridge {} removed, with its ports and flows", config.bridge));
    }
    report.left.extend(removal.left);
    for device in removal.devices.into_iter().chain(pairs()).collect::<BTreeSet<_>>() {
        match wire::remove(&device) {
            Ok(()) => report.done.push(format!("interface {device} of a container removed")),
            Err(error) => report.left.push(error.to_string()),
        }
    }
    match host::cleanup(&host::HostConfig::default()).await {
        Ok(()) => report.done.push("no route, neighbour or masquerade of Fabric's is left".to_owned()),
        Err(error) => report.left.extend(error.0),
    }
    report
}

/// Devices that are called like those of containers: the database may be away, or have forgotten them.
fn pairs() -> Vec<String> {
    let Ok(devices) = nix::net::if_::if_nameindex() else { return Vec::new() };
    let names = devices.iter().filter_map(|device| device.name().to_str().ok().map(str::to_owned));
    names.filter(|name| is_pair(name)).collect()
}

/// `fab` and eleven hexadecimal digits.
fn is_pair(name: &str) -> bool {
    name.strip_prefix("fab").is_some_and(|hash| {
        hash.len() == 11 && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_containers_are_told_by_their_names() {
        assert!(is_pair("fab0123456789a"));
        for other in ["fab0123456789", "fab0123456789ab", "fab0123456789g", "eth0", "fabric"] {
            assert!(!is_pair(other), "{other}");
        }
    }
}
