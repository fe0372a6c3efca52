//! What arrives at a device, noted packet by packet while other things happen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::packet::Packet;
use crate::frames::{Mark, Tap, marks};
use crate::lab::LabError;

/// Longest pause between two looks at the device.
const LOOK: Duration = Duration::from_millis(20);

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    /// When it was seen.
    pub at: Instant,
    /// The packet.
    pub packet: Packet,
    /// The first mark in it.
    pub mark: Option<Mark>,
}

/// Which packets are worth a note.
pub type Interest = fn(&Packet) -> bool;

/// Captures on a device from its making to its end.
#[derive(Debug)]
pub struct Witness {
    log: Arc<Mutex<Vec<Sighting>>>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Begins to note the packets that come in on a device of a namespace.
    ///
    /// # Errors
    /// [`LabError::Io`] where there is no such device.
    pub fn start(namespace: &str, device: &str, interest: Interest) -> Result<Self, LabError> {
        let tap = Tap::open(namespace, device)?;
        let (log, ended) = (Arc::default(), Arc::default());
        let (its_log, its_end) = (Arc::clone(&log), Arc::clone(&ended));
        let thread = thread::spawn(move || watch(&tap, interest, &its_log, &its_end));
        Ok(Self { log, ended, thread: Some(thread) })
    }

    /// How many packets were noted so far: a place in the log to look from later.
    #[must_use]
    pub fn noted(&self) -> usize {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What was noted from a place in the log on.
    #[must_use]
    pub fn since(&self, place: usize) -> Vec<Sighting> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.get(place..).unwrap_or_default().to_vec()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// A device that goes ends it: its pod is gone.
fn watch(tap: &Tap, interest: Interest, log: &Mutex<Vec<Sighting>>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        tap.wait(LOOK);
        let Ok(frames) = tap.captured() else { return };
        let at = Instant::now();
        let seen = frames.iter().filter_map(|frame| {
            let packet = Packet::of(frame).filter(interest)?;
            Some(Sighting { at, packet, mark: marks(frame).next() })
        });
        log.lock().unwrap_or_else(PoisonError::into_inner).extend(seen);
    }
}
