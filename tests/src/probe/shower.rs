//! A sender that never ends: first packets of new conversations, each from a fresh source
//! port and with a mark of its own, for every conversation that is asked for, in turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::ask::Question;
use super::bed::Bed;
use crate::frames::build::{ethernet, udp};
use crate::frames::forgery::ROUTER;
use crate::frames::segment::{TCP, flag, tcp};
use crate::frames::{Mark, Tap};

/// Between two rounds.
const TICK: Duration = Duration::from_millis(10);
/// Packets in a round.
const ROUND: usize = 10;
/// Source ports; probes use lower ones.
const PORTS: std::ops::Range<u16> = 33_000..60_000;

/// Begins conversations until it is dropped.
#[derive(Debug)]
pub struct Shower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    targets: Mutex<Vec<(Arc<Question>, Arc<Tap>)>>,
    /// What each mark was sent for, and when.
    sent: Mutex<Vec<(Arc<Question>, Instant)>>,
    ended: AtomicBool,
}

impl Shower {
    /// A sender with nothing to send yet.
    #[must_use]
    pub fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let its = Arc::clone(&shared);
        Self { shared, thread: Some(thread::spawn(move || rain(&its))) }
    }

    /// From here on these conversations are begun, and no others.
    pub fn set<'q>(&self, bed: &Bed, questions: impl IntoIterator<Item = &'q Question>) {
        let mut targets = self.shared.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let known: BTreeMap<Arc<Question>, ()> =
            targets.drain(..).map(|(question, _)| (question, ())).collect();
        for question in questions {
            let kept = known.get_key_value(question).map(|(question, ())| Arc::clone(question));
            let tap = Arc::clone(&bed.place(&question.from).tap);
            targets.push((kept.unwrap_or_else(|| Arc::new(question.clone())), tap));
        }
    }

    /// For which conversation a mark was sent, and when; nothing for marks of others.
    #[must_use]
    pub fn origin(&self, mark: Mark) -> Option<(Arc<Question>, Instant)> {
        let sent = self.shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.get(usize::try_from(mark.0).ok()?).cloned()
    }

    /// How many packets were sent.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.shared.sent.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Shower {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn rain(shared: &Shared) {
    let mut turn = 0;
    while !shared.ended.load(Ordering::Relaxed) {
        thread::sleep(TICK);
        // Held while it sends: after `set` nothing of before is sent.
        let targets = shared.targets.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ROUND.min(targets.len()) {
            turn = (turn + 1) % targets.len();
            let Some((question, tap)) = targets.get(turn) else { continue };
            let mut sent = shared.sent.lock().unwrap_or_else(PoisonError::into_inner);
            let number = u32::try_from(sent.len()).unwrap_or(u32::MAX);
            sent.push((Arc::clone(question), Instant::now()));
            drop(sent);
            // A pod that goes takes its device along.
            let _ = tap.send(&frame(question, tap, number));
        }
    }
}

fn frame(question: &Question, tap: &Tap, number: u32) -> Vec<u8> {
    let count = u32::from(PORTS.end - PORTS.start);
    let port = PORTS.start + u16::try_from(number % count).unwrap_or_default();
    let (from, to) = ((question.from_address, port), (question.to_address, question.port));
    let mark = Mark(number).bytes();
    let (ethertype, packet) =
        if question.protocol == TCP { tcp(from, to, flag::SYN, &mark) } else { udp(from, to, &mark) };
    ethernet(ROUTER, tap.mac(), ethertype, &packet)
}
