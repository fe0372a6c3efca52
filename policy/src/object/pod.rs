//! Pods.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::IpRange;
use crate::label::Labels;
use crate::name::{Name, PodRef};

/// A pod, as far as a network needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub reference: PodRef,
    /// `metadata.uid`; empty where the manifest has none.
    pub uid: Name,
    /// Its labels.
    pub labels: Labels,
    /// The annotations that Fabric reads.
    pub annotations: PodAnnotations,
    /// `spec.nodeName`, once the pod is scheduled.
    pub node: Option<Name>,
    /// `status.podIPs`, else `status.podIP`.
    pub ips: Vec<IpAddr>,
    /// `spec.hostNetwork`: the pod uses its node's addresses.
    pub host_network: bool,
    /// Phase Succeeded or Failed: its containers do not run again, its addresses are not its own any more.
    pub finished: bool,
    /// Whether it keeps its addresses when it is made anew under the same name: `fabric.io/keep-ip` says so, or, where
    /// that is not given, a StatefulSet owns it.
    pub keeps_addresses: bool,
    /// Whether it has been told to end (`metadata.deletionTimestamp`).
    pub terminating: bool,
    /// The named ports of its containers and of its sidecars (init containers that keep running).
    pub ports: Vec<NamedPort>,
}

impl Pod {
    /// Whether the pod has a network of its own and may still use it.
    pub fn is_live(&self) -> bool {
        !self.finished && !self.host_network
    }
}

/// The annotations of a pod that Fabric reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAnnotations {
    /// `fabric.io/network`: the Network to take addresses from.
    pub network: Option<Name>,
    /// `fabric.io/ip`: fixed addresses, at most one per family.
    pub fixed_ips: Vec<IpAddr>,
    /// `fabric.io/ip-range`: the addresses that its workload may use.
    pub ip_ranges: Vec<IpRange>,
    /// `kubernetes.io/ingress-bandwidth`: what the pod may receive, in bits per second.
    pub ingress_bandwidth: Option<u64>,
    /// `kubernetes.io/egress-bandwidth`: what the pod may send, in bits per second.
    pub egress_bandwidth: Option<u64>,
    /// The annotations of the above that could not be read.
    pub unreadable: Vec<&'static str>,
}

/// A port that a container gives a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedPort {
    /// The port's name.
    pub name: Name,
    /// Its protocol.
    pub protocol: Protocol,
    /// `containerPort`.
    pub port: u16,
}

/// The transport protocols that Kubernetes knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// What an absent protocol means.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The number in the IP header.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }

    /// As manifests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
