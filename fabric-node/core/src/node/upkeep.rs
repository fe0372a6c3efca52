//! Looking after claims: what nobody uses goes, what is missing is made again.
//!
//! An agent that dies between a claim and its answer, or that could not reach the store
//! when a container went, leaves a claim behind. It is given back when its owner is not
//! in the book and the world knows no live pod that it was made for, or the pod has another
//! container. A claim that a running container should have and has not (a lost file,
//! another folder) is made again.
//!
//! A node writes claims for itself only (one without an owner it may make its own), with
//! one exception: where a node's Node object has been gone for [`GRACE`], any agent gives
//! its claims back, for nobody else will. A node that is only away keeps them. Agents wait
//! for different times, so that mostly one does it; every exchange happens once, whoever
//! asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::{Change, IpClaim, Name};

use super::book::{Attachment, Stage};
use super::{AttachmentKey, ClaimCommand, Command, Errand, Node};
use crate::pipeline::vocabulary::stable_id;

/// How long a Node object may be gone before the node counts as dead for good.
pub(super) const GRACE: Duration = Duration::from_secs(60);
/// How much longer the last agent waits than the first.
const SPREAD: u64 = 30_000;
/// How soon after an edit that may leave a claim without use.
const SOON: Duration = Duration::from_secs(1);
/// The longest that claims are left alone while any waits for its time to end.
const A_DAY: Duration = Duration::from_secs(86_400);
/// How soon after the store failed.
pub(super) const RETRY: Duration = Duration::from_secs(5);

/// When claims are to be looked after next, and what is known for that.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    due: Option<Instant>,
    /// Nodes with claims and without a Node object, since when that is known.
    gone: BTreeMap<Name, Instant>,
}

