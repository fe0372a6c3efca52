//! Generated histories of policies and tenants on two nodes: whatever the order of events, when all is quiet the packets
//! that pass are those that the policies allow, of new conversations and of those that were opened before.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests read files and look at the clock, and fail where something is not as they expect"
)]

mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use policy::{Traffic, Verdict, World};
use proptest::prelude::*;
use support::cluster::{Cluster, TCP, UDP};
use support::model::Room;
use support::net::Sent;

/// Pods: node, namespace, name.
const PODS: [(usize, &str, &str); 5] =
    [(0, "red", "a"), (0, "red", "b"), (1, "red", "c"), (0, "blue", "d"), (1, "blue", "e")];
const PORTS: [u16; 2] = [80, 53];

/// Bodies of NetworkPolicies.
const SPECS: [&str; 9] = [
    "{podSelector: {}, policyTypes: [Ingress]}",
    "{podSelector: {}, policyTypes: [Egress]}",
    "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}",
    "{podSelector: {matchLabels: {app: b}}, ingress: [{ports: [{port: 80}]}]}",
    "{podSelector: {matchLabels: {app: a}}, policyTypes: [Egress], egress: [{ports: [{protocol: UDP, port: 53}]}]}",
    "{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {role: x}}}]}]}",
    "{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: core}}}], ports: [{port: 80}]}]}",
    "{podSelector: {matchLabels: {role: x}}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}]}",
    "{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.0.0/20]}}]}]}",
];

#[derive(Debug, Clone)]
enum Step {
    Put { namespace: usize, name: usize, spec: usize },
    Remove { namespace: usize, name: usize },
    Namespace { namespace: usize, tenant: usize, team: bool },
    Relabel { pod: usize, role: bool },
    Open { from: usize, to: usize, tcp: bool, port: usize, answered: bool },
    Again { conversation: usize, answer: bool },
    Hear { node: usize },
    Restart { node: usize },
    Silence { node: usize, room: Room },
    Wake { node: usize },
    Expire { node: usize },
    Deaf { node: usize },
    Pass { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (node, namespace, pod) = (0..2usize, 0..2usize, 0..PODS.len());
    let room = prop_oneof![Just(Room::Reads), Just(Room::Ends), Just(Room::Settling)];
    prop_oneof![
        6 => (namespace.clone(), 0..3usize, 0..SPECS.len())
            .prop_map(|(namespace, name, spec)| Step::Put { namespace, name, spec }),
        3 => (namespace.clone(), 0..3usize).prop_map(|(namespace, name)| Step::Remove { namespace, name }),
        2 => (namespace, 0..4usize, any::<bool>())
            .prop_map(|(namespace, tenant, team)| Step::Namespace { namespace, tenant, team }),
        3 => (pod.clone(), any::<bool>()).prop_map(|(pod, role)| Step::Relabel { pod, role }),
        12 => (pod.clone(), pod, any::<bool>(), 0..PORTS.len(), any::<bool>())
            .prop_map(|(from, to, tcp, port, answered)| Step::Open { from, to, tcp, port, answered }),
        6 => (any::<usize>(), any::<bool>())
            .prop_map(|(conversation, answer)| Step::Again { conversation, answer }),
        8 => node.clone().prop_map(|node| Step::Hear { node }),
        1 => node.clone().prop_map(|node| Step::Restart { node }),
        2 => (node.clone(), room).prop_map(|(node, room)| Step::Silence { node, room }),
        2 => node.clone().prop_map(|node| Step::Wake { node }),
        2 => node.clone().prop_map(|node| Step::Expire { node }),
        1 => node.prop_map(|node| Step::Deaf { node }),
        2 => (0..3u64).prop_map(|seconds| Step::Pass { seconds }),
    ]
}

struct History {
    cluster: Cluster,
    opened: Vec<Sent>,
    /// Those whose receivers sent something later on.
    answered_late: BTreeSet<Sent>,
    next_port: u16,
}

fn namespace(index: usize) -> &'static str {
    ["red", "blue"][index]
}

impl History {
    fn new() -> History {
        let mut cluster = Cluster::new();
        for (node, namespace, name) in PODS {
            cluster.attach(node, namespace, name);
        }
        History { cluster, opened: Vec::new(), answered_late: BTreeSet::new(), next_port: 20_000 }
    }

