//! ClusterNetworkPolicies (`policy.networking.k8s.io/v1alpha2`): what administrators say before and after the
//! NetworkPolicies of the namespaces.

use ipnet::IpNet;

use crate::name::Name;
use crate::object::rule::{Enforcement, PortMatch, Readable};
use crate::selector::Selector;

/// A ClusterNetworkPolicy. One whose tier, priority or subject cannot be read accepts nothing; its other
/// rules must be taken to deny everything, to all pods if the subject is what cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetworkPolicy {
    /// Its name.
    pub name: Name,
    /// Before or after NetworkPolicy.
    pub tier: Readable<Tier>,
    /// Its place within the tier, 0 to 1000; the lower number is judged first.
    pub priority: Readable<u16>,
    /// The pods it speaks about.
    pub subject: Readable<ClusterSubject>,
    /// The ingress rules, in order.
    pub ingress: Vec<AdminRule>,
    /// The egress rules, in order.
    pub egress: Vec<AdminRule>,
    /// Whether its verdicts are enforced.
    pub enforcement: Enforcement,
}

/// When a policy is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Before NetworkPolicy.
    Admin,
    /// For pods that no NetworkPolicy isolates.
    Baseline,
}

/// The pods that a ClusterNetworkPolicy speaks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSubject {
    /// All pods of the namespaces selected.
    Namespaces(Selector),
    /// The pods selected, in the namespaces selected.
    Pods(Namespaced),
}

/// Pods of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaced {
    /// The namespaces.
    pub namespaces: Selector,
    /// The pods within them.
    pub pods: Selector,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminRule {
    /// Its name, where it has one.
    pub name: Option<Name>,
    /// What happens to what it matches. An Accept that cannot be read in full matches nothing; any other rule
    /// that cannot must be taken to deny everything (the API's comment on `ClusterNetworkPolicyEgressPeer`).
    pub action: Readable<Action>,
    /// `from` or `to`: at least one.
    pub peers: Readable<Vec<AdminPeer>>,
    /// `protocols`; empty means every port and protocol.
    pub ports: Readable<Vec<AdminPort>>,
}

/// One element of `protocols`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminPort {
    /// Destination ports of a protocol.
    Numbered(PortMatch),
    /// The port that the destination pod calls so, whatever its protocol.
    Named(Name),
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Allowed, whatever comes later.
    Accept,
    /// Denied, whatever comes later.
    Deny,
    /// The next tier decides.
    Pass,
}

/// Whom a rule speaks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminPeer {
    /// All pods of the namespaces selected.
    Namespaces(Selector),
    /// The pods selected, in the namespaces selected.
    Pods(Namespaced),
    /// The nodes selected (egress only).
    Nodes(Selector),
    /// Addresses (egress only).
    Networks(Vec<IpNet>),
}
