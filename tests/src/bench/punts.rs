//! Punts answered per second: packet-ins over a unix socket, without `ovs-vswitchd`.
//!
//! The agent is the real program; a switch that is played ([`super::switch`]) sends it
//! packet-ins of paused packets as fast as it answers with `NXT_RESUME`, up to as many
//! without an answer as Open vSwitch queues. First, every packet is for a pod that
//! nobody here has talked to, is judged by the policies of the pod that sends, and needs three flow-mods (the verdict,
//! the way there, and the way back) before its resume. Then packets to some of them come again and again, and
//! are judged again, but their flows are there. `ovs-testcontroller` gets as many packet-ins, each
//! with another source address, and answers with one flow-mod and a packet-out.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use openflow::message::{
    Body, Features, Hello, PacketIn, PacketInFormat, SwitchConfig, VERSION_13, VERSION_15,
};
use openflow::{Field, Match};

use super::bed::{Bed, PEERS};
use super::frames::{
    BARRIER_REQUEST, ECHO_REQUEST, FEATURES_REQUEST, FLOW_MOD, Frames, GET_CONFIG_REQUEST, HELLO, encode,
    kind, xid,
};
use super::packets::{paused, udp};
use super::plain::wait;
use super::player::{Heard, Played, play};
use super::report::{Limit, Row};
use crate::lab::LabError;
use crate::lab::command::{command, spawn};

/// Times that known conversations, and those of the peer, are played.
const ROUNDS: usize = 5;

/// Measures the agent and the peer.
///
/// # Errors
/// Where one of them goes away.
pub fn measure(bed: &mut Bed) -> Result<Vec<Row>, LabError> {
    let packets: Vec<Vec<u8>> = (0..PEERS).map(|peer| punt(bed, Bed::peer(peer))).collect();
    let play = |packets: &[Vec<u8>], rounds| {
        bed.switch.play(packets.to_vec(), rounds).map_err(LabError::io("play packet-ins to the agent"))
    };
    let fresh = play(&packets, 1)?;
    let known = play(packets.get(..64).unwrap_or_default(), usize::from(PEERS) * ROUNDS / 64)?;
    let peer = peer().map_err(LabError::io("play packet-ins to ovs-testcontroller"))?;
    let note =
        |played: &Played, how: &str| format!("{} answered, {} lost, {how}", played.answered, played.lost);
    let row = |what: &str, played: &Played, how| {
        Row::new(what, played.rate() / 1e3, "k/s", note(played, how)).budget(
            "≥ ovs-testcontroller",
            peer.rate() / 1e3,
            Limit::AtLeast(1.0),
        )
    };
    Ok(vec![
        row("punts answered, new conversations", &fresh, "judged, three flow-mods and a resume each"),
        row("punts answered, known conversations", &known, "judged, a resume each"),
        Row::new(
            "peer: packet-ins answered, ovs-testcontroller",
            peer.rate() / 1e3,
            "k/s",
            note(&peer, "one flow-mod and a packet-out each"),
        ),
    ])
}

/// A packet of the local pod to a peer, paused in Egress.
fn punt(bed: &Bed, peer: Ipv4Addr) -> Vec<u8> {
    let packet_in = paused(bed.port, bed.source, peer);
    encode(VERSION_15, 0, Body::PacketIn(packet_in))
}

/// `ovs-testcontroller`, ended with its value.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn peer() -> io::Result<Played> {
    let folder = std::env::temp_dir();
    let socket = folder.join(format!("fabric-bench-{}.sock", std::process::id()));
    let mut program = command(["ovs-testcontroller"]);
    program.env("OVS_RUNDIR", &folder);
    program.arg(format!("punix:{}", socket.display())).args(["-vconsole:off", "-vsyslog:off"]);
    let _controller = Controller(spawn(&mut program).map_err(io::Error::other)?);
    wait("the socket of ovs-testcontroller", || Ok(socket.exists())).map_err(io::Error::other)?;
    let played = converse(&socket);
    // It removes the socket itself unless it is killed.
    let _ = std::fs::remove_file(&socket);
    played
}

/// Greets as a switch of OpenFlow 1.3, shows where the destination is, and plays.
fn converse(socket: &Path) -> io::Result<Played> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    stream.write_all(&encode(VERSION_13, 1, Body::Hello(Hello::only(VERSION_13))))?;
    let mut frames = Frames::new();
    let destination = [2, 0, 0, 0, 0xff, 0xff];
    // Until it has nothing more to ask.
    while frames.fill(&mut stream).is_ok_and(|open| open) {
        let mut out = Vec::new();
        while let Some(frame) = frames.next() {
            answer(frame, &mut out);
        }
        stream.write_all(&out)?;
    }
    stream.write_all(&learn(2, destination, [0xff; 6]))?;
    let packets: Vec<Vec<u8>> = (0..PEERS)
        .map(|peer| {
            let [high, low] = peer.to_be_bytes();
            learn(1, [2, 1, 0, 0, high, low], destination)
        })
        .collect();
    play(&mut stream, &mut frames, &packets, ROUNDS, |frame, out| {
        if kind(frame) == FLOW_MOD {
            return Heard::Answer;
        }
        answer(frame, out);
        Heard::Other
    })
}

fn answer(frame: &[u8], out: &mut Vec<u8>) {
    let mut answer = |body| out.extend(encode(VERSION_13, xid(frame), body));
    match kind(frame) {
        FEATURES_REQUEST => {
            answer(Body::FeaturesReply(Features { datapath_id: 1, n_tables: 254, ..Features::default() }));
        }
        GET_CONFIG_REQUEST => answer(Body::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 128 })),
        BARRIER_REQUEST => answer(Body::BarrierReply),
        ECHO_REQUEST => answer(Body::EchoReply(frame.get(8..).unwrap_or_default().to_vec())),
        HELLO => {}
        _ => {}
    }
}

/// A packet-in that no flow matched.
fn learn(port: u32, source: [u8; 6], destination: [u8; 6]) -> Vec<u8> {
    let mut packet = udp(source, Ipv4Addr::new(192, 168, 0, 40), Ipv4Addr::new(192, 168, 1, 40));
    packet.splice(..6, destination);
    let packet_in = PacketIn {
        format: PacketInFormat::Standard,
        packet,
        full_len: 60,
        reason: 0,
        cookie: 0,
        metadata: Match::new().with(Field::IN_PORT, port),
        ..PacketIn::default()
    };
    encode(VERSION_13, 0, Body::PacketIn(packet_in))
}
