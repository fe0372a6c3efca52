//! ClusterNetworkPolicies. Every one is admitted, with what could not be read kept as such.

use ipnet::IpNet;

use super::policy::enforcement;
use super::values::{cidr, is_object_name, name, port, port_name, selector};
use super::walk::{At, Read, Reported};
use crate::name::Name;
use crate::object::{
    Action, AdminPeer, AdminPort, AdminRule, ClusterNetworkPolicy, ClusterSubject, Namespaced, Port,
    PortMatch, Protocol, Readable, Tier,
};

fn readable<T>(outcome: Read<T>) -> Readable<T> {
    outcome.map_or(Readable::Unreadable, Readable::Read)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

pub(super) fn read(root: &At<'_>, own: Name) -> ClusterNetworkPolicy {
    let enforcement = enforcement(root);
    let known = root.need("spec", |spec| spec.only(&["tier", "priority", "subject", "ingress", "egress"]));
    let tier = root.need("spec", |spec| {
        spec.need("tier", |at| at.one_of(&[("Admin", Tier::Admin), ("Baseline", Tier::Baseline)]))
    });
    let priority = root.need("spec", |spec| spec.need("priority", |at| at.number(0, 1000)));
    // Of two policies of one priority the name says which comes first.
    let priority =
        priority.and_then(|priority| if is_object_name(&own) { Ok(priority) } else { Err(Reported) });
    let subject = root.need("spec", |spec| spec.need("subject", subject));
    let ingress = rules(root, "ingress", Side::From);
    let egress = rules(root, "egress", Side::To);
    ClusterNetworkPolicy {
        name: own,
        tier: readable(known.and(tier)),
        priority: readable(priority),
        subject: readable(subject),
        ingress,
        egress,
        enforcement,
    }
}

fn subject(at: &At<'_>) -> Read<ClusterSubject> {
    at.only(&["namespaces", "pods"])?;
    match (at.optional("namespaces", selector)?, at.optional("pods", namespaced)?) {
        (Some(namespaces), None) => Ok(ClusterSubject::Namespaces(namespaces)),
        (None, Some(pods)) => Ok(ClusterSubject::Pods(pods)),
        _ => Err(at.fail("either namespaces or pods is wanted")),
    }
}

fn namespaced(at: &At<'_>) -> Read<Namespaced> {
    at.only(&["namespaceSelector", "podSelector"])?;
    let namespaces = at.optional("namespaceSelector", selector)?.unwrap_or_default();
    Ok(Namespaced { namespaces, pods: at.need("podSelector", selector)? })
}

/// The rules of a direction; a list that cannot be read is one rule that cannot be read.
fn rules(root: &At<'_>, field: &str, side: Side) -> Vec<AdminRule> {
    let each = root.within("spec", |spec| spec.optional(field, |at| at.each(|at| Ok(rule(at, side)))));
    let nothing = || {
        let (action, peers, ports) = (Readable::Unreadable, Readable::Unreadable, Readable::Unreadable);
        vec![AdminRule { name: None, action, peers, ports }]
    };
    each.map_or_else(|_| nothing(), |each| each.into_iter().flatten().flatten().collect())
}

fn rule(at: &At<'_>, side: Side) -> AdminRule {
    let field = if side == Side::From { "from" } else { "to" };
    let known = at.only(&["name", "action", field, "protocols"]);
    let own = at.optional("name", name).ok().flatten();
    let action = at.need("action", |at| {
        at.one_of(&[("Accept", Action::Accept), ("Deny", Action::Deny), ("Pass", Action::Pass)])
    });
    let peers = at.need(field, |at| {
        let peers = at.list(|at| peer(at, side))?;
        if peers.is_empty() { Err(at.fail("at least one peer is wanted")) } else { Ok(peers) }
    });
    let ports = at.optional("protocols", |at| at.list(admin_port)).map(Option::unwrap_or_default);
    let peers = known.and(peers);
    AdminRule { name: own, action: readable(action), peers: readable(peers), ports: readable(ports) }
}

fn peer(at: &At<'_>, side: Side) -> Read<AdminPeer> {
    let both = ["namespaces", "pods", "nodes", "networks"];
    at.only(both.get(..if side == Side::From { 2 } else { 4 }).unwrap_or(&both))?;
    let namespaces = at.optional("namespaces", selector)?.map(AdminPeer::Namespaces);
    let pods = at.optional("pods", namespaced)?.map(AdminPeer::Pods);
    let nodes = at.optional("nodes", selector)?.map(AdminPeer::Nodes);
    let networks = at.optional("networks", networks)?.map(AdminPeer::Networks);
    let mut given = [namespaces, pods, nodes, networks].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(peer), None) => Ok(peer),
        _ => Err(at.fail("exactly one kind of peer is wanted")),
    }
}

/// At least one: a Deny that is about no address would deny nothing.
fn networks(at: &At<'_>) -> Read<Vec<IpNet>> {
    let networks = at.list(cidr)?;
    if networks.is_empty() { Err(at.fail("at least one CIDR is wanted")) } else { Ok(networks) }
}

fn admin_port(at: &At<'_>) -> Read<AdminPort> {
    at.only(&["tcp", "udp", "sctp", "destinationNamedPort"])?;
    let numbered = |field: &str, protocol| {
        at.optional(field, |at| {
            at.only(&["destinationPort"])?;
            at.need("destinationPort", numbers).map(|port| AdminPort::Numbered(PortMatch { protocol, port }))
        })
    };
    let tcp = numbered("tcp", Protocol::Tcp)?;
    let udp = numbered("udp", Protocol::Udp)?;
    let sctp = numbered("sctp", Protocol::Sctp)?;
    let named = at.optional("destinationNamedPort", port_name)?.map(AdminPort::Named);
    let mut given = [tcp, udp, sctp, named].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(port), None) => Ok(port),
        _ => Err(at.fail("exactly one of tcp, udp, sctp and destinationNamedPort is wanted")),
    }
}

fn numbers(at: &At<'_>) -> Read<Port> {
    at.only(&["number", "range"])?;
    let range = |at: &At<'_>| {
        at.only(&["start", "end"])?;
        let (start, end) = (at.need("start", port)?, at.need("end", port)?);
        if start < end {
            Ok(Port::Range(start, end))
        } else {
            Err(at.fail(format!("end {end} is not above start {start}")))
        }
    };
    match (at.optional("number", port)?, at.optional("range", range)?) {
        (Some(number), None) => Ok(Port::Range(number, number)),
        (None, Some(range)) => Ok(range),
        _ => Err(at.fail("either number or range is wanted")),
    }
}
