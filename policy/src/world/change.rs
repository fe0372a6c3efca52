//! What goes into the world and what comes out of it.

use std::net::IpAddr;

use crate::name::{Name, ObjectRef, PodRef};
use crate::object::{IpClaim, Namespace, Object, Pod};

/// One edit of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "an edit is handed on once, not kept")]
pub enum Edit {
    /// The object is as given, whatever it was before.
    Put(Object),
    /// The object is gone.
    Remove(ObjectRef),
}

/// What an edit touched. An edit that changes nothing touches nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Who lives at the address, or where or with which claim, is not what it was.
    Address(IpAddr),
    /// The pod appeared, went, or something about it is different.
    Pod(PodRef),
    /// The namespace appeared, went, or is different; so may be everything about the pods in it.
    Namespace(Name),
    /// The node appeared, went, or is different.
    Node(Name),
    /// The Network came into force, went out of it, or is different; so may be the location of every address
    /// in it.
    Network(Name),
    /// The NetworkPolicy or ClusterNetworkPolicy appeared, went, or is different.
    Policy(ObjectRef),
    /// The Service, or one of its EndpointSlices, appeared, went, or is different.
    Service(ObjectRef),
    /// The request for a trace appeared, went, or is different.
    Trace(Name),
    /// Whether there are tenants at all, or which namespaces are shared by default, is not what it was; so may
    /// be every verdict.
    Tenants,
}

/// Where packets to an address go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// To a pod, or to a container that has claimed the address.
    Pod {
        /// The node that it is on.
        node: Name,
        /// The Network of the address.
        network: Name,
        /// The pod, where the world knows it and it is the one that claimed the address.
        pod: Option<PodRef>,
    },
    /// To a node's own address.
    Node(Name),
    /// Nowhere: in a Network, but nobody's.
    Vacant {
        /// The Network.
        network: Name,
    },
    /// Out of the cluster.
    Outside,
}

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resident<'w> {
    /// A live pod, with its namespace.
    Pod(&'w Pod, &'w Namespace),
    /// A container that is no pod, by its claim.
    Container(&'w IpClaim),
    /// A pod that the world does not know, or whose namespace it does not know, or another one than it knows.
    Unknown,
    /// A node.
    Node(&'w Name),
    /// Nobody of the cluster.
    Nobody,
}

/// Why a pod gets no Network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkChoiceError {
    /// The pod is not known yet.
    #[error("pod {0} is not known yet: try again")]
    UnknownPod(PodRef),
    /// The pod's namespace is not known yet.
    #[error("namespace {0} is not known yet: try again")]
    UnknownNamespace(Name),
    /// An annotation that would choose cannot be read.
    #[error("{object}: the annotation {annotation} cannot be read: correct it")]
    Unreadable {
        /// The pod or namespace.
        object: ObjectRef,
        /// The annotation's key.
        annotation: &'static str,
    },
    /// The Network named does not exist, or is not in force.
    #[error(
        "{object}: the annotation fabric.io/network names {network}, and there is no such Network in force"
    )]
    NoSuchNetwork {
        /// The pod or namespace whose annotation names it.
        object: ObjectRef,
        /// The Network.
        network: Name,
    },
    /// The Network is not for the pod's namespace.
    #[error("Network {network} is not allowed in namespace {namespace} (spec.allowedNamespaces)")]
    NotAllowed {
        /// The Network.
        network: Name,
        /// The namespace; empty for a container that is no pod.
        namespace: Name,
    },
    /// No Network is named, and none is the default.
    #[error(
        "no Network has default: true, and neither the pod nor its namespace names one (fabric.io/network)"
    )]
    NoDefault,
}
