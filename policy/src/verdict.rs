//! Answers to questions about new conversations.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::digest::fnv;
use crate::name::{Name, ObjectRef};
use crate::object::Tenant;
use crate::question::Direction;
use crate::region::Region;

/// Whether a conversation may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        })
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Whether the conversation may be opened.
    pub verdict: Verdict,
    /// The packets of the same direction and subject that get the same verdict for the same reason, the one
    /// asked about included.
    pub region: Region,
    /// Why.
    pub because: Because,
    /// Why it would be denied if the policies in audit mode were enforced too, although it is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Because>,
}

/// The answers of both ends of a conversation. An end that has no rules of its own (a node, an address outside
/// the cluster) gives none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// May the sender send it?
    pub egress: Option<Judgement>,
    /// May the receiver receive it?
    pub ingress: Option<Judgement>,
}

impl Conversation {
    /// Allowed, unless one end denies it.
    pub fn verdict(&self) -> Verdict {
        let denies = |end: &Judgement| end.verdict == Verdict::Deny;
        let denied = self.egress.iter().chain(&self.ingress).any(denies);
        if denied { Verdict::Deny } else { Verdict::Allow }
    }
}

/// The reason of a verdict. The text is the one spelling of it, wherever it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Because {
    /// No policy isolates the subject, or none that does says anything about such packets.
    NoIsolation,
    /// Nobody is known to live at the subject's address, or the pod or namespace of its claim is not known.
    UnknownSubject(IpAddr),
    /// The peer's address is claimed for a pod that is not known, or is of a namespace that is not, and who it
    /// is makes a difference.
    UnknownPeer(IpAddr),
    /// A pod always reaches itself.
    Itself,
    /// A pod's own node always reaches it: the NetworkPolicy API says so of ingress.
    OwnNode(Name),
    /// The tenants of the two namespaces keep apart.
    Tenants {
        /// The subject's.
        own: Tenant,
        /// The peer's.
        other: Tenant,
    },
    /// NetworkPolicies isolate the subject in this direction, and no rule of theirs matches.
    Isolated {
        /// Of those policies, the first by name.
        policy: ObjectRef,
        /// The direction.
        direction: Direction,
    },
    /// A rule decides.
    Rule {
        /// The rule's policy.
        policy: ObjectRef,
        /// The direction it is for.
        direction: Direction,
        /// Its place in the manifest, from 1.
        rule: u16,
        /// Its name, where it has one.
        name: Option<Name>,
        /// A hash of what it says, whatever the order in which it says it.
        fingerprint: u64,
    },
    /// A rule of a ClusterNetworkPolicy that cannot be read, or is of a policy that cannot, and so denies
    /// everything.
    Unreadable {
        /// The rule's policy.
        policy: ObjectRef,
        /// The direction it is for.
        direction: Direction,
        /// Its place in the manifest, from 1.
        rule: u16,
    },
}

impl Because {
    /// Whether the reason is that something is not known yet: the verdict will be another one in a moment,
    /// and must not be remembered for long.
    pub fn is_provisional(&self) -> bool {
        matches!(self, Because::UnknownSubject(_) | Because::UnknownPeer(_))
    }

    /// The policy that decides, where one does.
    pub fn policy(&self) -> Option<&ObjectRef> {
        match self {
            Because::Isolated { policy, .. }
            | Because::Rule { policy, .. }
            | Because::Unreadable { policy, .. } => Some(policy),
            Because::NoIsolation
            | Because::UnknownSubject(_)
            | Because::UnknownPeer(_)
            | Because::Itself
            | Because::OwnNode(_)
            | Because::Tenants { .. } => None,
        }
    }

    /// A hash that is the same in every process and version for the same reason, for cookies. A rule counts
    /// by what it says, not by its number, so that a policy written in another order has the same hashes.
    pub fn stable_hash(&self) -> u64 {
        match self {
            Because::Rule { policy, direction, fingerprint, .. } => {
                fnv(&format!("{policy} {direction} {fingerprint:016x}"))
            }
            Because::Unreadable { policy, direction, .. } => {
                fnv(&format!("{policy} {direction} cannot be read"))
            }
            other => fnv(&other.to_string()),
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::NoIsolation => f.write_str("no isolation"),
            Because::UnknownSubject(address) => write!(f, "nobody known at {address}"),
            Because::UnknownPeer(address) => write!(f, "the pod at {address} is not known yet"),
            Because::Itself => f.write_str("a pod reaches itself"),
            Because::OwnNode(node) => write!(f, "own node {node}"),
            Because::Tenants { own, other } => write!(f, "tenants: {own} does not meet {other}"),
            Because::Isolated { policy, direction } => write!(f, "{policy}: no {direction} rule matches"),
            Because::Rule { policy, direction, rule, name, .. } => {
                write!(f, "{policy}: {direction} rule {rule}")?;
                name.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
            }
            Because::Unreadable { policy, direction, rule } => {
                write!(f, "{policy}: {direction} rule {rule} cannot be read")
            }
        }
    }
}

#[cfg(test)]
mod tests;
