//! Claims of this node that nobody uses.
//!
//! An agent that dies between a claim and its answer, or that could not reach the store
//! when a container went, leaves a claim behind. A claim is given back when its owner is
//! not in the book; so one whose container still runs is never touched.

use std::net::IpAddr;
use std::time::Instant;

use policy::IpClaim;

use super::{ClaimError, Node};

impl Node {
    /// Gives back this node's claims without an owner in the book.
    pub(super) fn sweep_claims(&mut self) {
        if !self.book_read || !self.world_synced {
            return;
        }
        let stray: Vec<(IpAddr, String)> = self
            .own_claims()
            .filter(|claim| !claim.retain && !self.book.holds(&claim.owner))
            .map(|claim| (claim.ip, claim.owner.clone()))
            .collect();
        for (ip, owner) in stray {
            self.release(ip, &owner);
        }
    }

    /// The claims of this node.
    pub(super) fn own_claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.world.claims().filter(|claim| claim.node == self.config.node)
    }

    /// A release that failed is tried again by the next sweep.
    pub(super) fn released(&mut self, ip: IpAddr, result: Result<(), ClaimError>, now: Instant) {
        if result.is_ok() {
            self.leases.freed(ip, now);
        }
    }
}
