//! One question about a pod, and the widest region around it that has the same answer.
//!
//! First the ports are widened for the one peer: everything that may be sent; the protocol; blocks of ports. Then the
//! peer's prefix is widened for those ports. Each step asks the rules in order whether they match all, none or some
//! of the packets. Where some do, the step is too wide. So whatever is answered holds for every packet of
//! the region, with the same reason, and regions that overlap agree.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::World;
use crate::address::Family;
use crate::name::Name;
use crate::object::{Action, Node, Pod, Protocol};
use crate::question::{Direction, Question, Traffic};
use crate::region::{PORT_MASKS, PortBlock, Region, widest_prefix};
use crate::rules::{Around, Destination, Ending, Identity, Match, Policy, Rule, Sent, Side};
use crate::verdict::{Because, Judgement, Verdict};

/// A question about a pod.
pub(super) struct Case<'w> {
    pub(super) world: &'w World,
    pub(super) question: Question,
    pub(super) pod: &'w Pod,
    /// What the policies say.
    pub(super) side: &'w Side,
    /// Who has the peer's address.
    pub(super) peer: Identity<'w>,
    /// Whether the tenants of the two were looked at, which let them talk.
    pub(super) by_tenant: bool,
}

/// Packets of one peer, or of several, that differ in what is sent.
#[derive(Clone, Copy)]
enum Packets {
    Shown(Sent),
    /// Later fragments: what any of the protocol's ports may, they may.
    Hidden(Protocol),
}

/// How it ends for some packets.
#[derive(Clone, Copy)]
struct Outcome<'w> {
    enforced: Ending<'w>,
    /// How it ends when the policies in audit mode count too, where that makes the difference of being denied.
    audit: Option<Ending<'w>>,
}

/// The protocol of Kubernetes with that number.
pub(super) fn with_ports(protocol: u8) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|known| known.number() == protocol)
}

/// What is sent, from the widest view to the packet itself, with the protocol and ports of its region.
fn views(traffic: Traffic) -> impl Iterator<Item = (Packets, Option<u8>, PortBlock)> {
    let protocol = with_ports(traffic.protocol);
    let everything = (Packets::Shown(Sent::Everything), None, PortBlock::All);
    let whole = protocol.map_or(Sent::Portless, |protocol| Sent::To(protocol, 0, u16::MAX));
    let own = Some(traffic.protocol);
    let hidden = protocol.filter(|_| traffic.port.is_none());
    let hidden = hidden.map(|protocol| (Packets::Hidden(protocol), own, PortBlock::Hidden));
    let blocks = protocol.zip(traffic.port).into_iter().flat_map(move |(protocol, port)| {
        PORT_MASKS.into_iter().map(move |mask| {
            let (first, last) = (port & mask, port | !mask);
            let block = PortBlock::Block { base: first, mask };
            (Packets::Shown(Sent::To(protocol, first, last)), own, block)
        })
    });
    [everything, (Packets::Shown(whole), own, PortBlock::All)].into_iter().chain(hidden).chain(blocks)
}

impl<'w> Case<'w> {
    /// The answer.
    pub(super) fn judge(&self) -> Judgement {
        // Whether each rule is about the peer is asked once, where it is asked at all.
        let near = vec![Cell::new(None); self.side.rule_count];
        let found = views(self.question.traffic).find_map(|(packets, protocol, ports)| {
            self.outcome_at_peer(packets, &near).map(|outcome| (outcome, packets, protocol, ports))
        });
        let Some((outcome, packets, protocol, ports)) = found else {
            // The narrowest view is one packet, which no rule matches in part.
            let region = Region::whole(Family::of(self.question.peer));
            let because = Because::UnknownPeer(self.question.peer);
            return Judgement { verdict: Verdict::Deny, region, because, audit: None };
        };
        let region = Region { peer: self.widest(packets, &outcome), protocol, ports };
        self.conclude(&outcome, region)
    }

