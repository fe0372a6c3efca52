//! From the objects to policies as they are judged by.

use super::{Peers, PodPeer, Policy, Ports, Rule, Rules, Scope, Subject};
use crate::digest::Digest;
use crate::explanation::Stage;
use crate::name::{Kind, Name, ObjectRef};
use crate::object::{
    Action, AdminPeer, AdminPort, AdminRule, ClusterNetworkPolicy, ClusterSubject, Enforcement, IpBlock,
    NetworkPolicy, Peer, PolicyRule, Port, PortMatch, Protocol, Readable, Subject as Isolated, Tier,
};
use crate::selector::Selector;

impl From<&NetworkPolicy> for Policy {
    fn from(policy: &NetworkPolicy) -> Policy {
        let NetworkPolicy { namespace, name, subject, ingress, egress, enforcement } = policy;
        let (pods, readable) = match subject {
            Isolated::Pods(selector) => (selector.clone(), true),
            Isolated::WholeNamespace => (Selector::everything(), false),
        };
        let rules = |rules: &Option<Vec<Readable<PolicyRule>>>| {
            let rules = rules.as_deref()?;
            Some(namespaced_rules(namespace, if readable { rules } else { &[] }))
        };
        Policy {
            reference: ObjectRef::namespaced(Kind::NetworkPolicy, namespace, name),
            stage: Stage::NetworkPolicy,
            priority: None,
            audit: *enforcement == Enforcement::Audit,
            subject: Subject::Own(namespace.clone(), pods),
            ingress: rules(ingress),
            egress: rules(egress),
        }
    }
}

/// The rules of a NetworkPolicy. One that cannot be read matches nothing.
fn namespaced_rules(namespace: &Name, rules: &[Readable<PolicyRule>]) -> Rules {
    let numbered = rules.iter().zip(1..);
    let mut each: Vec<Rule> = numbered
        .filter_map(|(rule, number)| match rule {
            Readable::Read(rule) => Some(namespaced_rule(namespace, rule, number)),
            Readable::Unreadable => None,
        })
        .collect();
    each.sort_by_key(|rule| (rule.fingerprint, rule.number));
    let fingerprint = Digest::new().set(each.iter().map(|rule| rule.fingerprint).collect()).finish();
    Rules { each: each.into(), fingerprint }
}

fn namespaced_rule(namespace: &Name, rule: &PolicyRule, number: usize) -> Rule {
    let PolicyRule { peers, ports } = rule;
    finished(number, None, Action::Accept, peers_of(namespace, peers), ports_of(ports))
}

/// The peers of a NetworkPolicy's rule: without any, everybody.
pub(crate) fn peers_of(namespace: &Name, peers: &[Peer]) -> Peers {
    let (mut pods, mut blocks) = (Vec::new(), Vec::new());
    for peer in peers {
        match peer {
            Peer::Block(block) => blocks.push(block.clone()),
            Peer::Pods { namespaces, pods: selector } => pods.push(PodPeer {
                namespaces: namespaces.clone().map_or_else(|| Scope::Own(namespace.clone()), Scope::Selected),
                pods: selector.clone().unwrap_or_default(),
            }),
        }
    }
    if peers.is_empty() { Peers::everybody() } else { Peers::of(pods, Vec::new(), &blocks) }
}

/// The ports of a NetworkPolicy's rule: without any, whatever is sent.
pub(crate) fn ports_of(ports: &[PortMatch]) -> Ports {
    if ports.is_empty() { Ports::Any } else { listed(ports.iter().map(numbered)) }
}

/// One way in which ports are said: a range, or a name.
enum Said {
    Range(Protocol, u16, u16),
    Named(Name, Option<Protocol>),
}

fn numbered(PortMatch { protocol, port }: &PortMatch) -> Said {
    match port {
        Port::Any => Said::Range(*protocol, 0, u16::MAX),
        Port::Range(first, last) => Said::Range(*protocol, *first, *last),
        Port::Named(name) => Said::Named(name.clone(), Some(*protocol)),
    }
}

fn listed(said: impl Iterator<Item = Said>) -> Ports {
    let (mut ranges, mut named) = (Vec::new(), Vec::new());
    for said in said {
        match said {
            Said::Range(protocol, first, last) => ranges.push((protocol, first, last)),
            Said::Named(name, protocol) => named.push((name, protocol)),
        }
    }
    Ports::listed(&ranges, named)
}

