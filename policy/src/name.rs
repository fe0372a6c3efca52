//! What things are called: names that are cheap to clone, and references to objects.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name as Kubernetes spells it; a clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many names share this text, this one included.
    pub(crate) fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Default for Name {
    fn default() -> Name {
        Name::from("")
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(Arc::from(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name(Arc::from(text))
    }
}

impl From<&Name> for Name {
    fn from(name: &Name) -> Name {
        name.clone()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        String::deserialize(deserializer).map(Name::from)
    }
}

/// A pod by namespace and name; a later pod of the same name has the same reference and another uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// The pod's namespace.
    pub namespace: Name,
    /// The pod's name within the namespace.
    pub name: Name,
}

impl PodRef {
    /// The pod `name` of `namespace`.
    pub fn new(namespace: impl Into<Name>, name: impl Into<Name>) -> PodRef {
        PodRef { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The text is not `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a pod: NAMESPACE/NAME is wanted")]
pub struct ParsePodRefError(pub String);

impl FromStr for PodRef {
    type Err = ParsePodRefError;

    fn from_str(text: &str) -> Result<PodRef, ParsePodRefError> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(PodRef::new(namespace, name))
            }
            _ => Err(ParsePodRefError(text.to_owned())),
        }
    }
}

/// The kinds of object that the world is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `v1` Namespace.
    Namespace,
    /// `v1` Pod.
    Pod,
    /// `v1` Node.
    Node,
    /// `fabric.io/v1alpha1` Network.
    Network,
    /// `fabric.io/v1alpha1` IPClaim.
    #[serde(rename = "IPClaim")]
    IpClaim,
    /// `networking.k8s.io/v1` NetworkPolicy.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `fabric.io/v1alpha1` Trace.
    Trace,
}

impl Kind {
    /// All kinds, in the order in which a store should apply them at start.
    pub const ALL: [Kind; 10] = [
        Kind::Node,
        Kind::Network,
        Kind::Namespace,
        Kind::NetworkPolicy,
        Kind::ClusterNetworkPolicy,
        Kind::Pod,
        Kind::IpClaim,
        Kind::Service,
        Kind::EndpointSlice,
        Kind::Trace,
    ];

    /// The `kind` of the manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Namespace => "Namespace",
            Kind::Pod => "Pod",
            Kind::Node => "Node",
            Kind::Network => "Network",
            Kind::IpClaim => "IPClaim",
            Kind::NetworkPolicy => "NetworkPolicy",
            Kind::ClusterNetworkPolicy => "ClusterNetworkPolicy",
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Trace => "Trace",
        }
    }

    /// The `apiVersion` of the manifest.
    pub fn api_version(self) -> &'static str {
        match self {
            Kind::Namespace | Kind::Pod | Kind::Node | Kind::Service => "v1",
            Kind::Network | Kind::IpClaim | Kind::Trace => "fabric.io/v1alpha1",
            Kind::NetworkPolicy => "networking.k8s.io/v1",
            Kind::ClusterNetworkPolicy => "policy.networking.k8s.io/v1alpha2",
            Kind::EndpointSlice => "discovery.k8s.io/v1",
        }
    }

    /// Whether objects of the kind live in a namespace.
    pub fn is_namespaced(self) -> bool {
        matches!(self, Kind::Pod | Kind::NetworkPolicy | Kind::Service | Kind::EndpointSlice)
    }

    /// The kind of a manifest by its `apiVersion` and `kind`.
    pub fn of_manifest(api_version: &str, kind: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|known| known.as_str() == kind && known.api_version() == api_version)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An object by kind, namespace (where the kind has one) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The object's kind.
    pub kind: Kind,
    /// The namespace of a namespaced object.
    pub namespace: Option<Name>,
    /// The object's name.
    pub name: Name,
}

impl ObjectRef {
    /// A cluster-scoped object.
    pub fn cluster(kind: Kind, name: impl Into<Name>) -> ObjectRef {
        ObjectRef { kind, namespace: None, name: name.into() }
    }

    /// An object within a namespace.
    pub fn namespaced(kind: Kind, namespace: impl Into<Name>, name: impl Into<Name>) -> ObjectRef {
        ObjectRef { kind, namespace: Some(namespace.into()), name: name.into() }
    }
}

impl From<&PodRef> for ObjectRef {
    fn from(pod: &PodRef) -> ObjectRef {
        ObjectRef::namespaced(Kind::Pod, &pod.namespace, &pod.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

#[cfg(test)]
mod tests;
