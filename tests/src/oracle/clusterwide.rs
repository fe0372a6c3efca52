//! ClusterNetworkPolicies (`policy.networking.k8s.io/v1alpha2`).

use serde_json::Value;

use super::cluster::Cluster;
use super::field::{elements, given, is_audit, only, own_name, text};
use super::labels::selects;
use super::ports::{Match, rule_protocols};
use super::prefix::Prefix;
use super::words::{Direction, End, Who};

/// Before or after the NetworkPolicies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    Admin,
    Baseline,
}

/// What a tier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    Accept,
    Deny,
    Pass,
}

/// What is known of a policy before its rules: whether it can be read but for its rules, and its place.
struct Head<'c> {
    policy: &'c Value,
    readable: bool,
    priority: Option<u64>,
    name: &'c str,
}

/// What the first rule of a tier that matches says; None when none does.
pub(super) fn say(cluster: &Cluster, tier: Tier, end: &End<'_>) -> Option<Say> {
    let Who::Pod { pod, namespace, .. } = end.subject else { return None };
    let mut heads: Vec<Head<'_>> = Vec::new();
    for policy in cluster.objects("ClusterNetworkPolicy") {
        if is_audit(policy) && !end.with_audit {
            continue;
        }
        let (its_tier, priority) = (tier_of(policy), priority(policy));
        let subject = is_subject(policy, pod, namespace);
        // What cannot be read comes first, and speaks about everybody: it can only deny.
        if its_tier.unwrap_or(Tier::Admin) == tier && subject.unwrap_or(true) {
            let place = if its_tier.is_none() { None } else { priority };
            let readable = its_tier.is_some() && priority.is_some() && subject.is_some();
            let name = text(policy, &["metadata", "name"]).unwrap_or_default();
            heads.push(Head { policy, readable, priority: place, name });
        }
    }
    heads.sort_by_key(|head| (head.priority, head.name));
    for head in heads {
        for rule in rules(head.policy, end.direction) {
            let said = match rule {
                Some(rule) if head.readable => rule_says(rule, end),
                Some(rule) if action(rule) == Some(Say::Accept) => None,
                _ => Some(Say::Deny),
            };
            if said.is_some() {
                return said;
            }
        }
    }
    None
}

fn spec(policy: &Value) -> Option<&Value> {
    given(policy, "spec")
}

fn tier_of(policy: &Value) -> Option<Tier> {
    only(spec(policy)?, &["tier", "priority", "subject", "ingress", "egress"])?;
    match given(spec(policy)?, "tier")?.as_str()? {
        "Admin" => Some(Tier::Admin),
        "Baseline" => Some(Tier::Baseline),
        _ => None,
    }
}

/// Where the policy stands in its tier; of two of one priority the name says that, so it must be readable.
fn priority(policy: &Value) -> Option<u64> {
    own_name(policy)?;
    given(spec(policy)?, "priority")?.as_u64().filter(|priority| *priority <= 1000)
}

fn is_subject(policy: &Value, pod: &Value, namespace: &Value) -> Option<bool> {
    let subject = given(spec(policy)?, "subject")?;
    only(subject, &["namespaces", "pods"])?;
    match (given(subject, "namespaces"), given(subject, "pods")) {
        (Some(namespaces), None) => selects(namespaces, namespace),
        (None, Some(pods)) => is_among(pods, pod, namespace),
        _ => None,
    }
}

/// Whether `namespaceSelector` and `podSelector` select a pod; None when that cannot be read.
fn is_among(pods: &Value, pod: &Value, namespace: &Value) -> Option<bool> {
    only(pods, &["namespaceSelector", "podSelector"])?;
    let in_namespace = match given(pods, "namespaceSelector") {
        None => true,
        Some(selector) => selects(selector, namespace)?,
    };
    let among_pods = selects(given(pods, "podSelector")?, pod)?;
    Some(in_namespace && among_pods)
}

/// The rules of a direction in order; a list that cannot be read is one rule that cannot be read.
fn rules(policy: &Value, direction: Direction) -> Vec<Option<&Value>> {
    let field = match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    };
    let Some(spec) = spec(policy) else { return Vec::new() };
    match elements(spec, field) {
        None => vec![None],
        Some(rules) => rules.iter().map(Some).collect(),
    }
}

fn action(rule: &Value) -> Option<Say> {
    match given(rule, "action")?.as_str()? {
        "Accept" => Some(Say::Accept),
        "Deny" => Some(Say::Deny),
        "Pass" => Some(Say::Pass),
        _ => None,
    }
}

/// What one rule says; None when it does not match.
fn rule_says(rule: &Value, end: &End<'_>) -> Option<Say> {
    match (action(rule), matches(rule, end)) {
        (Some(action), Some(Match::Yes)) => Some(action),
        (Some(_), Some(Match::No)) => None,
        // Of a peer that is not known, and of what cannot be read, the worse is taken.
        (Some(Say::Accept), _) => None,
        _ => Some(Say::Deny),
    }
}

/// Whether a rule matches; None when it cannot be read.
fn matches(rule: &Value, end: &End<'_>) -> Option<Match> {
    let field = match end.direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    only(rule, &["name", "action", field, "protocols"])?;
    let peers = elements(rule, field)?;
    if peers.is_empty() {
        return None;
    }
    let mut some_peer = Match::No;
    for peer in peers {
        some_peer = some_peer.max(is_peer(peer, end)?);
    }
    let ports = rule_protocols(rule, end.packet, end.destination())?;
    Some(some_peer.min(ports))
}

/// Whether the other end is the peer meant; None when the peer cannot be read.
fn is_peer(peer: &Value, end: &End<'_>) -> Option<Match> {
    let known: &[&str] = match end.direction {
        Direction::Ingress => &["namespaces", "pods"],
        Direction::Egress => &["namespaces", "pods", "nodes", "networks"],
    };
    only(peer, known)?;
    let mut found = Vec::new();
    if let Some(selector) = given(peer, "namespaces") {
        selects(selector, &Value::Null)?;
        found.push(match end.peer {
            Who::Pod { namespace, .. } => Match::yes_if(selects(selector, namespace)?),
            Who::Unknown => Match::Perhaps,
            _ => Match::No,
        });
    }
    if let Some(pods) = given(peer, "pods") {
        is_among(pods, &Value::Null, &Value::Null)?;
        found.push(match end.peer {
            Who::Pod { pod, namespace, .. } => Match::yes_if(is_among(pods, pod, namespace)?),
            Who::Unknown => Match::Perhaps,
            _ => Match::No,
        });
    }
    if let Some(selector) = given(peer, "nodes") {
        selects(selector, &Value::Null)?;
        found.push(match end.peer {
            Who::Node(node) => Match::yes_if(selects(selector, node)?),
            _ => Match::No,
        });
    }
    if given(peer, "networks").is_some() {
        let mut within = false;
        let networks = elements(peer, "networks")?;
        if networks.is_empty() {
            return None;
        }
        for network in networks {
            within |= Prefix::parse(network.as_str()?)?.contains(end.peer_address);
        }
        found.push(Match::yes_if(within));
    }
    if found.len() == 1 { found.pop() } else { None }
}
