//! Which address a container gets.
//!
//! Creating the claim is what takes an address, cluster-wide; this picks candidates so
//! that agents rarely collide: at random among those that nobody is known to hold, that
//! nobody asked for a moment ago, and that have rested.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::{Family, IpRange, Location, Network, World};

/// Addresses under way and at rest.
#[derive(Debug)]
pub(super) struct Leases {
    pending: BTreeSet<IpAddr>,
    resting: BTreeMap<IpAddr, Instant>,
    rest: Duration,
    random: u64,
}

/// Random candidates tried before a range is searched in order.
const GUESSES: u32 = 64;
/// Addresses searched in order: the whole of any IPv4 range that is in use somewhere, a part of an IPv6 one.
const SEARCHED: u128 = 1 << 20;

impl Leases {
    pub fn new(rest: Duration, seed: u64) -> Leases {
        Leases { pending: BTreeSet::new(), resting: BTreeMap::new(), rest, random: seed | 1 }
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
        self.resting.retain(|_, until| *until > now);
        let own: Vec<IpRange> = within.iter().copied().filter(|r| Family::of(r.first()) == family).collect();
        let pool: Vec<IpRange> = if own.is_empty() { network.pool(family).collect() } else { own };
        let total = pool.iter().fold(0u128, |sum, range| sum.saturating_add(range.size()));
        if total == 0 {
            return None;
        }
        let free = |leases: &Leases, ip: IpAddr| may_have(network, within, ip) && leases.is_free(ip, world);
        for _ in 0..GUESSES {
            let offset = self.draw() % total;
            if let Some(ip) = nth(&pool, offset).filter(|ip| free(self, *ip)) {
                return Some(self.hold(ip));
            }
        }
        let start = self.draw() % total;
        let found = (0..total.min(SEARCHED))
            .filter_map(|step| nth(&pool, (start + step) % total))
            .find(|ip| free(self, *ip));
        found.map(|ip| self.hold(ip))
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
        self.resting.insert(ip, now + self.rest);
    }

    pub fn pending(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.pending.iter().copied()
    }

    pub fn resting(&self, now: Instant) -> impl Iterator<Item = IpAddr> + '_ {
        self.resting.iter().filter(move |(_, until)| **until > now).map(|(ip, _)| *ip)
    }

    fn is_free(&self, ip: IpAddr, world: &World) -> bool {
        !self.pending.contains(&ip)
            && !self.resting.contains_key(&ip)
            && world.claim(ip).is_none()
            && matches!(world.locate(ip), Location::Vacant { .. })
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
