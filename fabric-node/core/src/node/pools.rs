//! How the addresses of Networks are used.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use policy::{Family, Name, Network};

use super::Node;

/// The addresses of one family of a Network. Claims are known of the whole cluster; which addresses rest or are about
/// to be claimed, and which are disputed, each agent knows of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolUse {
    /// The Network.
    pub network: Name,
    /// The family.
    pub family: Family,
    /// Addresses to hand out in all; 0 where the Network is not in force.
    pub size: u128,
    /// Addresses that containers have, those included that are not handed out but were asked for.
    pub claimed: u64,
    /// Addresses that are kept for the successors of pods that are away.
    pub retained: u64,
    /// Addresses whose claims are being made.
    pub pending: u64,
    /// Addresses given back a moment ago.
    pub resting: u64,
    /// Addresses that two containers say are theirs.
    pub disputed: u64,
    /// Addresses to hand out that are none of the above.
    pub free: u128,
}

impl PoolUse {
    fn new(network: Name, family: Family, size: u128) -> PoolUse {
        PoolUse {
            network,
            family,
            size,
            claimed: 0,
            retained: 0,
            pending: 0,
            resting: 0,
            disputed: 0,
            free: size,
        }
    }
}

/// The pools by Network and family, and the addresses counted so far.
struct Count<'a> {
    node: &'a Node,
    pools: BTreeMap<(Name, Family), PoolUse>,
    counted: BTreeSet<IpAddr>,
}

impl Count<'_> {
    /// Counts an address; one that was counted already only where it is counted otherwise as well.
    fn add(&mut self, ip: IpAddr, network: Option<&Name>, count: impl FnOnce(&mut PoolUse)) {
        let of = self.node.world.network_of(ip);
        let Some(name) = network.or(of.map(|network| &network.name)) else { return };
        let key = (name.clone(), Family::of(ip));
        let pool = self.pools.entry(key).or_insert_with(|| PoolUse::new(name.clone(), Family::of(ip), 0));
        count(pool);
        let in_pool = of.is_some_and(|of: &Network| of.name == *name && of.usable(ip));
        if self.counted.insert(ip) && in_pool {
            pool.free = pool.free.saturating_sub(1);
        }
    }
}

impl Node {
    /// The use of every pool, by Network and family: of those in force, and of those that still have claims.
    pub(super) fn pools(&self) -> Vec<PoolUse> {
        let in_force = self.world.networks().flat_map(|network| {
            let pool = |family| PoolUse::new(network.name.clone(), family, network.capacity(family));
            network.families().map(move |family| ((network.name.clone(), family), pool(family)))
        });
        let mut count = Count { node: self, pools: in_force.collect(), counted: BTreeSet::new() };
        for claim in self.world.claims() {
            let used = if claim.is_idle() {
                |pool: &mut PoolUse| pool.retained += 1
            } else {
                |pool: &mut PoolUse| pool.claimed += 1
            };
            count.add(claim.ip, Some(&claim.network), used);
        }
        let unclaimed = |ip: &IpAddr| self.world.claim(*ip).is_none();
        for ip in self.leases.pending().filter(unclaimed) {
            count.add(ip, None, |pool| pool.pending += 1);
        }
        for ip in self.leases.resting(self.clock.at).filter(unclaimed) {
            count.add(ip, None, |pool| pool.resting += 1);
        }
        for ip in self.disputes.keys() {
            count.add(*ip, None, |pool| pool.disputed += 1);
        }
        count.pools.into_values().collect()
    }
}
