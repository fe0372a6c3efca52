//! How large a packet gets through to each tunnel peer. Pure: time is an argument.
//!
//! Packets of tunnels belong to no socket of the kernel, so nothing hears what routers say of them. So echo requests
//! that must not be fragmented are sent along, and what is answered comes through (RFC 8899; the ICMP errors of routers
//! are hints, which are tried and not believed).
//!
//! ```text
//!            check is due, a hint             size found
//!  Resting ----------------------> Asking -----------------> Resting
//!                                    | nothing answered
//!                                    '-> as before, or what a hint said where the peer has never answered
//! ```
//! A *check* asks for the size that is known, and one byte more where the interface takes more. Where the known size is
//! lost three times and a small packet is not, or one byte more comes through, a search follows: many sizes at once,
//! between the largest that came through and the smallest that did not, until these are neighbours. A size counts as
//! lost when all its tries went unanswered. So a path on which ICMP errors are lost is found out as well, and one that
//! has become wider.
//!
//! Where nothing is answered nothing is known, and the MTU of the interface counts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time that an answer may take before the next try.
const WAIT: Duration = Duration::from_millis(300);
/// Time that the answer of a larger size may come after that of the size which a hint named, before the hint counts.
const LATER: Duration = Duration::from_millis(50);
/// Tries of a check, and of a step of a search.
const CHECKS: u32 = 3;
const STEPS: u32 = 2;
/// Sizes of a step of a search: two steps find the size of a path that is 1,500 bytes wide at most.
const SPREAD: u32 = 38;
/// A size that every path carries (RFC 791 §3.2), which tells a narrow path from a silent peer.
const SMALL: u32 = 68;
/// The least that a path is said to carry: what every host takes in IPv4 (RFC 791 §3.1, RFC 8899 §5.1.2), and the least
/// MTU of IPv6 (RFC 8200 §5).
const LEAST: [u32; 2] = [576, 1280];

/// Time between checks of a path in use, and of another.
const IN_USE: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(60);
/// The same, for each path that there is: so many paths are checked more slowly.
const IN_USE_EACH: Duration = Duration::from_millis(10);
const IDLE_EACH: Duration = Duration::from_millis(100);
/// The longest time between checks of a peer that does not answer.
const SILENT: Duration = Duration::from_secs(60);
/// Time in which hints start no search, after one that was for nothing.
const CALM: Duration = Duration::from_secs(1);
/// Hints that are taken up in one run.
const HINTS: u32 = 4;
/// How long a hint about a peer that never answers is believed (RFC 1191 §6.3).
const BELIEF: Duration = Duration::from_secs(600);

/// An echo request to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The peer.
    pub to: IpAddr,
    /// Bytes of the whole IP packet.
    pub size: u32,
}

/// The peers and what is known of the paths to them.
#[derive(Debug)]
pub struct Paths {
    /// MTU of the interface that carries tunnels, bytes.
    most: u32,
    paths: BTreeMap<IpAddr, Path>,
    in_use: BTreeSet<IpAddr>,
    told: BTreeMap<IpAddr, u32>,
}

#[derive(Debug, Clone)]
struct Path {
    /// The largest packet that comes through, bytes.
    size: u32,
    /// Whether the peer has ever answered.
    answers: bool,
    /// Checks in a row without an answer.
    silences: u32,
    /// Until when a size that nobody answered for is believed.
    believed: Option<Instant>,
    /// Until when hints start nothing.
    calm: Option<Instant>,
    run: Option<Run>,
    /// When there is something to do.
    next: Instant,
}

/// Sizes that are being tried.
#[derive(Debug, Clone, Default)]
struct Run {
    /// The largest size that came through, 0 for none, and the smallest that did not.
    low: u32,
    high: u32,
    asked: BTreeSet<u32>,
    tries: u32,
    /// Sizes that hints named.
    hints: BTreeSet<u32>,
}

impl Paths {
    /// No peers; `most` is the MTU of the interface that carries tunnels, bytes.
    pub fn new(most: u32) -> Self {
        Self { most, paths: BTreeMap::new(), in_use: BTreeSet::new(), told: BTreeMap::new() }
    }

