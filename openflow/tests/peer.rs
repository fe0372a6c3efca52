//! The client against peers that a test plays: silent, slow, cut off, too old, overwhelming.
#![allow(clippy::expect_used, clippy::panic)] // a failed expectation is a failed test
#![cfg(feature = "client")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use openflow::client::{Client, ClientError, ClientEvent, Config};
use openflow::message::{
    Body, BundleControl, BundleStep, Features, Hello, Message, PacketIn, VERSION_15, frame_length,
};
use openflow::{Flow, FlowMod};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(10);
const PROBE: Duration = Duration::from_millis(100);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A switch that does what the test says.
struct Peer {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// One connection to it.
struct Line {
    stream: UnixStream,
    inbox: Vec<u8>,
}

impl Peer {
    fn listen() -> Peer {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("of-peer-{}-{number}.mgmt", std::process::id()));
        Peer { listener: UnixListener::bind(&path).expect("a socket"), path }
    }

    fn config(&self) -> Config {
        Config { probe: PROBE, ..Config::new(&self.path) }
    }

    /// A connection without any answer.
    async fn accept(&self) -> Line {
        let (stream, _) =
            timeout(PATIENCE, self.listener.accept()).await.expect("a client").expect("a socket");
        Line { stream, inbox: Vec::new() }
    }

    /// A connection after the handshake.
    async fn greet(&self) -> Line {
        let mut line = self.accept().await;
        line.send(0, Body::Hello(Hello::only(VERSION_15))).await;
        loop {
            let message = line.receive().await;
            if message.body == Body::FeaturesRequest {
                line.send(message.xid, Body::FeaturesReply(Features::default())).await;
                return line;
            }
        }
    }
}

impl Line {
    async fn send(&mut self, xid: u32, body: Body) {
        self.send_bytes(&Message { version: VERSION_15, xid, body }.encode()).await;
    }

    async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("a client that reads");
    }

    async fn receive(&mut self) -> Message {
        loop {
            if let Some(length) = frame_length(&self.inbox).expect("a length")
                && length <= self.inbox.len()
            {
                let message = Message::decode(&self.inbox[..length]).expect("a message");
                self.inbox.drain(..length);
                return message;
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.inbox)).await;
            assert_ne!(
                read.expect("bytes in time").expect("a socket"),
                0,
                "the client closed the connection"
            );
        }
    }
}

async fn next(events: &mut mpsc::Receiver<ClientEvent>) -> ClientEvent {
    timeout(PATIENCE, events.recv()).await.expect("an event in time").expect("a client that lives")
}

async fn disconnected(events: &mut mpsc::Receiver<ClientEvent>) -> String {
    loop {
        if let ClientEvent::Disconnected { reason } = next(events).await {
            return reason;
        }
    }
}

#[tokio::test]
async fn silence_is_noticed_and_the_client_comes_back() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(16);
    let _client = Client::spawn(peer.config(), sender);
    let mut silent = peer.greet().await;
    assert!(matches!(next(&mut events).await, ClientEvent::Connected(_)));
    let start = Instant::now();
    let reason = disconnected(&mut events).await;
    assert!(reason.contains("silent"), "{reason}");
    assert!((PROBE * 4..PROBE * 20).contains(&start.elapsed()), "{:?}", start.elapsed());
    for _ in 0..3 {
        assert!(matches!(silent.receive().await.body, Body::EchoRequest(_)));
    }
    let _again = peer.greet().await;
    assert!(matches!(next(&mut events).await, ClientEvent::Connected(_)));
}

#[tokio::test]
async fn a_peer_that_never_greets_is_given_up() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(16);
    let _client = Client::spawn(peer.config(), sender);
    let _mute = peer.accept().await;
    let reason = disconnected(&mut events).await;
    assert!(reason.contains("silent"), "{reason}");
}

#[tokio::test]
async fn late_echo_replies_and_other_traffic_keep_a_connection() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(64);
    let client = Client::spawn(peer.config(), sender);
    let mut line = peer.greet().await;
    // No echo reply at all, but a byte now and then; then late replies only.
    let status =
        Message { version: VERSION_15, xid: 0, body: Body::Raw { kind: 31, data: vec![0; 4] } }.encode();
    for byte in &status {
        sleep(PROBE * 3 / 2).await;
        line.send_bytes(&[*byte]).await;
    }
    for _ in 0..4 {
        let request = line.receive().await;
        sleep(PROBE * 5 / 2).await;
        if let Body::EchoRequest(data) = request.body {
            line.send(request.xid, Body::EchoReply(data)).await;
        }
    }
    assert!(client.is_connected());
    assert!(matches!(next(&mut events).await, ClientEvent::Connected(_)));
    assert!(matches!(next(&mut events).await, ClientEvent::Other(_)));
    assert!(events.try_recv().is_err(), "no disconnection");
}

