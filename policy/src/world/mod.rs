//! The world: the cluster as it should be, as the sum of the edits so far.

mod change;

pub use change::{Change, Edit, Location, NetworkChoiceError, Resident};

use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::Family;
use crate::manifest::Problem;
use crate::name::PodRef;
use crate::object::{IpClaim, Namespace, Network, Node, Pod};
use crate::region::Region;
use crate::verdict::{Because, Judgement, Question, Verdict};

/// The cluster as it should be.
#[derive(Clone, Debug, Default)]
pub struct World {}

impl World {
    /// An empty world.
    pub fn new() -> World {
        World::default()
    }

    /// Applies one edit and says what it touched.
    pub fn apply(&mut self, edit: Edit) -> Vec<Change> {
        let _ = edit;
        Vec::new()
    }

    /// A pod.
    pub fn pod(&self, reference: &PodRef) -> Option<&Pod> {
        let _ = reference;
        None
    }

    /// All pods, in the order of their references.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        std::iter::empty()
    }

    /// A namespace.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        let _ = name;
        None
    }

    /// All namespaces, in the order of their names.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        std::iter::empty()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        let _ = name;
        None
    }

    /// All nodes, in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        std::iter::empty()
    }

    /// A Network that is in force.
    pub fn network(&self, name: &str) -> Option<&Network> {
        let _ = name;
        None
    }

    /// The Networks that are in force, in the order of their names.
    pub fn networks(&self) -> impl Iterator<Item = &Network> {
        std::iter::empty()
    }

    /// The claim of an address.
    pub fn claim(&self, ip: IpAddr) -> Option<&IpClaim> {
        let _ = ip;
        None
    }

    /// All claims, in the order of their addresses.
    pub fn claims(&self) -> impl Iterator<Item = &IpClaim> {
        std::iter::empty()
    }

    /// The Network in force whose prefix holds the address.
    pub fn network_of(&self, ip: IpAddr) -> Option<&Network> {
        let _ = ip;
        None
    }

    /// Which Network a pod gets: the one its annotation names, else that of its namespace, else the default one.
    /// Without a pod (a container of another runtime) the default one.
    pub fn network_for(&self, pod: Option<&PodRef>) -> Result<&Network, NetworkChoiceError> {
        let _ = pod;
        Err(NetworkChoiceError::NoDefault)
    }

    /// Where packets to an address go.
    pub fn locate(&self, ip: IpAddr) -> Location {
        let _ = ip;
        Location::Outside
    }

    /// Who has an address.
    pub fn resident(&self, ip: IpAddr) -> Resident<'_> {
        let _ = ip;
        Resident::Nobody
    }

    /// Whether no Network's prefix, no claim and no node address meets the prefix.
    pub fn is_outside(&self, net: IpNet) -> bool {
        let _ = net;
        true
    }

    /// What does not fit together: Networks that overlap, two defaults, one address in two pods.
    pub fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// Answers a question about a new conversation.
    pub fn judge(&self, question: &Question) -> Judgement {
        let region = Region::whole(Family::of(question.subject));
        Judgement { verdict: Verdict::Deny, region, because: Because::UnknownSubject(question.subject) }
    }
}
