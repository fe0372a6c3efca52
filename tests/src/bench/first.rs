//! The first packet of a conversation, one way.
//!
//! UDP from a socket in one pod's namespace to a socket in another's, by one thread with
//! one clock: from before the send until the receive has returned. Before each sample
//! the learned verdicts are taken out of the switch by their cookies; the switch tells
//! the agent, which forgets them. So the first packet waits in the switch until the
//! agent has judged both ends, sent their flows and resumed it. The second packet of the
//! same conversation finds all flows installed; so does the first one of another
//! conversation between the same pods. On the peer's switch every conversation has a
//! source port of its own, and so needs a flow of its own from `ovs-testcontroller`.
//! Samples are taken in turn. The agent's own counter of punts stands beside
//! the figure: fewer than samples would mean that some were none.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::{Cookie, Kind};
use openflow::message::{Body, TABLE_ALL};
use openflow::{Flow, FlowMod, FlowModCommand};
use serde_json::Value;

use super::line::Line;
use super::plain::{Place, Plain};
use super::pods::{TALKERS, WITNESSES, talker};
use super::report::{Limit, Row};
use super::stats::Samples;
use crate::lab::command::{command, run};
use crate::lab::node::BRIDGE_FABRIC;
use crate::lab::{Lab, LabError, Node, interrupt, netns};

/// Port of every receiver.
const PORT: u16 = 2000;
/// After which a packet counts as lost.
const LOST: Duration = Duration::from_secs(1);
/// Ordered pairs of pods are gone through so often.
const ROUNDS: usize = 4;
/// For the agent to hear of flows that were taken away, and the switch to settle.
const SETTLE: Duration = Duration::from_millis(10);
/// Between two samples.
const GAP: Duration = Duration::from_millis(1);
/// Between two packets of a sender that gets no answer.
const RETRANSMIT: Duration = Duration::from_millis(5);
/// How long an agent may take to come back.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Figures {
    punted: Samples,
    second: Samples,
    installed: Samples,
    controller: Samples,
    controller_second: Samples,
    sequence: u64,
    /// What the agent counted meanwhile.
    punts: u64,
}

/// Measures it on both sides.
///
/// # Errors
/// Where a socket cannot be had.
pub fn measure(lab: &Lab, plain: &Plain) -> Result<Vec<Row>, LabError> {
    let pods: Vec<Place> = places(lab)?;
    let receivers = pods.iter().map(|place| socket(place, PORT)).collect::<Result<Vec<_>, _>>()?;
    let [from, to] = &plain.learn;
    let peer = (from, socket(to, PORT)?, SocketAddr::new(to.ip, PORT));
    // Both ends are known to the learning switch before anything is measured.
    warm(to, from)?;
    warm(from, to)?;
    let mut figures = Figures::default();
    let eraser = Eraser::connect(lab.node("n1")?)?;
    let before = punts(lab)?;
    for (number, place) in (0..ROUNDS).flat_map(|_| pods.iter().enumerate()) {
        interrupt::check()?;
        for (other, receiver) in receivers.iter().enumerate() {
            let Some(target) = pods.get(other) else { continue };
            let same_pod = target.netns == place.netns;
            if number == other || same_pod || target.ip.is_ipv4() != place.ip.is_ipv4() {
                continue;
            }
            eraser.forget_verdicts()?;
            figures.pair(place, receiver, SocketAddr::new(target.ip, PORT))?;
            figures.peer(&peer)?;
        }
    }
    figures.punts = punts(lab)?.saturating_sub(before);
    Ok(figures.rows())
}

/// Punts of new conversations that the agent of n1 has resumed.
fn punts(lab: &Lab) -> Result<u64, LabError> {
    let mut status =
        command([lab.programs()?.node.as_path(), "status".as_ref(), "-o".as_ref(), "json".as_ref()]);
    status.arg("--socket").arg(lab.node("n1")?.agent_socket());
    let status: Value = serde_json::from_str(&run(&mut status)?).unwrap_or_default();
    let punts = status["punts"].as_array().into_iter().flatten();
    Ok(punts.filter_map(|row| row["packets"].as_u64()).sum())
}

/// A connection to the switch that takes learned verdicts away.
struct Eraser(Line);

impl Eraser {
    fn connect(node: &Node) -> Result<Self, LabError> {
        Line::connect(&node.openflow(BRIDGE_FABRIC)).map(Self)
    }

    fn forget_verdicts(&self) -> Result<(), LabError> {
        let of_kind = |kind| FlowMod {
            cookie_mask: 0xff << 56,
            ..FlowMod::new(FlowModCommand::Delete, Flow { cookie: Cookie::new(kind, 0).0, ..every_flow() })
        };
        let deletions = [Kind::Egress, Kind::Ingress].map(of_kind).map(Body::FlowMod).to_vec();
        self.0.apply(deletions)?;
        std::thread::sleep(SETTLE);
        Ok(())
    }
}

/// What a deletion names: any table, any match.
fn every_flow() -> Flow {
    Flow { table: TABLE_ALL, ..Flow::default() }
}

/// Every address of every talker.
fn places(lab: &Lab) -> Result<Vec<Place>, LabError> {
    let mut places = Vec::new();
    for number in 1..=TALKERS {
        let pod = lab.pod(&talker(number))?;
        places.extend(pod.ips().into_iter().map(|ip| Place { netns: pod.netns.clone(), ip }));
    }
    Ok(places)
}

