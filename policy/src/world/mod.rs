//! The world: the cluster as it should be, as the sum of the edits so far.
//!
//! The objects are kept as they are, beside indexes that say who has an address and which Network it is of.
//! An edit costs the logarithm of the world's size, and gives exactly what it touched. Nothing depends on the
//! order of edits.

mod addresses;
mod case;
mod change;
mod classes;
mod edit;
mod egress;
mod explain;
mod isolation;
mod lint;
mod networks;
mod runs;
mod share;
mod tenants;

pub use change::{Change, Edit, Location, NetworkChoiceError, Resident};
pub use egress::Exit;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::address::IpRange;
use crate::manifest::{Problem, Source};
use crate::name::{Kind, Name, ObjectRef, PodRef};
use crate::object::{
    ClusterNetworkPolicy, EndpointSlice, IpClaim, Namespace, Network, NetworkPolicy, Node, Pod, Service,
    Trace,
};
use crate::rules::Policy;
use addresses::Addresses;
use classes::{ClassId, Classes};
use egress::EgressNames;
use networks::Networks;
use share::Texts;
use tenants::Tenants;

/// The cluster as it should be.
#[derive(Clone, Debug, Default)]
pub struct World {
    namespaces: BTreeMap<Name, Namespace>,
    pods: BTreeMap<PodRef, Arc<Member>>,
    /// The pods by the addresses that are theirs: what [`World::holder`] would find, kept for the sake of verdicts.
    residents: HashMap<IpAddr, Arc<Member>>,
    nodes: BTreeMap<Name, Node>,
    networks: Networks,
    addresses: Addresses,
    egress: EgressNames,
    policies: BTreeMap<Name, BTreeMap<Name, Written<NetworkPolicy>>>,
    cluster_policies: BTreeMap<Name, Written<ClusterNetworkPolicy>>,
    services: BTreeMap<Name, BTreeMap<Name, Service>>,
    slices: BTreeMap<Name, BTreeMap<Name, EndpointSlice>>,
    traces: BTreeMap<Name, Trace>,
    texts: Texts,
    tenants: Tenants,
    classes: Classes,
}

/// A pod, and the class that policies see it by.
#[derive(Clone, Debug)]
struct Member {
    pod: Pod,
    class: ClassId,
}

/// A policy as it is written, and as it is judged by.
#[derive(Clone, Debug)]
struct Written<T> {
    object: T,
    policy: Arc<Policy>,
}

impl<T> From<T> for Written<T>
where
    for<'o> Policy: From<&'o T>,
{
    fn from(object: T) -> Written<T> {
        let policy = Arc::new(Policy::from(&object));
        Written { object, policy }
    }
}

impl<T: PartialEq> PartialEq for Written<T> {
    fn eq(&self, other: &Written<T>) -> bool {
        self.object == other.object
    }
}

