//! A punted packet to decisions: one answer for every table that the packet still has to cross here.

use std::net::IpAddr;

use policy::{Direction, Location, Question};

use super::super::vocabulary::{Origin, Table};
use super::decide::{Decision, decide, tunnel_address, tunnel_to};
use super::packet::{Punt, Tuple};
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

/// Answers a punt. With `patient`, an unknown address is waited for; without, it is
/// answered by a short-lived drop.
#[must_use]
pub fn answer<P: Pods>(punt: &Punt, context: &Context<'_, P>, patient: bool) -> Answer {
    let mut answering = Answering { context, punt, patient, learned: Vec::with_capacity(4) };
    let verdict = match punt.table {
        Table::Guard => answering.tunnelled(),
        Table::Egress => answering.egress(),
        Table::Route => answering.route(),
        Table::Ingress => answering.ingress(),
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

    /// A packet from a tunnel: its source first, then the way back, then its receiver.
    fn tunnelled(&mut self) -> Verdict {
        let Some(tunnel) = self.punt.tunnel else { return Verdict::Drop };
        let Tuple { source, destination, .. } = self.punt.tuple;
        let nobody = tunnel_address(source, self.context).is_none();
        if self.patient && nobody && self.context.world.network_of(source).is_some() {
            return Verdict::Wait(source);
        }
        if !self.ask(Query::TunnelSource { tunnel, source }) {
            return Verdict::Drop;
        }
        self.ask(Query::Route { destination: source });
        if self.context.pods.by_address(destination).is_some() {
            return self.ingress();
        }
        if self.context.site.addresses.contains(&destination) { Verdict::Resume } else { Verdict::Drop }
    }

    fn egress(&mut self) -> Verdict {
        let Some(pod) = self.context.pods.by_port(self.punt.in_port) else { return Verdict::Drop };
        let Tuple { source, destination, traffic } = self.punt.tuple;
        let question = Question { direction: Direction::Egress, subject: source, peer: destination, traffic };
        if self.ask(Query::Egress { zone: pod.zone, question, part: Part::Whole }) {
            self.route()
        } else {
            Verdict::Drop
        }
    }

    /// The way there, and for a remote address the way back as well: established traffic never needs the agent.
    fn route(&mut self) -> Verdict {
        let to = self.punt.tuple.destination;
        if self.punt.origin == Origin::Tunnel {
            return Verdict::Drop;
        }
        if self.context.pods.by_address(to).is_some() {
            return self.ingress();
        }
        if self.context.site.addresses.contains(&to) {
            return Verdict::Resume;
        }
        match self.context.world.locate(to) {
            Location::Outside => self.resume_if(Query::Route { destination: to }),
            Location::Pod { node, .. } | Location::Node(node) => match tunnel_to(&node, self.context) {
                Some(tunnel) => {
                    self.ask(Query::TunnelSource { tunnel, source: to });
                    self.resume_if(Query::Route { destination: to })
                }
                None => self.unknown(to),
            },
            Location::Vacant { .. } => self.unknown(to),
        }
    }

    fn resume_if(&mut self, query: Query) -> Verdict {
        if self.ask(query) { Verdict::Resume } else { Verdict::Drop }
    }

    fn unknown(&mut self, to: IpAddr) -> Verdict {
        if self.patient {
            return Verdict::Wait(to);
        }
        self.ask(Query::Vacant { port: self.punt.in_port, destination: to });
        Verdict::Drop
    }

    fn ingress(&mut self) -> Verdict {
        let Tuple { source, destination, traffic } = self.punt.tuple;
        let Some(pod) = self.context.pods.by_address(destination) else { return Verdict::Drop };
        let question =
            Question { direction: Direction::Ingress, subject: destination, peer: source, traffic };
        self.resume_if(Query::Ingress { zone: pod.zone, question, part: Part::Whole })
    }
}
