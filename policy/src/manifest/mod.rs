//! The one gate from manifests to objects, the same for a watch event and for a YAML document.
//!
//! Every problem is reported with its source, object and field, and disturbs nothing else. What cannot be
//! read never opens: a rule that cannot be read matches nothing, a NetworkPolicy whose podSelector cannot be
//! read isolates its whole namespace, a policy whose name cannot be read counts all the same. An object of which too little can be read to be safe is refused as a
//! whole. Fields of Kubernetes objects that do not concern a network are passed over; in policies and in
//! Fabric's own kinds a field that is not known is a problem, since it may be a slip, or narrow a rule in a
//! way that is not understood.

mod claim;
mod cluster;
mod meta;
mod network;
mod node;
mod pod;
mod policy;
mod problem;
mod service;
pub mod text;
mod values;
mod walk;

pub use problem::{Admission, Problem, Source};

use serde_json::Value;

use crate::name::{Kind, Name, ObjectRef, PodRef};
use crate::object::Object;
use walk::{At, Gate, Read};

/// Reads one manifest. A list (`kind: List`, `PodList`) is none: see [`documents`].
pub fn admit(source: &Source, value: Value) -> Admission {
    let gate = Gate::new(source);
    let root = At::root(&gate, &value);
    let mut reference = None;
    let object = identify(&root).and_then(|own| {
        gate.name(own.clone());
        reference = Some(own.clone());
        read(&root, own)
    });
    Admission { object: object.ok(), reference, problems: gate.into_problems() }
}

/// The manifests in a document: the items of a list as `kubectl get -o yaml` gives it, none for an empty
/// document, else the document itself.
pub fn documents(document: Value) -> Vec<Value> {
    let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut fields) if is_list => match fields.remove("items") {
            Some(Value::Array(items)) => items,
            _ => vec![Value::Object(fields)],
        },
        other => vec![other],
    }
}

fn identify(root: &At<'_>) -> Read<ObjectRef> {
    let api_version = root.need("apiVersion", values::name)?;
    let kind = root.need("kind", values::name)?;
    let known = Kind::of_manifest(&api_version, &kind)
        .ok_or_else(|| root.fail(format!("{kind} of {api_version} is not a kind that Fabric reads")))?;
    meta::reference(root, known)
}

fn read(root: &At<'_>, own: ObjectRef) -> Read<Object> {
    let ObjectRef { kind, namespace, name } = own.clone();
    Ok(match kind {
        Kind::Namespace => Object::Namespace(node::namespace(root, name)?),
        Kind::Pod => {
            let namespace = namespace.unwrap_or_else(|| Name::from("default"));
            Object::Pod(pod::read(root, PodRef { namespace, name })?)
        }
        Kind::Node => Object::Node(node::node(root, name)?),
        Kind::Network => Object::Network(network::read(root, name)?),
        Kind::IpClaim => Object::IpClaim(claim::claim(root, &name)?),
        Kind::NetworkPolicy => Object::NetworkPolicy(policy::read(root, &own)),
        Kind::ClusterNetworkPolicy => Object::ClusterNetworkPolicy(cluster::read(root, name)),
        Kind::Service => Object::Service(service::service(root, &own)?),
        Kind::EndpointSlice => Object::EndpointSlice(service::slice(root, &own)?),
        Kind::Trace => Object::Trace(claim::trace(root, name)?),
    })
}
