//! Egress addresses: which node holds which (`fabric.io/egress-ip` of namespaces).
//!
//! ```text
//!            create                    renewed every RENEW
//!   (none) ----------> held by this <--------------------.
//!      ^                node    |  '---------------------'
//!      |   given up: nobody     |
//!      |   asks for it, or the  |
//!      '---node cannot carry it-'      held by another, and for LAPSE the claim has not changed, or the node's
//!                                      Node object is gone: exchanged for a claim of this node
//! ```
//!
//! The claim is the lock, as for pods' addresses: whoever creates or exchanges it holds the address. A node tries only
//! where it can carry the address: one of its interfaces is on a network that has it. Those that can wait for different
//! times, by a hash of node and address, so that addresses spread over nodes and mostly one asks; what decides is the
//! store. Others' claims lapse by this node's own clock, so that clocks need not agree.
//!
//! A holder that cannot reach the store holds on: an outage of the store disturbs nobody. One that finds another's claim
//! gives the address up at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use openflow::Mac;
use policy::{Edit, IpClaim, Kind, Name, Object, Timestamp};

use super::{ClaimCommand, ClaimError, Command, Errand, Node};
use crate::pipeline::vocabulary::{egress_mac, stable_id};

/// How often a holder says that it is there.
const RENEW: Duration = Duration::from_secs(10);
/// How long after that others take the address over.
const LAPSE: Duration = Duration::from_secs(30);
/// How long a holder that cannot carry the address keeps it: a switch or an interface may be starting anew.
const UNFIT: Duration = Duration::from_secs(10);
/// How soon after the store failed it is asked again.
const RETRY: Duration = Duration::from_secs(3);
/// How much longer a node waits than the one that goes before it, and the most that any does.
const STEP: Duration = Duration::from_millis(200);
const MOST_STEPS: u32 = 15;
/// How long nobody may hold an address before that is told.
const UNTOLD: Duration = Duration::from_secs(5);

/// What is known of egress addresses beside the world.
#[derive(Debug, Default)]
pub(super) struct Egress {
    /// Prefixes that the node's interfaces are on.
    links: BTreeSet<IpNet>,
    /// Each address with the claim as it was last seen to change, and when.
    seen: BTreeMap<IpAddr, Seen>,
    /// When this node last made or renewed its claim.
    renewed: BTreeMap<IpAddr, Instant>,
    /// Since when this node cannot carry an address that it holds.
    unfit: BTreeMap<IpAddr, Instant>,
    /// Addresses for which the store has yet to answer, or failed: not before then.
    busy: BTreeMap<IpAddr, Option<Instant>>,
    /// What namespaces ask for, as it was last acted upon.
    asked: BTreeMap<Name, Vec<IpAddr>>,
    due: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    holder: Option<(Name, Option<Timestamp>)>,
    at: Instant,
}

/// What is to be done for an address.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing before then.
    Wait(Instant),
    /// Nothing before something changes.
    Rest,
    /// Claim it.
    Create,
    /// Put a claim of this node in the place of one: another's, or the own.
    Hold(IpClaim),
    /// Remove a claim.
    GiveUp(IpClaim),
}

impl Egress {
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    fn by(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Notes the claim of an address; since when it is so.
    fn note(&mut self, ip: IpAddr, claim: Option<&IpClaim>, now: Instant) -> Instant {
        let holder = claim.map(|claim| (claim.node.clone(), claim.since));
        let seen = self.seen.entry(ip).or_insert(Seen { holder: holder.clone(), at: now });
        if seen.holder != holder {
            *seen = Seen { holder, at: now };
        }
        seen.at
    }
}

impl Node {
    /// Edits that may concern egress addresses have them looked after once the edit is applied.
    pub(super) fn note_for_egress(&mut self, edit: &Edit, now: Instant) {
        let concerns = match edit {
            Edit::Put(Object::IpClaim(claim)) => claim.is_egress(),
            Edit::Remove(reference) if reference.kind == Kind::IpClaim => {
                policy::claim_address(&reference.name).is_some_and(|ip| self.world.is_egress(ip))
            }
            Edit::Put(object) => {
                matches!(object, Object::Namespace(_) | Object::Node(_) | Object::Network(_))
            }
            Edit::Remove(reference) => matches!(reference.kind, Kind::Namespace | Kind::Node | Kind::Network),
        };
        if concerns {
            self.egress.by(now);
        }
    }

