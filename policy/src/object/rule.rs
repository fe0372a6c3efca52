//! NetworkPolicies (`networking.k8s.io/v1`), with what could not be read kept as such, so that it never
//! opens.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::name::Name;
use crate::object::pod::Protocol;
use crate::selector::Selector;

/// A part of a policy that was read, or that could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readable<T> {
    /// As the manifest says.
    Read(T),
    /// The manifest has something here that cannot be read; it was reported when the object was admitted.
    Unreadable,
}

/// A NetworkPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// The namespace whose pods it speaks about.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The pods it isolates.
    pub subject: Subject,
    /// The ingress rules, in the order of the manifest; None when it does not isolate ingress.
    pub ingress: Option<Vec<Readable<PolicyRule>>>,
    /// The egress rules; None when it does not isolate egress.
    pub egress: Option<Vec<Readable<PolicyRule>>>,
    /// Whether its verdicts are enforced.
    pub enforcement: Enforcement,
}

/// The pods that a NetworkPolicy isolates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `podSelector`.
    Pods(Selector),
    /// The selector cannot be read: every pod of the namespace is isolated, and the policy's rules match
    /// nothing, since they were not written for all of them.
    WholeNamespace,
}

/// `fabric.io/mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// The verdicts hold.
    #[default]
    Enforce,
    /// The verdicts are logged and counted only.
    Audit,
}

/// One rule: what matches one of the peers and one of the ports is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// `from` or `to`; empty means every peer.
    pub peers: Vec<Peer>,
    /// `ports`; empty means every port and protocol.
    pub ports: Vec<PortMatch>,
}

/// Whom a rule speaks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Pods.
    Pods {
        /// Their namespaces; None means the policy's own.
        namespaces: Option<Selector>,
        /// The pods within them; None means all.
        pods: Option<Selector>,
    },
    /// Addresses.
    Block(IpBlock),
}

/// `ipBlock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpBlock {
    /// The prefix, host bits cleared.
    pub cidr: IpNet,
    /// Prefixes within it that are left out, host bits cleared.
    pub except: Vec<IpNet>,
}

impl IpBlock {
    /// Whether the address is in the prefix and in none of the exceptions.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|except| except.contains(&address))
    }
}

/// One element of `ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMatch {
    /// The protocol.
    pub protocol: Protocol,
    /// The destination ports.
    pub port: Port,
}

/// Destination ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// Absent: every port.
    Any,
    /// From the first to the last, both included; one port is a range of one.
    Range(u16, u16),
    /// The port that the destination pod calls so.
    Named(Name),
}
