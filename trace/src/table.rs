//! The answers of a matrix, row by row.

use std::net::IpAddr;

use fabric_api::verdict::{Traffic, meet};
use policy::Family;

use crate::cluster::Cluster;
use crate::error::TraceError;

/// An end of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// As it is printed.
    pub name: String,
    /// Where it is asked.
    pub addresses: Vec<IpAddr>,
}

/// What is asked of whom.
pub struct Matrix {
    cluster: Cluster,
    /// All ends, each against each.
    pub parties: Vec<Party>,
    /// What is sent.
    pub traffic: Vec<Traffic>,
    family: Option<Family>,
    /// Conversations of which the verdict over IPv6 is another.
    differ: u64,
    /// Conversations that cannot be, since the ends have no family in common.
    none: u64,
}

/// The ends of conversations of one address, by their places in the row.
#[derive(Default)]
struct Group {
    from: Option<IpAddr>,
    places: Vec<usize>,
    to: Vec<IpAddr>,
}

impl Matrix {
    /// Of these parties, each against each.
    pub fn new(
        cluster: Cluster,
        parties: Vec<Party>,
        traffic: Vec<Traffic>,
        family: Option<Family>,
    ) -> Matrix {
        Matrix { cluster, parties, traffic, family, differ: 0, none: 0 }
    }

    /// The answers to conversations of the party at `from` with some of the parties: for each of `traffic` a
    /// letter for each of `to`; `-` where there is no conversation.
    ///
    /// # Errors
    /// Where nobody answers.
    pub fn row(
        &mut self,
        from: usize,
        to: std::ops::Range<usize>,
        traffic: &[Traffic],
    ) -> Result<Vec<Vec<u8>>, TraceError> {
        let asked = self.ask(from, to.clone(), traffic, self.family)?;
        self.none += count(asked.iter().flatten().filter(|letter| **letter == b'-').count());
        if self.family.is_none() && self.parties.get(from).is_some_and(is_dual) {
            let other = self.ask(from, to, traffic, Some(Family::V6))?;
            let pairs = asked.iter().flatten().zip(other.iter().flatten());
            self.differ += count(pairs.filter(|(a, b)| a != b && **b != b'-').count());
        }
        Ok(asked)
    }

    fn ask(
        &self,
        from: usize,
        to: std::ops::Range<usize>,
        traffic: &[Traffic],
        family: Option<Family>,
    ) -> Result<Vec<Vec<u8>>, TraceError> {
        let mut letters = vec![vec![b'-'; to.len()]; traffic.len()];
        let (Some(from), Some(to)) = (self.parties.get(from), self.parties.get(to)) else {
            return Ok(letters);
        };
        let mut groups = [Group::default(), Group::default()];
        for (place, party) in to.iter().enumerate() {
            let Some((from, to)) = meet(&from.addresses, &party.addresses, family) else { continue };
            let [v4, v6] = &mut groups;
            let group = if to.is_ipv4() { v4 } else { v6 };
            group.from = Some(from);
            group.places.push(place);
            group.to.push(to);
        }
        for Group { from, places, to } in groups {
            let Some(from) = from else { continue };
            let rows = self.cluster.row(from, &to, traffic)?;
            for (letters, row) in letters.iter_mut().zip(rows) {
                for (place, letter) in places.iter().zip(row.bytes()) {
                    if let Some(cell) = letters.get_mut(*place) {
                        *cell = letter;
                    }
                }
            }
        }
        Ok(letters)
    }

    /// Tells what the table does not.
    pub fn remark(&self) {
        if self.none > 0 {
            eprintln!(
                "fabric-trace: {} conversations cannot be: their ends have no family of addresses in common",
                self.none
            );
        }
        if self.differ > 0 {
            eprintln!(
                "fabric-trace: {} conversations have another verdict over IPv6: --family 6 prints those",
                self.differ
            );
        }
    }
}

fn is_dual(party: &Party) -> bool {
    Family::ALL.into_iter().all(|family| party.addresses.iter().any(|ip| Family::of(*ip) == family))
}

/// A number of items.
pub fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}