fn finished(number: usize, name: Option<Name>, action: Action, peers: Peers, ports: Ports) -> Rule {
    let action_number = match action {
        Action::Accept => 0u8,
        Action::Deny => 1,
        Action::Pass => 2,
    };
    let digest = Digest::new().number(action_number).list(&[peers.fingerprint(), ports.fingerprint()]);
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    Rule { number, name, action, unreadable: false, peers, ports, fingerprint: digest.finish() }
}

impl From<&ClusterNetworkPolicy> for Policy {
    /// A policy whose tier, priority or subject cannot be read denies whatever its rules that do not accept may be
    /// about, before all others of the tier, or of both.
    fn from(policy: &ClusterNetworkPolicy) -> Policy {
        let ClusterNetworkPolicy { name, tier, priority, subject, ingress, egress, enforcement } = policy;
        let stage = match tier {
            Readable::Read(Tier::Baseline) => Stage::Baseline,
            Readable::Read(Tier::Admin) | Readable::Unreadable => Stage::Admin,
        };
        let placed = match (tier, priority) {
            (Readable::Read(_), Readable::Read(priority)) => Some(*priority),
            _ => None,
        };
        let (selected, known) = match subject {
            Readable::Read(ClusterSubject::Namespaces(namespaces)) => {
                (Subject::Selected(namespaces.clone(), Selector::everything()), true)
            }
            Readable::Read(ClusterSubject::Pods(pods)) => {
                (Subject::Selected(pods.namespaces.clone(), pods.pods.clone()), true)
            }
            Readable::Unreadable => {
                (Subject::Selected(Selector::everything(), Selector::everything()), false)
            }
        };
        let readable = placed.is_some() && known;
        Policy {
            reference: ObjectRef::cluster(Kind::ClusterNetworkPolicy, name),
            stage,
            priority: placed,
            audit: *enforcement == Enforcement::Audit,
            subject: selected,
            ingress: cluster_rules(ingress, readable),
            egress: cluster_rules(egress, readable),
        }
    }
}

/// The rules of a ClusterNetworkPolicy; None where none says anything.
fn cluster_rules(rules: &[AdminRule], readable: bool) -> Option<Rules> {
    let numbered = rules.iter().zip(1..);
    let each: Vec<Rule> =
        numbered.filter_map(|(rule, number)| cluster_rule(rule, readable, number)).collect();
    let in_order: Vec<u64> = each.iter().map(|rule| rule.fingerprint).collect();
    let fingerprint = Digest::new().list(&in_order).finish();
    (!each.is_empty()).then(|| Rules { each: each.into(), fingerprint })
}

/// An Accept that cannot be read matches nothing; any other rule that cannot denies everything.
fn cluster_rule(rule: &AdminRule, readable: bool, number: usize) -> Option<Rule> {
    let AdminRule { name, action, peers, ports } = rule;
    match (action, peers, ports) {
        (Readable::Read(action), Readable::Read(peers), Readable::Read(ports)) if readable => {
            Some(finished(number, name.clone(), *action, admin_peers(peers), admin_ports(ports)))
        }
        (Readable::Read(Action::Accept), ..) => None,
        _ => {
            let rule = finished(number, name.clone(), Action::Deny, Peers::everybody(), Ports::Any);
            Some(Rule { unreadable: true, ..rule })
        }
    }
}

/// The ports of a ClusterNetworkPolicy's rule: without any, whatever is sent.
pub(crate) fn admin_ports(ports: &[AdminPort]) -> Ports {
    if ports.is_empty() { Ports::Any } else { listed(ports.iter().map(admin_port)) }
}

fn admin_port(port: &AdminPort) -> Said {
    match port {
        AdminPort::Numbered(port) => numbered(port),
        AdminPort::Named(name) => Said::Named(name.clone(), None),
    }
}

/// The peers of a ClusterNetworkPolicy's rule.
pub(crate) fn admin_peers(peers: &[AdminPeer]) -> Peers {
    let (mut pods, mut nodes, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for peer in peers {
        match peer {
            AdminPeer::Namespaces(namespaces) => {
                let namespaces = Scope::Selected(namespaces.clone());
                pods.push(PodPeer { namespaces, pods: Selector::everything() });
            }
            AdminPeer::Pods(selected) => {
                let namespaces = Scope::Selected(selected.namespaces.clone());
                pods.push(PodPeer { namespaces, pods: selected.pods.clone() });
            }
            AdminPeer::Nodes(selector) => nodes.push(selector.clone()),
            AdminPeer::Networks(nets) => {
                blocks.extend(nets.iter().map(|cidr| IpBlock { cidr: *cidr, except: Vec::new() }));
            }
        }
    }
    Peers::of(pods, nodes, &blocks)
}