    pub(super) fn links_changed(&mut self, links: BTreeSet<IpNet>, now: Instant) {
        self.egress.links = links;
        self.look_after_egress(now);
    }

    /// The egress addresses that are this node's by their claims, and that somebody asks for.
    pub(super) fn held_egress(&self) -> BTreeSet<IpAddr> {
        let own = self.world.egress_claims().filter(|claim| claim.node == self.config.node);
        own.map(|claim| claim.ip).filter(|ip| self.is_wanted(*ip)).collect()
    }

    /// Brings flows and host in line with what this node holds.
    pub(super) fn refresh_egress(&mut self) {
        let held = self.held_egress();
        if self.site.egress != held {
            self.site.egress = held;
            let flows = self.node_flow_changes();
            self.commit(flows);
        }
        let (asked, addresses) = self.host_egress();
        if asked != self.host.egress_asked || addresses != self.host.egress {
            self.refresh_host();
        }
    }

    /// What the host is to know of egress addresses: whether a namespace asks for one, and those that this node holds.
    pub(super) fn host_egress(&self) -> (bool, BTreeMap<IpAddr, Mac>) {
        let asked = self.world.egress_addresses().next().is_some();
        (asked, self.site.egress.iter().map(|ip| (*ip, egress_mac(*ip))).collect())
    }

    /// Has the host forget the source that it gave to conversations of pods whose namespace asks for another address than
    /// before. An agent that starts cannot know what was asked for meanwhile, and does so for all that ask.
    pub(super) fn readdress_pods(&mut self) {
        let asked: BTreeMap<Name, Vec<IpAddr>> = (self.world.namespaces())
            .filter(|namespace| !namespace.egress_ips.is_empty())
            .map(|namespace| (namespace.name.clone(), namespace.egress_ips.clone()))
            .collect();
        let before = std::mem::replace(&mut self.egress.asked, asked);
        let asked = &self.egress.asked;
        let changed: BTreeSet<&Name> =
            before.keys().chain(asked.keys()).filter(|name| before.get(*name) != asked.get(*name)).collect();
        if changed.is_empty() {
            return;
        }
        let mut pods = BTreeMap::new();
        for pod in changed.into_iter().flat_map(|namespace| self.world.pods_of(namespace)) {
            let wanted = asked.get(&pod.reference.namespace).map(Vec::as_slice).unwrap_or_default();
            let claimed = self.world.claims_of(&pod.reference).map(|claim| claim.ip);
            for ip in claimed.chain(pod.ips.iter().copied()) {
                pods.insert(ip, wanted.iter().copied().find(|egress| egress.is_ipv4() == ip.is_ipv4()));
            }
        }
        if !pods.is_empty() {
            self.command(Command::Readdress(pods));
        }
    }

    /// Whether a namespace asks for an address that can be one for egress.
    fn is_wanted(&self, ip: IpAddr) -> bool {
        self.world.egress_addresses().any(|(named, _)| named == ip) && self.world.egress_fault(ip).is_none()
    }

    fn can_carry(&self, ip: IpAddr) -> bool {
        self.config.egress && self.lacks().is_none() && self.egress.links.iter().any(|net| net.contains(&ip))
    }

    /// Does for every address what is due, and notes when to look again.
    pub(super) fn look_after_egress(&mut self, now: Instant) {
        self.egress.due = None;
        if !self.world_synced {
            return;
        }
        let named = self.world.egress_addresses().map(|(ip, _)| ip);
        let known: BTreeSet<IpAddr> = named.chain(self.world.egress_claims().map(|claim| claim.ip)).collect();
        self.egress.seen.retain(|ip, _| known.contains(ip));
        self.egress.renewed.retain(|ip, _| known.contains(ip));
        self.egress.unfit.retain(|ip, _| known.contains(ip));
        for ip in known {
            match self.egress.busy.get(&ip) {
                Some(None) => continue,
                Some(Some(until)) if *until > now => {
                    let until = *until;
                    self.egress.by(until);
                    continue;
                }
                _ => {}
            }
            match self.egress_step(ip, now) {
                Step::Rest => {}
                Step::Wait(until) => self.egress.by(until),
                step => self.take_egress_step(ip, step, now),
            }
        }
    }

