//! A punted packet to decisions: one answer for every table that the packet still has to cross here.

use std::net::IpAddr;

use ipnet::IpNet;
use policy::{Direction, Exit, Family, Location};

use super::super::protocols::SCTP;
use super::super::site::LocalPod;
use super::super::vocabulary::{Origin, Table};
use super::decide::decide;
use super::decision::Decision;
use super::packet::{Course, Punt};
use super::ways::{is_judged_beyond, tunnel_address, tunnel_to};
use super::{Context, Part, Pods, Query};

/// What becomes of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on: every table that it still has to cross has its flow.
    Resume,
    /// It does not: the flows drop what follows it.
    Drop,
    /// Nobody is known at this address yet; a claim may be on its way here.
    Wait(IpAddr),
}

/// The answer to a punt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Queries with their decisions, in the order of the tables.
    pub learned: Vec<(Query, Decision)>,
    /// What becomes of the packet.
    pub verdict: Verdict,
}

impl Answer {
    /// The query and decision of policy by which the packet ends here. A packet that goes on may still meet a drop,
    /// which then counts it.
    #[must_use]
    pub fn denied(&self) -> Option<&(Query, Decision)> {
        let last = self.learned.last().filter(|_| self.verdict == Verdict::Drop);
        last.filter(|(_, decision)| !decision.allows && decision.because.is_some())
    }
}

/// Answers a punt. With `patient`, an unknown address is waited for; without, it is
/// answered by a short-lived drop.
#[must_use]
pub fn answer<P: Pods>(punt: &Punt, context: &Context<'_, P>, patient: bool) -> Answer {
    let mut answering = Answering { context, punt, patient, learned: Vec::with_capacity(4) };
    let verdict = match punt.table {
        Table::Guard => answering.tunnelled(),
        Table::Egress => answering.egress(),
        Table::Route => answering.route(),
        Table::Ingress => answering.received(),
        _ => Verdict::Drop,
    };
    Answer { learned: answering.learned, verdict }
}

struct Answering<'a, P> {
    context: &'a Context<'a, P>,
    punt: &'a Punt,
    patient: bool,
    learned: Vec<(Query, Decision)>,
}

