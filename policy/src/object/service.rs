//! Services.

use std::net::IpAddr;

use crate::name::Name;
use crate::object::pod::Protocol;

/// A Service, as far as a network balances it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// `spec.clusterIPs`, else `clusterIP`; empty for headless and ExternalName Services.
    pub cluster_ips: Vec<IpAddr>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress[].ip`, where the mode of the address is VIP.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// `sessionAffinity: ClientIP`: how many seconds a client keeps its endpoint.
    pub affinity_seconds: Option<u32>,
    /// `internalTrafficPolicy: Local`: clients in the cluster use endpoints of their own node only.
    pub internal_local: bool,
    /// `externalTrafficPolicy: Local`: clients outside use endpoints of the node they reach only.
    pub external_local: bool,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty where the Service has one port only.
    pub name: Name,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port at the Service's own addresses.
    pub port: u16,
    /// The port at the endpoints, as the Service says it; the EndpointSlices have it resolved.
    pub target_port: TargetPort,
    /// The port at every node's addresses.
    pub node_port: Option<u16>,
}

/// The port at the endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// The number.
    Number(u16),
    /// The name that each endpoint's pod resolves.
    Named(Name),
}
