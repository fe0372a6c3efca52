//! Claims: made for attachments, given back, kept for a pod's successor, taken over by it.
//!
//! ```text
//!            create                  DEL
//!   (none) ----------> held by c1 -----------> (none)
//!                         |   ^                  ^
//!              DEL, where |   | create + ex-     | nobody came for
//!          the pod keeps  |   | change by the    | `claim_retention`
//!           its addresses v   | successor        |
//!                      idle, without an owner ---'
//! ```
//!
//! Whatever replaces or removes a claim that is not the attachment's own is an exchange: it happens where the
//! store has exactly the claim that was decided on, else not at all.

use std::collections::BTreeSet;
use std::net::IpAddr;

use policy::{Family, IpClaim, IpRange, Network, Pod};

use super::book::{Attachment, Stage};
use super::choice::outside;
use super::leases::may_have;
use super::{AttachmentKey, ClaimCommand, ClaimError, Command, Errand, Node, RequestError};

impl Node {
    /// The claim that an attachment makes for an address.
    pub(super) fn claim_for(&self, key: &AttachmentKey, ip: IpAddr) -> Option<IpClaim> {
        let attachment = self.book.get(key)?;
        let pod = attachment.pod.as_ref().and_then(|pod| self.world.pod(&pod.reference()));
        Some(IpClaim {
            ip,
            network: attachment.network.clone(),
            mac: attachment.mac.0,
            node: self.config.node.clone(),
            pod: attachment.pod.clone(),
            owner: attachment.owner(),
            // What another plugin gives it gives to others as well, once it is given back.
            retain: attachment.ipam.is_none() && pod.is_some_and(|pod| pod.keeps_addresses),
            since: Some(self.clock.stamp()),
        })
    }

    /// Asks for the claim of an address.
    pub(super) fn claim(&mut self, key: &AttachmentKey, ip: IpAddr) {
        let Some(claim) = self.claim_for(key, ip) else { return };
        let task = self.errand(Errand::Claim { key: key.clone(), ip });
        self.command(Command::Claim { task, command: ClaimCommand::Create(claim) });
    }

    /// The addresses that are kept for a pod, or were left behind here by an ADD of it that failed, and that it may still
    /// have.
    pub(super) fn kept_addresses(&self, pod: &Pod, network: &Network, ranges: &[IpRange]) -> Vec<IpAddr> {
        let its_own = |claim: &&IpClaim| {
            (claim.retain && pod.keeps_addresses) || (!claim.is_idle() && self.is_left_behind(claim))
        };
        let claims = self.world.claims_of(&pod.reference).filter(its_own);
        let fits = |claim: &&IpClaim| claim.network == network.name && may_have(network, ranges, claim.ip);
        claims.filter(fits).map(|claim| claim.ip).collect()
    }

    /// Whether a claim of this node has an owner that is not here.
    pub(super) fn is_left_behind(&self, claim: &IpClaim) -> bool {
        claim.node == self.config.node && !self.book.holds(&claim.owner)
    }

    /// Whether an attachment may put its own claim in the place of one that a predecessor left: another life of the
    /// same pod, or an earlier sandbox, whose container is gone.
    ///
    /// A claim that still has an owner says that the container may be running on the claim's node; of this node, the
    /// book knows better.
    pub(super) fn may_take_over(&self, holder: &IpClaim, key: &AttachmentKey) -> bool {
        self.is_of_the_same_pod(holder, key) && (holder.is_idle() || self.is_left_behind(holder))
    }

    /// Whether a claim was made for a pod of the attachment's name, whatever its uid.
    pub(super) fn is_of_the_same_pod(&self, holder: &IpClaim, key: &AttachmentKey) -> bool {
        let own = self.book.get(key).and_then(|attachment| attachment.pod.as_ref());
        own.zip(holder.pod.as_ref()).is_some_and(|(own, other)| own.reference() == other.reference())
    }

    /// Whether an attachment wants the very address that the claim holds, since its pod keeps its addresses.
    pub(super) fn waits_for(&self, holder: &IpClaim, key: &AttachmentKey) -> bool {
        let wanted = self.claim_for(key, holder.ip);
        wanted.is_some_and(|wanted| wanted.retain) && self.is_of_the_same_pod(holder, key)
    }

