//! Edits: one object put in place or taken away, and what that touched.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::addresses::reported;
use super::{Change, Edit, Holder, Location, Member, World, Written};
use crate::label::Labels;
use crate::name::{Kind, Name, ObjectRef, PodRef};
use crate::object::{
    ClusterNetworkPolicy, EndpointSlice, IpClaim, Namespace, NetworkPolicy, Node, Object, Pod, Service,
    Trace, claim_address,
};
use crate::rules::Policy;

/// What an address looked like at one moment, to tell whether an edit made a difference.
type View = (Location, Who);

#[derive(PartialEq, Eq)]
enum Who {
    Pod(PodRef, Name),
    Container,
    Unknown,
    Node(Name),
    Nobody,
}

impl World {
    /// Applies one edit and says what it touched: nothing, when the world was so already.
    pub fn apply(&mut self, edit: Edit) -> Vec<Change> {
        match edit {
            Edit::Put(mut object) => {
                self.texts.share(&mut object);
                self.put(object)
            }
            Edit::Remove(reference) => self.remove(reference),
        }
    }

    fn put(&mut self, object: Object) -> Vec<Change> {
        let reference = object.reference();
        match object {
            Object::Namespace(namespace) => self.set_namespace(reference.name, Some(namespace)),
            Object::Pod(pod) => self.set_pod(pod.reference.clone(), Some(pod)),
            Object::Node(node) => self.set_node(reference.name, Some(node)),
            Object::Network(network) => networks(self.networks.put(network)),
            Object::IpClaim(claim) => self.put_claim(claim),
            Object::NetworkPolicy(policy) => {
                self.set_policy(policy.namespace.clone(), policy.name.clone(), Some(policy))
            }
            Object::ClusterNetworkPolicy(policy) => {
                self.set_cluster_policy(policy.name.clone(), Some(policy))
            }
            Object::Service(service) => self.put_service(service, reference),
            Object::EndpointSlice(slice) => {
                self.set_slice(slice.namespace.clone(), slice.name.clone(), Some(slice))
            }
            Object::Trace(trace) => self.set_trace(reference.name, Some(trace)),
        }
    }

    fn remove(&mut self, reference: ObjectRef) -> Vec<Change> {
        let ObjectRef { kind, namespace, name } = reference.clone();
        match (kind, namespace) {
            (Kind::Namespace, _) => self.set_namespace(name, None),
            (Kind::Pod, Some(namespace)) => self.set_pod(PodRef { namespace, name }, None),
            (Kind::Node, _) => self.set_node(name, None),
            (Kind::Network, _) => networks(self.networks.remove(&name)),
            (Kind::IpClaim, _) => self.remove_claim(&name),
            (Kind::NetworkPolicy, Some(namespace)) => self.set_policy(namespace, name, None),
            (Kind::ClusterNetworkPolicy, _) => self.set_cluster_policy(name, None),
            (Kind::Service, Some(namespace)) => {
                remove_nested(&mut self.services, &namespace, &name, Change::Service(reference))
            }
            (Kind::EndpointSlice, Some(namespace)) => self.set_slice(namespace, name, None),
            (Kind::Trace, _) => self.set_trace(name, None),
            (Kind::Pod | Kind::NetworkPolicy | Kind::Service | Kind::EndpointSlice, None) => Vec::new(),
        }
    }

    fn set_namespace(&mut self, name: Name, namespace: Option<Namespace>) -> Vec<Change> {
        let before = self.namespaces.get(&name);
        let labels = |namespace: Option<&Namespace>| namespace.map(|namespace| namespace.labels.clone());
        let relabelled = labels(before) != labels(namespace.as_ref());
        let as_before = self.tenants.exchange(before, namespace.as_ref());
        self.egress.exchange(before, namespace.as_ref());
        let mut changes = set(&mut self.namespaces, name.clone(), namespace, Change::Namespace(name.clone()));
        if relabelled {
            self.classes.forget_of(&name, |_| true);
        }
        if !as_before {
            changes.push(Change::Tenants);
        }
        changes
    }

    fn set_policy(&mut self, namespace: Name, name: Name, object: Option<NetworkPolicy>) -> Vec<Change> {
        let of_namespace = self.policies.get(&namespace);
        let before = of_namespace.and_then(|policies| policies.get(&name));
        if before.map(|written| &written.object) == object.as_ref() {
            return Vec::new();
        }
        let before = before.map(|written| Arc::clone(&written.policy));
        let after = object.map(Written::from);
        let both: Vec<Arc<Policy>> =
            before.into_iter().chain(after.as_ref().map(|written| Arc::clone(&written.policy))).collect();
        let change = Change::Policy(ObjectRef::namespaced(Kind::NetworkPolicy, &namespace, &name));
        let concerns = |labels: &Labels| both.iter().any(|policy| policy.subject.may_select(labels));
        self.classes.forget_of(&namespace, concerns);
        match after {
            Some(_) => set(self.policies.entry(namespace).or_default(), name, after, change),
            None => remove_nested(&mut self.policies, &namespace, &name, change),
        }
    }

    fn set_cluster_policy(&mut self, name: Name, object: Option<ClusterNetworkPolicy>) -> Vec<Change> {
        let change = Change::Policy(ObjectRef::cluster(Kind::ClusterNetworkPolicy, &name));
        let changes = set(&mut self.cluster_policies, name, object.map(Written::from), change);
        if !changes.is_empty() {
            self.classes.forget_all();
        }
        changes
    }

    fn set_trace(&mut self, name: Name, trace: Option<Trace>) -> Vec<Change> {
        set(&mut self.traces, name.clone(), trace, Change::Trace(name))
    }

