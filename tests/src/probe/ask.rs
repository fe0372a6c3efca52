//! Questions asked with real packets, many at once.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::bed::Bed;
use super::packet::Packet;
use super::place::{Place, fresh_port};
use super::station::{Outcome, Pending, ask_tcp, ask_udp};
use super::witness::Sighting;
use crate::frames::build::ethernet;
use crate::frames::forgery::ROUTER;
use crate::frames::segment::{SCTP, TCP, chunk, sctp};
use crate::oracle::Answer;

/// Protocol number of UDP.
pub const UDP: u8 = 17;

/// Of a datagram that asks.
const BYTES: usize = 6;

/// May this conversation be opened?
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// Who opens it: the name of a place.
    pub from: String,
    /// By which of its addresses.
    pub from_address: IpAddr,
    /// To which address.
    pub to_address: IpAddr,
    /// TCP, UDP or SCTP.
    pub protocol: u8,
    /// To which port.
    pub port: u16,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            TCP => "TCP",
            UDP => "UDP",
            SCTP => "SCTP",
            _ => "?",
        };
        write!(f, "{} ({}) to {} {protocol} {}", self.from, self.from_address, self.to_address, self.port)
    }
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What the one who asked saw.
    pub outcome: Outcome,
    /// Packets of it that arrived where it was sent to.
    pub arrived: usize,
}

impl Finding {
    /// The answer that this amounts to; nothing where the ends do not agree.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        match (&self.outcome, self.arrived) {
            (Outcome::Reached(_), 1..) => Some(Answer::Allow),
            (Outcome::Silent, 0) => Some(Answer::Deny),
            _ => None,
        }
    }
}

/// One question under way.
enum Asked {
    ByStation(Pending<Outcome>),
    ByHand(Outcome),
}

/// Opens what the questions need at their destinations, where nothing is served yet.
pub fn serve<'q>(bed: &Bed, questions: impl IntoIterator<Item = &'q Question>) {
    let mut served = std::collections::BTreeSet::new();
    for question in questions {
        let at = SocketAddr::new(question.to_address, question.port);
        if !served.insert((question.protocol, at)) {
            continue;
        }
        let station = &bed.place_of(question.to_address).station;
        let bound = match question.protocol {
            TCP => station.serve_tcp(at),
            UDP => station.serve_udp(at),
            _ => Ok(()),
        };
        bound.unwrap_or_else(|error| panic!("serve {question}: {error}"));
    }
}

/// Asks all questions, `pace` after each other, each for as long as `patience` says.
#[must_use]
pub fn ask(
    bed: &Bed,
    questions: &[Question],
    pace: Duration,
    patience: impl Fn(&Question) -> Duration,
) -> Vec<Finding> {
    let places: Vec<usize> = questions.iter().map(|q| bed.place_of(q.to_address).witness.noted()).collect();
    let mut asked = Vec::with_capacity(questions.len());
    let began = Instant::now();
    for (question, due) in questions.iter().zip((0u32..).map(|n| pace * n)) {
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let port = fresh_port();
        asked.push((port, begin(bed, question, port, patience(question))));
    }
    let outcomes: Vec<(u16, Outcome)> = asked.into_iter().map(|(port, asked)| (port, end(asked))).collect();
    // A witness may be a moment behind.
    std::thread::sleep(Duration::from_millis(30));
    let found = questions.iter().zip(places).zip(outcomes);
    let finding = |((question, place), (port, outcome)): ((&Question, usize), (u16, Outcome))| {
        let receiver = bed.place_of(question.to_address);
        if receiver.name == question.from {
            // What a place sends to itself comes to no device.
            let arrived = usize::from(matches!(outcome, Outcome::Reached(_)));
            return Finding { outcome, arrived };
        }
        let (seen, leaves) = (receiver.witness.since(place), receiver.node.is_none());
        Finding { outcome, arrived: seen.iter().filter(|seen| is_of(question, port, leaves, seen)).count() }
    };
    found.map(finding).collect()
}

/// A packet of the conversation that a question opens from a port. One that leaves the cluster gets another source.
fn is_of(question: &Question, port: u16, leaves: bool, seen: &Sighting) -> bool {
    let Packet { from, to, protocol, source, destination, .. } = seen.packet;
    (to, protocol, source, destination) == (question.to_address, question.protocol, port, question.port)
        && (leaves || from == question.from_address)
}

fn begin(bed: &Bed, question: &Question, port: u16, patience: Duration) -> Asked {
    let place = bed.place(&question.from);
    let from = SocketAddr::new(question.from_address, port);
    let to = SocketAddr::new(question.to_address, question.port);
    match question.protocol {
        TCP => Asked::ByStation(place.station.run(move || ask_tcp(from, to, patience))),
        UDP => Asked::ByStation(place.station.run(move || ask_udp(from, to, BYTES, patience))),
        SCTP => Asked::ByHand(ask_sctp(place, bed.place_of(question.to_address), from, to, patience)),
        other => Asked::ByHand(Outcome::Failed(format!("protocol {other}"))),
    }
}

fn end(asked: Asked) -> Outcome {
    match asked {
        Asked::ByHand(outcome) => outcome,
        Asked::ByStation(pending) => {
            pending.wait().unwrap_or_else(|| Outcome::Failed("the station has ended".to_owned()))
        }
    }
}

/// The first two packets of an association between two pods, both made by hand.
fn ask_sctp(
    place: &Place,
    receiver: &Place,
    from: SocketAddr,
    to: SocketAddr,
    patience: Duration,
) -> Outcome {
    let began = Instant::now();
    let (from_port, to_port) = ((from.ip(), from.port()), (to.ip(), to.port()));
    for (sender, hearer, source, destination, kind) in [
        (place, receiver, from_port, to_port, chunk::INIT),
        (receiver, place, to_port, from_port, chunk::INIT_ACK),
    ] {
        let noted = hearer.witness.noted();
        let (ethertype, packet) = sctp(source, destination, kind, b"fabric");
        let sent = sender.tap.send(&ethernet(ROUTER, sender.tap.mac(), ethertype, &packet));
        if let Err(error) = sent {
            return Outcome::Failed(error.to_string());
        }
        let heard = |seen: &Sighting| {
            let Packet { protocol, source, destination, .. } = seen.packet;
            (protocol, source, destination) == (SCTP, from_port.1, to_port.1)
                || (protocol, source, destination) == (SCTP, to_port.1, from_port.1)
        };
        while !hearer.witness.since(noted).iter().any(heard) {
            if began.elapsed() > patience {
                return Outcome::Silent;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Outcome::Reached(began.elapsed())
}
