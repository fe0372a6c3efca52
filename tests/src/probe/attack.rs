//! Frames that an attacker sends, and what of them arrived.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{Bed, Sighting};
use crate::frames::Mark;
use crate::frames::build::ethernet;
use crate::frames::forgery::ROUTER;

/// What waits for an answer of the agent is through after this.
pub const THROUGH: Duration = Duration::from_millis(400);

/// What an attacker sends: each with a name, its sender, and whether it is honest and has to arrive.
#[derive(Debug, Default)]
pub struct Attack {
    frames: Vec<(String, String, Vec<u8>, bool)>,
}

impl Attack {
    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The mark that the next frame is to show.
    #[must_use]
    pub fn next_mark(&self) -> Mark {
        Mark(u32::try_from(self.frames.len()).unwrap())
    }

    /// Adds a packet.
    pub fn add(
        &mut self,
        bed: &Bed,
        sender: &str,
        name: &str,
        (ethertype, packet): (u16, Vec<u8>),
        honest: bool,
    ) {
        let frame = ethernet(ROUTER, bed.place(sender).tap.mac(), ethertype, &packet);
        self.frames.push((name.to_owned(), sender.to_owned(), frame, honest));
    }

    /// Adds one that is not to arrive.
    pub fn trick(&mut self, bed: &Bed, sender: &str, name: &str, packet: (u16, Vec<u8>)) {
        self.add(bed, sender, name, packet, false);
    }

    /// Sends all, and tells what arrived that must not, or did not that must.
    #[must_use]
    pub fn faults(&self, bed: &Bed, victims: &[&str]) -> Vec<String> {
        let noted: Vec<usize> = victims.iter().map(|victim| bed.place(victim).witness.noted()).collect();
        for (_, sender, frame, _) in &self.frames {
            bed.place(sender).tap.send(frame).unwrap();
            // Below what a pod may ask the agent in a second.
            std::thread::sleep(Duration::from_micros(1500));
        }
        std::thread::sleep(THROUGH);
        let mut arrived: BTreeMap<Mark, String> = BTreeMap::new();
        for (victim, noted) in victims.iter().zip(noted) {
            for Sighting { packet, mark, .. } in bed.place(victim).witness.since(noted) {
                if let Some(mark) = mark {
                    arrived.insert(mark, format!("arrived at {victim} as {packet:?}"));
                }
            }
        }
        let frames = (0..).map(Mark).zip(&self.frames);
        frames
            .filter_map(|(mark, (name, sender, _, honest))| match (arrived.get(&mark), honest) {
                (Some(how), false) => Some(format!("{name}, from {sender}: {how}")),
                (None, true) => Some(format!("{name}, from {sender}: did not arrive")),
                _ => None,
            })
            .collect()
    }
}

/// The attacker and a victim, by their addresses of one family.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Family and victim, for people.
    pub name: String,
    /// Who sends.
    pub from: IpAddr,
    /// Whom to.
    pub to: IpAddr,
}

/// One place and others, in both families.
#[must_use]
pub fn pairs(bed: &Bed, from: &str, victims: &[&str]) -> Vec<Pair> {
    let families: [IpAddr; 2] = ["0.0.0.0".parse().unwrap(), "::".parse().unwrap()];
    let pair = |victim: &&str, like: IpAddr| Pair {
        name: format!("{} {victim}", if like.is_ipv4() { "IPv4" } else { "IPv6" }),
        from: bed.place(from).address(like),
        to: bed.place(victim).address(like),
    };
    victims.iter().flat_map(|victim| families.map(|like| pair(victim, like))).collect()
}
