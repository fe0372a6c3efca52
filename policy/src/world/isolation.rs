//! Who may talk to whom.

use std::net::IpAddr;

use super::{Resident, World};
use crate::address::{Family, prefix};
use crate::explanation::{Explanation, Finding, Outcome, Stage, Step};
use crate::object::{Enforcement, Tenant};
use crate::question::{Direction, Question, Traffic};
use crate::region::Region;
use crate::verdict::{Because, Conversation, Judgement, Verdict};

impl World {
    /// Answers a question about a new conversation. A subject that is not known, or not known in full, is
    /// denied for the moment.
    pub fn judge(&self, question: &Question) -> Judgement {
        let region = Region::whole(Family::of(question.peer));
        let allow = |region, because| Judgement { verdict: Verdict::Allow, region, because, audit: None };
        let deny = |region, because| Judgement { verdict: Verdict::Deny, region, because, audit: None };
        let own = match self.resident(question.subject) {
            Resident::Node(_) => return allow(region, Because::NoIsolation),
            Resident::Unknown | Resident::Nobody => {
                return deny(region, Because::UnknownSubject(question.subject));
            }
            Resident::Pod(_, namespace) => self.tenants.of(namespace),
            Resident::Container(_) => &Tenant::Common,
        };
        if !self.has_tenants() {
            return allow(region, Because::NoIsolation);
        }
        let peer = prefix(question.peer, Family::of(question.peer).bits());
        let alone = Region { peer, ..region };
        let other = match self.resident(question.peer) {
            Resident::Pod(_, namespace) => self.tenants.of(namespace),
            Resident::Container(_) => &Tenant::Common,
            Resident::Unknown => return deny(alone, Because::UnknownPeer(question.peer)),
            Resident::Node(_) | Resident::Nobody => return allow(alone, Because::NoIsolation),
        };
        if own.meets(other) {
            allow(alone, Because::NoIsolation)
        } else {
            deny(alone, Because::Tenants { own: own.clone(), other: other.clone() })
        }
    }

    /// Answers for both ends of a new conversation between two addresses of one family.
    pub fn converse(&self, from: IpAddr, to: IpAddr, traffic: Traffic) -> Conversation {
        let judge = |direction, subject, peer| match self.resident(subject) {
            Resident::Node(_) | Resident::Nobody => None,
            Resident::Pod(..) | Resident::Container(_) | Resident::Unknown => {
                Some(self.judge(&Question { direction, subject, peer, traffic }))
            }
        };
        Conversation {
            egress: judge(Direction::Egress, from, to),
            ingress: judge(Direction::Ingress, to, from),
        }
    }

    /// How the verdict comes about.
    pub fn explain(&self, question: &Question) -> Explanation {
        let judgement = self.judge(question);
        let step = Step {
            stage: Stage::Default,
            policy: judgement.because.policy().cloned(),
            rule: None,
            name: None,
            outcome: Outcome::Match,
            reason: judgement.because.to_string(),
            audit: false,
            decides: true,
        };
        Explanation { question: *question, steps: vec![step], judgement }
    }

    /// A fingerprint of the rules by which a subject's conversations of a direction are judged.
    pub fn program(&self, subject: IpAddr, direction: Direction) -> u64 {
        let _ = (subject, direction);
        0
    }

    /// Whether an enforced policy says anything about what is sent to the pod at the address.
    pub fn is_guarded(&self, address: IpAddr) -> bool {
        let Resident::Pod(pod, _) = self.resident(address) else { return false };
        let mut policies = self.network_policies(&pod.reference.namespace);
        policies.any(|policy| policy.enforcement == Enforcement::Enforce && policy.ingress.is_some())
    }

    /// What in the policies is probably not what their authors want.
    pub fn lint(&self) -> Vec<Finding> {
        Vec::new()
    }
}
