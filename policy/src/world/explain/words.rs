//! The words of explanations: pods, peers and ports as people say them.

use std::net::IpAddr;

use super::super::{Resident, World};
use crate::explanation::Outcome;
use crate::object::{
    Action, AdminPeer, AdminPort, AdminRule, ClusterNetworkPolicy, ClusterSubject, IpBlock, Namespaced,
    NetworkPolicy, Peer, PolicyRule, Port, PortMatch, Readable, Subject,
};
use crate::question::Direction;
use crate::rules::{Match, Peers, Ports};
use crate::selector::Selector;

/// Where the telling of a policy's rules ends.
pub(super) enum Told {
    /// A rule has decided.
    Decided,
    /// A rule passes to the next tier.
    Passed,
    /// No rule has ended it.
    GoesOn,
}

/// A rule in its parts, each with its words.
pub(super) struct Parts {
    /// What it does; None where that goes without saying.
    pub(super) action: Option<Action>,
    /// Its peers; none means everybody.
    pub(super) peers: Vec<(String, Peers)>,
    /// Its ports; none means whatever is sent.
    pub(super) ports: Vec<(String, Ports)>,
}

/// The part that matches best, where there are parts.
pub(super) type Best<'p> = Option<(Match, &'p str)>;

impl Parts {
    /// Of the peers, the one that matches best.
    pub(super) fn first_peer(&self, test: impl Fn(&Peers) -> Match) -> Best<'_> {
        best(self.peers.iter().map(|(words, peers)| (test(peers), words.as_str())))
    }

    /// Of the ports, the one that matches best.
    pub(super) fn first_port(&self, test: impl Fn(&Ports) -> Match) -> Best<'_> {
        best(self.ports.iter().map(|(words, ports)| (test(ports), words.as_str())))
    }

    /// What that comes to.
    pub(super) fn compared(&self, peer: Best<'_>, port: Best<'_>, hidden: bool) -> (Outcome, String) {
        let all = |texts: Vec<&str>| texts.join(" or ");
        let peers = all(self.peers.iter().map(|(words, _)| words.as_str()).collect());
        let ports = all(self.ports.iter().map(|(words, _)| words.as_str()).collect());
        let mut said: Vec<String> = self.action.iter().map(|action| format!("{action:?}")).collect();
        said.push(part("peer", peer, &peers));
        said.push(part("port", port, &ports));
        if hidden && port.is_some() {
            said.push("a later fragment shows no port: one that matches is enough".to_owned());
        }
        let matched = |best: Best<'_>| best.map_or(Match::Yes, |(matched, _)| matched);
        let outcome = match (matched(peer).and(matched(port)), self.action) {
            (Match::Yes, _) | (Match::Unknown, Some(Action::Deny | Action::Pass)) => Outcome::Match,
            _ => Outcome::Miss,
        };
        (outcome, said.join("; "))
    }
}

fn best<'p>(parts: impl Iterator<Item = (Match, &'p str)>) -> Best<'p> {
    let rank = |matched: Match| match matched {
        Match::Yes => 2,
        Match::Unknown | Match::Split => 1,
        Match::No => 0,
    };
    parts.reduce(|a, b| if rank(b.0) > rank(a.0) { b } else { a })
}

fn part(what: &str, best: Best<'_>, all: &str) -> String {
    match best {
        None => format!("{what}: any"),
        Some((Match::Yes, words)) => format!("{what}: {words}"),
        Some((Match::Unknown | Match::Split, words)) => {
            format!("{what}: perhaps {words}, it is not known who the peer is")
        }
        Some((Match::No, _)) => format!("{what}: not {all}"),
    }
}

/// Who is at an address.
pub(super) fn whoever(world: &World, address: IpAddr) -> String {
    match world.resident(address) {
        Resident::Pod(pod, _) if pod.labels.is_empty() => {
            format!("{address} is pod {}, without labels", pod.reference)
        }
        Resident::Pod(pod, _) => format!("{address} is pod {} ({})", pod.reference, pod.labels),
        Resident::Container(claim) => format!("{address} is container {}", claim.owner),
        Resident::Unknown => format!("{address} is of a pod or namespace that is not known"),
        Resident::Node(name) => format!("{address} is node {name}"),
        Resident::Nobody => format!("{address} is nobody's in the cluster"),
    }
}

