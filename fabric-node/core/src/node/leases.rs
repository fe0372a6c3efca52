//! Which address a container gets.
//!
//! Creating the claim is what takes an address, cluster-wide; this picks candidates so
//! that agents rarely collide: at random among those that nobody is known to hold, that
//! nobody asked for a moment ago, and that have rested. Where guesses find none, the gaps
//! between those that are held are gone through, so a free address is found wherever it is.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::{Family, IpRange, Network, World};

use super::fading::Fading;

/// Addresses under way and at rest.
#[derive(Debug)]
pub(super) struct Leases {
    pending: BTreeSet<IpAddr>,
    resting: Fading<()>,
    rest: Duration,
    random: u64,
}

/// Random candidates tried before the gaps are gone through.
const GUESSES: u32 = 64;

impl Leases {
    pub fn new(rest: Duration, seed: u64) -> Leases {
        Leases { pending: BTreeSet::new(), resting: Fading::default(), rest, random: seed | 1 }
    }

    /// Picks a free address of a family and holds it as pending; `None` where the pool is full.
    pub fn pick(
        &mut self,
        network: &Network,
        within: &[IpRange],
        family: Family,
        world: &World,
        now: Instant,
    ) -> Option<IpAddr> {
        let pool = network.free_to_hand_out(within, family);
        let total = pool.iter().fold(0u128, |sum, range| sum.saturating_add(range.size()));
        if total == 0 {
            return None;
        }
        for _ in 0..GUESSES {
            let offset = self.draw() % total;
            if let Some(ip) = nth(&pool, offset).filter(|ip| self.is_free(*ip, world, now)) {
                return Some(self.hold(ip));
            }
        }
        let start = nth(&pool, self.draw() % total)?;
        let after = pool.iter().filter_map(|range| IpRange::new(start.max(range.first()), range.last()));
        let before = pool.iter().filter_map(|range| IpRange::new(range.first(), start.min(range.last())));
        let parts: Vec<IpRange> = after.chain(before).collect();
        let found = parts.iter().find_map(|range| self.free_within(range, world, now))?;
        Some(self.hold(found))
    }

    /// A free address of a range: one of the first gap where any is free.
    fn free_within(&mut self, range: &IpRange, world: &World, now: Instant) -> Option<IpAddr> {
        let mut rest = Some(*range);
        while let Some(gap) = rest.and_then(|rest| world.gap(&rest)) {
            let start = self.draw() % gap.size();
            let mut each = (start..gap.size()).chain(0..start).filter_map(|offset| gap.nth(offset));
            if let Some(ip) = each.find(|ip| !self.is_spoken_for(*ip, now)) {
                return Some(ip);
            }
            rest = range.part_after(&gap);
        }
        None
    }

    /// Marks an address as asked for.
    pub fn hold(&mut self, ip: IpAddr) -> IpAddr {
        self.pending.insert(ip);
        ip
    }

    /// Its claim has an outcome.
    pub fn settle(&mut self, ip: IpAddr) {
        self.pending.remove(&ip);
    }

    /// Its claim went away: it rests.
    pub fn freed(&mut self, ip: IpAddr, now: Instant) {
        self.resting.note(ip, (), now + self.rest, now);
    }

    pub fn pending(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.pending.iter().copied()
    }

    pub fn resting(&self, now: Instant) -> impl Iterator<Item = IpAddr> + '_ {
        self.resting.addresses(now)
    }

    fn is_free(&self, ip: IpAddr, world: &World, now: Instant) -> bool {
        !self.is_spoken_for(ip, now) && world.gap(&ip.into()).is_some()
    }

    /// Whether the address is asked for, or rests.
    fn is_spoken_for(&self, ip: IpAddr, now: Instant) -> bool {
        self.pending.contains(&ip) || self.resting.get(ip, now).is_some()
    }

    /// xorshift64* (Marsaglia 2003; Vigna 2016): good enough to spread agents apart.
    fn draw(&mut self) -> u128 {
        let mut next = || {
            self.random ^= self.random >> 12;
            self.random ^= self.random << 25;
            self.random ^= self.random >> 27;
            self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
        };
        u128::from(next()) << 64 | u128::from(next())
    }
}

/// Whether a pod may have an address of a Network without asking for that very one: from the ranges of its own, which
/// may lie outside the Network's ranges and within what it excludes, or else from the Network's pool.
pub(super) fn may_have(network: &Network, ranges: &[IpRange], ip: IpAddr) -> bool {
    let mut own = ranges.iter().filter(|range| range.family() == Family::of(ip)).peekable();
    if own.peek().is_none() {
        return network.usable(ip);
    }
    network.contains(ip) && network.reserved(ip).is_none() && own.any(|range| range.contains(ip))
}

fn nth(pool: &[IpRange], mut offset: u128) -> Option<IpAddr> {
    for range in pool {
        if offset < range.size() {
            return range.nth(offset);
        }
        offset -= range.size();
    }
    None
}

#[cfg(test)]
mod tests;