    /// Puts the attachment's claim in the place of a predecessor's.
    pub(super) fn take_over(&mut self, key: &AttachmentKey, holder: IpClaim, errand: Errand) {
        let Some(claim) = self.claim_for(key, holder.ip) else { return };
        let task = self.errand(errand);
        let command = ClaimCommand::Exchange { from: Box::new(holder), to: Some(Box::new(claim)) };
        self.command(Command::Claim { task, command });
    }

    /// Gives an address back, or keeps it for the pod's successor.
    pub(super) fn release(&mut self, ip: IpAddr, owner: &str) {
        let kept = self.world.claim(ip).filter(|claim| claim.retain && claim.owner == owner).cloned();
        if let Some(claim) = kept.filter(|claim| claim.pod.is_some()) {
            return self.keep(claim);
        }
        let task = self.errand(Errand::Release { ip });
        let command = ClaimCommand::Release { ip, owner: owner.to_owned() };
        self.command(Command::Claim { task, command });
    }

    /// Takes the owner from a claim, so that only the pod's successor can have the address.
    pub(super) fn keep(&mut self, claim: IpClaim) {
        let node = self.config.node.clone();
        let idle = IpClaim { owner: String::new(), node, since: Some(self.clock.stamp()), ..claim.clone() };
        self.exchange(claim, Some(idle));
    }

    /// Replaces or removes a claim that is exactly as it is known.
    pub(super) fn exchange(&mut self, from: IpClaim, to: Option<IpClaim>) {
        let task = self.errand(Errand::Release { ip: from.ip });
        let command = ClaimCommand::Exchange { from: Box::new(from), to: to.map(Box::new) };
        self.command(Command::Claim { task, command });
    }

    /// The addresses whose claims the store has been asked to give up, and has not answered: it is asked once.
    pub(super) fn releases_under_way(&self) -> BTreeSet<IpAddr> {
        let release = |errand: &Errand| if let Errand::Release { ip } = errand { Some(*ip) } else { None };
        self.errands.values().filter_map(release).collect()
    }

    /// A release or an exchange has its outcome; where the store failed it is tried again.
    pub(super) fn released(&mut self, ip: IpAddr, result: Result<(), ClaimError>) {
        self.disputes.remove(&ip);
        match result {
            Ok(()) => self.leases.freed(ip, self.clock.at),
            Err(ClaimError::Store(_)) => self.look_after_claims(super::upkeep::RETRY),
            // It is not as it was decided on: whoever changed it told the world.
            Err(ClaimError::Taken(_)) => {}
        }
    }

    /// A claim that was made again has its outcome.
    pub(super) fn reclaimed(&mut self, key: &AttachmentKey, ip: IpAddr, result: Result<(), ClaimError>) {
        let owner = super::book::owner(key);
        match result {
            Ok(()) if self.book.get(key).is_none_or(Attachment::is_leaving) => self.release(ip, &owner),
            Err(ClaimError::Taken(holder)) if self.may_take_over(&holder, key) => {
                self.take_over(key, *holder, Errand::Reclaim { key: key.clone(), ip });
            }
            Err(ClaimError::Taken(holder)) if holder.owner != owner => {
                let dispute = format!(
                    "address {ip} of container {owner}, which runs here, is {}: end one of them",
                    holder.holder()
                );
                self.disputes.insert(ip, dispute);
            }
            Err(ClaimError::Store(_)) => self.look_after_claims(super::upkeep::RETRY),
            Ok(()) | Err(_) => drop(self.disputes.remove(&ip)),
        }
    }

    /// Why an address cannot be had: for the moment, where its holder is about to go.
    pub(super) fn taken(&self, holder: &IpClaim, key: &AttachmentKey) -> RequestError {
        let what = format!("address {} is {}", holder.ip, holder.holder());
        let Some(ident) = &holder.pod else { return RequestError::NoAddress(what) };
        if holder.is_idle() {
            let name = policy::claim_name(holder.ip);
            return RequestError::NoAddress(format!(
                "{what}: remove IPClaim {name} if that pod does not come back"
            ));
        }
        let pod = self.world.pod(&ident.reference()).filter(|pod| ident.is_uid(&pod.uid));
        let stays = pod.is_some_and(|pod| !pod.finished && !pod.terminating);
        match stays && !self.is_of_the_same_pod(holder, key) {
            true => RequestError::NoAddress(what),
            false => RequestError::TryAgain(format!(
                "{what}, whose container {} is not gone yet (if that node is gone for good, delete its Node object)",
                holder.owner
            )),
        }
    }

