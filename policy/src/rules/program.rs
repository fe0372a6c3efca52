//! The policies about one pod, in the order in which they are tried, and how that ends.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Match, Policy, Rule};
use crate::digest::Digest;
use crate::explanation::Stage;
use crate::object::Action;
use crate::question::Direction;
use crate::verdict::{Because, Verdict};

/// What the policies say about a pod.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    ingress: Side,
    egress: Side,
}

/// What they say about one direction.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The direction.
    pub(crate) direction: Direction,
    /// The policies that say something, in the order in which they are tried.
    pub(crate) policies: Box<[Arc<Policy>]>,
    /// The first NetworkPolicy that isolates, among those that are enforced.
    isolating: Option<usize>,
    /// The first NetworkPolicy that isolates, among all.
    isolating_with_audit: Option<usize>,
    /// Whether some of the policies are in audit mode.
    pub(crate) is_audited: bool,
    /// How many rules they have.
    pub(crate) rule_count: usize,
    /// Whether a rule asks which pod the peer is, by its labels or its ports' names.
    pub(crate) asks_for_pods: bool,
    /// Whether a rule asks which node the peer is.
    pub(crate) asks_for_nodes: bool,
    /// What the policies say.
    pub(crate) fingerprint: u64,
}

/// How the trying of rules ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending<'p> {
    /// No NetworkPolicy isolates, and no other rule decides.
    Default,
    /// NetworkPolicies isolate, this is the first of them, and no rule decides.
    Isolated(&'p Policy),
    /// The rule decides.
    Rule(&'p Policy, &'p Rule),
    /// It depends on who the peer is, and that is not known.
    UnknownPeer,
}

impl Program {
    /// The program of a pod that all of the policies are about.
    pub(crate) fn of(mut policies: Vec<Arc<Policy>>) -> Program {
        policies.sort_by(|a, b| a.place().cmp(&b.place()));
        let side = |direction| {
            let saying = policies.iter().filter(|policy| policy.rules(direction).is_some());
            Side::of(direction, saying.cloned().collect())
        };
        Program { ingress: side(Direction::Ingress), egress: side(Direction::Egress) }
    }

    /// What it says about a direction.
    pub(crate) fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }
}

impl Side {
    fn of(direction: Direction, policies: Box<[Arc<Policy>]>) -> Side {
        let isolates = |policy: &Arc<Policy>| policy.stage == Stage::NetworkPolicy;
        let rules = || policies.iter().filter_map(|policy| policy.rules(direction));
        let each_rule = || rules().flat_map(|rules| &rules.each);
        let by_pod = |rule: &Rule| {
            let by_name = direction == Direction::Egress && !rule.ports.names().is_empty();
            rule.peers.asks_for_pods() || by_name
        };
        let each = policies.iter().zip(rules()).map(|(policy, rules)| {
            let digest = Digest::new().text(&policy.reference.to_string()).number(u8::from(policy.audit));
            digest.number(u8::from(policy.stage == Stage::Baseline)).list(&[rules.fingerprint]).finish()
        });
        Side {
            direction,
            isolating: policies.iter().position(|policy| isolates(policy) && !policy.audit),
            isolating_with_audit: policies.iter().position(isolates),
            is_audited: policies.iter().any(|policy| policy.audit),
            rule_count: each_rule().count(),
            asks_for_pods: each_rule().any(by_pod),
            asks_for_nodes: each_rule().any(|rule| rule.peers.asks_for_nodes()),
            fingerprint: Digest::new().list(&each.collect::<Vec<_>>()).finish(),
            policies,
        }
    }

    /// Whether an enforced policy says something.
    pub(crate) fn is_enforced(&self) -> bool {
        self.policies.iter().any(|policy| !policy.audit)
    }

    /// The rules in the order in which they are tried, with their policies.
    pub(crate) fn rules(&self) -> impl Iterator<Item = (&Policy, &Rule)> {
        self.policies.iter().flat_map(|policy| {
            let rules = policy.rules(self.direction).map(|rules| &*rules.each).unwrap_or_default();
            rules.iter().map(|rule| (&**policy, rule))
        })
    }

    /// The first NetworkPolicy that isolates, those in audit mode included or not.
    pub(crate) fn isolating(&self, with_audit: bool) -> Option<&Policy> {
        let first = if with_audit { self.isolating_with_audit } else { self.isolating };
        first.and_then(|first| self.policies.get(first)).map(|policy| &**policy)
    }

    /// How it ends for packets of which `test` knows whether a rule matches them, by the rule's place among
    /// [`Side::rules`]; None when it does not end the same way for all of them.
    pub(crate) fn ending(
        &self,
        with_audit: bool,
        mut test: impl FnMut(usize, &Rule) -> Match,
    ) -> Option<Ending<'_>> {
        let isolating = self.isolating(with_audit);
        let mut passed = None;
        let mut perhaps_accepted = false;
        for (place, (policy, rule)) in self.rules().enumerate() {
            let left_out = (policy.audit && !with_audit)
                || (policy.stage == Stage::Baseline && isolating.is_some())
                || passed == Some(policy.stage);
            if left_out {
                continue;
            }
            match (test(place, rule), rule.action) {
                (Match::No, _) => {}
                (Match::Split, _) => return None,
                (Match::Yes, Action::Pass) => passed = Some(policy.stage),
                (Match::Yes, Action::Deny) if perhaps_accepted => return Some(Ending::UnknownPeer),
                (Match::Yes, Action::Accept | Action::Deny) => return Some(Ending::Rule(policy, rule)),
                (Match::Unknown, Action::Accept) => perhaps_accepted = true,
                (Match::Unknown, Action::Deny | Action::Pass) => return Some(Ending::UnknownPeer),
            }
        }
        Some(match isolating {
            Some(_) if perhaps_accepted => Ending::UnknownPeer,
            Some(policy) => Ending::Isolated(policy),
            None => Ending::Default,
        })
    }
}

impl Ending<'_> {
    /// Whether the conversation is denied.
    pub(crate) fn denies(&self) -> bool {
        match self {
            Ending::Default => false,
            Ending::Isolated(_) | Ending::UnknownPeer => true,
            Ending::Rule(_, rule) => rule.action != Action::Accept,
        }
    }

    /// The verdict.
    pub(crate) fn verdict(&self) -> Verdict {
        if self.denies() { Verdict::Deny } else { Verdict::Allow }
    }

    /// The reason, for a direction and a peer.
    pub(crate) fn because(&self, direction: Direction, peer: IpAddr) -> Because {
        match self {
            Ending::Default => Because::NoIsolation,
            Ending::Isolated(policy) => Because::Isolated { policy: policy.reference.clone(), direction },
            Ending::UnknownPeer => Because::UnknownPeer(peer),
            Ending::Rule(policy, rule) if rule.unreadable => {
                Because::Unreadable { policy: policy.reference.clone(), direction, rule: rule.number }
            }
            Ending::Rule(policy, rule) => Because::Rule {
                policy: policy.reference.clone(),
                direction,
                rule: rule.number,
                name: rule.name.clone(),
                fingerprint: rule.fingerprint,
            },
        }
    }
}
