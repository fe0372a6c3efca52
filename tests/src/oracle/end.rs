//! The order in which the rules are asked about one end of a conversation.

use super::cluster::Cluster;
use super::clusterwide::{Say, Tier, say};
use super::field::text;
use super::namespaced;
use super::tenants;
use super::words::{Answer, Direction, End, Packet, Who};

/// What one end says.
pub(super) fn answer(cluster: &Cluster, end: &End<'_>) -> Answer {
    match end.subject {
        Who::Unknown | Who::Outside => return Answer::Deny,
        Who::Node(_) => return Answer::Allow,
        Who::Pod { .. } | Who::Container { .. } => {}
    }
    if end.packet.is_fragment() {
        return fragment(cluster, end);
    }
    if end.peer_address == end.subject_address || is_from_own_node(end) {
        return Answer::Allow;
    }
    if !tenants::let_talk(cluster, end.subject, end.peer) {
        return Answer::Deny;
    }
    match say(cluster, Tier::Admin, end) {
        Some(Say::Accept) => return Answer::Allow,
        Some(Say::Deny) => return Answer::Deny,
        Some(Say::Pass) | None => {}
    }
    if let Some(answer) = namespaced::answer(cluster, end) {
        return answer;
    }
    match say(cluster, Tier::Baseline, end) {
        Some(Say::Deny) => Answer::Deny,
        Some(Say::Accept | Say::Pass) | None => Answer::Allow,
    }
}

/// A later fragment shows no port: it may pass when some port may.
fn fragment(cluster: &Cluster, end: &End<'_>) -> Answer {
    let some = cluster.ports_that_matter().into_iter().any(|port| {
        let packet = Packet { port: Some(port), ..end.packet };
        answer(cluster, &End { packet, ..*end }) == Answer::Allow
    });
    Answer::allow_if(some)
}

/// A node reaches its own pods, whatever the policies say.
fn is_from_own_node(end: &End<'_>) -> bool {
    let (Who::Pod { node: own, .. } | Who::Container { node: own }) = end.subject else { return false };
    let Who::Node(node) = end.peer else { return false };
    end.direction == Direction::Ingress && own.is_some() && own == text(node, &["metadata", "name"])
}