/// The one that an address is held by, whether or not its namespace is known.
#[derive(Clone, Copy, Debug)]
enum Holder<'w> {
    Pod(&'w Member),
    Container(&'w IpClaim),
    Unknown,
    Node(&'w Name),
    Nobody,
}

impl World {
    /// An empty world.
    pub fn new() -> World {
        World::default()
    }

    /// A pod.
    pub fn pod(&self, reference: &PodRef) -> Option<&Pod> {
        self.pods.get(reference).map(|member| &member.pod)
    }

    /// All pods, in the order of their references.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|member| &member.pod)
    }

    /// The pods of a namespace, in the order of their names.
    pub fn pods_of<'w>(&'w self, namespace: &'w Name) -> impl Iterator<Item = &'w Pod> {
        let first = PodRef { namespace: namespace.clone(), name: Name::default() };
        let pods =
            self.pods.range(first..).take_while(move |(reference, _)| reference.namespace == *namespace);
        pods.map(|(_, member)| &member.pod)
    }

    /// A namespace.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// All namespaces, in the order of their names.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// All nodes, in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// A Network that is in force.
    pub fn network(&self, name: &str) -> Option<&Network> {
        self.networks.get(name)
    }

    /// The Networks that are in force, in the order of their names.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        self.networks.iter()
    }

    /// Those of them that are overlays.
    pub fn overlays(&self) -> impl Iterator<Item = &Network> {
        self.networks().filter(|network| network.is_overlay())
    }

    /// Whether an address is of an overlay that is in force.
    pub fn is_overlay(&self, ip: IpAddr) -> bool {
        self.network_of(ip).is_some_and(Network::is_overlay)
    }

    /// The claim of an address by a container.
    pub fn claim(&self, ip: IpAddr) -> Option<&IpClaim> {
        self.addresses.claim(ip)
    }

    /// All claims by containers, in the order of their addresses.
    pub fn claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.addresses.claims()
    }

    /// The claims that name a pod, of whatever uid.
    pub fn claims_of<'w>(&'w self, pod: &'w PodRef) -> impl Iterator<Item = &'w IpClaim> {
        self.addresses.claimed_by(pod).filter_map(|ip| self.addresses.claim(ip))
    }

    /// The claims that name a node, in the order of their addresses.
    pub fn claims_on<'w>(&'w self, node: &str) -> impl Iterator<Item = &'w IpClaim> + use<'w> {
        self.addresses.claimed_on(node).filter_map(|ip| self.addresses.claim(ip))
    }

    /// The nodes that claims name, whether or not there is a Node object of the name, in order.
    pub fn claiming_nodes(&self) -> impl Iterator<Item = &Name> {
        self.addresses.claiming_nodes()
    }

    /// The claims of the addresses of a range, in the order of their addresses.
    pub fn claims_within(&self, range: &IpRange) -> impl Iterator<Item = &IpClaim> {
        self.addresses.claims_within(range)
    }

    /// The first addresses in a row, of those of a range, that nobody has: no claim, no live pod and no node. It costs
    /// the logarithm of the world's size, however many before them are taken.
    pub fn gap(&self, within: &IpRange) -> Option<IpRange> {
        self.addresses.gap(within)
    }

    /// The NetworkPolicies of a namespace, in the order of their names.
    pub fn network_policies(&self, namespace: &str) -> impl Iterator<Item = &NetworkPolicy> {
        self.policies.get(namespace).into_iter().flat_map(BTreeMap::values).map(|written| &written.object)
    }

    /// The ClusterNetworkPolicies, in the order of their names.
    pub fn cluster_network_policies(&self) -> impl Iterator<Item = &ClusterNetworkPolicy> {
        self.cluster_policies.values().map(|written| &written.object)
    }

    /// A Service.
    pub fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.get(namespace).and_then(|services| services.get(name))
    }

    /// All Services, in the order of namespace and name.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values().flat_map(BTreeMap::values)
    }

    /// The EndpointSlices of a namespace, in the order of their names.
    pub fn endpoint_slices(&self, namespace: &str) -> impl Iterator<Item = &EndpointSlice> {
        self.slices.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// The requests for a trace, in the order of their names.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        self.traces.values()
    }

    /// The Network in force whose prefix holds the address.
    pub fn network_of(&self, ip: IpAddr) -> Option<&Network> {
        self.networks.of(ip)
    }

    /// Where packets to an address go: where its claim says; else where the live pod is that reports it, if
    /// it is an address of a Network; else to the node that has it.
    pub fn locate(&self, ip: IpAddr) -> Location {
        let holder = self.holder(ip);
        if let Some(claim) = self.addresses.claim(ip).filter(|claim| !claim.is_idle()) {
            let pod =
                if let Holder::Pod(member) = holder { Some(member.pod.reference.clone()) } else { None };
            return Location::Pod { node: claim.node.clone(), network: claim.network.clone(), pod };
        }
        match (holder, self.networks.of(ip)) {
            (Holder::Pod(Member { pod: Pod { reference, node: Some(node), .. }, .. }), Some(network)) => {
                Location::Pod {
                    node: node.clone(),
                    network: network.name.clone(),
                    pod: Some(reference.clone()),
                }
            }
            (Holder::Node(node), _) => Location::Node(node.clone()),
            (_, Some(network)) => Location::Vacant { network: network.name.clone() },
            (_, None) => Location::Outside,
        }
    }

    /// Who has an address: by its claim; else the live pod that reports it; else the node. A pod inherits
    /// nothing from an earlier one at its address: the claim's uid decides.
    pub fn resident(&self, ip: IpAddr) -> Resident<'_> {
        match self.holder(ip) {
            Holder::Pod(Member { pod, .. }) => match self.namespaces.get(&pod.reference.namespace) {
                Some(namespace) => Resident::Pod(pod, namespace),
                None => Resident::Unknown,
            },
            Holder::Container(claim) => Resident::Container(claim),
            Holder::Unknown => Resident::Unknown,
            Holder::Node(node) => Resident::Node(node),
            Holder::Nobody => Resident::Nobody,
        }
    }

    fn holder(&self, ip: IpAddr) -> Holder<'_> {
        if let Some(member) = self.residents.get(&ip) {
            return Holder::Pod(member);
        }
        match self.addresses.claim(ip) {
            Some(claim) if claim.is_idle() => Holder::Nobody,
            Some(claim) if claim.pod.is_none() => Holder::Container(claim),
            Some(_) => Holder::Unknown,
            None => self.addresses.node(ip).map_or(Holder::Nobody, Holder::Node),
        }
    }

    /// The pod that an address is of: the one that has claimed it; without a claim the one that reports it.
    fn owner(&self, ip: IpAddr) -> Option<&Arc<Member>> {
        let Some(claim) = self.addresses.claim(ip) else {
            return self.addresses.reporter(ip).and_then(|pod| self.pods.get(pod));
        };
        let ident = claim.pod.as_ref().filter(|_| !claim.is_idle())?;
        let member = self.pods.get(&ident.reference())?;
        Some(member).filter(|member| member.pod.is_live() && ident.is_uid(&member.pod.uid))
    }

    /// Notes whose the address is, after what decides it has changed.
    fn settle(&mut self, ip: IpAddr) {
        match self.owner(ip).cloned() {
            Some(member) => drop(self.residents.insert(ip, member)),
            None => drop(self.residents.remove(&ip)),
        }
    }

    /// Whether no Network's prefix, no claim and no node address meets the prefix.
    pub fn is_outside(&self, net: IpNet) -> bool {
        self.networks.meeting(&net).is_none() && !self.addresses.meets(&net)
    }

    /// Which Network a pod gets: the one its annotation names, else that of its namespace, else the default
    /// one. Without a pod (a container of another runtime) the default one. A pod whose annotations for
    /// addresses cannot be read gets none.
    pub fn network_for(&self, pod: Option<&PodRef>) -> Result<&Network, NetworkChoiceError> {
        let Some(reference) = pod else {
            let network = self.networks.default().ok_or(NetworkChoiceError::NoDefault)?;
            return allowed(network, None);
        };
        let pod = self.pod(reference).ok_or_else(|| NetworkChoiceError::UnknownPod(reference.clone()))?;
        let namespace = self
            .namespaces
            .get(&reference.namespace)
            .ok_or_else(|| NetworkChoiceError::UnknownNamespace(reference.namespace.clone()))?;
        let network = self.network_named(pod, namespace)?;
        allowed(network, Some(namespace))
    }

    fn network_named(&self, pod: &Pod, namespace: &Namespace) -> Result<&Network, NetworkChoiceError> {
        let object = || ObjectRef::from(&pod.reference);
        if let Some(annotation) = pod.annotations.unreadable.iter().find(|key| key.starts_with("fabric.io/"))
        {
            return Err(NetworkChoiceError::Unreadable { object: object(), annotation });
        }
        if let Some(name) = &pod.annotations.network {
            return self.network_by(name, object);
        }
        let object = || ObjectRef::cluster(Kind::Namespace, &namespace.name);
        if let Some(annotation) = namespace.unreadable.iter().find(|key| **key == "fabric.io/network") {
            return Err(NetworkChoiceError::Unreadable { object: object(), annotation });
        }
        match &namespace.network {
            Some(name) => self.network_by(name, object),
            None => self.networks.default().ok_or(NetworkChoiceError::NoDefault),
        }
    }

    fn network_by(
        &self,
        name: &Name,
        object: impl Fn() -> ObjectRef,
    ) -> Result<&Network, NetworkChoiceError> {
        let missing = || NetworkChoiceError::NoSuchNetwork { object: object(), network: name.clone() };
        self.networks.get(name).ok_or_else(missing)
    }

    /// How many objects of a kind there are; of Networks, those that are in force.
    pub fn count(&self, kind: Kind) -> usize {
        fn inner<T>(by_namespace: &BTreeMap<Name, BTreeMap<Name, T>>) -> usize {
            by_namespace.values().map(BTreeMap::len).sum()
        }
        match kind {
            Kind::Namespace => self.namespaces.len(),
            Kind::Pod => self.pods.len(),
            Kind::Node => self.nodes.len(),
            Kind::Network => self.networks.count(),
            Kind::IpClaim => self.addresses.claim_count(),
            Kind::NetworkPolicy => inner(&self.policies),
            Kind::ClusterNetworkPolicy => self.cluster_policies.len(),
            Kind::Service => inner(&self.services),
            Kind::EndpointSlice => inner(&self.slices),
            Kind::Trace => self.traces.len(),
        }
    }

    /// What does not fit together, although each object is good by itself: Networks that overlap, two
    /// defaults, one address in several live pods, an egress address that cannot be one.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.networks.problems().to_vec();
        problems.extend(self.addresses.contested().filter_map(|(ip, pods)| contest(ip, pods)));
        problems.extend(self.egress_problems());
        problems
    }
}

fn allowed<'w>(
    network: &'w Network,
    namespace: Option<&Namespace>,
) -> Result<&'w Network, NetworkChoiceError> {
    let fits = match (&network.allowed_namespaces, namespace) {
        (None, _) => true,
        (Some(selector), Some(namespace)) => selector.matches(&namespace.labels),
        (Some(_), None) => false,
    };
    let namespace = namespace.map(|namespace| namespace.name.clone()).unwrap_or_default();
    if fits {
        Ok(network)
    } else {
        Err(NetworkChoiceError::NotAllowed { network: network.name.clone(), namespace })
    }
}

fn contest(ip: IpAddr, pods: &BTreeSet<PodRef>) -> Option<Problem> {
    let mut pods = pods.iter();
    let (first, second) = (pods.next()?, pods.next()?);
    let message =
        format!("{ip} is an address of pod {first} too, which counts unless a claim says otherwise");
    Some(Problem {
        source: Source::world(),
        object: Some(ObjectRef::from(second)),
        field: "status.podIPs".to_owned(),
        message,
    })
}
