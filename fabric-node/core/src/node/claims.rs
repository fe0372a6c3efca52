//! Claims of this node: those that nobody uses go, those that are missing are made again.
//!
//! An agent that dies between a claim and its answer, or that could not reach the store
//! when a container went, leaves a claim behind. It is given back when its owner is not
//! in the book and the world knows no live pod that it was made for. A claim that a
//! running container should have and has not (a lost file, another folder) is made again.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use policy::IpClaim;

use super::book::{Attachment, Stage};
use super::{AttachmentKey, ClaimCommand, ClaimError, Command, Errand, Node};

impl Node {
    /// Puts the claims of this node right.
    pub(super) fn sweep_claims(&mut self) {
        if !self.book_read || !self.world_synced {
            return;
        }
        self.give_back_stray();
        self.make_missing();
    }

    fn give_back_stray(&mut self) {
        let owners: BTreeSet<String> = self.book.iter().map(Attachment::owner).collect();
        let stray: Vec<(IpAddr, String)> = self
            .own_claims()
            .filter(|claim| !claim.retain && !owners.contains(&claim.owner) && !self.pod_lives(claim))
            .map(|claim| (claim.ip, claim.owner.clone()))
            .collect();
        for (ip, owner) in stray {
            self.release(ip, &owner);
        }
    }

    /// Whether the pod that a claim was made for is known and has not ended.
    fn pod_lives(&self, claim: &IpClaim) -> bool {
        claim.pod.as_ref().is_some_and(|ident| {
            let pod = self.world.pod(&ident.reference());
            pod.is_some_and(|pod| pod.uid == ident.uid && !pod.finished)
        })
    }

    fn make_missing(&mut self) {
        let unclaimed: Vec<(AttachmentKey, IpAddr)> = self
            .book
            .iter()
            .filter(|attachment| attachment.stage == Stage::Ready && !attachment.is_leaving())
            .flat_map(|attachment| attachment.addresses.iter().map(|ip| (attachment.key.clone(), *ip)))
            .filter(|(_, ip)| self.world.claim(*ip).is_none())
            .collect();
        for (key, ip) in unclaimed {
            let Some(claim) = self.claim_for(&key, ip) else { continue };
            let task = self.errand(Errand::Reclaim { key, ip });
            self.command(Command::Claim { task, command: ClaimCommand::Create(claim) });
        }
    }

    /// A claim that was made again has its outcome.
    pub(super) fn reclaimed(&mut self, key: &AttachmentKey, ip: IpAddr, result: Result<(), ClaimError>) {
        let owner = super::book::owner(key);
        match result {
            Ok(()) if self.book.get(key).is_none_or(Attachment::is_leaving) => self.release(ip, &owner),
            Err(ClaimError::Taken(holder)) if holder.owner != owner => {
                let dispute = format!(
                    "address {ip} of container {owner}, which runs here, is claimed by {} on node {}: end one of them",
                    holder.owner, holder.node
                );
                self.disputes.insert(ip, dispute);
            }
            Ok(()) | Err(_) => drop(self.disputes.remove(&ip)),
        }
    }

    /// The claim that an attachment makes for an address.
    pub(super) fn claim_for(&self, key: &AttachmentKey, ip: IpAddr) -> Option<IpClaim> {
        let attachment = self.book.get(key)?;
        Some(IpClaim {
            ip,
            network: attachment.network.clone(),
            mac: attachment.mac.0,
            node: self.config.node.clone(),
            pod: attachment.pod.clone(),
            owner: attachment.owner(),
            retain: false,
            since: None,
        })
    }

    /// The claims of this node.
    pub(super) fn own_claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.world.claims().filter(|claim| claim.node == self.config.node)
    }

    /// Whether a claim is one that an earlier sandbox of the same pod left behind on this node.
    pub(super) fn is_left_behind(&self, claim: &IpClaim, key: &AttachmentKey) -> bool {
        let same_pod = self.book.get(key).is_some_and(|a| a.pod.is_some() && a.pod == claim.pod);
        same_pod && claim.node == self.config.node && !self.book.holds(&claim.owner)
    }

    /// A release that failed is tried again by the next sweep.
    pub(super) fn released(&mut self, ip: IpAddr, result: Result<(), ClaimError>, now: Instant) {
        self.disputes.remove(&ip);
        if result.is_ok() {
            self.leases.freed(ip, now);
        }
    }
}
