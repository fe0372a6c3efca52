//! NetworkPolicies (`networking.k8s.io/v1`).

use std::net::IpAddr;

use serde_json::Value;

use super::cluster::Cluster;
use super::field::{below, elements, given, is_audit, only, text};
use super::labels::selects;
use super::ports::{Match, rule_ports};
use super::prefix::Prefix;
use super::words::{Answer, Direction, End, Who};

/// What the NetworkPolicies of the subject's namespace say; None when none isolates this end.
pub(super) fn answer(cluster: &Cluster, end: &End<'_>) -> Option<Answer> {
    let Who::Pod { pod, namespace, .. } = end.subject else { return None };
    let mut isolated = false;
    for policy in cluster.objects("NetworkPolicy") {
        let elsewhere = policy_namespace(policy) != text(namespace, &["metadata", "name"]);
        if elsewhere || (is_audit(policy) && !end.with_audit) {
            continue;
        }
        let selected = subject(policy).map(|selector| selector.is_none_or(|s| selects(s, pod) == Some(true)));
        if selected == Some(false) || !isolates(policy, end.direction) {
            continue;
        }
        isolated = true;
        if selected == Some(true) && some_rule_matches(cluster, policy, end) {
            return Some(Answer::Allow);
        }
    }
    isolated.then_some(Answer::Deny)
}

fn policy_namespace(policy: &Value) -> Option<&str> {
    text(policy, &["metadata", "namespace"]).or(Some("default"))
}

/// The selector of the pods that a policy isolates, `Some(None)` where every pod of the namespace is meant;
/// None when it cannot be read, so that the whole namespace is isolated and no rule matches.
fn subject(policy: &Value) -> Option<Option<&Value>> {
    let Some(spec) = given(policy, "spec") else { return Some(None) };
    match given(spec, "podSelector") {
        Some(selector) => {
            selects(selector, &Value::Null)?;
            Some(Some(selector))
        }
        None => {
            only(spec, &SPEC)?;
            Some(None)
        }
    }
}

const SPEC: [&str; 4] = ["podSelector", "ingress", "egress", "policyTypes"];

/// Whether the policy isolates this direction: both, when that cannot be read.
fn isolates(policy: &Value, direction: Direction) -> bool {
    let Some(spec) = given(policy, "spec") else { return direction == Direction::Ingress };
    if only(spec, &SPEC).is_none() {
        return true;
    }
    let Some(types) = elements(spec, "policyTypes") else { return true };
    if types.iter().any(|kind| !matches!(kind.as_str(), Some("Ingress" | "Egress"))) {
        return true;
    }
    if types.is_empty() {
        // Ingress always, egress where there are egress rules.
        return direction == Direction::Ingress || elements(spec, "egress").is_none_or(|r| !r.is_empty());
    }
    let wanted = match direction {
        Direction::Ingress => "Ingress",
        Direction::Egress => "Egress",
    };
    types.iter().any(|kind| kind.as_str() == Some(wanted))
}

fn some_rule_matches(cluster: &Cluster, policy: &Value, end: &End<'_>) -> bool {
    let field = match end.direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    };
    let rules = below(policy, &["spec"]).and_then(|spec| elements(spec, field)).unwrap_or_default();
    rules.iter().any(|rule| matches(cluster, policy, rule, end) == Some(true))
}

/// Whether a rule matches; None when it cannot be read.
fn matches(cluster: &Cluster, policy: &Value, rule: &Value, end: &End<'_>) -> Option<bool> {
    let field = match end.direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    only(rule, &[field, "ports"])?;
    let peers = elements(rule, field)?;
    let mut some_peer = peers.is_empty();
    for peer in peers {
        some_peer |= is_peer(cluster, policy, peer, end)?;
    }
    let ports = rule_ports(rule, end.packet, end.destination())?;
    Some(some_peer && ports == Match::Yes)
}

/// Whether the other end is the peer meant; None when the peer cannot be read.
fn is_peer(cluster: &Cluster, policy: &Value, peer: &Value, end: &End<'_>) -> Option<bool> {
    only(peer, &["podSelector", "namespaceSelector", "ipBlock"])?;
    let (pods, namespaces) = (given(peer, "podSelector"), given(peer, "namespaceSelector"));
    match (pods, namespaces, given(peer, "ipBlock")) {
        (None, None, None) => None,
        (None, None, Some(block)) => block_contains(block, end.peer_address),
        (pods, namespaces, None) => {
            // Both selectors must be readable, whoever the peer is.
            for selector in [pods, namespaces].into_iter().flatten() {
                selects(selector, &Value::Null)?;
            }
            let Who::Pod { pod, namespace, .. } = end.peer else { return Some(false) };
            let home = cluster.namespace(policy_namespace(policy).unwrap_or_default());
            let in_namespace = match namespaces {
                Some(selector) => selects(selector, namespace)?,
                None => home == Some(namespace),
            };
            let among_pods = match pods {
                Some(selector) => selects(selector, pod)?,
                None => true,
            };
            Some(in_namespace && among_pods)
        }
        (_, _, Some(_)) => None,
    }
}

/// Whether an `ipBlock` contains the address; None when it cannot be read.
fn block_contains(block: &Value, address: IpAddr) -> Option<bool> {
    only(block, &["cidr", "except"])?;
    let cidr = Prefix::parse(given(block, "cidr")?.as_str()?)?;
    let mut contains = cidr.contains(address);
    for except in elements(block, "except")? {
        let except = Prefix::parse(except.as_str()?)?;
        if !cidr.is_wider_than(&except) {
            return None;
        }
        contains &= !except.contains(address);
    }
    Some(contains)
}