    fn egress_step(&mut self, ip: IpAddr, now: Instant) -> Step {
        let claim = self.world.egress_claim(ip).cloned();
        let seen = self.egress.note(ip, claim.as_ref(), now);
        let wanted = self.is_wanted(ip);
        let fit = wanted && self.can_carry(ip);
        let after = |at: Instant, step: Step| if at <= now { step } else { Step::Wait(at) };
        match claim {
            None if fit => after(seen + self.place(ip), Step::Create),
            None => Step::Rest,
            Some(claim) if claim.node == self.config.node => self.own_step(claim, wanted, fit, now),
            Some(claim) => {
                let gone = self.world.node(&claim.node).is_none();
                let lapsed = seen + if gone { Duration::ZERO } else { LAPSE };
                match (wanted, fit) {
                    (true, true) => after(lapsed + self.place(ip), Step::Hold(claim)),
                    (true, false) => Step::Rest,
                    (false, _) => after(lapsed + self.place(ip), Step::GiveUp(claim)),
                }
            }
        }
    }

    /// What a holder does: renews in time, and gives up what nobody wants or what it cannot carry.
    fn own_step(&mut self, claim: IpClaim, wanted: bool, fit: bool, now: Instant) -> Step {
        let ip = claim.ip;
        if !wanted {
            return Step::GiveUp(claim);
        }
        if fit {
            self.egress.unfit.remove(&ip);
        } else {
            let since = *self.egress.unfit.entry(ip).or_insert(now);
            if since + UNFIT <= now {
                return Step::GiveUp(claim);
            }
            self.egress.by(since + UNFIT);
        }
        match self.egress.renewed.get(&ip) {
            Some(renewed) if *renewed + RENEW > now => Step::Wait(*renewed + RENEW),
            _ => Step::Hold(claim),
        }
    }

    fn take_egress_step(&mut self, ip: IpAddr, step: Step, now: Instant) {
        let own = || IpClaim::for_egress(ip, self.config.node.clone(), self.clock.stamp());
        let command = match step {
            Step::Create => ClaimCommand::Create(own()),
            Step::Hold(from) => ClaimCommand::Exchange { from: Box::new(from), to: Some(Box::new(own())) },
            Step::GiveUp(from) => ClaimCommand::Exchange { from: Box::new(from), to: None },
            Step::Wait(_) | Step::Rest => return,
        };
        self.egress.renewed.insert(ip, now);
        self.egress.busy.insert(ip, None);
        let task = self.errand(Errand::Egress { ip });
        self.command(Command::Claim { task, command });
    }

    /// The store has answered; whoever changed a claim that is another than it was told the world.
    pub(super) fn egress_answered(&mut self, ip: IpAddr, result: Result<(), ClaimError>, now: Instant) {
        match result {
            Ok(()) => drop(self.egress.busy.remove(&ip)),
            Err(_) => {
                self.egress.renewed.remove(&ip);
                self.egress.busy.insert(ip, Some(now + RETRY));
            }
        }
        self.look_after_egress(now);
    }

    /// How long this node waits before it asks for an address: the nodes of the cluster in an order of the address's own.
    fn place(&self, ip: IpAddr) -> Duration {
        let text = ip.to_string();
        let rank = |node: &Name| stable_id(&[b"egress", node.as_bytes(), text.as_bytes()]);
        let own = (rank(&self.config.node), &self.config.node);
        let before = self.world.nodes().filter(|node| (rank(&node.name), &node.name) < own).count();
        STEP * u32::try_from(before).unwrap_or(MOST_STEPS).min(MOST_STEPS)
    }

    /// Addresses that nobody holds, in words.
    pub(super) fn unheld_egress(&self) -> Vec<String> {
        let unheld = self.world.egress_addresses().filter(|(ip, _)| {
            let since = self.egress.seen.get(ip).filter(|seen| seen.holder.is_none()).map(|seen| seen.at);
            since.is_some_and(|at| at + UNTOLD <= self.clock.at) && self.world.egress_fault(*ip).is_none()
        });
        let told = unheld.map(|(ip, names)| {
            let names: Vec<&str> = names.iter().map(Name::as_str).collect();
            let here = match self.egress.links.iter().any(|net| net.contains(&ip)) {
                _ if !self.config.egress => "the node file says egress: false",
                false => "no interface here is on a network that has it",
                true => "it is not ready",
            };
            format!(
                "egress address {ip} of namespace {}: no node holds it, and nothing leaves the cluster from its pods until \
                 one does; this node does not, since {here}",
                names.join(", ")
            )
        });
        told.collect()
    }
}
