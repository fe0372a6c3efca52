//! What is told of packets that policy denies, or would deny if audit counted.

use policy::{Because, Direction, Question, Resident};

use super::memory::Reasons;
use super::{Command, Denial, End, Node};
use crate::pipeline::learned::{Denied, Query, Verdict};

impl Node {
    /// Counts a denied packet, and a conversation that audit would deny; tells of it where its subject wants that.
    pub(super) fn count_answer(&mut self, query: &Query, reasons: &Reasons, verdict: Verdict) {
        let question = match *query {
            Query::Egress { question, .. }
            | Query::Ingress { question, .. }
            | Query::Peer { question, .. } => question,
            _ => return,
        };
        let goes_on = verdict == Verdict::Resume;
        // A denied packet that goes on meets the flow that drops it, and counts it.
        if reasons.allows == goes_on {
            self.tallies.count(reasons, 1);
        }
        match (&reasons.because, &reasons.audit) {
            (Some(because), _) if !reasons.allows => self.tell(&question, because, false),
            (_, Some(audit)) if goes_on => self.tell(&question, audit, true),
            _ => {}
        }
    }

    /// A packet that a flow has dropped, and counted.
    pub(super) fn tell_of_copy(&mut self, denied: &Denied) {
        let judgement = self.world.judge(&denied.question);
        if judgement.verdict == policy::Verdict::Deny {
            self.tell(&denied.question, &judgement.because, false);
        }
    }

    /// Tells of a denied packet, if the namespace of the subject wants that.
    pub(super) fn tell(&mut self, question: &Question, because: &Because, audit: bool) {
        let Question { direction, subject, peer, traffic } = *question;
        if !matches!(self.world.resident(subject), Resident::Pod(_, namespace) if namespace.log_denied) {
            return;
        }
        let (from, to) = match direction {
            Direction::Egress => (subject, peer),
            Direction::Ingress => (peer, subject),
        };
        let denial = Denial {
            direction,
            from: self.end(from),
            to: self.end(to),
            protocol: traffic.protocol,
            port: traffic.port,
            because: because.to_string(),
            audit,
        };
        self.command(Command::Report(denial));
    }

    fn end(&self, address: std::net::IpAddr) -> End {
        let name = match self.world.resident(address) {
            Resident::Pod(pod, _) => Some(format!("pod {}", pod.reference)),
            Resident::Container(claim) => Some(format!("container {}", claim.owner)),
            Resident::Node(node) => Some(format!("node {node}")),
            Resident::Unknown | Resident::Nobody => None,
        };
        End { address, name }
    }
}
