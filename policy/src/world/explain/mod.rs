//! How a verdict comes about: everything that was looked at, in order, with what came of it.
//!
//! Whether a rule matches is asked of the same compiled rules that judge; the words are those of the manifest.

mod words;

use super::World;
use super::case::{Case, with_ports};
use super::isolation::{Asked, Subject, TenantRule};
use crate::explanation::{Explanation, Outcome, Stage, Step};
use crate::name::Name;
use crate::object::{Action, ClusterNetworkPolicy, NetworkPolicy, Readable, Tenant};
use crate::question::Question;
use crate::rules::{Ending, Match, Policy, Sent, admin_peers, admin_ports, peers_of, ports_of};
use crate::verdict::{Because, Judgement, Verdict};
use words::{Parts, Told};

/// What is being told.
struct Account<'w> {
    world: &'w World,
    question: Question,
    judgement: Judgement,
    steps: Vec<Step>,
}

impl World {
    /// How the verdict of [`World::judge`] comes about: everything that was looked at, in order.
    pub fn explain(&self, question: &Question) -> Explanation {
        let judgement = self.judge(question);
        let mut account = Account { world: self, question: *question, judgement, steps: Vec::new() };
        account.tell();
        let Account { judgement, steps, .. } = account;
        Explanation { question: *question, steps, judgement }
    }
}