    fn conversation(&mut self, from: usize, to: usize, protocol: u8, port: u16) -> Sent {
        self.next_port += 1;
        self.cluster.sent(PODS[from].2, PODS[to].2, protocol, self.next_port, port)
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Put { namespace: at, name, spec } => self.cluster.put_unheard(&format!(
                "{{kind: NetworkPolicy, apiVersion: networking.k8s.io/v1, metadata: {{name: p{name}, namespace: {}}}, \
                 spec: {}}}",
                namespace(at),
                SPECS[spec]
            )),
            Step::Remove { namespace: at, name } => {
                self.cluster.remove_unheard("NetworkPolicy", Some(namespace(at)), &format!("p{name}"));
            }
            Step::Namespace { namespace: at, tenant, team } => {
                let tenant = ["", "fabric.io/tenant: one", "fabric.io/tenant: two", "fabric.io/tenant: '*'"][tenant];
                let labels = if team { "team: core" } else { "" };
                self.cluster.put_unheard(&format!(
                    "{{kind: Namespace, apiVersion: v1, metadata: {{name: {}, labels: {{{labels}}}, \
                     annotations: {{{tenant}}}}}}}",
                    namespace(at)
                ));
            }
            Step::Relabel { pod, role } => {
                let (node, namespace, name) = PODS[pod];
                self.cluster.put_pod_unheard(node, namespace, name, if role { ", role: x" } else { "" });
            }
            Step::Open { from, to, tcp, port, answered } if from != to => {
                let sent = self.conversation(from, to, if tcp { TCP } else { UDP }, PORTS[port]);
                if self.cluster.send(sent) && answered {
                    self.cluster.send(sent.answer());
                }
                self.opened.push(sent);
            }
            Step::Open { .. } => {}
            Step::Again { conversation, answer } => {
                if let Some(sent) = self.opened.get(conversation % self.opened.len().max(1)).copied() {
                    if answer {
                        self.answered_late.insert(sent);
                    }
                    self.cluster.send(if answer { sent.answer() } else { sent });
                }
            }
            Step::Hear { node } => self.cluster.hear_on(node),
            Step::Restart { node } => {
                self.cluster.nodes[node].silent.clear();
                self.cluster.restart(node);
            }
            Step::Silence { node, room } => drop(self.cluster.nodes[node].silent.insert(room)),
            Step::Wake { node } => self.wake(node),
            Step::Expire { node } => self.cluster.expire_verdicts(node),
            Step::Deaf { node } => self.cluster.nodes[node].deaf ^= true,
            Step::Pass { seconds } => self.cluster.pass(Duration::from_secs(seconds)),
        }
    }

    fn wake(&mut self, node: usize) {
        for room in [Room::Reads, Room::Ends, Room::Settling] {
            self.cluster.nodes[node].wake(room);
        }
    }

    /// Everybody has heard of everything, and all that follows is done.
    fn calm_down(&mut self) {
        for node in 0..2 {
            self.cluster.nodes[node].deaf = false;
            self.wake(node);
        }
        self.cluster.hear();
        // A node that heard of an edit first looks again a minute later.
        self.cluster.pass(Duration::from_secs(62));
        for model in &mut self.cluster.nodes {
            let momentary: Vec<_> =
                model.flows.iter().filter(|flow| flow.hard_timeout > 0).cloned().collect();
            momentary.iter().for_each(|flow| model.expire(flow));
        }
    }
}

fn allows(world: &World, from: IpAddr, to: IpAddr, protocol: u8, port: u16) -> bool {
    world.converse(from, to, Traffic { protocol, port: Some(port) }).verdict() == Verdict::Allow
}

fn check(history: &mut History) -> Result<(), TestCaseError> {
    prop_assert!(history.cluster.is_settled(), "all is quiet");
    let world = history.cluster.world();
    for sent in history.opened.clone() {
        let forth = allows(&world, sent.from, sent.to, sent.protocol, sent.port);
        let back = allows(&world, sent.to, sent.from, sent.protocol, sent.source_port);
        // What nobody allows goes neither way, whichever end begins.
        if !forth && !back {
            prop_assert!(!history.cluster.send(sent.answer()), "the answer to {:?}", sent);
            prop_assert!(!history.cluster.send(sent), "{:?}", sent);
        }
        // A conversation that was cut, allowed again and taken up by its receiver is one of the receiver's to connection
        // tracking. Once that is forbidden, the flow that cuts it does not tell the two apart.
        let turned = !back && history.answered_late.contains(&sent);
        if forth && !turned {
            prop_assert!(history.cluster.send(sent), "{:?} was opened and is allowed", sent);
            prop_assert!(history.cluster.send(sent.answer()), "{:?} is answered", sent);
        }
    }
    for from in 0..PODS.len() {
        for to in (0..PODS.len()).filter(|to| *to != from) {
            for (protocol, port) in [(TCP, 80), (UDP, 53)] {
                let sent = history.conversation(from, to, protocol, port);
                let allowed = allows(&world, sent.from, sent.to, protocol, port);
                prop_assert_eq!(history.cluster.send(sent), allowed, "{:?}", sent);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn when_all_is_quiet_the_policies_hold(steps in proptest::collection::vec(step(), 1..50)) {
        let mut history = History::new();
        for step in &steps {
            history.take(step);
        }
        history.calm_down();
        check(&mut history)?;
    }
}
