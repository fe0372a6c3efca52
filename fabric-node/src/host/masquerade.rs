//! Masquerade by nftables: packets of overlay pods leave the node under the node's address. And what must not come to pods
//! by way of the host, which forwards:
//!
//! * to pods in VLANs nothing, but what the host itself sends or has redirected there: the way into a VLAN is the company's
//!   router, and its firewall;
//! * to no pod anything with an address of the node as its source, which a pod would take for the node (IPv4's stack drops
//!   such packets by itself, IPv6's does not).
//!
//! One table a family, `ip fabric` and `ip6 fabric`, replaced whole by one script, which
//! the kernel applies as one transaction.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fabric_core::node::HostState;
use ipnet::IpNet;

/// The script for a state. It leaves no table where there is nothing to masquerade and nobody in a VLAN.
pub fn script(state: &HostState) -> String {
    let mut script = String::new();
    for (family, v4) in [("ip", true), ("ip6", false)] {
        // Made first, so that the deletion cannot fail.
        let _ = writeln!(script, "table {family} fabric\ndelete table {family} fabric");
        let of_family = |prefix: &&IpNet| prefix.addr().is_ipv4() == v4;
        let pods: Vec<IpNet> = state.masquerade.iter().filter(of_family).copied().collect();
        let wire: Vec<IpNet> = state.on_wire.iter().filter(of_family).copied().collect();
        if !pods.is_empty() || !wire.is_empty() {
            let inside = state.routes.iter().filter(of_family).copied();
            let inside: Vec<IpNet> = inside.chain(pods.clone()).collect();
            let unmasked: Vec<_> = state
                .unmasked
                .iter()
                .filter(|(prefix, except)| of_family(prefix) && !except.is_empty())
                .collect();
            table(&mut script, family, &Sources { pods, inside, wire, unmasked }, &state.device);
        }
    }
    script
}

/// The script that removes the tables.
pub fn removal() -> String {
    script(&HostState::default())
}

/// What is masqueraded in one family.
struct Sources<'a> {
    /// Sources that are.
    pods: Vec<IpNet>,
    /// Destinations for which nobody is.
    inside: Vec<IpNet>,
    /// Pods in VLANs.
    wire: Vec<IpNet>,
    /// By source: destinations for which it is not.
    unmasked: Vec<(&'a IpNet, &'a BTreeSet<IpNet>)>,
}

fn elements(prefixes: &[IpNet]) -> String {
    let prefixes: Vec<String> = IpNet::aggregate(&prefixes.to_vec()).iter().map(IpNet::to_string).collect();
    prefixes.join(", ")
}

fn table(script: &mut String, family: &str, sources: &Sources<'_>, device: &str) {
    let address = if family == "ip" { "ipv4_addr" } else { "ipv6_addr" };
    let _ = writeln!(script, "table {family} fabric {{");
    for (name, prefixes) in [("pods", &sources.pods), ("inside", &sources.inside), ("wire", &sources.wire)] {
        let elements = match elements(prefixes) {
            none if none.is_empty() => none,
            some => format!(" elements = {{ {some} }};"),
        };
        let _ = writeln!(script, "  set {name} {{ type {address}; flags interval;{elements} }}");
    }
    guard(script, family, device);
    let _ = writeln!(
        script,
        "  chain postrouting {{\n    type nat hook postrouting priority 100; policy accept;"
    );
    for (source, except) in &sources.unmasked {
        let except: Vec<IpNet> = except.iter().copied().collect();
        let except = elements(&except);
        let _ = writeln!(script, "    {family} saddr {source} {family} daddr {{ {except} }} accept");
    }
    let _ = writeln!(
        script,
        "    {family} saddr @pods {family} daddr != @inside oifname != \"{device}\" masquerade\n  }}\n}}"
    );
}

fn guard(script: &mut String, family: &str, device: &str) {
    let forwarded = format!("iifname != \"{device}\" oifname \"{device}\" {family} daddr @wire");
    let _ = writeln!(
        script,
        "  chain forward {{\n    type filter hook forward priority 0; policy accept;\n    \
         {forwarded} ct status dnat accept\n    {forwarded} drop\n  }}\n  \
         chain prerouting {{\n    type filter hook prerouting priority -150; policy accept;\n    \
         iifname != {{ \"lo\", \"{device}\" }} {family} daddr @inside fib saddr type local drop\n  }}"
    );
}

#[cfg(test)]
mod tests;
