//! Masquerade by nftables: packets of overlay pods leave the node under the node's address. And what must not come to pods
//! by way of the host, which forwards:
//!
//! * to pods in VLANs nothing, but what the host itself sends or has redirected there: the way into a VLAN is the company's
//!   router, and its firewall;
//! * to no pod anything with an address of the node as its source, which a pod would take for the node (IPv4's stack drops
//!   such packets by itself, IPv6's does not).
//!
//! What is to leave under an egress address comes from the bridge with a hardware address of its own
//! ([`egress_mac`](fabric_core::pipeline::vocabulary::egress_mac)): by it the packet is marked on its way through, and the
//! mark says which address it gets. One that there is no rule for is dropped: never does it leave under another address.
//!
//! One table a family, `ip fabric` and `ip6 fabric`, replaced whole by one script, which
//! the kernel applies as one transaction.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use fabric_core::node::HostState;
use fabric_core::pipeline::vocabulary::EGRESS_MAC;
use ipnet::IpNet;
use openflow::Mac;

/// The first of the marks (`SO_MARK`, socket(7)) between the two chains, one for each egress address. None has a bit that
/// kube-proxy uses.
const MARK: u32 = 0x0fab_0001;

/// The script for a state. It leaves no table where there is nothing to masquerade, nobody in a VLAN, and no egress
/// address asked for.
pub fn script(state: &HostState) -> String {
    let mut script = String::new();
    for (family, v4) in [("ip", true), ("ip6", false)] {
        // Made first, so that the deletion cannot fail.
        let _ = writeln!(script, "table {family} fabric\ndelete table {family} fabric");
        let of_family = |prefix: &&IpNet| prefix.addr().is_ipv4() == v4;
        let pods: Vec<IpNet> = state.masquerade.iter().filter(of_family).copied().collect();
        let wire: Vec<IpNet> = state.on_wire.iter().filter(of_family).copied().collect();
        let inside = state.routes.iter().filter(of_family).copied();
        let inside: Vec<IpNet> = inside.chain(pods.clone()).collect();
        let egress: Vec<(IpAddr, Mac)> =
            state.egress.iter().filter(|(ip, _)| ip.is_ipv4() == v4).map(|(ip, mac)| (*ip, *mac)).collect();
        if !pods.is_empty() || !wire.is_empty() || state.egress_asked && !inside.is_empty() {
            let unmasked: Vec<_> = state
                .unmasked
                .iter()
                .filter(|(prefix, except)| of_family(prefix) && !except.is_empty())
                .collect();
            table(&mut script, family, &Sources { pods, inside, wire, unmasked, egress }, &state.device);
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
    /// Addresses for what comes from the bridge with these hardware addresses.
    egress: Vec<(IpAddr, Mac)>,
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
    guard(script, family, &sources.egress, device);
    let _ = writeln!(
        script,
        "  chain postrouting {{\n    type nat hook postrouting priority 100; policy accept;"
    );
    for (mark, (egress, _)) in (MARK..).zip(&sources.egress) {
        let _ = writeln!(script, "    meta mark {mark:#010x} oifname != \"{device}\" snat to {egress}");
    }
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

fn guard(script: &mut String, family: &str, egress: &[(IpAddr, Mac)], device: &str) {
    let forwarded = format!("iifname != \"{device}\" oifname \"{device}\" {family} daddr @wire");
    let _ = writeln!(script, "  chain forward {{\n    type filter hook forward priority 0; policy accept;");
    let router = format!("iifname \"{device}\" ether saddr");
    for (mark, (_, mac)) in (MARK..).zip(egress) {
        let _ = writeln!(script, "    {router} {mac} meta mark set {mark:#010x} accept");
    }
    let [a, b] = EGRESS_MAC;
    let _ = writeln!(script, "    {router} & ff:ff:00:00:00:00 == {a:02x}:{b:02x}:00:00:00:00 drop");
    let _ = writeln!(
        script,
        "    {forwarded} ct status dnat accept\n    {forwarded} drop\n  }}\n  \
         chain prerouting {{\n    type filter hook prerouting priority -150; policy accept;\n    \
         iifname != {{ \"lo\", \"{device}\" }} {family} daddr @inside fib saddr type local drop\n  }}"
    );
}

#[cfg(test)]
mod tests;