    fn put_service(&mut self, service: Service, reference: ObjectRef) -> Vec<Change> {
        let services = self.services.entry(service.namespace.clone()).or_default();
        set(services, service.name.clone(), Some(service), Change::Service(reference))
    }

    fn set_pod(&mut self, reference: PodRef, pod: Option<Pod>) -> Vec<Change> {
        let before = self.pod(&reference);
        if before == pod.as_ref() {
            return Vec::new();
        }
        let mut concerned: BTreeSet<IpAddr> = self.addresses.claimed_by(&reference).collect();
        concerned.extend(before.into_iter().chain(&pod).flat_map(|pod| reported(pod).iter().copied()));
        let views = self.views(&concerned);
        let before = self.pods.remove(&reference);
        // The new class is entered before the old one is left: a pod that stays in its class keeps it known.
        let class = pod.as_ref().map(|pod| self.classes.enter(pod));
        if let Some(before) = before {
            self.addresses.leave_pod(&before.pod);
            self.classes.leave(&before.pod, before.class);
        }
        if let (Some(pod), Some(class)) = (pod, class) {
            self.addresses.enter_pod(&pod);
            self.pods.insert(reference.clone(), Arc::new(Member { pod, class }));
        }
        for ip in concerned {
            self.settle(ip);
        }
        self.changes(Change::Pod(reference), views)
    }

    fn set_node(&mut self, name: Name, node: Option<Node>) -> Vec<Change> {
        let before = self.nodes.get(&name);
        if before == node.as_ref() {
            return Vec::new();
        }
        let both = before.into_iter().chain(&node);
        let concerned: BTreeSet<IpAddr> = both.flat_map(Node::every_address).collect();
        let views = self.views(&concerned);
        if let Some(before) = self.nodes.remove(&name) {
            self.addresses.leave_node(&before);
        }
        if let Some(node) = node {
            self.addresses.enter_node(&node);
            self.nodes.insert(name.clone(), node);
        }
        self.changes(Change::Node(name), views)
    }

    fn put_claim(&mut self, claim: IpClaim) -> Vec<Change> {
        let (ip, after) = (claim.ip, claim.clone());
        let before = self.addresses.put_claim(claim);
        self.settle(ip);
        let same = before
            .is_some_and(|before| IpClaim { retain: after.retain, since: after.since, ..before } == after);
        if same { Vec::new() } else { vec![Change::Address(ip)] }
    }

    fn remove_claim(&mut self, name: &str) -> Vec<Change> {
        let removed = claim_address(name).and_then(|ip| self.addresses.remove_claim(ip));
        if let Some(claim) = &removed {
            self.settle(claim.ip);
        }
        removed.map(|claim| Change::Address(claim.ip)).into_iter().collect()
    }

    fn set_slice(&mut self, namespace: Name, name: Name, slice: Option<EndpointSlice>) -> Vec<Change> {
        let slices = self.slices.entry(namespace.clone()).or_default();
        let before = slices.get(&name);
        if before == slice.as_ref() {
            return Vec::new();
        }
        let services: BTreeSet<Name> =
            before.into_iter().chain(&slice).filter_map(|slice| slice.service.clone()).collect();
        match slice {
            Some(slice) => drop(slices.insert(name, slice)),
            None => drop(slices.remove(&name)),
        }
        if slices.is_empty() {
            self.slices.remove(&namespace);
        }
        let service = |name| Change::Service(ObjectRef::namespaced(Kind::Service, &namespace, name));
        services.into_iter().map(service).collect()
    }

    fn views(&self, addresses: &BTreeSet<IpAddr>) -> Vec<(IpAddr, View)> {
        addresses.iter().map(|ip| (*ip, self.view(*ip))).collect()
    }

    fn view(&self, ip: IpAddr) -> View {
        let who = match self.holder(ip) {
            Holder::Pod(Member { pod, .. }) => Who::Pod(pod.reference.clone(), pod.uid.clone()),
            Holder::Container(_) => Who::Container,
            Holder::Unknown => Who::Unknown,
            Holder::Node(node) => Who::Node(node.clone()),
            Holder::Nobody => Who::Nobody,
        };
        (self.locate(ip), who)
    }

    /// The change of the object itself, and of the addresses that look otherwise than before.
    fn changes(&self, itself: Change, before: Vec<(IpAddr, View)>) -> Vec<Change> {
        let touched = before.into_iter().filter(|(ip, view)| self.view(*ip) != *view);
        std::iter::once(itself).chain(touched.map(|(ip, _)| Change::Address(ip))).collect()
    }
}

fn networks(names: BTreeSet<Name>) -> Vec<Change> {
    names.into_iter().map(Change::Network).collect()
}

/// Sets or removes one entry; the change is given back unless the entry was so already.
fn set<T: PartialEq>(
    entries: &mut BTreeMap<Name, T>,
    name: Name,
    entry: Option<T>,
    change: Change,
) -> Vec<Change> {
    if entries.get(&name) == entry.as_ref() {
        return Vec::new();
    }
    match entry {
        Some(entry) => drop(entries.insert(name, entry)),
        None => drop(entries.remove(&name)),
    }
    vec![change]
}

/// Removes the entry of a namespace, and the namespace's map with its last entry.
fn remove_nested<T: PartialEq>(
    entries: &mut BTreeMap<Name, BTreeMap<Name, T>>,
    namespace: &Name,
    name: &Name,
    change: Change,
) -> Vec<Change> {
    let Some(inner) = entries.get_mut(namespace) else { return Vec::new() };
    let changes = set(inner, name.clone(), None, change);
    if inner.is_empty() {
        entries.remove(namespace);
    }
    changes
}