    /// Wants to know of the paths to these peers, and soon of changes where they are in use.
    pub fn set(&mut self, peers: &BTreeSet<IpAddr>, in_use: &BTreeSet<IpAddr>, now: Instant) {
        self.paths.retain(|peer, _| peers.contains(peer));
        let mut start = now;
        for peer in peers {
            self.paths.entry(*peer).or_insert_with(|| {
                start += IN_USE_EACH;
                Path::new(self.most, start)
            });
        }
        let mut start = now;
        for peer in in_use.difference(&self.in_use) {
            if let Some(path) = self.paths.get_mut(peer) {
                start += IN_USE_EACH;
                path.next = path.next.min(start);
            }
        }
        self.in_use.clone_from(in_use);
    }

    /// What is to be sent at `now`.
    pub fn due(&mut self, now: Instant) -> Vec<Probe> {
        let intervals = [true, false].map(|in_use| self.interval(in_use));
        let mut probes = Vec::new();
        for (peer, path) in self.paths.iter_mut().filter(|(_, path)| path.next <= now) {
            let [in_use, idle] = intervals;
            let interval = if self.in_use.contains(peer) { in_use } else { idle };
            let sizes = path.go_on(Bounds { most: self.most, least: least(*peer) }, interval, now);
            probes.extend(sizes.into_iter().map(|size| Probe { to: *peer, size }));
        }
        probes
    }

    fn interval(&self, in_use: bool) -> Duration {
        let count = |paths: usize| u32::try_from(paths).unwrap_or(u32::MAX);
        if in_use {
            IN_USE.max(IN_USE_EACH.saturating_mul(count(self.in_use.len())))
        } else {
            IDLE.max(IDLE_EACH.saturating_mul(count(self.paths.len())))
        }
    }

    /// A peer has answered an echo request of this size.
    pub fn answered(&mut self, peer: IpAddr, size: u32, now: Instant) {
        let Some(path) = self.paths.get_mut(&peer) else { return };
        (path.answers, path.silences, path.believed) = (true, 0, None);
        let Some(run) = &mut path.run else {
            if size > path.size {
                path.next = now;
            }
            return;
        };
        run.low = run.low.max(size);
        if run.low >= run.high {
            run.high = self.most + 1;
        }
        if run.asked.last().is_none_or(|largest| *largest <= run.low) {
            path.next = now;
        } else if run.hints.contains(&size) && run.asked.contains(&(size + 1)) {
            (run.tries, path.next) = (0, path.next.min(now + LATER));
        }
    }

    /// Somebody says that a packet to a peer did not fit, and that packets of `mtu` bytes would (0: does not say).
    pub fn hinted(&mut self, peer: IpAddr, mtu: u32, now: Instant) {
        let Some(path) = self.paths.get_mut(&peer) else { return };
        let mtu = mtu.max(least(peer));
        if mtu >= path.size {
            return;
        }
        // Without a hint a run may have heard of sizes that came through a moment ago.
        if let Some(run) = path.run.as_mut().filter(|run| !run.hints.is_empty()) {
            let known = mtu <= run.low || mtu >= run.high || run.hints.contains(&mtu);
            if known || run.hints.len() >= HINTS as usize {
                return;
            }
            run.hint(mtu);
            run.tries = run.tries.max(STEPS);
        } else if path.calm.is_none_or(|until| until <= now) {
            let mut run = Run { high: self.most + 1, tries: STEPS, ..Run::default() };
            run.asked.extend([SMALL, path.size]);
            run.hint(mtu);
            path.run = Some(run);
        } else {
            return;
        }
        path.next = now;
    }

    /// When [`Paths::due`] has something to say next.
    pub fn next(&self) -> Option<Instant> {
        self.paths.values().map(|path| path.next).min()
    }

