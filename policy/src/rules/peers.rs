//! The other ends that a rule is about.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Match;
use crate::digest::Digest;
use crate::interval::{Intervals, Share};
use crate::name::Name;
use crate::object::{IpBlock, Namespace, Node, Pod};
use crate::selector::{Operator, Requirement, Selector};

/// Peers: whoever is one of `pods` or `nodes`, or has one of the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// Everybody.
    any: bool,
    v4: Intervals<u32>,
    v6: Intervals<u128>,
    pods: Box<[PodPeer]>,
    nodes: Box<[Selector]>,
}

/// Pods by their labels and those of their namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodPeer {
    /// Their namespaces.
    pub(crate) namespaces: Scope,
    /// The pods within them.
    pub(crate) pods: Selector,
}

/// Namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The policy's own.
    Own(Name),
    /// Those selected.
    Selected(Selector),
}

impl PodPeer {
    /// Whether a pod is one of them.
    pub(crate) fn matches(&self, pod: &Pod, namespace: &Namespace) -> bool {
        let scope = match &self.namespaces {
            Scope::Own(own) => *own == namespace.name,
            Scope::Selected(selector) => selector.matches(&namespace.labels),
        };
        scope && self.pods.matches(&pod.labels)
    }
}

/// Who has the peer's address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Identity<'w> {
    /// A live pod.
    Pod(&'w Pod, &'w Namespace),
    /// A container that is no pod.
    Container,
    /// A node.
    Node(&'w Node),
    /// A pod that is not known, or of a namespace that is not.
    Unknown,
    /// Nobody of the cluster.
    Nobody,
}

/// A prefix of addresses, and who is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// The addresses.
    pub(crate) net: IpNet,
    /// Whether no pod and no container has one of them.
    pub(crate) free_of_pods: bool,
    /// Whether no node has one of them.
    pub(crate) free_of_nodes: bool,
}

impl Peers {
    /// Everybody.
    pub(crate) fn everybody() -> Peers {
        Peers { any: true, ..Peers::default() }
    }

    /// Those pods, those nodes, and whoever has an address in one of the blocks.
    pub(crate) fn of(pods: Vec<PodPeer>, nodes: Vec<Selector>, blocks: &[IpBlock]) -> Peers {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for IpBlock { cidr, except } in blocks {
            match cidr {
                IpNet::V4(cidr) => {
                    let except = except.iter().filter_map(|net| match net {
                        IpNet::V4(net) => Some((net.network().into(), net.broadcast().into())),
                        IpNet::V6(_) => None,
                    });
                    v4.extend(Intervals::union(except).gaps(cidr.network().into(), cidr.broadcast().into()));
                }
                IpNet::V6(cidr) => {
                    let except = except.iter().filter_map(|net| match net {
                        IpNet::V6(net) => Some((net.network().into(), net.broadcast().into())),
                        IpNet::V4(_) => None,
                    });
                    v6.extend(Intervals::union(except).gaps(cidr.network().into(), cidr.broadcast().into()));
                }
            }
        }
        let (v4, v6) = (Intervals::union(v4), Intervals::union(v6));
        Peers { any: false, v4, v6, pods: pods.into(), nodes: nodes.into() }
    }

    /// Whether everybody is one of them.
    pub(crate) fn is_everybody(&self) -> bool {
        self.any
    }

    /// Whether a pod is one of them by its labels, whatever its address.
    pub(crate) fn selects(&self, pod: &Pod, namespace: &Namespace) -> bool {
        self.any || self.pods.iter().any(|peer| peer.matches(pod, namespace))
    }

    /// Whether it matters which pod somebody is.
    pub(crate) fn asks_for_pods(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Whether it matters which node somebody is.
    pub(crate) fn asks_for_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Whether some address is one of theirs, whoever has it.
    pub(crate) fn has_addresses(&self) -> bool {
        self.any || !self.v4.is_empty() || !self.v6.is_empty()
    }

    /// How many of the addresses of a prefix are theirs, whoever has them.
    fn share(&self, net: &IpNet) -> Share {
        if self.any {
            return Share::All;
        }
        match net {
            IpNet::V4(net) => self.v4.share(net.network().into(), net.broadcast().into()),
            IpNet::V6(net) => self.v6.share(net.network().into(), net.broadcast().into()),
        }
    }

    /// Whether the one at an address is one of them.
    pub(crate) fn at(&self, address: IpAddr, identity: &Identity<'_>) -> Match {
        if self.share(&IpNet::from(address)) == Share::All {
            return Match::Yes;
        }
        match identity {
            Identity::Pod(pod, namespace) => self.selects(pod, namespace).into(),
            Identity::Node(node) => self.nodes.iter().any(|selector| selector.matches(&node.labels)).into(),
            Identity::Unknown if !self.pods.is_empty() => Match::Unknown,
            Identity::Unknown | Identity::Container | Identity::Nobody => Match::No,
        }
    }

    /// Whether those at the addresses of a prefix are some of them.
    pub(crate) fn within(&self, around: &Around) -> Match {
        let share = self.share(&around.net);
        let nameless =
            (self.pods.is_empty() || around.free_of_pods) && (self.nodes.is_empty() || around.free_of_nodes);
        if share == Share::All || nameless { share.into() } else { Match::Split }
    }

    /// What they are, whatever the order in which it was said.
    pub(crate) fn fingerprint(&self) -> u64 {
        let pods = self.pods.iter().map(|peer| {
            let scope = match &peer.namespaces {
                Scope::Own(name) => Digest::new().number(0u8).text(name),
                Scope::Selected(selector) => Digest::new().number(1u8).list(&[selected(selector)]),
            };
            scope.list(&[selected(&peer.pods)]).finish()
        });
        let mut digest = Digest::new().number(u8::from(self.any)).set(pods.collect());
        digest = digest.set(self.nodes.iter().map(selected).collect());
        for (first, last) in self.v4.iter() {
            digest = digest.number(4u8).number(first).number(last);
        }
        for (first, last) in self.v6.iter() {
            digest = digest.number(6u8).number(first).number(last);
        }
        digest.finish()
    }
}

/// What a selector says, whatever the order of its requirements and values.
pub(super) fn selected(selector: &Selector) -> u64 {
    let requirement = |Requirement { key, operator }: &Requirement| {
        let (kind, values) = match operator {
            Operator::In(values) => (0u8, values.as_slice()),
            Operator::NotIn(values) => (1, values.as_slice()),
            Operator::Exists => (2, [].as_slice()),
            Operator::DoesNotExist => (3, [].as_slice()),
        };
        let values = values.iter().map(|value| Digest::new().text(value).finish());
        Digest::new().text(key).number(kind).set(values.collect()).finish()
    };
    Digest::new().set(selector.requirements.iter().map(requirement).collect()).finish()
}
