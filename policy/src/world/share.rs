//! One copy of each text: names and label sets that repeat from object to object are shared.

use std::collections::HashSet;

use crate::label::Labels;
use crate::name::{Name, PodRef};
use crate::object::{
    Endpoint, EndpointSlice, IpClaim, NamedPort, Namespace, Node, Object, Pod, PodAnnotations, PodIdent,
};

/// The texts in use. Those that nobody uses any more are forgotten whenever the number has doubled.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    names: HashSet<Name>,
    labels: HashSet<Labels>,
    sweep_names_at: usize,
    sweep_labels_at: usize,
}

const SWEEP_FLOOR: usize = 4096;

impl Texts {
    fn name(&mut self, name: &mut Name) {
        if let Some(known) = self.names.get(name.as_str()) {
            *name = known.clone();
            return;
        }
        if self.names.len() >= self.sweep_names_at {
            self.names.retain(|name| name.sharers() > 1);
            self.sweep_names_at = SWEEP_FLOOR.max(self.names.len() * 2);
        }
        self.names.insert(name.clone());
    }

    fn optional(&mut self, name: &mut Option<Name>) {
        if let Some(name) = name {
            self.name(name);
        }
    }

    fn pod(&mut self, pod: &mut PodRef) {
        let PodRef { namespace, name } = pod;
        self.name(namespace);
        self.name(name);
    }

    fn labels(&mut self, labels: &mut Labels) {
        if let Some(known) = self.labels.get(labels) {
            *labels = known.clone();
            return;
        }
        if self.labels.len() >= self.sweep_labels_at {
            self.labels.retain(|labels| labels.sharers() > 1);
            self.sweep_labels_at = SWEEP_FLOOR.max(self.labels.len() * 2);
        }
        let mut pairs: Vec<(Name, Name)> = labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        for (key, value) in &mut pairs {
            self.name(key);
            self.name(value);
        }
        *labels = Labels::from_iter(pairs);
        self.labels.insert(labels.clone());
    }

    /// Shares the texts of the kinds of object that come in great numbers; of the others there are few.
    pub(super) fn share(&mut self, object: &mut Object) {
        match object {
            Object::Pod(pod) => self.share_pod(pod),
            Object::IpClaim(claim) => self.share_claim(claim),
            Object::EndpointSlice(slice) => self.share_slice(slice),
            Object::Namespace(Namespace { name, labels, network, .. }) => {
                self.name(name);
                self.labels(labels);
                self.optional(network);
            }
            Object::Node(Node { name, labels, .. }) => {
                self.name(name);
                self.labels(labels);
            }
            Object::Network(network) => self.name(&mut network.name),
            Object::NetworkPolicy(_)
            | Object::ClusterNetworkPolicy(_)
            | Object::Service(_)
            | Object::Trace(_) => {}
        }
    }

    fn share_pod(&mut self, pod: &mut Pod) {
        let Pod {
            reference,
            uid,
            labels,
            annotations,
            node,
            ips,
            host_network: _,
            finished: _,
            keeps_addresses: _,
            terminating: _,
            ports,
        } = pod;
        self.pod(reference);
        self.name(uid);
        self.labels(labels);
        let PodAnnotations {
            network,
            fixed_ips: _,
            ip_ranges: _,
            ingress_bandwidth: _,
            egress_bandwidth: _,
            unreadable: _,
        } = annotations;
        self.optional(network);
        self.optional(node);
        ips.shrink_to_fit();
        ports.shrink_to_fit();
        for NamedPort { name, .. } in ports {
            self.name(name);
        }
    }

    fn share_claim(&mut self, claim: &mut IpClaim) {
        let IpClaim { ip: _, network, mac: _, node, pod, owner, retain: _, since: _ } = claim;
        self.name(network);
        self.name(node);
        owner.shrink_to_fit();
        if let Some(PodIdent { namespace, name, uid }) = pod {
            self.name(namespace);
            self.name(name);
            self.name(uid);
        }
    }

    fn share_slice(&mut self, slice: &mut EndpointSlice) {
        let EndpointSlice { namespace, name, service, endpoints, ports: _ } = slice;
        self.name(namespace);
        self.name(name);
        self.optional(service);
        for Endpoint { node, pod, .. } in endpoints {
            self.optional(node);
            if let Some(pod) = pod {
                self.pod(pod);
            }
        }
    }
}
