//! Which nodes the learned ways lead to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openflow::{Action, Field, Flow};

use super::{Id, Memory};

/// Tunnel addresses of other nodes, with the number of ways that lead there.
#[derive(Debug, Default)]
pub(super) struct Peers {
    ways: BTreeMap<IpAddr, u32>,
    /// Whether a peer has come or gone since the last look.
    changed: bool,
}

impl Peers {
    pub fn enter(&mut self, flow: &Flow) {
        let Some(peer) = peer_of(flow) else { return };
        let ways = self.ways.entry(peer).or_default();
        self.changed |= *ways == 0;
        *ways += 1;
    }

    pub fn leave(&mut self, flow: &Flow) {
        let Some(peer) = peer_of(flow) else { return };
        let Some(ways) = self.ways.get_mut(&peer) else { return };
        *ways = ways.saturating_sub(1);
        if *ways == 0 {
            self.ways.remove(&peer);
            self.changed = true;
        }
    }
}

impl Memory {
    /// Whether the peers that ways lead to may be others than at the last [`Memory::peers`].
    pub fn has_other_peers(&self) -> bool {
        self.peers.changed
    }

    /// Tunnel addresses of the nodes that ways lead to.
    pub fn peers(&mut self) -> BTreeSet<IpAddr> {
        self.peers.changed = false;
        self.peers.ways.keys().copied().collect()
    }

    /// The ways that lead to these tunnel addresses.
    pub fn ways_to(&self, peers: &BTreeSet<IpAddr>) -> BTreeSet<Id> {
        let leads_there = |id: &Id| {
            self.flow(*id).and_then(|way| peer_of(&way.flow)).is_some_and(|peer| peers.contains(&peer))
        };
        self.ids().filter(leads_there).collect()
    }
}

/// The node that a way leads to by a tunnel.
fn peer_of(flow: &Flow) -> Option<IpAddr> {
    flow.actions.iter().find_map(|action| match action {
        Action::SetField { field: Field::TUN_DST, value, .. } => {
            Some(Ipv4Addr::from(u32::try_from(value.0).ok()?).into())
        }
        Action::SetField { field: Field::TUN_IPV6_DST, value, .. } => Some(Ipv6Addr::from(value.0).into()),
        _ => None,
    })
}