    /// What the rules come to, before the peers that they do not count for.
    pub(super) fn ruled(&self) -> Option<Ending<'w>> {
        let (packets, ..) = views(self.question.traffic).last()?;
        self.outcome_at_peer(packets, &[]).map(|outcome| outcome.enforced)
    }

    /// Whether a policy is about the pod.
    pub(super) fn selected_by(&self, policy: &Policy) -> bool {
        let namespace = self.world.namespaces.get(&self.pod.reference.namespace);
        namespace.is_some_and(|namespace| policy.subject.selects(namespace, &self.pod.labels))
    }

    fn outcome_at_peer(&self, packets: Packets, near: &[Cell<Option<Match>>]) -> Option<Outcome<'w>> {
        let destination = self.destination();
        self.outcome(packets, destination, |place, rule, sent| {
            let ports = rule.ports.at(sent, destination);
            if ports == Match::No {
                return Match::No;
            }
            let ask = || rule.peers.at(self.question.peer, &self.peer);
            let Some(known) = near.get(place) else { return ports.and(ask()) };
            let peer = known.get().unwrap_or_else(ask);
            known.set(Some(peer));
            ports.and(peer)
        })
    }

    fn conclude(&self, outcome: &Outcome<'_>, region: Region) -> Judgement {
        let Question { direction, peer, .. } = self.question;
        let because = |ending: &Ending<'_>| ending.because(direction, peer);
        match self.exemption() {
            Some(exempt) if outcome.enforced.denies() => {
                Judgement { verdict: Verdict::Allow, region, because: exempt, audit: None }
            }
            exempt => Judgement {
                verdict: outcome.enforced.verdict(),
                region,
                because: because(&outcome.enforced),
                audit: outcome.audit.as_ref().filter(|_| exempt.is_none()).map(because),
            },
        }
    }

    /// Why the peer is let through where the rules deny it.
    fn exemption(&self) -> Option<Because> {
        if self.question.peer == self.question.subject {
            return Some(Because::Itself);
        }
        self.own_node_asks().map(|node| Because::OwnNode(node.clone()))
    }

    /// The pod's own node, where the peer is that.
    pub(super) fn own_node_asks(&self) -> Option<&'w Name> {
        match self.peer {
            Identity::Node(node) if self.question.direction == Direction::Ingress => {
                let own = self.world.node_of(self.question.subject, self.pod);
                Some(&node.name).filter(|name| own == Some(name))
            }
            _ => None,
        }
    }

    /// The end that names of ports are looked up at, for the one peer.
    pub(super) fn destination(&self) -> Destination<'w> {
        match (self.question.direction, &self.peer) {
            (Direction::Ingress, _) => Destination::Pod(self.pod),
            (Direction::Egress, Identity::Pod(pod, _)) => Destination::Pod(pod),
            (Direction::Egress, Identity::Unknown) => Destination::Unknown,
            (Direction::Egress, _) => Destination::NoPod,
        }
    }

    /// The widest prefix around the peer for which the packets have the same outcome.
    fn widest(&self, packets: Packets, outcome: &Outcome<'_>) -> IpNet {
        let denied = outcome.enforced.denies() || outcome.audit.is_some();
        if denied && self.exemption().is_some() {
            return IpNet::from(self.question.peer);
        }
        let free_of_pods = self.free_of_pods();
        let exempt = OnceCell::new();
        widest_prefix(self.question.peer, |net| {
            let around = Around {
                net: *net,
                free_of_pods: net.prefix_len() >= free_of_pods,
                free_of_nodes: net.prefix_len() >= self.free_of_nodes(),
            };
            let kept = !self.by_tenant || around.free_of_pods;
            let exempt = || exempt.get_or_init(|| self.exempt()).iter().any(|address| net.contains(address));
            kept && self.outcome_around(packets, &around).is_some() && !(denied && exempt())
        })
    }

    /// From which length on the prefixes around the peer hold no pod and no container, where that matters.
    fn free_of_pods(&self) -> u8 {
        match self.peer {
            _ if !self.by_tenant && !self.side.asks_for_pods => 0,
            Identity::Pod(..) | Identity::Container | Identity::Unknown => u8::MAX,
            Identity::Node(_) | Identity::Nobody => self.world.addresses.free_of_pods(self.question.peer),
        }
    }

    /// From which length on the prefixes around the peer hold no node, where that matters.
    fn free_of_nodes(&self) -> u8 {
        if self.side.asks_for_nodes { self.world.addresses.free_of_nodes(self.question.peer) } else { 0 }
    }

    /// The addresses that are let through whatever the rules say.
    fn exempt(&self) -> Vec<IpAddr> {
        let subject = self.question.subject;
        if self.question.direction == Direction::Egress {
            return vec![subject];
        }
        let own = self.world.node_of(subject, self.pod).and_then(|node| self.world.nodes.get(node));
        own.into_iter().flat_map(Node::every_address).chain([subject]).collect()
    }

    fn outcome_around(&self, packets: Packets, around: &Around) -> Option<Outcome<'w>> {
        let destination = match self.question.direction {
            Direction::Ingress => Destination::Pod(self.pod),
            Direction::Egress if around.free_of_pods => Destination::NoPod,
            Direction::Egress => Destination::Several,
        };
        self.outcome(packets, destination, |_, rule, sent| {
            let ports = rule.ports.at(sent, destination);
            if ports == Match::No { Match::No } else { ports.and(rule.peers.within(around)) }
        })
    }

    /// How it ends for packets of which `test` knows whether a rule, by its place, matches them.
    fn outcome(
        &self,
        packets: Packets,
        destination: Destination<'_>,
        test: impl Fn(usize, &Rule, Sent) -> Match,
    ) -> Option<Outcome<'w>> {
        let ending = |with_audit| match packets {
            Packets::Shown(sent) => self.side.ending(with_audit, |place, rule| test(place, rule, sent)),
            Packets::Hidden(protocol) => self.hidden(with_audit, protocol, destination, &test),
        };
        let enforced = ending(false)?;
        if enforced.denies() || !self.side.is_audited {
            return Some(Outcome { enforced, audit: None });
        }
        Some(Outcome { enforced, audit: Some(ending(true)?).filter(Ending::denies) })
    }

    /// How it ends for later fragments: as for the lowest port that is allowed; where none is, as for the lowest
    /// whose answer waits for something to be known, else as for port 0.
    fn hidden(
        &self,
        with_audit: bool,
        protocol: Protocol,
        destination: Destination<'_>,
        test: &impl Fn(usize, &Rule, Sent) -> Match,
    ) -> Option<Ending<'w>> {
        let some = Sent::To(protocol, 0, u16::MAX);
        let rules = self.side.rules().enumerate().map(|(place, (_, rule))| (place, rule));
        let concerned: Vec<&Rule> = rules
            .filter(|(place, rule)| test(*place, rule, some) != Match::No)
            .map(|(_, rule)| rule)
            .collect();
        // Where rules only accept, nothing that one of them accepts is lost by looking at its lowest port alone.
        let accept_only = concerned.iter().all(|rule| rule.action == Action::Accept);
        let mut borders = BTreeSet::from([0]);
        for rule in concerned {
            if accept_only {
                borders.extend(rule.ports.lowest(protocol, destination));
            } else {
                rule.ports.borders(protocol, destination, &mut borders);
            }
        }
        let mut denied = None;
        for port in borders {
            let sent = Sent::To(protocol, port, port);
            let ending = self.side.ending(with_audit, |place, rule| test(place, rule, sent))?;
            if !ending.denies() {
                return Some(ending);
            }
            match denied {
                None => denied = Some(ending),
                Some(Ending::UnknownPeer) => {}
                Some(_) if matches!(ending, Ending::UnknownPeer) => denied = Some(ending),
                Some(_) => {}
            }
        }
        denied
    }
}
