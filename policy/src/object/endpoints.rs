//! EndpointSlices.

use std::net::IpAddr;

use crate::name::{Name, PodRef};
use crate::object::pod::Protocol;

/// A part of the endpoints of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The Service, from the label `kubernetes.io/service-name`.
    pub service: Option<Name>,
    /// The endpoints; those of the address type FQDN are left out.
    pub endpoints: Vec<Endpoint>,
    /// The ports that each of the endpoints has.
    pub ports: Vec<EndpointPort>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its addresses, which are the same endpoint.
    pub addresses: Vec<IpAddr>,
    /// May get new conversations.
    pub ready: bool,
    /// Answers, though it may be terminating.
    pub serving: bool,
    /// Is on its way out.
    pub terminating: bool,
    /// The node it is on.
    pub node: Option<Name>,
    /// The pod behind it.
    pub pod: Option<PodRef>,
}

/// A port of the endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPort {
    /// The name of the Service's port.
    pub name: Name,
    /// Its protocol.
    pub protocol: Protocol,
    /// The number; None means every port.
    pub port: Option<u16>,
}