/// The pods that a NetworkPolicy isolates.
pub(super) fn subject(policy: &NetworkPolicy) -> String {
    match &policy.subject {
        Subject::Pods(selector) => pods(selector),
        Subject::WholeNamespace => "all pods, since its podSelector cannot be read".to_owned(),
    }
}

/// The pods that a ClusterNetworkPolicy is about.
pub(super) fn cluster_subject(policy: &ClusterNetworkPolicy) -> String {
    match &policy.subject {
        Readable::Read(ClusterSubject::Namespaces(namespaces)) => in_namespaces("all pods", namespaces),
        Readable::Read(ClusterSubject::Pods(selected)) => namespaced(selected),
        Readable::Unreadable => "all pods, since its subject cannot be read".to_owned(),
    }
}

/// The rules of a direction, as they are written.
pub(super) fn rules(policy: &NetworkPolicy, direction: Direction) -> &[Readable<PolicyRule>] {
    let rules = match direction {
        Direction::Ingress => &policy.ingress,
        Direction::Egress => &policy.egress,
    };
    match policy.subject {
        Subject::Pods(_) => rules.as_deref().unwrap_or_default(),
        Subject::WholeNamespace => &[],
    }
}

/// The rules of a direction, as they are written.
pub(super) fn cluster_rules(policy: &ClusterNetworkPolicy, direction: Direction) -> &[AdminRule] {
    match direction {
        Direction::Ingress => &policy.ingress,
        Direction::Egress => &policy.egress,
    }
}

fn pods(selector: &Selector) -> String {
    if selector.is_everything() { "all pods".to_owned() } else { format!("pods {selector}") }
}

fn in_namespaces(pods: &str, namespaces: &Selector) -> String {
    if namespaces.is_everything() {
        format!("{pods} of all namespaces")
    } else {
        format!("{pods} of namespaces {namespaces}")
    }
}

fn namespaced(selected: &Namespaced) -> String {
    in_namespaces(&pods(&selected.pods), &selected.namespaces)
}

/// A peer.
pub(super) fn peer(peer: &Peer) -> String {
    match peer {
        Peer::Block(IpBlock { cidr, except }) if except.is_empty() => cidr.to_string(),
        Peer::Block(IpBlock { cidr, except }) => {
            let except: Vec<String> = except.iter().map(ToString::to_string).collect();
            format!("{cidr} except {}", except.join(", "))
        }
        Peer::Pods { namespaces, pods: selector } => {
            let selected = selector.as_ref().map_or_else(|| "all pods".to_owned(), pods);
            match namespaces {
                Some(namespaces) => in_namespaces(&selected, namespaces),
                None => format!("{selected} of this namespace"),
            }
        }
    }
}

/// A peer of a ClusterNetworkPolicy.
pub(super) fn admin_peer(peer: &AdminPeer) -> String {
    match peer {
        AdminPeer::Namespaces(namespaces) => in_namespaces("all pods", namespaces),
        AdminPeer::Pods(selected) => namespaced(selected),
        AdminPeer::Nodes(selector) if selector.is_everything() => "all nodes".to_owned(),
        AdminPeer::Nodes(selector) => format!("nodes {selector}"),
        AdminPeer::Networks(nets) => nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
    }
}

/// Ports.
pub(super) fn port(PortMatch { protocol, port }: &PortMatch) -> String {
    match port {
        Port::Any => protocol.to_string(),
        Port::Range(first, last) if first == last => format!("{protocol} {first}"),
        Port::Range(first, last) => format!("{protocol} {first}-{last}"),
        Port::Named(name) => format!("{protocol} {name}"),
    }
}

/// Ports of a ClusterNetworkPolicy.
pub(super) fn admin_port(of_rule: &AdminPort) -> String {
    match of_rule {
        AdminPort::Numbered(numbered) => port(numbered),
        AdminPort::Named(name) => format!("any protocol {name}"),
    }
}
