//! Destination ports.

use serde_json::Value;

use super::field::{all, elements, given, only, port_number, text};
use super::words::{Packet, Who};

/// Whether something matches a packet, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// It does not.
    No,
    /// That depends on who the peer is, which is not known.
    Perhaps,
    /// It does.
    Yes,
}

impl Match {
    pub(super) fn yes_if(so: bool) -> Match {
        if so { Match::Yes } else { Match::No }
    }
}

/// The number of a protocol of Kubernetes; of an absent one, TCP's.
fn protocol(value: &Value) -> Option<u8> {
    match given(value, "protocol") {
        None => Some(6),
        Some(protocol) => match protocol.as_str()? {
            "TCP" => Some(6),
            "UDP" => Some(17),
            "SCTP" => Some(132),
            _ => None,
        },
    }
}

/// Whether a text is the name of a port (RFC 6335 §5.1).
fn is_port_name(name: &str) -> bool {
    let known = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let letter = name.bytes().any(|byte| byte.is_ascii_lowercase());
    let dashes = name.starts_with('-') || name.ends_with('-') || name.contains("--");
    known && letter && !dashes && name.len() <= 15
}

/// The named ports of a pod's containers and of its sidecars: name, protocol number, port.
pub fn named_ports(pod: &Value) -> Vec<(&str, u8, u16)> {
    let mut containers: Vec<&Value> = all(pod, &["spec", "containers"]).iter().collect();
    for container in all(pod, &["spec", "initContainers"]) {
        if text(container, &["restartPolicy"]) == Some("Always") {
            containers.push(container);
        }
    }
    let mut ports = Vec::new();
    for container in containers {
        for port in all(container, &["ports"]) {
            let name = text(port, &["name"]).filter(|name| is_port_name(name));
            let number = given(port, "containerPort").and_then(port_number);
            if let (Some(name), Some(protocol), Some(number)) = (name, protocol(port), number) {
                ports.push((name, protocol, number));
            }
        }
    }
    ports
}

/// Whether the destination calls the packet's port so.
fn is_named(name: &str, packet: Packet, destination: Who<'_>) -> Match {
    match destination {
        Who::Pod { pod, .. } => Match::yes_if(
            named_ports(pod)
                .iter()
                .any(|port| port.0 == name && port.1 == packet.protocol && Some(port.2) == packet.port),
        ),
        Who::Unknown => Match::Perhaps,
        Who::Container { .. } | Who::Node(_) | Who::Outside => Match::No,
    }
}

/// Whether `ports` of a NetworkPolicy's rule match; None when they cannot be read.
pub(super) fn rule_ports(rule: &Value, packet: Packet, destination: Who<'_>) -> Option<Match> {
    let ports = elements(rule, "ports")?;
    let mut best = if ports.is_empty() { Match::Yes } else { Match::No };
    for port in ports {
        best = best.max(rule_port(port, packet, destination)?);
    }
    Some(best)
}

fn rule_port(port: &Value, packet: Packet, destination: Who<'_>) -> Option<Match> {
    only(port, &["protocol", "port", "endPort"])?;
    let same = protocol(port)? == packet.protocol;
    let last = match given(port, "endPort") {
        None => None,
        Some(last) => Some(port_number(last)?),
    };
    let Some(first) = given(port, "port") else {
        return if last.is_none() { Some(Match::yes_if(same)) } else { None };
    };
    if let Some(name) = first.as_str() {
        if last.is_some() || !is_port_name(name) {
            return None;
        }
        return Some(if same { is_named(name, packet, destination) } else { Match::No });
    }
    let first = port_number(first)?;
    let last = last.unwrap_or(first);
    if last < first {
        return None;
    }
    Some(Match::yes_if(same && packet.port.is_some_and(|port| first <= port && port <= last)))
}

/// Whether `protocols` of a ClusterNetworkPolicy's rule match; None when they cannot be read.
pub(super) fn rule_protocols(rule: &Value, packet: Packet, destination: Who<'_>) -> Option<Match> {
    let protocols = elements(rule, "protocols")?;
    let mut best = if protocols.is_empty() { Match::Yes } else { Match::No };
    for protocol in protocols {
        best = best.max(rule_protocol(protocol, packet, destination)?);
    }
    Some(best)
}

fn rule_protocol(protocol: &Value, packet: Packet, destination: Who<'_>) -> Option<Match> {
    only(protocol, &["tcp", "udp", "sctp", "destinationNamedPort"])?;
    let mut found = Vec::new();
    for (field, number) in [("tcp", 6), ("udp", 17), ("sctp", 132)] {
        if let Some(ports) = given(protocol, field) {
            only(ports, &["destinationPort"])?;
            let (first, last) = numbers(given(ports, "destinationPort")?)?;
            let within = packet.port.is_some_and(|port| first <= port && port <= last);
            found.push(Match::yes_if(packet.protocol == number && within));
        }
    }
    if let Some(name) = given(protocol, "destinationNamedPort") {
        let name = name.as_str().filter(|name| is_port_name(name))?;
        let has_ports = matches!(packet.protocol, 6 | 17 | 132);
        found.push(if has_ports { is_named(name, packet, destination) } else { Match::No });
    }
    if found.len() == 1 { found.pop() } else { None }
}

/// The first and the last of `destinationPort`.
fn numbers(ports: &Value) -> Option<(u16, u16)> {
    only(ports, &["number", "range"])?;
    match (given(ports, "number"), given(ports, "range")) {
        (Some(number), None) => port_number(number).map(|number| (number, number)),
        (None, Some(range)) => {
            only(range, &["start", "end"])?;
            let (start, end) = (port_number(given(range, "start")?)?, port_number(given(range, "end")?)?);
            (start < end).then_some((start, end))
        }
        _ => None,
    }
}
