//! Claims of this node that nobody uses.
//!
//! An agent that dies between a claim and its answer, or that could not reach the store
//! when a container went, leaves a claim behind. A claim is given back when its owner is
//! not in the book; so one whose container still runs is never touched.

use std::net::IpAddr;
use std::time::Instant;

use super::{ClaimError, Node};

impl Node {
    /// Gives back this node's claims without an owner in the book.
    pub(super) fn sweep_claims(&mut self) {
        if !self.book_read || !self.world_synced {
            return;
        }
        let stray: Vec<(IpAddr, String)> = self
            .world
            .claims()
            .filter(|claim| claim.node == self.config.node && !claim.retain && !self.book.holds(&claim.owner))
            .map(|claim| (claim.ip, claim.owner.clone()))
            .collect();
        for (ip, owner) in stray {
            self.release(ip, &owner);
        }
    }

    /// A release that failed is tried again by the next sweep.
    pub(super) fn released(&mut self, ip: IpAddr, result: Result<(), ClaimError>, now: Instant) {
        if result.is_ok() {
            self.leases.freed(ip, now);
        }
    }
}