/// A UDP socket in a pod's namespace, on its address.
///
/// # Errors
/// Where it cannot be had.
pub fn socket(place: &Place, port: u16) -> Result<UdpSocket, LabError> {
    let what = format!("open a socket on {} in {}", place.ip, place.netns);
    netns::inside(&place.netns, || {
        let socket = UdpSocket::bind((place.ip, port));
        socket
            .and_then(|socket| socket.set_read_timeout(Some(LOST)).map(|()| socket))
            .map_err(LabError::io(what))
    })
}

fn warm(from: &Place, to: &Place) -> Result<(), LabError> {
    let sender = socket(from, 0)?;
    let sent = sender.send_to(b"warm", (to.ip, PORT + 1));
    sent.map_err(LabError::io(format!("send from {}", from.netns)))?;
    std::thread::sleep(Duration::from_millis(100));
    Ok(())
}

impl Figures {
    /// Two conversations between pods that had none.
    fn pair(&mut self, from: &Place, receiver: &UdpSocket, to: SocketAddr) -> Result<(), LabError> {
        let (first, other) = (socket(from, 0)?, socket(from, 0)?);
        let sample = self.sample(&first, receiver, to);
        self.punted.add(sample);
        let sample = self.sample(&first, receiver, to);
        self.second.add(sample);
        let sample = self.sample(&other, receiver, to);
        self.installed.add(sample);
        Ok(())
    }

    fn peer(&mut self, (from, receiver, to): &(&Place, UdpSocket, SocketAddr)) -> Result<(), LabError> {
        let sender = socket(from, 0)?;
        let sample = self.sample(&sender, receiver, *to);
        self.controller.add(sample);
        let sample = self.sample(&sender, receiver, *to);
        self.controller_second.add(sample);
        Ok(())
    }

    fn sample(&mut self, sender: &UdpSocket, receiver: &UdpSocket, to: SocketAddr) -> Option<Duration> {
        std::thread::sleep(GAP);
        self.sequence += 1;
        one_way(sender, receiver, to, self.sequence)
    }

    fn rows(&self) -> Vec<Row> {
        let row = |what: &str, samples: &Samples| {
            let note = format!(
                "p99 {:.0} µs, {} samples, {} lost",
                samples.percentile(99),
                samples.count(),
                samples.lost
            );
            Row::new(what, samples.median(), "µs", note)
        };
        let (peer, second, installed) =
            (self.controller.median(), self.second.median(), self.installed.median());
        let mut punted = row("first packet, punted to the agent", &self.punted);
        punted.note += &format!("; the agent answered {} punts", self.punts);
        vec![
            punted
                .budget("p50 ≤ ovs-testcontroller's", peer, Limit::AtMost(1.0))
                .budget("p50 ≤ 3 × an installed flow (second packet)", second, Limit::AtMost(3.0))
                .budget("p50 ≤ 3 × a new conversation, installed", installed, Limit::AtMost(3.0)),
            Row::new("first packet, punted, p99", self.punted.percentile(99), "µs", "").budget(
                "p99 ≤ ovs-testcontroller's",
                self.controller.percentile(99),
                Limit::AtMost(1.0),
            ),
            row("second packet of the same conversation", &self.second),
            row("first packet of a conversation whose flows exist", &self.installed),
            row("peer: first packet, ovs-testcontroller", &self.controller),
            row("peer: second packet, ovs-testcontroller", &self.controller_second),
        ]
    }
}

/// From before the send until after the receive.
fn one_way(sender: &UdpSocket, receiver: &UdpSocket, to: SocketAddr, sequence: u64) -> Option<Duration> {
    let start = Instant::now();
    sender.send_to(&sequence.to_be_bytes(), to).ok()?;
    let mut bytes = [0; 16];
    loop {
        let length = receiver.recv(&mut bytes).ok()?;
        if bytes.get(..length) == Some(&sequence.to_be_bytes()) {
            return Some(start.elapsed());
        }
    }
}

/// Kills the agent, starts another, and sends a packet of a new conversation until it arrives.
///
/// # Errors
/// Where the agent cannot be started.
pub fn after_a_kill(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let [from, to] = WITNESSES.map(|name| lab.pod(name));
    let place = |pod: &crate::lab::record::PodRecord| {
        let ip: Option<IpAddr> = pod.ips().first().copied();
        let none = || LabError::NotReady(format!("pod {} has no address", pod.pod));
        Ok::<_, LabError>(Place { netns: pod.netns.clone(), ip: ip.ok_or_else(none)? })
    };
    let (from, to) = (place(from?)?, place(to?)?);
    let (sender, receiver) = (socket(&from, 0)?, socket(&to, PORT)?);
    receiver.set_read_timeout(Some(RETRANSMIT)).map_err(LabError::io("set a timeout"))?;
    let start = Instant::now();
    lab.kill_agent("n1")?;
    lab.start_agent("n1")?;
    let mut bytes = [0; 16];
    while start.elapsed() < PATIENCE {
        let sent = sender.send_to(b"again", (to.ip, PORT));
        sent.map_err(LabError::io(format!("send from {}", from.netns)))?;
        if receiver.recv(&mut bytes).is_ok() {
            let took = start.elapsed().as_secs_f64() * 1e3;
            lab.wait_agent("n1")?;
            let row = Row::new("first new conversation after the agent was killed", took, "ms", "");
            return Ok(vec![row.bound("≤ 1 s after the kill", Limit::AtMost(1000.0))]);
        }
    }
    Err(LabError::Timeout {
        what: "a new conversation after the agent was killed".to_owned(),
        after: PATIENCE,
    })
}