    /// The claims of this node.
    pub(super) fn own_claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.world.claims_on(&self.config.node)
    }

    /// The addresses of this node's claims for an attachment, but for some.
    pub(super) fn claims_of(&self, owner: &str, but: &[IpAddr]) -> Vec<IpAddr> {
        let its_own = |claim: &&IpClaim| claim.owner == owner && !but.contains(&claim.ip);
        self.own_claims().filter(its_own).map(|claim| claim.ip).collect()
    }

    /// Addresses in use that their Networks do not hand out any more: whoever has one keeps it.
    pub(super) fn misplaced(&self) -> Vec<String> {
        let attachments = self.book.iter().filter(|attachment| attachment.stage == Stage::Ready);
        let each =
            attachments.flat_map(|attachment| attachment.addresses.iter().map(move |ip| (attachment, *ip)));
        each.filter_map(|(attachment, ip)| self.misplaced_one(attachment, ip)).collect()
    }

    /// The ranges of the workload of an attachment; `None` where its pod is gone or made anew, and nobody knows them.
    fn ranges_of(&self, attachment: &Attachment) -> Option<&[IpRange]> {
        let Some(ident) = &attachment.pod else { return Some(&[]) };
        let pod = self.world.pod(&ident.reference()).filter(|pod| ident.is_uid(&pod.uid))?;
        Some(&pod.annotations.ip_ranges)
    }

    fn misplaced_one(&self, attachment: &Attachment, ip: IpAddr) -> Option<String> {
        let of = &attachment.network;
        let fault = match self.world.network(of) {
            None => format!("Network {of} is not in force"),
            Some(network) if !network.contains(ip) => format!("it is outside of Network {of}"),
            Some(network) => {
                let ranges = self.ranges_of(attachment)?;
                let asked_for = attachment.fixed.contains(&ip) && network.reserved(ip).is_none();
                if asked_for || may_have(network, ranges, ip) {
                    return None;
                }
                format!("Network {of} does not hand it out any more")
            }
        };
        let who = attachment.holder();
        Some(format!("{who} has the address {ip}, but {fault}: it keeps it until it is created again"))
    }

    /// Why no address of a family is free: the pool, or a workload's own list with who holds its addresses.
    pub(super) fn full(&self, network: &Network, ranges: &[IpRange], family: Family) -> RequestError {
        let own: Vec<IpRange> = ranges.iter().copied().filter(|range| range.family() == family).collect();
        let pool: Vec<IpRange> = if own.is_empty() { network.pool(family).collect() } else { own.clone() };
        let text: Vec<String> = pool.iter().map(ToString::to_string).collect();
        let what = format!("Network {}: no free address in {}", network.name, text.join(", "));
        // The Network may be another than when they were asked for.
        if let Some(why) = own.iter().find_map(|range| outside(range, network)) {
            return RequestError::NoAddress(format!("{what}: {why}"));
        }
        let pool = network.free_to_hand_out(ranges, family);
        let held: Vec<&IpClaim> = pool.iter().flat_map(|range| self.world.claims_within(range)).collect();
        let resting = self.leases.resting(self.clock.at).filter(|ip| pool.iter().any(|r| r.contains(*ip)));
        let resting = resting.filter(|ip| self.world.claim(*ip).is_none()).count();
        let kept = held.iter().filter(|claim| claim.is_idle()).count();
        let used =
            format!("{} held, {kept} kept for pods that are away, {resting} resting", held.len() - kept);
        let named = if own.is_empty() { Vec::new() } else { named(&held) };
        RequestError::NoAddress(format!("{what}: {}", [vec![used], named].concat().join("; ")))
    }
}

/// Holders that a message names.
const NAMED: usize = 16;

fn named(held: &[&IpClaim]) -> Vec<String> {
    let more = held.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("and {more} more"));
    let first = held.iter().take(NAMED).map(|claim| format!("{} {}", claim.ip, claim.holder()));
    first.chain(rest).collect()
}
