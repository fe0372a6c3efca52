//! Masquerade by nftables: packets of overlay pods leave the node under the node's address.
//!
//! One table a family, `ip fabric` and `ip6 fabric`, replaced whole by one script, which
//! the kernel applies as one transaction.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use fabric_core::node::HostState;
use ipnet::IpNet;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The script for a state. It leaves no table where there is nothing to masquerade.
pub fn script(state: &HostState) -> String {
    let mut script = String::new();
    for (family, v4) in [("ip", true), ("ip6", false)] {
        // Made first, so that the deletion cannot fail.
        let _ = writeln!(script, "table {family} fabric\ndelete table {family} fabric");
        let of_family = |prefix: &&IpNet| prefix.addr().is_ipv4() == v4;
        let pods: Vec<IpNet> = state.masquerade.iter().filter(of_family).copied().collect();
        if !pods.is_empty() {
            let inside: Vec<IpNet> =
                state.routes.iter().filter(of_family).copied().chain(pods.clone()).collect();
            table(&mut script, family, &pods, &inside, &state.device);
        }
    }
    script
}

/// The script that removes the tables.
pub fn removal() -> String {
    script(&HostState::default())
}

fn table(script: &mut String, family: &str, pods: &[IpNet], inside: &[IpNet], device: &str) {
    let address = if family == "ip" { "ipv4_addr" } else { "ipv6_addr" };
    let _ = writeln!(script, "table {family} fabric {{");
    for (name, prefixes) in [("pods", pods), ("inside", inside)] {
        let prefixes: Vec<String> =
            IpNet::aggregate(&prefixes.to_vec()).iter().map(IpNet::to_string).collect();
        let _ = writeln!(
            script,
            "  set {name} {{ type {address}; flags interval; elements = {{ {} }}; }}",
            prefixes.join(", ")
        );
    }
    let _ = writeln!(
        script,
        "  chain postrouting {{\n    type nat hook postrouting priority 100; policy accept;\n    \
         {family} saddr @pods {family} daddr != @inside oifname != \"{device}\" masquerade\n  }}\n}}"
    );
}

/// Runs `nft -f -` on a script.
///
/// # Errors
/// `nft` is missing, or does not accept the script; the text says what to do.
pub async fn run(nft: &Path, script: &str) -> Result<(), String> {
    let name = nft.display();
    let mut child = Command::new(nft)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("masquerade: cannot run {name}: {error}; install nftables"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let written = stdin.write_all(script.as_bytes()).await;
        written.map_err(|error| format!("masquerade: {name} does not read its input: {error}"))?;
    }
    let output = child.wait_with_output().await;
    let output = output.map_err(|error| format!("masquerade: {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("nothing said").to_owned();
    Err(format!("masquerade: {name} failed ({}): {said}; NAT of nftables must be available", output.status))
}

#[cfg(test)]
mod tests;