    /// The peers to which less than the interface takes comes through, with what does, bytes; where that is otherwise
    /// than at the last call.
    pub fn changed(&mut self) -> Option<BTreeMap<IpAddr, u32>> {
        let narrow = self.paths.iter().filter(|(_, path)| path.size < self.most);
        let narrow: BTreeMap<IpAddr, u32> = narrow.map(|(peer, path)| (*peer, path.size)).collect();
        if narrow == self.told {
            return None;
        }
        self.told.clone_from(&narrow);
        Some(narrow)
    }
}

/// What a size can be.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    most: u32,
    least: u32,
}

impl Path {
    fn new(size: u32, next: Instant) -> Path {
        Path { size, answers: false, silences: 0, believed: None, calm: None, run: None, next }
    }

    /// What is to be sent after a wait, or after all was answered.
    fn go_on(&mut self, bounds: Bounds, interval: Duration, now: Instant) -> Vec<u32> {
        let Some(mut run) = self.run.take() else { return self.check(bounds, now) };
        let open = |run: &Run| run.asked.iter().copied().filter(|size| *size > run.low).collect::<Vec<_>>();
        let mut unanswered = open(&run);
        if unanswered.is_empty() || run.tries == 0 {
            run.high = unanswered.first().copied().unwrap_or(run.high).min(run.high);
            if run.low == 0 {
                self.silent(&run, bounds, interval, now);
                return Vec::new();
            }
            if run.high - run.low <= 1 || run.low >= bounds.most {
                self.found(&run, bounds, interval, now);
                return Vec::new();
            }
            run.asked = spread(run.low, run.high);
            run.tries = STEPS;
            unanswered = open(&run);
        } else if run.low == 0 && run.asked.insert(SMALL) {
            unanswered.push(SMALL);
        }
        run.tries -= 1;
        (self.run, self.next) = (Some(run), now + WAIT);
        unanswered
    }

    fn check(&mut self, bounds: Bounds, now: Instant) -> Vec<u32> {
        if self.believed.is_some_and(|until| until <= now) {
            (self.believed, self.size) = (None, bounds.most);
        }
        let sizes = [self.size, self.size + 1];
        let asked: BTreeSet<u32> = sizes.into_iter().filter(|size| *size <= bounds.most).collect();
        let sizes = asked.iter().copied().collect();
        self.run = Some(Run { low: 0, high: bounds.most + 1, asked, tries: CHECKS - 1, ..Run::default() });
        self.next = now + WAIT;
        sizes
    }

    fn found(&mut self, run: &Run, bounds: Bounds, interval: Duration, now: Instant) {
        let size = run.low.max(bounds.least).min(bounds.most);
        if size == self.size && !run.hints.is_empty() {
            self.calm = Some(now + CALM);
        }
        (self.size, self.next) = (size, now + interval);
    }

    /// A peer that answers at other times is not there at the moment. Of one that never does nothing more can be known
    /// than what routers say.
    fn silent(&mut self, run: &Run, bounds: Bounds, interval: Duration, now: Instant) {
        if let Some(hint) = run.hints.first().filter(|_| !self.answers) {
            self.size = (*hint).min(bounds.most);
            self.believed = Some(now + BELIEF);
        }
        let factor = 1_u32.checked_shl(self.silences).unwrap_or(u32::MAX);
        self.silences = self.silences.saturating_add(1);
        self.calm = Some(now + CALM);
        self.next = now + interval.saturating_mul(factor).min(interval.max(SILENT));
    }
}

impl Run {
    fn hint(&mut self, mtu: u32) {
        self.asked.extend([mtu, mtu + 1]);
        self.hints.insert(mtu);
    }
}

/// Sizes between two, evenly, and the largest.
fn spread(low: u32, high: u32) -> BTreeSet<u32> {
    let step = (high - low).div_ceil(SPREAD + 1).max(1);
    let mut sizes: BTreeSet<u32> =
        (1..=SPREAD).map(|n| low + n * step).take_while(|size| *size < high).collect();
    sizes.insert(high - 1);
    sizes
}

fn least(peer: IpAddr) -> u32 {
    let [four, six] = LEAST;
    if peer.is_ipv4() { four } else { six }
}

#[cfg(test)]
mod tests;
