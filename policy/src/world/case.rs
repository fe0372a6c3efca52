//! One question about a pod, and the widest region around it that has the same answer.
//!
//! First the ports are widened for the one peer: everything that may be sent; the protocol; blocks of ports. Then the
//! peer's prefix is widened for those ports. Each step asks the rules in order whether they match all, none or some
//! of the packets. Where some do, the step is too wide. So whatever is answered holds for every packet of
//! the region, with the same reason, and regions that overlap agree.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::World;
use crate::address::Family;
use crate::name::Name;
use crate::object::{Node, Pod, Protocol};
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
    /// The node that the pod runs on.
    pub(super) node: Option<&'w Name>,
    /// Whether the peer is that node.
    pub(super) is_own_node: bool,
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

/// How far the prefixes around the peer are free of others.
struct Surroundings {
    pods: u8,
    nodes: u8,
}

/// The protocol of Kubernetes with that number.
pub(super) fn with_ports(protocol: u8) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|known| known.number() == protocol)
}

/// What is sent, from the widest view to the packet itself, with the protocol and ports of its region.
fn views(traffic: Traffic) -> Vec<(Packets, Option<u8>, PortBlock)> {
    let Traffic { protocol: number, port } = traffic;
    let everything = (Packets::Shown(Sent::Everything), None, PortBlock::All);
    let Some(protocol) = with_ports(number) else {
        return vec![everything, (Packets::Shown(Sent::Portless), Some(number), PortBlock::All)];
    };
    let whole = (Packets::Shown(Sent::To(protocol, 0, u16::MAX)), Some(number), PortBlock::All);
    let mut views = vec![everything, whole];
    match port {
        None => views.push((Packets::Hidden(protocol), Some(number), PortBlock::Hidden)),
        Some(port) => views.extend(PORT_MASKS.map(|mask| {
            let (first, last) = (port & mask, port | !mask);
            let block = PortBlock::Block { base: first, mask };
            (Packets::Shown(Sent::To(protocol, first, last)), Some(number), block)
        })),
    }
    views
}

impl<'w> Case<'w> {
    /// The answer.
    pub(super) fn judge(&self) -> Judgement {
        let near = self.near();
        let found = views(self.question.traffic).into_iter().find_map(|(packets, protocol, ports)| {
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
        let near = self.near();
        let (packets, ..) = views(self.question.traffic).pop()?;
        self.outcome_at_peer(packets, &near).map(|outcome| outcome.enforced)
    }

    /// Whether a policy is about the pod.
    pub(super) fn selected_by(&self, policy: &Policy) -> bool {
        let namespace = self.world.namespaces.get(&self.pod.reference.namespace);
        namespace.is_some_and(|namespace| policy.subject.selects(namespace, &self.pod.labels))
    }

    /// Whether each rule is about the peer.
    fn near(&self) -> Vec<Match> {
        self.side.rules().map(|(_, rule)| rule.peers.at(self.question.peer, &self.peer)).collect()
    }

    fn outcome_at_peer(&self, packets: Packets, near: &[Match]) -> Option<Outcome<'w>> {
        let destination = self.destination();
        self.outcome(packets, destination, |place, rule, sent| {
            let peer = near.get(place).copied().unwrap_or(Match::Split);
            if peer == Match::No { Match::No } else { peer.and(rule.ports.at(sent, destination)) }
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
    pub(super) fn exemption(&self) -> Option<Because> {
        let Question { subject, peer, .. } = self.question;
        match self.node {
            _ if peer == subject => Some(Because::Itself),
            Some(node) if self.is_own_node => Some(Because::OwnNode(node.clone())),
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
        let surroundings = OnceCell::new();
        let denied = outcome.enforced.denies() || outcome.audit.is_some();
        if denied && self.exemption().is_some() {
            return IpNet::from(self.question.peer);
        }
        widest_prefix(self.question.peer, |net| {
            let free = surroundings.get_or_init(|| self.surroundings());
            let around = Around {
                net: *net,
                free_of_pods: net.prefix_len() >= free.pods,
                free_of_nodes: net.prefix_len() >= free.nodes,
            };
            let kept = !self.by_tenant || around.free_of_pods;
            kept && !(denied && self.has_exempt(net)) && self.outcome_around(packets, &around).is_some()
        })
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

    fn surroundings(&self) -> Surroundings {
        let peer = self.question.peer;
        let addresses = &self.world.addresses;
        Surroundings { pods: addresses.free_of_pods(peer), nodes: addresses.free_of_nodes(peer) }
    }

    /// Whether the rules do not count for some address of the prefix.
    fn has_exempt(&self, net: &IpNet) -> bool {
        let of_node = |address: IpAddr| net.contains(&address);
        let node = self.node.filter(|_| self.question.direction == Direction::Ingress);
        let own = node.and_then(|node| self.world.nodes.get(node));
        net.contains(&self.question.subject) || own.into_iter().flat_map(Node::every_address).any(of_node)
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
        let mut borders = BTreeSet::from([0]);
        for (_, rule) in self.side.rules() {
            rule.ports.borders(protocol, destination, &mut borders);
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
