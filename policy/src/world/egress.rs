//! Egress addresses: which namespaces ask for which (`fabric.io/egress-ip`), who holds them, and by which one a pod leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::World;
use crate::address::Family;
use crate::manifest::{Problem, Source};
use crate::name::{Kind, Name, ObjectRef};
use crate::object::{IpClaim, Mode, Namespace};

/// The annotation.
const ANNOTATION: &str = "fabric.io/egress-ip";

/// How what a pod sends to the outside leaves the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit<'w> {
    /// By its own node, as its Network says.
    OwnNode,
    /// Under an egress address, by the node that holds it.
    Egress {
        /// The address.
        address: IpAddr,
        /// The node.
        holder: &'w Name,
    },
    /// Not at all: nobody holds the address, it cannot be one, or which one it is cannot be told.
    Shut,
}

/// What namespaces ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct EgressNames {
    /// The addresses, with the namespaces that ask for each.
    addresses: BTreeMap<IpAddr, BTreeSet<Name>>,
    /// Namespaces whose annotation cannot be read.
    unreadable: BTreeSet<Name>,
}

impl EgressNames {
    /// Enters one namespace in place of another.
    pub(super) fn exchange(&mut self, before: Option<&Namespace>, after: Option<&Namespace>) {
        if let Some(Namespace { name, egress_ips, .. }) = before {
            self.unreadable.remove(name);
            for ip in egress_ips {
                if let Some(names) = self.addresses.get_mut(ip) {
                    names.remove(name);
                }
            }
            self.addresses.retain(|_, names| !names.is_empty());
        }
        if let Some(Namespace { name, egress_ips, unreadable, .. }) = after {
            if unreadable.contains(&ANNOTATION) {
                self.unreadable.insert(name.clone());
            }
            for ip in egress_ips {
                self.addresses.entry(*ip).or_default().insert(name.clone());
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.unreadable.is_empty()
    }
}

impl World {
    /// The claim of an egress address: which node holds it.
    pub fn egress_claim(&self, ip: IpAddr) -> Option<&IpClaim> {
        self.addresses.egress_claim(ip)
    }

    /// All claims of egress addresses, in the order of their addresses.
    pub fn egress_claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.addresses.egress_claims()
    }

    /// The egress addresses that namespaces ask for, with those namespaces, in order.
    pub fn egress_addresses(&self) -> impl Iterator<Item = (IpAddr, &BTreeSet<Name>)> {
        self.egress.addresses.iter().map(|(ip, names)| (*ip, names))
    }

    /// Whether a namespace asks for the address, or a node holds it for one.
    pub fn is_egress(&self, ip: IpAddr) -> bool {
        self.egress.addresses.contains_key(&ip) || self.egress_claim(ip).is_some()
    }

    /// How packets leave the cluster that come from the address of a pod. The answer depends on the pod, its claim and its
    /// namespace, on Networks and Nodes, and on whose the egress address is.
    pub fn exit(&self, pod: IpAddr) -> Exit<'_> {
        let of_overlay = || self.networks.of(pod).is_some_and(|n| matches!(n.mode, Mode::Overlay { .. }));
        if self.egress.is_empty() || !of_overlay() {
            return Exit::OwnNode;
        }
        let Some(name) = self.namespace_of(pod) else { return Exit::OwnNode };
        let Some(namespace) = self.namespaces.get(name) else { return Exit::Shut };
        if self.egress.unreadable.contains(name) {
            return Exit::Shut;
        }
        let family = Family::of(pod);
        let Some(address) = namespace.egress_ips.iter().copied().find(|ip| Family::of(*ip) == family) else {
            return Exit::OwnNode;
        };
        match self.egress_claim(address) {
            Some(claim) if self.egress_fault(address).is_none() => {
                Exit::Egress { address, holder: &claim.node }
            }
            _ => Exit::Shut,
        }
    }

    /// The namespace of whoever has an address: by the claim where there is one, since the claim is known before the pod
    /// and after it.
    fn namespace_of(&self, ip: IpAddr) -> Option<&Name> {
        match self.addresses.claim(ip) {
            Some(claim) => claim.pod.as_ref().map(|pod| &pod.namespace),
            None => self.residents.get(&ip).map(|member| &member.pod.reference.namespace),
        }
    }

    /// Why the address cannot be an egress address, in words.
    pub fn egress_fault(&self, ip: IpAddr) -> Option<String> {
        if let Some(network) = self.networks.of(ip) {
            return Some(format!("it is in the cidrs of Network {}", network.name));
        }
        if let Some(node) = self.addresses.node(ip) {
            return Some(format!("it is an address of node {node}"));
        }
        if let Some(pod) = self.addresses.reporter(ip) {
            return Some(format!("it is the address of pod {pod}"));
        }
        if let Some(claim) = self.addresses.claim(ip) {
            return Some(format!("it is {}", claim.holder()));
        }
        if ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() {
            return Some("it is no address of a host".to_owned());
        }
        let names = self.egress.addresses.get(&ip)?;
        let mut tenants = names.iter().filter_map(|name| self.namespaces.get(name));
        let first = tenants.next()?;
        let other = tenants.find(|other| self.tenants.of(other) != self.tenants.of(first))?;
        Some(format!(
            "namespace {} ({}) and namespace {} ({}) both ask for it",
            first.name,
            self.tenants.of(first),
            other.name,
            self.tenants.of(other)
        ))
    }

    /// What is wrong with the addresses that namespaces ask for.
    pub(super) fn egress_problems(&self) -> impl Iterator<Item = Problem> + '_ {
        let faults =
            self.egress_addresses().filter_map(|(ip, names)| Some((ip, names, self.egress_fault(ip)?)));
        faults.flat_map(|(ip, names, fault)| {
            names.iter().map(move |name| Problem {
                source: Source::world(),
                object: Some(ObjectRef::cluster(Kind::Namespace, name)),
                field: format!("metadata.annotations[{ANNOTATION}]"),
                message: format!(
                    "{ip} cannot be an egress address: {fault}. Nothing leaves the cluster from this namespace's overlay \
                     pods over {} until that changes",
                    Family::of(ip)
                ),
            })
        })
    }
}
