//! Answers in full: everything that was looked at on the way to a verdict, and what to think of the policies.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::{Name, ObjectRef};
use crate::question::Question;
use crate::verdict::Judgement;

/// How a verdict came about, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What was asked.
    pub question: Question,
    /// What was looked at, in order.
    pub steps: Vec<Step>,
    /// The answer.
    pub judgement: Judgement,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What kind of thing it is.
    pub stage: Stage,
    /// The policy, where it is one or a rule of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ObjectRef>,
    /// The rule's place in the manifest, from 1, where it is a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<u16>,
    /// The rule's name, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why, in words.
    pub reason: String,
    /// Whether the policy is in audit mode: what it says is not part of the verdict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub audit: bool,
    /// Whether this is what decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides: bool,
}

/// The kinds of things that are looked at, in the order in which they count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Who lives at the subject's address.
    Subject,
    /// Who lives at the peer's address.
    Peer,
    /// A pod reaches itself.
    Itself,
    /// A pod's own node reaches it.
    OwnNode,
    /// The tenants of the two ends.
    Tenants,
    /// ClusterNetworkPolicies of tier Admin.
    Admin,
    /// NetworkPolicies of the subject's namespace.
    NetworkPolicy,
    /// ClusterNetworkPolicies of tier Baseline.
    Baseline,
    /// What holds where nothing else decides.
    Default,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::Subject => "subject",
            Stage::Peer => "peer",
            Stage::Itself => "itself",
            Stage::OwnNode => "own-node",
            Stage::Tenants => "tenants",
            Stage::Admin => "admin",
            Stage::NetworkPolicy => "network-policy",
            Stage::Baseline => "baseline",
            Stage::Default => "default",
        })
    }
}

/// What came of looking at something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It speaks about this packet.
    Match,
    /// It does not speak about this packet.
    Miss,
    /// It does not speak about this subject or this direction at all.
    NotApplicable,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Match => "match",
            Outcome::Miss => "miss",
            Outcome::NotApplicable => "not applicable",
        })
    }
}

/// Something about a policy that is probably not what its author wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// The policy.
    pub object: ObjectRef,
    /// The path of the field, as `spec.ingress[0].from[1]`.
    pub field: String,
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// What is odd, in words.
    pub message: String,
}

impl fmt::Display for Finding {
    /// `NetworkPolicy a/web: spec.podSelector: selects no pod`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.field, self.message)
    }
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FindingKind {
    /// The policy selects no pod.
    SelectsNothing,
    /// The rule, or a part of it, matches no packet.
    NeverMatches,
    /// No pod that the rule is about has a port of this name.
    UnknownPortName,
    /// The rule cannot be read, and so denies everything.
    Unreadable,
}
