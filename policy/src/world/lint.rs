//! What in the policies is probably not what their authors want: policies that select nothing, rules and parts of
//! rules that never match, names of ports that no pod has.
//!
//! Pods with the same namespace and labels are looked at together.

use std::collections::BTreeMap;

use super::{World, Written};
use crate::explanation::{Finding, FindingKind};
use crate::label::Labels;
use crate::name::{Name, ObjectRef};
use crate::object::{
    Action, AdminPeer, AdminRule, ClusterNetworkPolicy, Namespace, NetworkPolicy, Peer, Pod, PolicyRule,
    Protocol, Readable, Subject,
};
use crate::question::Direction;
use crate::rules::{
    Identity, Match, Peers, Policy, Ports, admin_peers, admin_ports, numbers, peers_of, ports_of,
};

/// Live pods that selectors cannot tell apart.
struct Alike<'w> {
    namespace: &'w Namespace,
    labels: &'w Labels,
    pods: Vec<&'w Pod>,
}

/// What is found so far, about one policy.
struct Findings<'w> {
    world: &'w World,
    pods: &'w [Alike<'w>],
    object: ObjectRef,
    found: Vec<Finding>,
}

impl World {
    /// What in the policies is probably not what their authors want, in the order of the policies.
    pub fn lint(&self) -> Vec<Finding> {
        let pods = self.alike();
        let of = |policy: &Policy| Findings {
            world: self,
            pods: &pods,
            object: policy.reference.clone(),
            found: Vec::new(),
        };
        let own = self.policies.values().flat_map(BTreeMap::values).flat_map(|written| {
            let mut findings = of(&written.policy);
            findings.network_policy(written);
            findings.found
        });
        let of_cluster = self.cluster_policies.values().flat_map(|written| {
            let mut findings = of(&written.policy);
            findings.cluster_policy(written);
            findings.found
        });
        own.chain(of_cluster).collect()
    }

    fn alike(&self) -> Vec<Alike<'_>> {
        let mut alike: BTreeMap<(&Name, &Labels), Vec<&Pod>> = BTreeMap::new();
        for pod in self.pods().filter(|pod| pod.is_live()) {
            alike.entry((&pod.reference.namespace, &pod.labels)).or_default().push(pod);
        }
        let known = |((name, labels), pods)| {
            let namespace = self.namespaces.get::<Name>(name)?;
            Some(Alike { namespace, labels, pods })
        };
        alike.into_iter().filter_map(known).collect()
    }
}

impl<'w> Findings<'w> {
    fn add(&mut self, field: impl Into<String>, kind: FindingKind, message: impl Into<String>) {
        let object = self.object.clone();
        self.found.push(Finding { object, field: field.into(), kind, message: message.into() });
    }

    /// The pods that a policy is about.
    fn selected(&self, policy: &Policy) -> Vec<&'w Alike<'w>> {
        self.pods.iter().filter(|alike| policy.subject.selects(alike.namespace, alike.labels)).collect()
    }