impl Account<'_> {
    fn step(&mut self, stage: Stage, outcome: Outcome, reason: impl Into<String>, decides: bool) {
        let (policy, rule, name, audit, reason) = (None, None, None, false, reason.into());
        self.steps.push(Step { stage, policy, rule, name, outcome, reason, audit, decides });
    }

    fn tell(&mut self) {
        let Question { subject, peer, .. } = self.question;
        let because = self.judgement.because.clone();
        let who = words::whoever(self.world, subject);
        let known = !matches!(because, Because::UnknownSubject(_));
        let outcome = if known { Outcome::Match } else { Outcome::Miss };
        self.step(Stage::Subject, outcome, who, !known);
        let own = match self.world.subject(subject) {
            Subject::Pod(_, namespace) => self.world.tenants.of(namespace),
            Subject::Container => &Tenant::Common,
            Subject::Node => {
                return self.step(
                    Stage::Default,
                    Outcome::Match,
                    "a node has no rules of its own: allowed",
                    true,
                );
            }
            Subject::Unknown => return,
        };
        let unknown = matches!(because, Because::UnknownPeer(_));
        let outcome = if unknown { Outcome::Miss } else { Outcome::Match };
        let mut reason = words::whoever(self.world, peer);
        if unknown {
            reason += ": it matters who it is, so that it is denied until that is known";
        }
        self.step(Stage::Peer, outcome, reason, unknown);
        self.exemptions(&because);
        if self.tenants(own, &because) {
            return;
        }
        let question = self.question;
        match self.world.asked(&question) {
            Asked::Policies(case) => self.policies(&case),
            Asked::Judged(_) => self.nothing("no policy is about containers that are no pods: allowed"),
        }
    }

    fn nothing(&mut self, reason: &str) {
        let decides = self.judgement.because == Because::NoIsolation;
        self.step(Stage::Default, Outcome::Match, reason, decides);
    }

    fn exemptions(&mut self, because: &Because) {
        if self.question.peer == self.question.subject {
            let reason = "a pod reaches itself, whatever the rules say";
            self.step(Stage::Itself, Outcome::Match, reason, *because == Because::Itself);
        }
        let question = self.question;
        let own = match self.world.asked(&question) {
            Asked::Policies(case) => case.own_node_asks(),
            Asked::Judged(_) => None,
        };
        if let Some(node) = own {
            let reason =
                format!("the peer is {node}, the pod's own node, which reaches it whatever the rules say");
            self.step(Stage::OwnNode, Outcome::Match, reason, matches!(because, Because::OwnNode(_)));
        }
    }

    /// Tells of the tenants; gives back whether that was all.
    fn tenants(&mut self, own: &Tenant, because: &Because) -> bool {
        let peer = self.world.identity(self.question.peer);
        let (outcome, reason) = match self.world.tenant_rule(own, &peer) {
            TenantRule::None if self.world.has_tenants() => (
                Outcome::NotApplicable,
                "the subject's namespace is shared: it talks with everybody".to_owned(),
            ),
            TenantRule::None => (Outcome::NotApplicable, "no namespace has a tenant".to_owned()),
            TenantRule::Meet => (Outcome::Miss, format!("the subject is of {own}: the peer is let through")),
            TenantRule::Apart(own, other) => {
                (Outcome::Match, format!("the subject is of {own}, the peer of {other}: they keep apart"))
            }
            TenantRule::Unknown => {
                (Outcome::Match, format!("the subject is of {own}, the peer of nobody knows whom"))
            }
        };
        self.step(Stage::Tenants, outcome, reason, matches!(because, Because::Tenants { .. }));
        outcome == Outcome::Match
    }

    fn policies(&mut self, case: &Case<'_>) {
        let ruled = case.ruled();
        if self.cluster_policies(Stage::Admin, case, ruled.as_ref()) {
            return;
        }
        self.network_policies(case, ruled.as_ref());
        let isolating = case.side.isolating(false);
        if isolating.is_none() && self.cluster_policies(Stage::Baseline, case, ruled.as_ref()) {
            return;
        }
        let direction = self.question.direction;
        match (ruled, isolating) {
            (Some(Ending::Isolated(_)), _) => {
                let reason =
                    format!("no rule of the NetworkPolicies that isolate {direction} matches: denied");
                let decides = self.judgement.verdict == Verdict::Deny;
                self.step(Stage::Default, Outcome::Match, reason, decides);
            }
            (Some(Ending::Default), _) => {
                self.nothing(&format!(
                    "no NetworkPolicy isolates {direction}, and no rule denies it: allowed"
                ));
            }
            _ => {}
        }
    }

    /// Tells of a tier; gives back whether one of its rules has decided.
    fn cluster_policies(&mut self, stage: Stage, case: &Case<'_>, ruled: Option<&Ending<'_>>) -> bool {
        let world = self.world;
        let all = world.cluster_policies.values().filter(|written| written.policy.stage == stage);
        let mut in_order: Vec<_> = all.collect();
        in_order.sort_by(|a, b| a.policy.place().cmp(&b.policy.place()));
        let mut passed = false;
        for written in in_order {
            let (object, policy) = (&written.object, &*written.policy);
            if passed || !self.is_about(case, policy, words::cluster_subject(object)) {
                continue;
            }
            match self.cluster_rules(case, object, policy, ruled) {
                Told::Decided => return true,
                Told::Passed => passed = true,
                Told::GoesOn => {}
            }
        }
        false
    }

    /// Tells whether a policy is about the subject and the direction.
    fn is_about(&mut self, case: &Case<'_>, policy: &Policy, subject: String) -> bool {
        let direction = self.question.direction;
        let selected = case.selected_by(policy);
        let says = policy.rules(direction).is_some();
        let reason = match (selected, says) {
            (false, _) => format!("is about {subject}, which the subject is none of"),
            (true, false) => format!("says nothing about {direction}"),
            (true, true) => format!("is about {subject}"),
        };
        let outcome = if selected && says { Outcome::Match } else { Outcome::NotApplicable };
        self.steps.push(Step {
            stage: policy.stage,
            policy: Some(policy.reference.clone()),
            rule: None,
            name: None,
            outcome,
            reason,
            audit: policy.audit,
            decides: false,
        });
        selected && says
    }

    fn cluster_rules(
        &mut self,
        case: &Case<'_>,
        object: &ClusterNetworkPolicy,
        policy: &Policy,
        ruled: Option<&Ending<'_>>,
    ) -> Told {
        let rules = words::cluster_rules(object, self.question.direction);
        for (rule, number) in rules.iter().zip(1u16..) {
            let compiled = policy.rules(self.question.direction).and_then(|rules| rules.numbered(number));
            let (outcome, action, reason) = match (compiled, &rule.peers, &rule.ports) {
                (None, ..) => (Outcome::Miss, None, "cannot be read: it accepts nothing".to_owned()),
                (Some(compiled), Readable::Read(peers), Readable::Read(ports)) if !compiled.unreadable => {
                    let parts = Parts {
                        action: Some(compiled.action),
                        peers: peers
                            .iter()
                            .map(|one| (words::admin_peer(one), admin_peers(std::slice::from_ref(one))))
                            .collect(),
                        ports: ports
                            .iter()
                            .map(|one| (words::admin_port(one), admin_ports(std::slice::from_ref(one))))
                            .collect(),
                    };
                    let (outcome, reason) = self.compare(case, &parts);
                    (outcome, Some(compiled.action), reason)
                }
                (Some(compiled), ..) => {
                    let reason = "cannot be read: it denies everything".to_owned();
                    (Outcome::Match, Some(compiled.action), reason)
                }
            };
            let decided = self.rule_step(policy, number, rule.name.clone(), outcome, reason, ruled);
            if decided {
                return Told::Decided;
            }
            if outcome == Outcome::Match && action == Some(Action::Pass) && !policy.audit {
                return Told::Passed;
            }
        }
        Told::GoesOn
    }

    /// Tells of the NetworkPolicies of the subject's namespace, all of them: they add up.
    fn network_policies(&mut self, case: &Case<'_>, ruled: Option<&Ending<'_>>) {
        let world = self.world;
        let namespace = &case.pod.reference.namespace;
        for written in world.policies.get(namespace).into_iter().flat_map(|policies| policies.values()) {
            let (object, policy) = (&written.object, &*written.policy);
            if self.is_about(case, policy, words::subject(object)) {
                self.network_rules(case, object, policy, ruled);
            }
        }
    }

    fn network_rules(
        &mut self,
        case: &Case<'_>,
        object: &NetworkPolicy,
        policy: &Policy,
        ruled: Option<&Ending<'_>>,
    ) {
        for (rule, number) in words::rules(object, self.question.direction).iter().zip(1u16..) {
            let (outcome, reason) = match rule {
                Readable::Unreadable => (Outcome::Miss, "cannot be read: it matches nothing".to_owned()),
                Readable::Read(rule) => {
                    let one_peer =
                        |one| (words::peer(one), peers_of(&object.namespace, std::slice::from_ref(one)));
                    let one_port = |one| (words::port(one), ports_of(std::slice::from_ref(one)));
                    let parts = Parts {
                        action: None,
                        peers: rule.peers.iter().map(one_peer).collect(),
                        ports: rule.ports.iter().map(one_port).collect(),
                    };
                    self.compare(case, &parts)
                }
            };
            self.rule_step(policy, number, None, outcome, reason, ruled);
        }
    }

    /// Adds the step of a rule; gives back whether it decided.
    fn rule_step(
        &mut self,
        policy: &Policy,
        number: u16,
        name: Option<Name>,
        outcome: Outcome,
        reason: String,
        ruled: Option<&Ending<'_>>,
    ) -> bool {
        let decided = matches!(ruled, Some(Ending::Rule(by, rule))
            if by.reference == policy.reference && rule.number == number);
        let exempt = matches!(self.judgement.because, Because::Itself | Because::OwnNode(_));
        self.steps.push(Step {
            stage: policy.stage,
            policy: Some(policy.reference.clone()),
            rule: Some(number),
            name,
            outcome,
            reason,
            audit: policy.audit,
            decides: decided && !exempt,
        });
        decided
    }

    /// Whether a rule matches the packet, and which of its parts do.
    fn compare(&self, case: &Case<'_>, parts: &Parts) -> (Outcome, String) {
        let Question { peer, traffic, .. } = self.question;
        let destination = case.destination();
        let hidden = with_ports(traffic.protocol).filter(|_| traffic.port.is_none());
        let sent = match (with_ports(traffic.protocol), traffic.port) {
            (None, _) => Sent::Portless,
            (Some(protocol), Some(port)) => Sent::To(protocol, port, port),
            (Some(protocol), None) => Sent::To(protocol, 0, u16::MAX),
        };
        let by_peer = parts.first_peer(|peers| peers.at(peer, &case.peer));
        let by_port = parts.first_port(|ports| match (ports.at(sent, destination), hidden) {
            (Match::Split, Some(_)) => Match::Yes,
            (other, _) => other,
        });
        parts.compared(by_peer, by_port, hidden.is_some())
    }
}
