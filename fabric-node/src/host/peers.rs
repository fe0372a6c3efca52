//! When to ask which tunnel peer for its link-layer address. Pure: time is an argument.
//!
//! ```text
//! wanted --> Cold --ask--> Asked --confirmed--> Warm --refresh, link change--> Cold
//!                            | patience over
//!                            v
//!                         GivenUp --back-off, link change--> Cold
//! ```
//! A peer that is asked is asked again after [`AGAIN`], for an answer may be lost or may
//! come in a form that does not count. The peers are settled once each is warm or was
//! given up; a later change of that does not unsettle them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::netlink::{Hop, Standing};

/// Time after which an unanswered question is repeated.
const AGAIN: Duration = Duration::from_millis(300);

/// First and longest wait before a peer that was given up is asked again.
const REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// Time after which a peer that answered is asked once more where a device changed: a switch that is starting may
/// have passed the answer on before it had its tunnel port, and learns only while it has one.
const CONFIRM: Duration = Duration::from_secs(1);

/// Silent peers that are named one by one.
const NAMED: usize = 5;

/// The peers and what is known of them.
#[derive(Debug)]
pub struct Peers {
    refresh: Duration,
    patience: Duration,
    peers: BTreeMap<IpAddr, Peer>,
    announced: bool,
}

#[derive(Debug, Clone)]
struct Peer {
    hop: Option<Hop>,
    stage: Stage,
    /// When there is something to do.
    next: Instant,
    /// Times given up in a row.
    failures: u32,
    /// Whether one answer is not enough.
    confirm: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Cold,
    Asked { since: Instant },
    Warm,
    GivenUp,
}

impl Peers {
    /// No peers. `refresh` and `patience` as in [`super::HostConfig`].
    pub fn new(refresh: Duration, patience: Duration) -> Self {
        Self { refresh, patience, peers: BTreeMap::new(), announced: true }
    }

    /// Wants these peers; [`Peers::settled`] speaks once for every call.
    pub fn set(&mut self, wanted: &BTreeSet<IpAddr>, now: Instant) {
        self.peers.retain(|address, _| wanted.contains(address));
        for address in wanted {
            let fresh = Peer { hop: None, stage: Stage::Cold, next: now, failures: 0, confirm: false };
            self.peers.entry(*address).or_insert(fresh);
        }
        self.announced = false;
    }

    /// Something changed that may have cost a peer its place in the switch, or given it another way: all are asked
    /// anew.
    pub fn unsettle(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.chill(now);
            peer.confirm = true;
        }
    }

    /// As [`Peers::unsettle`], for the peers behind a device.
    pub fn device_changed(&mut self, device: u32, now: Instant) {
        let behind = |peer: &&mut Peer| peer.hop.is_none_or(|hop| hop.device == device);
        for peer in self.peers.values_mut().filter(behind) {
            peer.chill(now);
            peer.confirm = true;
        }
    }

    /// An address came: peers that were given up may answer, or have a way.
    pub fn retry_silent(&mut self, now: Instant) {
        for peer in self.peers.values_mut().filter(|peer| peer.stage == Stage::GivenUp) {
            peer.chill(now);
        }
    }

    /// The peers to be asked at `now`. Those whose patience is over are given up.
    pub fn due(&mut self, now: Instant) -> Vec<IpAddr> {
        let mut due = Vec::new();
        for (address, peer) in &mut self.peers {
            match peer.stage {
                Stage::Asked { since } if now >= since + self.patience => peer.give_up(now),
                _ if now >= peer.next => due.push(*address),
                _ => {}
            }
        }
        due
    }

    /// A peer was asked by way of a hop, or is not to be reached at all.
    pub fn asked(&mut self, address: IpAddr, hop: Option<Hop>, now: Instant) {
        let Some(peer) = self.peers.get_mut(&address) else { return };
        peer.hop = hop;
        if hop.is_none() {
            peer.give_up(now);
            return;
        }
        let since = match peer.stage {
            Stage::Asked { since } => since,
            _ => now,
        };
        peer.stage = Stage::Asked { since };
        peer.next = (now + AGAIN).min(since + self.patience);
    }

    /// The kernel said something about a hop.
    pub fn heard(&mut self, hop: Hop, standing: Standing, now: Instant) {
        if standing == Standing::Other {
            return;
        }
        let refresh = self.refresh;
        for peer in self.peers.values_mut().filter(|peer| peer.hop == Some(hop)) {
            if matches!(peer.stage, Stage::Asked { .. } | Stage::GivenUp) {
                let pause = if std::mem::take(&mut peer.confirm) { CONFIRM } else { refresh };
                (peer.stage, peer.failures, peer.next) = (Stage::Warm, 0, now + pause);
            }
        }
    }

    /// The peers, when they have just settled.
    pub fn settled(&mut self) -> Option<BTreeSet<IpAddr>> {
        let settled = |peer: &Peer| matches!(peer.stage, Stage::Warm | Stage::GivenUp) || peer.failures > 0;
        if self.announced || !self.peers.values().all(settled) {
            return None;
        }
        self.announced = true;
        Some(self.peers.keys().copied().collect())
    }

    /// When [`Peers::due`] has something to say next.
    pub fn next(&self) -> Option<Instant> {
        self.peers.values().map(|peer| peer.next).min()
    }

    /// Which peers do not answer, in words.
    pub fn complaint(&self) -> Option<String> {
        let silent = self.peers.iter().filter(|(_, peer)| peer.failures > 0);
        let silent: Vec<String> = silent.map(|(address, _)| address.to_string()).collect();
        let (named, rest) = silent.split_at(silent.len().min(NAMED));
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        let named = named.join(", ");
        (!named.is_empty()).then(|| format!("tunnel peers do not answer: {named}{more}; are these nodes up?"))
    }
}

impl Peer {
    fn chill(&mut self, now: Instant) {
        (self.stage, self.next) = (Stage::Cold, now);
    }

    fn give_up(&mut self, now: Instant) {
        let rest = REST.0.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(REST.1);
        self.failures = self.failures.saturating_add(1);
        (self.stage, self.next) = (Stage::GivenUp, now + rest);
    }
}

#[cfg(test)]
mod tests;