    /// Whether a pod that is one of the peers calls a port so.
    fn is_named_among(&self, peers: &Peers, named: impl Fn(&Pod) -> bool) -> bool {
        let is_one = |alike: &Alike<'_>, pod: &Pod| {
            let identity = Identity::Pod(pod, alike.namespace);
            pod.ips.iter().any(|ip| peers.at(*ip, &identity) == Match::Yes)
        };
        self.pods.iter().any(|alike| {
            let selected = alike.pods.first().is_some_and(|pod| peers.selects(pod, alike.namespace));
            let mut pods = alike.pods.iter().filter(|pod| named(pod));
            if selected {
                pods.next().is_some()
            } else {
                peers.has_addresses() && pods.any(|pod| is_one(alike, pod))
            }
        })
    }

    fn selects_any(&self, peers: &Peers) -> bool {
        let first =
            |alike: &Alike<'w>| alike.pods.first().is_some_and(|pod| peers.selects(pod, alike.namespace));
        self.pods.iter().any(first)
    }

    fn network_policy(&mut self, written: &Written<NetworkPolicy>) {
        let Written { object, policy } = written;
        let selected = self.selected(policy);
        if selected.is_empty() {
            let message = match self.world.namespace(&object.namespace) {
                Some(_) => format!("selects no pod of namespace {}", object.namespace),
                None => format!("there is no namespace {}", object.namespace),
            };
            self.add("spec.podSelector", FindingKind::SelectsNothing, message);
        }
        if object.subject == Subject::WholeNamespace {
            return;
        }
        let sides = [(Direction::Ingress, &object.ingress), (Direction::Egress, &object.egress)];
        for (direction, rules) in sides {
            for (index, rule) in rules.iter().flatten().enumerate() {
                let field = format!("spec.{direction}[{index}]");
                match rule {
                    Readable::Read(rule) => {
                        self.network_rule(&object.namespace, rule, direction, &field, &selected)
                    }
                    Readable::Unreadable => {
                        self.add(field, FindingKind::NeverMatches, "cannot be read, and so matches nothing");
                    }
                }
            }
        }
    }

    fn network_rule(
        &mut self,
        namespace: &Name,
        rule: &PolicyRule,
        direction: Direction,
        field: &str,
        selected: &[&Alike<'_>],
    ) {
        let PolicyRule { peers, ports } = rule;
        let side = if direction == Direction::Ingress { "from" } else { "to" };
        for (index, peer) in peers.iter().enumerate() {
            let one = peers_of(namespace, std::slice::from_ref(peer));
            match peer {
                Peer::Pods { .. } if !self.selects_any(&one) => {
                    self.add(format!("{field}.{side}[{index}]"), FindingKind::NeverMatches, "selects no pod");
                }
                Peer::Block(_) if !one.has_addresses() => {
                    let message = "the exceptions leave no address";
                    self.add(format!("{field}.{side}[{index}].ipBlock"), FindingKind::NeverMatches, message);
                }
                Peer::Pods { .. } | Peer::Block(_) => {}
            }
        }
        let each: Vec<Ports> = ports.iter().map(|port| ports_of(std::slice::from_ref(port))).collect();
        self.names(&peers_of(namespace, peers), &each, direction, &format!("{field}.ports"), selected);
    }

    /// Names of ports are those of the selected pods for ingress, of the peers for egress.
    fn names(
        &mut self,
        peers: &Peers,
        ports: &[Ports],
        direction: Direction,
        field: &str,
        selected: &[&Alike<'_>],
    ) {
        if ports.iter().all(|ports| ports.names().is_empty()) {
            return;
        }
        let whose = match direction {
            Direction::Ingress => "selected pod",
            Direction::Egress => "pod among the peers",
        };
        for (index, ports) in ports.iter().enumerate() {
            for (name, protocol) in ports.names() {
                let named = |pod: &Pod| numbers(pod, name, *protocol).next().is_some();
                let known = match direction {
                    Direction::Ingress => {
                        selected.iter().any(|alike| alike.pods.iter().any(|pod| named(pod)))
                    }
                    Direction::Egress => self.is_named_among(peers, named),
                };
                if !known {
                    let protocol =
                        protocol.map(|protocol: Protocol| format!("{protocol} ")).unwrap_or_default();
                    let message = format!("no {whose} has a {protocol}port named {name}");
                    self.add(format!("{field}[{index}]"), FindingKind::UnknownPortName, message);
                }
            }
        }
    }

    fn cluster_policy(&mut self, written: &Written<ClusterNetworkPolicy>) {
        let Written { object, policy } = written;
        let selected = self.selected(policy);
        if selected.is_empty() {
            self.add("spec.subject", FindingKind::SelectsNothing, "selects no pod");
        }
        for (direction, rules) in [(Direction::Ingress, &object.ingress), (Direction::Egress, &object.egress)]
        {
            for (index, rule) in rules.iter().enumerate() {
                let field = format!("spec.{direction}[{index}]");
                let number = u16::try_from(index + 1).unwrap_or(u16::MAX);
                match policy.rules(direction).and_then(|rules| rules.numbered(number)) {
                    Some(compiled) if compiled.unreadable => {
                        let message =
                            "cannot be read, or is of a policy that cannot, and so denies everything";
                        self.add(field, FindingKind::Unreadable, message);
                    }
                    Some(_) => {
                        self.shadowed(policy, direction, number, &field);
                        self.cluster_rule(rule, direction, &field, &selected);
                    }
                    None => {
                        let message = "cannot be read, or is of a policy that cannot, and so accepts nothing";
                        self.add(field, FindingKind::NeverMatches, message);
                    }
                }
            }
        }
    }

    /// A rule comes to nothing where an earlier one of the policy is about the same peers and at least its ports.
    fn shadowed(&mut self, policy: &Policy, direction: Direction, number: u16, field: &str) {
        let rules = policy.rules(direction).map(|rules| &*rules.each).unwrap_or_default();
        let mut earlier = rules.iter().take_while(|rule| rule.number != number);
        let Some(own) = rules.iter().find(|rule| rule.number == number) else { return };
        let covers = earlier.find(|rule| {
            (rule.peers == own.peers || rule.peers.is_everybody())
                && (rule.ports == own.ports || rule.ports == Ports::Any)
        });
        if let Some(rule) = covers {
            let message = format!("rule {} decides the same packets before it", rule.number);
            self.add(field, FindingKind::NeverMatches, message);
        }
    }

    fn cluster_rule(&mut self, rule: &AdminRule, direction: Direction, field: &str, selected: &[&Alike<'_>]) {
        let AdminRule {
            name: _,
            action: Readable::<Action>::Read(_),
            peers: Readable::Read(peers),
            ports: Readable::Read(ports),
        } = rule
        else {
            return;
        };
        let side = if direction == Direction::Ingress { "from" } else { "to" };
        for (index, peer) in peers.iter().enumerate() {
            let one = admin_peers(std::slice::from_ref(peer));
            let nothing = match peer {
                AdminPeer::Namespaces(_) | AdminPeer::Pods(_) if !self.selects_any(&one) => "selects no pod",
                AdminPeer::Nodes(selector)
                    if !self.world.nodes().any(|node| selector.matches(&node.labels)) =>
                {
                    "selects no node"
                }
                AdminPeer::Namespaces(_)
                | AdminPeer::Pods(_)
                | AdminPeer::Nodes(_)
                | AdminPeer::Networks(_) => continue,
            };
            self.add(format!("{field}.{side}[{index}]"), FindingKind::NeverMatches, nothing);
        }
        let each: Vec<Ports> = ports.iter().map(|port| admin_ports(std::slice::from_ref(port))).collect();
        self.names(&admin_peers(peers), &each, direction, &format!("{field}.protocols"), selected);
    }
}
