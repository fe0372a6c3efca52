//! The objects of the world, typed: what the gate makes of manifests.

mod claim;
mod cluster;
mod endpoints;
mod network;
mod node;
mod pod;
mod rule;
mod service;

pub use claim::{EGRESS, IpClaim, PodIdent, claim_address, claim_name, to_manifest};
pub use cluster::{
    Action, AdminPeer, AdminPort, AdminRule, ClusterNetworkPolicy, ClusterSubject, Namespaced, Tier,
};
pub use endpoints::{Endpoint, EndpointPort, EndpointSlice};
pub use network::{Encap, Mode, Network};
pub use node::{Namespace, Node, Tenant};
pub use pod::{NamedPort, Pod, PodAnnotations, Protocol};
pub use rule::{Enforcement, IpBlock, NetworkPolicy, Peer, PolicyRule, Port, PortMatch, Readable, Subject};
pub use service::{Service, ServicePort, TargetPort};

use crate::address::Family;
use crate::name::{Kind, Name, ObjectRef, PodRef};

/// One object of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A namespace.
    Namespace(Namespace),
    /// A pod.
    Pod(Pod),
    /// A node.
    Node(Node),
    /// A network that pods get addresses from.
    Network(Network),
    /// The claim of an address.
    IpClaim(IpClaim),
    /// A NetworkPolicy.
    NetworkPolicy(NetworkPolicy),
    /// A ClusterNetworkPolicy.
    ClusterNetworkPolicy(ClusterNetworkPolicy),
    /// A Service.
    Service(Service),
    /// A part of a Service's endpoints.
    EndpointSlice(EndpointSlice),
    /// A request for a trace.
    Trace(Trace),
}

impl Object {
    /// What the object is called.
    pub fn reference(&self) -> ObjectRef {
        match self {
            Object::Namespace(o) => ObjectRef::cluster(Kind::Namespace, &o.name),
            Object::Pod(o) => ObjectRef::from(&o.reference),
            Object::Node(o) => ObjectRef::cluster(Kind::Node, &o.name),
            Object::Network(o) => ObjectRef::cluster(Kind::Network, &o.name),
            Object::IpClaim(o) => ObjectRef::cluster(Kind::IpClaim, claim_name(o.ip)),
            Object::NetworkPolicy(o) => ObjectRef::namespaced(Kind::NetworkPolicy, &o.namespace, &o.name),
            Object::ClusterNetworkPolicy(o) => ObjectRef::cluster(Kind::ClusterNetworkPolicy, &o.name),
            Object::Service(o) => ObjectRef::namespaced(Kind::Service, &o.namespace, &o.name),
            Object::EndpointSlice(o) => ObjectRef::namespaced(Kind::EndpointSlice, &o.namespace, &o.name),
            Object::Trace(o) => ObjectRef::cluster(Kind::Trace, &o.name),
        }
    }
}

/// A request to trace one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The object's name.
    pub name: Name,
    /// The pod that sends.
    pub from: PodRef,
    /// Where to: `NAMESPACE/NAME`, an address, or `svc/NAMESPACE/NAME`.
    pub to: String,
    /// The transport protocol; without it ICMP.
    pub protocol: Option<Protocol>,
    /// The destination port, for a transport protocol.
    pub port: Option<u16>,
    /// The family to use where the destination has both.
    pub family: Option<Family>,
}
