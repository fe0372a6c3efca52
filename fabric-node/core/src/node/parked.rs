//! Packets that wait for their other end to become known, in the order in which they came.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use openflow::message::PacketIn;

use crate::pipeline::learned::Punt;

/// Packets of one pod, or to it by a tunnel or a wire, that may wait for claims; the oldest is answered without.
const MOST_PARKED: usize = 16;

/// A packet whose other end is not known yet: its claim may be on the way here.
#[derive(Debug)]
pub(super) struct Parked {
    /// Whose limit it counts against: a zone, or a port that is no pod's.
    pub asker: Result<u16, u32>,
    pub until: Instant,
    pub punt: Punt,
    pub packet_in: Box<PacketIn>,
}

/// The packets by number; all wait equally long, so the first is due first.
#[derive(Debug, Default)]
pub(super) struct ParkedPackets {
    packets: BTreeMap<u64, Parked>,
    by_asker: BTreeMap<Result<u16, u32>, BTreeSet<u64>>,
    last: u64,
}

impl ParkedPackets {
    /// Lets a packet wait; gives back the asker's oldest where that has too many waiting.
    pub fn park(&mut self, parked: Parked) -> Option<Parked> {
        self.last += 1;
        let of_asker = self.by_asker.entry(parked.asker).or_default();
        of_asker.insert(self.last);
        let oldest = of_asker.first().copied().filter(|_| of_asker.len() > MOST_PARKED);
        self.packets.insert(self.last, parked);
        oldest.and_then(|number| self.take(number))
    }

    /// When the first is to be answered whatever is known by then.
    pub fn due(&self) -> Option<Instant> {
        self.packets.values().next().map(|parked| parked.until)
    }

    /// The first that has waited long enough.
    pub fn take_due(&mut self, now: Instant) -> Option<Parked> {
        let (number, _) = self.packets.first_key_value().filter(|(_, parked)| parked.until <= now)?;
        self.take(*number)
    }

    fn take(&mut self, number: u64) -> Option<Parked> {
        let parked = self.packets.remove(&number)?;
        if let Some(of_asker) = self.by_asker.get_mut(&parked.asker) {
            of_asker.remove(&number);
            if of_asker.is_empty() {
                self.by_asker.remove(&parked.asker);
            }
        }
        Some(parked)
    }
}

impl IntoIterator for ParkedPackets {
    type Item = Parked;
    type IntoIter = std::collections::btree_map::IntoValues<u64, Parked>;

    fn into_iter(self) -> Self::IntoIter {
        self.packets.into_values()
    }
}
