//! The crate `policy` beside the oracle: the same manifests in both, questions in the words of both.

#![allow(dead_code, reason = "each test that includes this uses its part")]

pub mod order;
pub mod region;
pub mod shrink;

use fabric_tests::oracle::{Answer, Cluster, Direction, Packet};
use policy::manifest::{Source, admit};
use policy::{Edit, Name, ObjectRef, Question, Traffic, Verdict, World};
use serde_json::Value;

/// Whether a manifest is admitted as an object.
pub fn is_admitted(manifest: &Value) -> bool {
    admit(&Source::world(), manifest.clone()).object.is_some()
}

/// The edit that puts a manifest into a world.
pub fn put(manifest: &Value) -> Edit {
    let admission = admit(&Source::world(), manifest.clone());
    Edit::Put(admission.object.unwrap_or_else(|| panic!("{:?}\n{manifest}", admission.problems)))
}

/// The edit that takes an object out of a world.
pub fn remove(manifest: &Value) -> Edit {
    Edit::Remove(reference(manifest))
}

/// What an object is called.
pub fn reference(manifest: &Value) -> ObjectRef {
    match put(manifest) {
        Edit::Put(object) => object.reference(),
        Edit::Remove(reference) => reference,
    }
}

/// A world of manifests.
pub fn world<'m>(manifests: impl IntoIterator<Item = &'m Value>) -> World {
    let mut world = World::new();
    for manifest in manifests {
        world.apply(put(manifest));
    }
    world
}

/// Makes these namespaces, instead of kube-system, shared among tenants in both.
pub fn share(names: &[&str], world: &mut World, cluster: &mut Cluster) {
    world.set_shared_namespaces(names.iter().map(|name| Name::from(*name)).collect());
    cluster.set_shared_namespaces(names.iter().map(|name| (*name).to_owned()).collect());
}

/// The direction in the oracle's words.
pub fn direction(of: policy::Direction) -> Direction {
    match of {
        policy::Direction::Egress => Direction::Egress,
        policy::Direction::Ingress => Direction::Ingress,
    }
}

/// The packet in the engine's words.
pub fn traffic(packet: Packet) -> Traffic {
    Traffic { protocol: packet.protocol, port: packet.port }
}

/// The answer in the engine's words.
pub fn verdict(answer: Answer) -> Verdict {
    match answer {
        Answer::Allow => Verdict::Allow,
        Answer::Deny => Verdict::Deny,
    }
}

/// What the oracle answers.
pub fn oracle(cluster: &Cluster, question: &Question) -> Verdict {
    let Question { subject, peer, traffic, .. } = *question;
    verdict(cluster.end(direction(question.direction), subject, peer, traffic.protocol, traffic.port))
}

/// What the oracle would answer if policies in audit mode were enforced.
pub fn oracle_with_audit(cluster: &Cluster, question: &Question) -> Verdict {
    let Question { subject, peer, traffic, .. } = *question;
    verdict(cluster.end_with_audit(
        direction(question.direction),
        subject,
        peer,
        traffic.protocol,
        traffic.port,
    ))
}