impl<P: Pods> Answering<'_, P> {
    /// Decides a query and keeps it; false where the packet may not go on.
    fn ask(&mut self, query: Query) -> bool {
        match decide(&query, self.context) {
            Some(decision) => {
                let allows = decision.allows;
                self.learned.push((query, decision));
                allows
            }
            None => false,
        }
    }

    fn resume_if(&mut self, query: Query) -> Verdict {
        if self.ask(query) { Verdict::Resume } else { Verdict::Drop }
    }

    /// A packet from a tunnel: its source first, then the way back, then its receiver. Whether it opens a conversation
    /// is seen in the receiver's zone only, so it goes on there whatever the receiver says to new ones.
    fn tunnelled(&mut self) -> Verdict {
        let Some(tunnel) = self.punt.tunnel else { return Verdict::Drop };
        let (source, destination) = (self.punt.tuple.source, self.punt.tuple.destination);
        let nobody = tunnel_address(source, self.context).is_none();
        if self.ask(Query::Return { tunnel, source, pod: destination }) {
            return Verdict::Resume;
        }
        if self.patient && nobody && self.context.world.network_of(source).is_some() {
            return Verdict::Wait(source);
        }
        if !self.ask(Query::TunnelSource { tunnel, source }) {
            return Verdict::Drop;
        }
        if self.context.pods.by_address(destination).is_some() {
            self.ask(Query::Route { destination: source });
            self.ingress();
            return Verdict::Resume;
        }
        match self.context.site.addresses.contains(&destination) {
            true => {
                self.ask(Query::Route { destination: source });
                Verdict::Resume
            }
            false => self.leaves(),
        }
    }

    /// A packet from a tunnel that is for nobody here: it may leave under an egress address that this node holds.
    fn leaves(&mut self) -> Verdict {
        if self.context.site.egress.is_empty() {
            return Verdict::Drop;
        }
        let (source, destination) = (self.punt.tuple.source, self.punt.tuple.destination);
        self.ask(Query::Route { destination: source });
        self.resume_if(Query::Exit { source, destination, by_tunnel: true })
    }

    /// Out of the cluster: as the sender's namespace says, or by this node. The way back is known before the answer comes.
    fn outside(&mut self, to: IpAddr) -> Verdict {
        let source = self.punt.tuple.source;
        let exits = |pod: &LocalPod| pod.exits.contains(&Family::of(source));
        let sender = self.context.pods.by_port(self.punt.in_port);
        if !sender.is_some_and(exits) {
            return self.resume_if(Query::Route { destination: to });
        }
        if let Exit::Egress { holder, .. } = self.context.world.exit(source)
            && let Some(tunnel) = tunnel_to(holder, self.context)
        {
            self.ask(Query::Return { tunnel, source: to, pod: source });
        }
        self.resume_if(Query::Exit { source, destination: to, by_tunnel: false })
    }

    fn egress(&mut self) -> Verdict {
        let Some(pod) = self.context.pods.by_port(self.punt.in_port) else { return Verdict::Drop };
        let zone = pod.zone;
        let query = match self.punt.course() {
            // The sender's end has allowed it already.
            Course::Judged(_) if self.punt.asks_peer => return self.route(),
            Course::Judged(part) => Query::Egress { zone, question: self.punt.tuple.at_sender(), part },
            Course::Related => Query::Related { zone, direction: Direction::Egress },
            Course::Stray => return Verdict::Drop,
        };
        if !self.ask(query) {
            return Verdict::Drop;
        }
        self.answers_to(query);
        self.route()
    }

    /// The answers of an association of SCTP that one end just allowed, where that end would not let them pass anyway.
    fn answers_to(&mut self, query: Query) {
        match query {
            Query::Egress { zone, question, part: Part::There(from) } => {
                self.ask(Query::Ingress { zone, question, part: Part::Back(from) });
            }
            Query::Ingress { zone, question, part: Part::There(from) } => {
                self.ask(Query::Egress { zone, question, part: Part::Back(from) });
            }
            _ => {}
        }
    }

    /// The way there, and for a remote address the way back as well: established traffic never needs the agent.
    fn route(&mut self) -> Verdict {
        let to = self.punt.tuple.destination;
        match self.punt.origin {
            Origin::Tunnel => return self.leaves(),
            Origin::Physical => return Verdict::Drop,
            Origin::Pod | Origin::Host => {}
        }
        let here = self.context.site.addresses.contains(&to);
        if let Some(segment) = self.punt.segment.filter(|_| !here && !self.context.world.is_overlay(to)) {
            return self.wire(segment, to);
        }
        if self.context.pods.by_address(to).is_some() {
            return self.ingress();
        }
        if here {
            return Verdict::Resume;
        }
        match self.context.world.locate(to) {
            Location::Vacant { .. } if self.may_be_claimed(to) => Verdict::Wait(to),
            Location::Vacant { .. } if !self.context.world.is_overlay(to) => self.outside(to),
            Location::Outside => self.outside(to),
            Location::Pod { node, .. } | Location::Node(node) => match tunnel_to(&node, self.context) {
                Some(tunnel) => {
                    self.ask(Query::TunnelSource { tunnel, source: to });
                    let guarded = is_judged_beyond(to, self.context);
                    match self.ask(Query::Route { destination: to }) {
                        true => self.peer(to, guarded),
                        false => Verdict::Drop,
                    }
                }
                None => self.unknown(to),
            },
            Location::Vacant { .. } => self.unknown(to),
        }
    }

    /// From a pod of a segment to what the wire leads to. The ways to pods of the segment here, and to groups, are static.
    fn wire(&mut self, segment: u32, to: IpAddr) -> Verdict {
        let neighbour = self.context.pods.by_address(to).and_then(|pod| pod.segment.as_ref());
        let number = neighbour.and_then(|of| self.context.site.segment_number(of));
        if number == Some(segment) {
            return self.ingress();
        }
        if to.is_multicast() || self.is_broadcast(to) {
            // One that has missed its way is in a frame for one.
            return if self.punt.table == Table::Route { Verdict::Drop } else { Verdict::Resume };
        }
        if self.may_be_claimed(to) {
            return Verdict::Wait(to);
        }
        let guarded = is_judged_beyond(to, self.context);
        match self.ask(Query::Wire { segment, destination: to }) {
            true => self.peer(to, guarded),
            false => Verdict::Drop,
        }
    }

    fn is_broadcast(&self, to: IpAddr) -> bool {
        let IpAddr::V4(v4) = to else { return false };
        let network = self.context.world.network_of(to);
        let last = |cidr: &IpNet| cidr.broadcast() == to && cidr.prefix_len() < 31;
        v4.is_broadcast() || network.is_some_and(|network| network.cidrs.iter().any(last))
    }

    /// Whether an address of a segment may be a pod's that is not known here yet.
    fn may_be_claimed(&self, address: IpAddr) -> bool {
        let world = self.context.world;
        self.patient
            && matches!(world.locate(address), Location::Vacant { .. })
            && world.network_of(address).is_some_and(|network| network.usable(address))
    }

    /// The other end of a new conversation with a pod that is reached by a tunnel or a wire, where that has a say in it.
    fn peer(&mut self, to: IpAddr, guarded: bool) -> Verdict {
        let new = self.punt.asks_peer || self.punt.table == Table::Egress;
        let part = match self.punt.course() {
            Course::Judged(part) if new && self.punt.tuple.traffic.protocol != SCTP => part,
            _ => return Verdict::Resume,
        };
        if guarded {
            self.ask(Query::Gate { destination: to });
        }
        // A packet that came here by a gate needs the answer of the other end even if the gate has gone meanwhile.
        let gated = self.punt.asks_peer && self.punt.table == Table::Egress;
        match self.context.pods.by_port(self.punt.in_port) {
            Some(pod) if guarded || gated => {
                let question = self.punt.tuple.at_receiver();
                self.resume_if(Query::Peer { zone: pod.zone, question, part })
            }
            _ => Verdict::Resume,
        }
    }

    fn unknown(&mut self, to: IpAddr) -> Verdict {
        if self.patient {
            return Verdict::Wait(to);
        }
        self.ask(Query::Vacant { port: self.punt.in_port, destination: to });
        Verdict::Drop
    }

    /// What misses at the receiver's end. Of what came by the wire, the way back is not known yet.
    fn received(&mut self) -> Verdict {
        let source = self.punt.tuple.source;
        let by_wire = self.punt.segment.filter(|_| self.punt.origin == Origin::Physical);
        if by_wire.is_some() && self.may_be_claimed(source) {
            return Verdict::Wait(source);
        }
        let verdict = self.ingress();
        if let Some(segment) = by_wire
            && verdict == Verdict::Resume
        {
            self.ask(Query::Wire { segment, destination: source });
        }
        verdict
    }

    fn ingress(&mut self) -> Verdict {
        let Some(pod) = self.context.pods.by_address(self.punt.tuple.destination) else {
            return Verdict::Drop;
        };
        let zone = pod.zone;
        match self.punt.course() {
            Course::Judged(part) => {
                let question = self.punt.tuple.at_receiver();
                let query = Query::Ingress { zone, question, part };
                if self.ask(query) {
                    self.answers_to(query);
                    return Verdict::Resume;
                }
                // It may be an answer, which passes whatever becomes of new associations.
                let answers = matches!(part, Part::There(_)) && self.punt.table != Table::Ingress;
                if answers { Verdict::Resume } else { Verdict::Drop }
            }
            Course::Related => self.resume_if(Query::Related { zone, direction: Direction::Ingress }),
            // What it is in the receiver's zone is seen there.
            Course::Stray if self.punt.table != Table::Ingress => Verdict::Resume,
            Course::Stray => Verdict::Drop,
        }
    }
}