#[tokio::test]
async fn a_truncated_stream_is_named_and_the_client_comes_back() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(16);
    let _client = Client::spawn(peer.config(), sender);
    let mut line = peer.greet().await;
    line.send_bytes(&[6, 10, 0, 100, 0, 0, 0, 0, 1, 2, 3]).await;
    drop(line);
    let reason = disconnected(&mut events).await;
    assert!(reason.contains("ends inside a message: 11 of 100 bytes"), "{reason}");
    let mut line = peer.greet().await;
    assert!(matches!(next(&mut events).await, ClientEvent::Connected(_)));
    line.send_bytes(&[6, 13, 0, 10, 0, 0, 0, 0, 0, 0]).await;
    let reason = disconnected(&mut events).await;
    assert!(
        reason.contains("message type 13 from the switch: the bytes end inside PacketOut.buffer_id"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_peer_that_is_too_old_is_named() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(16);
    let _client = Client::spawn(peer.config(), sender);
    let mut line = peer.accept().await;
    line.send(0, Body::Hello(Hello { versions: Some(0x12), other: Vec::new() })).await;
    let reason = disconnected(&mut events).await;
    assert!(reason.contains("OpenFlow 1.0, 1.3, not OpenFlow 1.5: Open vSwitch 2.12 or newer"), "{reason}");
}

#[tokio::test]
async fn a_missing_socket_is_named_and_waited_for() {
    let path = std::env::temp_dir().join(format!("of-none-{}.mgmt", std::process::id()));
    let (sender, mut events) = mpsc::channel(16);
    let client = Client::spawn(Config::new(&path), sender);
    let reason = disconnected(&mut events).await;
    assert!(reason.contains("cannot connect to") && reason.contains("of-none"), "{reason}");
    assert_eq!(client.barrier().await, Err(ClientError::NotConnected));
    assert_eq!(client.try_send(vec![Body::BarrierRequest]), Err(ClientError::NotConnected));
    let peer = Peer { listener: UnixListener::bind(&path).expect("a socket"), path };
    let _line = peer.greet().await;
    while !matches!(next(&mut events).await, ClientEvent::Connected(_)) {}
}

#[tokio::test]
async fn a_connection_lost_in_a_commit_has_an_unknown_outcome() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(16);
    let client = Client::spawn(peer.config(), sender);
    let mut line = peer.greet().await;
    assert!(matches!(next(&mut events).await, ClientEvent::Connected(_)));
    let commit = tokio::spawn(async move { client.commit(vec![FlowMod::add(Flow::default())]).await });
    loop {
        let message = line.receive().await;
        if let Body::BundleControl(BundleControl { id, step, flags }) = message.body {
            let step = match step {
                BundleStep::OpenRequest => BundleStep::OpenReply,
                BundleStep::CloseRequest => BundleStep::CloseReply,
                _ => break,
            };
            line.send(message.xid, Body::BundleControl(BundleControl { id, step, flags })).await;
        }
    }
    drop(line);
    assert_eq!(commit.await.expect("a task"), Err(ClientError::UnknownOutcome));
}

const PUNTS: u64 = 20_000;

/// As many packet-ins as [`PUNTS`], then one other message.
fn flood() -> Vec<u8> {
    let packet = PacketIn { packet: vec![0; 60], full_len: 60, ..PacketIn::default() };
    let punt = Message { version: VERSION_15, xid: 0, body: Body::PacketIn(packet) }.encode();
    let end =
        Message { version: VERSION_15, xid: 0, body: Body::Raw { kind: 31, data: vec![0; 8] } }.encode();
    [punt.repeat(usize::try_from(PUNTS).expect("a small number")), end].concat()
}

async fn count_packet_ins(events: &mut mpsc::Receiver<ClientEvent>) -> u64 {
    let mut packet_ins = 0;
    loop {
        match next(events).await {
            ClientEvent::PacketIn(_) => packet_ins += 1,
            ClientEvent::Other(_) => return packet_ins,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_slow_consumer_slows_the_switch_and_loses_nothing() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(4);
    let client = Client::spawn(Config { probe: Duration::from_secs(60), ..peer.config() }, sender);
    let mut line = peer.greet().await;
    let flood = tokio::spawn(async move {
        line.send_bytes(&flood()).await;
        line
    });
    sleep(Duration::from_millis(100)).await;
    assert!(!flood.is_finished(), "the client must stop reading");
    assert_eq!(count_packet_ins(&mut events).await, PUNTS);
    assert_eq!(client.dropped_packet_ins(), 0);
    flood.await.expect("a task");
}

#[tokio::test]
async fn who_waits_for_an_answer_gets_it_at_the_price_of_packet_ins() {
    let peer = Peer::listen();
    let (sender, mut events) = mpsc::channel(4);
    let client = Client::spawn(Config { probe: Duration::from_secs(60), ..peer.config() }, sender);
    let mut line = peer.greet().await;
    assert!(matches!(next(&mut events).await, ClientEvent::Connected(_)));
    let barrier = tokio::spawn({
        let client = client.clone();
        async move { client.barrier().await }
    });
    let request = line.receive().await;
    assert_eq!(request.body, Body::BarrierRequest);
    line.send_bytes(&flood()).await;
    line.send(request.xid, Body::BarrierReply).await;
    assert_eq!(timeout(PATIENCE, barrier).await.expect("an answer").expect("a task"), Ok(()));
    assert!(client.dropped_packet_ins() > PUNTS / 2, "{}", client.dropped_packet_ins());
    assert_eq!(count_packet_ins(&mut events).await + client.dropped_packet_ins(), PUNTS);
}
