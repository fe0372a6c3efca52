//! Conversations that last: numbered messages there and back, one after another, until
//! they are ended.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::ask::Question;
use super::bed::Bed;
use super::packet::Packet;
use super::place::fresh_port;
use super::station::{open_tcp, open_udp};
use super::witness::Sighting;
use crate::frames::segment::TCP;

/// Between two messages.
const EVERY: Duration = Duration::from_millis(20);
/// How long the first answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer may be on its way when a conversation ends.
const LAST: Duration = Duration::from_millis(300);

/// How far a conversation has come.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Messages sent.
    pub sent: u64,
    /// Messages that came back.
    pub returned: u64,
    /// Messages that did not, with those that are on their way, and when each was sent.
    pub out: BTreeMap<u64, Instant>,
    /// Longest time between two that came back.
    pub longest: Duration,
    last: Option<Instant>,
}

impl Progress {
    fn note(&mut self, message: u64) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now - last);
        }
        self.returned += 1;
        self.out.remove(&message);
    }
}

/// A conversation of TCP or UDP that was open when it was made. It ends when it is dropped.
#[derive(Debug)]
pub struct Talk {
    /// Who with whom.
    pub question: Question,
    /// Source port of whoever opened it.
    pub port: u16,
    progress: Arc<Mutex<Progress>>,
    ended: Arc<AtomicBool>,
}

impl Talk {
    /// Opens a conversation, with a server that returns what it gets, and awaits the first message back.
    #[must_use]
    pub fn open(bed: &Bed, question: &Question) -> Self {
        let talk = Self {
            question: question.clone(),
            port: fresh_port(),
            progress: Arc::default(),
            ended: Arc::default(),
        };
        let from = SocketAddr::new(question.from_address, talk.port);
        let to = SocketAddr::new(question.to_address, question.port);
        let (progress, ended) = (Arc::clone(&talk.progress), Arc::clone(&talk.ended));
        let station = &bed.place(&question.from).station;
        // What breaks it shows in its progress.
        if question.protocol == TCP {
            drop(station.run(move || talk_tcp(from, to, progress, ended)));
        } else {
            drop(station.run(move || talk_udp(from, to, progress, ended)));
        }
        let until = Instant::now() + PATIENCE;
        while talk.progress().returned == 0 {
            assert!(Instant::now() < until, "{question}: no first answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        talk
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it; how far it came, with what was on its way.
    #[must_use]
    pub fn finish(self) -> Progress {
        self.ended.store(true, Ordering::Relaxed);
        std::thread::sleep(LAST);
        self.progress()
    }

    /// Whether a packet is of this conversation, in either direction.
    #[must_use]
    pub fn has(&self, seen: &Sighting) -> bool {
        let Packet { from, to, protocol, source, destination, .. } = seen.packet;
        let Question { from_address, to_address, protocol: own, port, .. } = &self.question;
        let there = (from, source, to, destination) == (*from_address, self.port, *to_address, *port);
        let back = (from, source, to, destination) == (*to_address, *port, *from_address, self.port);
        protocol == *own && (there || back)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

async fn talk_tcp(from: SocketAddr, to: SocketAddr, progress: Arc<Mutex<Progress>>, ended: Arc<AtomicBool>) {
    let Ok(stream) = open_tcp(from, to).await else { return };
    let (mut read, mut write) = stream.into_split();
    let its_progress = Arc::clone(&progress);
    let reader = tokio::spawn(async move {
        let mut message = [0; 8];
        while read.read_exact(&mut message).await.is_ok() {
            note(&its_progress, message);
        }
    });
    while !ended.load(Ordering::Relaxed) {
        let number = next(&progress);
        // A connection that is cut takes what its buffer holds; one that is broken stays so.
        let written = tokio::time::timeout(LAST, write.write_all(&number.to_be_bytes())).await;
        if let Ok(Err(_)) = written {
            break;
        }
        tokio::time::sleep(EVERY).await;
    }
    tokio::time::sleep(LAST).await;
    reader.abort();
}

async fn talk_udp(from: SocketAddr, to: SocketAddr, progress: Arc<Mutex<Progress>>, ended: Arc<AtomicBool>) {
    let Ok(socket) = open_udp(from, to).await.map(Arc::new) else { return };
    let (its_socket, its_progress) = (Arc::clone(&socket), Arc::clone(&progress));
    let reader = tokio::spawn(async move {
        let mut message = [0; 8];
        loop {
            // A refusal that came for an earlier message is no end.
            if let Ok(8) = its_socket.recv(&mut message).await {
                note(&its_progress, message);
            }
        }
    });
    while !ended.load(Ordering::Relaxed) {
        let number = next(&progress);
        // As for what is received; the message counts as lost.
        let _ = socket.send(&number.to_be_bytes()).await;
        tokio::time::sleep(EVERY).await;
    }
    tokio::time::sleep(LAST).await;
    reader.abort();
}

fn next(progress: &Mutex<Progress>) -> u64 {
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    progress.sent += 1;
    let number = progress.sent;
    progress.out.insert(number, Instant::now());
    number
}

fn note(progress: &Mutex<Progress>, message: [u8; 8]) {
    progress.lock().unwrap_or_else(PoisonError::into_inner).note(u64::from_be_bytes(message));
}