impl Upkeep {
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    fn by(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

impl Node {
    /// Has the claims looked after, that much later at the latest, and within a day: what claims say of times comes from
    /// outside.
    pub(super) fn look_after_claims(&mut self, later: Duration) {
        self.upkeep.by(self.clock.at + later.min(A_DAY));
    }

    /// Looks after the claims, where that is due.
    pub(super) fn keep_up(&mut self, now: Instant) {
        if self.upkeep.due.is_some_and(|due| due <= now) {
            self.sweep_claims();
        }
    }

    /// Edits of pods and nodes may leave claims without use.
    pub(super) fn note_for_claims(&mut self, changes: &BTreeSet<Change>) {
        let of_missing = |claim: &IpClaim| {
            let names = self.missing_since.keys();
            names.filter_map(|name| self.book.by_host_name(name)).any(|a| a.owner() == claim.owner)
        };
        let strays = |pod| self.world.claims_of(pod).any(|claim| self.is_stray(claim) || of_missing(claim));
        let concerned = changes.iter().any(|change| match change {
            Change::Node(_) => true,
            Change::Pod(pod) => strays(pod),
            Change::Address(ip) => {
                let claim = self.world.claim(*ip);
                claim.is_some_and(|claim| claim.is_idle() || self.world.node(&claim.node).is_none())
            }
            _ => false,
        });
        if concerned {
            self.look_after_claims(SOON);
        }
    }

    /// Puts the claims right that this node is responsible for.
    pub(super) fn sweep_claims(&mut self) {
        self.upkeep.due = None;
        if !self.book_read || !self.world_synced {
            return;
        }
        self.leave_gone();
        let asked = self.releases_under_way();
        self.give_back_stray(&asked);
        self.make_missing();
        self.give_back_of_gone_nodes(&asked);
        self.give_back_idle(&asked);
    }

    /// Detaches containers whose device is missing and whose pod has gone or has another container: they do not come back.
    pub(super) fn leave_gone(&mut self) {
        let missing = self.missing_since.keys().filter_map(|name| self.book.by_host_name(name));
        let gone: Vec<AttachmentKey> = missing
            .filter(|attachment| attachment.stage == Stage::Ready && self.is_over(attachment))
            .map(|attachment| attachment.key.clone())
            .collect();
        for key in gone {
            self.missing_since.remove(&super::book::host_name(&key));
            self.leave(&key);
        }
    }

    fn is_over(&self, attachment: &Attachment) -> bool {
        let Some(ident) = &attachment.pod else { return false };
        let lives =
            self.world.pod(&ident.reference()).is_some_and(|pod| ident.is_uid(&pod.uid) && !pod.finished);
        let another = |other: &Attachment| {
            other.key != attachment.key
                && other.key.ifname == attachment.key.ifname
                && other.pod == attachment.pod
        };
        !lives || self.book.iter().any(another)
    }

    fn give_back_stray(&mut self, asked: &BTreeSet<IpAddr>) {
        let stray: Vec<(IpAddr, String)> = self
            .own_claims()
            .filter(|claim| !asked.contains(&claim.ip) && self.is_stray(claim))
            .map(|claim| (claim.ip, claim.owner.clone()))
            .collect();
        for (ip, owner) in stray {
            self.release(ip, &owner);
        }
    }

    /// Whether a claim of this node has an owner that is not here, for a pod that does not live or that has another
    /// container.
    fn is_stray(&self, claim: &IpClaim) -> bool {
        !claim.is_idle() && self.is_left_behind(claim) && (!self.pod_lives(claim) || self.is_replaced(claim))
    }

    /// Whether the pod of a claim has another container with an interface of that name here.
    fn is_replaced(&self, claim: &IpClaim) -> bool {
        let ifname = claim.owner.rsplit('/').next();
        let same = |attachment: &Attachment| {
            attachment.pod == claim.pod && Some(attachment.key.ifname.as_str()) == ifname
        };
        claim.pod.is_some() && self.book.iter().any(|a| a.stage == Stage::Ready && same(a))
    }

    /// Whether the pod that a claim was made for is known and has not ended.
    fn pod_lives(&self, claim: &IpClaim) -> bool {
        claim.pod.as_ref().is_some_and(|ident| {
            let pod = self.world.pod(&ident.reference());
            pod.is_some_and(|pod| pod.uid == ident.uid && !pod.finished)
        })
    }

    fn make_missing(&mut self) {
        let reclaim =
            |errand: &Errand| if let Errand::Reclaim { ip, .. } = errand { Some(*ip) } else { None };
        let asked: BTreeSet<IpAddr> = self.errands.values().filter_map(reclaim).collect();
        let has_claim = |owner: &str, ip: &IpAddr| self.world.claim(*ip).is_some_and(|c| c.owner == owner);
        let unclaimed: Vec<(AttachmentKey, IpAddr)> = self
            .book
            .iter()
            .filter(|attachment| attachment.stage == Stage::Ready && !attachment.is_leaving())
            .flat_map(|attachment| attachment.addresses.iter().map(move |ip| (attachment, *ip)))
            .filter(|(attachment, ip)| !asked.contains(ip) && !has_claim(&attachment.owner(), ip))
            .map(|(attachment, ip): (&Attachment, IpAddr)| (attachment.key.clone(), ip))
            .collect();
        for (key, ip) in unclaimed {
            let Some(claim) = self.claim_for(&key, ip) else { continue };
            let task = self.errand(Errand::Reclaim { key, ip });
            self.command(Command::Claim { task, command: ClaimCommand::Create(claim) });
        }
    }

    /// Claims that no successor came for. Who released one gives it back; for a node that is gone, any does.
    fn give_back_idle(&mut self, asked: &BTreeSet<IpAddr>) {
        let retention = self.config.claim_retention.as_secs();
        let now = self.clock.stamp().0;
        let waits_until = |claim: &IpClaim| claim.since.map_or(0, |since| since.0.saturating_add(retention));
        let others = self.upkeep.gone.keys().filter(|node| **node != self.config.node);
        let of_dead = others.filter(|node| self.is_dead(node));
        let mine = self.own_claims().chain(of_dead.flat_map(|node| self.world.claims_on(node)));
        let (over, waiting): (Vec<&IpClaim>, Vec<&IpClaim>) =
            mine.filter(|claim| claim.is_idle()).partition(|claim| waits_until(claim) <= now);
        let next = waiting.iter().map(|claim| waits_until(claim) - now).min();
        let over = over.into_iter().filter(|claim| !asked.contains(&claim.ip));
        for claim in over.cloned().collect::<Vec<_>>() {
            self.exchange(claim, None);
        }
        if let Some(seconds) = next {
            self.look_after_claims(Duration::from_secs(seconds));
        }
    }

    /// Claims of nodes that are dead for good. An agent whose own node is not known either has no say.
    fn give_back_of_gone_nodes(&mut self, asked: &BTreeSet<IpAddr>) {
        let without: BTreeSet<Name> =
            self.world.claiming_nodes().filter(|node| self.world.node(node).is_none()).cloned().collect();
        self.upkeep.gone.retain(|node, _| without.contains(node));
        for node in without {
            self.upkeep.gone.entry(node).or_insert(self.clock.at);
        }
        if self.world.node(&self.config.node).is_none() {
            return;
        }
        let dead = self.upkeep.gone.keys().filter(|node| self.is_dead(node));
        let claims = dead.flat_map(|node| self.world.claims_on(node));
        let held = |claim: &&IpClaim| !claim.is_idle() && !asked.contains(&claim.ip);
        let claims: Vec<IpClaim> = claims.filter(held).cloned().collect();
        for claim in claims {
            if claim.retain && claim.pod.is_some() {
                self.keep(claim);
            } else {
                self.exchange(claim, None);
            }
        }
        let now = self.clock.at;
        let next =
            self.upkeep.gone.iter().map(|(node, since)| *since + self.patience(node)).filter(|at| *at > now);
        if let Some(at) = next.min() {
            self.upkeep.by(at);
        }
    }

    fn is_dead(&self, node: &Name) -> bool {
        self.upkeep.gone.get(node).is_some_and(|since| *since + self.patience(node) <= self.clock.at)
    }

    /// How long this agent waits for a node to come back.
    fn patience(&self, node: &Name) -> Duration {
        let chance = stable_id(&[b"gone", self.config.node.as_bytes(), node.as_bytes()]);
        GRACE + Duration::from_millis(chance % SPREAD)
    }
}
