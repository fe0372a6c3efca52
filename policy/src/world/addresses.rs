//! Who has an address: the claims, the addresses that live pods report, and those of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::runs::Runs;
use crate::address::{IpRange, common_bits};
use crate::name::{Name, PodRef};
use crate::object::{IpClaim, Node, Pod};

/// The index from addresses to whoever has them.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    claims: BTreeMap<IpAddr, IpClaim>,
    /// The claims of egress addresses, which are nobody's as far as ways and verdicts go.
    egress: BTreeMap<IpAddr, IpClaim>,
    claims_by_pod: BTreeSet<(PodRef, IpAddr)>,
    /// The addresses that containers of a node have claimed; no node without any.
    claims_by_node: BTreeMap<Name, BTreeSet<IpAddr>>,
    pods: BTreeMap<IpAddr, Holders<PodRef>>,
    nodes: BTreeMap<IpAddr, Holders<Name>>,
    /// The addresses that more than one live pod reports.
    contested: BTreeSet<IpAddr>,
    /// The addresses of all of them.
    taken: Runs,
}

/// Those that say an address is theirs, in order; nearly always one.
#[derive(Clone, Debug)]
enum Holders<T> {
    One(T),
    Many(BTreeSet<T>),
}

impl<T: Ord + Clone> Holders<T> {
    /// The one that counts: the first in order, whatever the order of the edits.
    fn first(&self) -> Option<&T> {
        match self {
            Holders::One(holder) => Some(holder),
            Holders::Many(holders) => holders.first(),
        }
    }

    fn with(self, holder: &T) -> Holders<T> {
        let mut holders = self.into_set();
        holders.insert(holder.clone());
        if holders.len() > 1 { Holders::Many(holders) } else { Holders::One(holder.clone()) }
    }

    fn without(self, holder: &T) -> Option<Holders<T>> {
        let mut holders = self.into_set();
        holders.remove(holder);
        if holders.len() > 1 { Some(Holders::Many(holders)) } else { holders.pop_first().map(Holders::One) }
    }

    fn into_set(self) -> BTreeSet<T> {
        match self {
            Holders::One(holder) => BTreeSet::from([holder]),
            Holders::Many(holders) => holders,
        }
    }
}

fn enter<T: Ord + Clone>(index: &mut BTreeMap<IpAddr, Holders<T>>, ip: IpAddr, holder: &T) {
    let entry = match index.remove(&ip) {
        Some(holders) => holders.with(holder),
        None => Holders::One(holder.clone()),
    };
    index.insert(ip, entry);
}

fn leave<T: Ord + Clone>(index: &mut BTreeMap<IpAddr, Holders<T>>, ip: IpAddr, holder: &T) {
    if let Some(rest) = index.remove(&ip).and_then(|holders| holders.without(holder)) {
        index.insert(ip, rest);
    }
}

/// From which length on the prefixes around an address hold none of the index: the nearest ones on both sides tell.
fn free_from<T>(index: &BTreeMap<IpAddr, T>, ip: IpAddr) -> u8 {
    let below = index.range(..=ip).next_back();
    let above = index.range(ip..).next();
    below
        .into_iter()
        .chain(above)
        .map(|(other, _)| common_bits(*other, ip).map_or(0, |bits| bits + 1))
        .max()
        .unwrap_or(0)
}

/// The addresses that a pod has by its status: none unless it is live and scheduled.
pub(super) fn reported(pod: &Pod) -> &[IpAddr] {
    if pod.is_live() && pod.node.is_some() { &pod.ips } else { &[] }
}

impl Addresses {
    /// The claim of an egress address.
    pub(super) fn egress_claim(&self, ip: IpAddr) -> Option<&IpClaim> {
        self.egress.get(&ip)
    }

    /// All claims of egress addresses, by address.
    pub(super) fn egress_claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.egress.values()
    }

    /// The claim of an address by a container.
    pub(super) fn claim(&self, ip: IpAddr) -> Option<&IpClaim> {
        self.claims.get(&ip)
    }

    /// All claims by containers, by address.
    pub(super) fn claims(&self) -> impl Iterator<Item = &IpClaim> {
        self.claims.values()
    }

    /// The claims of the addresses of a range.
    pub(super) fn claims_within(&self, range: &IpRange) -> impl Iterator<Item = &IpClaim> {
        self.claims.range(range.first()..=range.last()).map(|(_, claim)| claim)
    }

    /// The first addresses in a row, of those of a range, that nobody has: by no claim, report or node.
    pub(super) fn gap(&self, within: &IpRange) -> Option<IpRange> {
        self.taken.gap(within)
    }

    fn note_taken(&mut self, ip: IpAddr) {
        let claimed = self.claims.contains_key(&ip) || self.egress.contains_key(&ip);
        let taken = claimed || self.pods.contains_key(&ip) || self.nodes.contains_key(&ip);
        if taken { self.taken.enter(ip) } else { self.taken.leave(ip) }
    }

    /// How many claims there are.
    pub(super) fn claim_count(&self) -> usize {
        self.claims.len() + self.egress.len()
    }

    /// The addresses whose claims name a pod.
    pub(super) fn claimed_by<'a>(&'a self, pod: &'a PodRef) -> impl Iterator<Item = IpAddr> + 'a {
        let lowest = (pod.clone(), IpAddr::from([0, 0, 0, 0]));
        self.claims_by_pod.range(lowest..).take_while(move |(of, _)| of == pod).map(|(_, ip)| *ip)
    }

    /// The addresses that containers of a node have claimed.
    pub(super) fn claimed_on<'a>(&'a self, node: &str) -> impl Iterator<Item = IpAddr> + use<'a> {
        self.claims_by_node.get(node).into_iter().flatten().copied()
    }

    /// The nodes whose containers have claimed addresses.
    pub(super) fn claiming_nodes(&self) -> impl Iterator<Item = &Name> {
        self.claims_by_node.keys()
    }

    /// The live pod that reports an address.
    pub(super) fn reporter(&self, ip: IpAddr) -> Option<&PodRef> {
        self.pods.get(&ip).and_then(Holders::first)
    }

    /// The node that has an address.
    pub(super) fn node(&self, ip: IpAddr) -> Option<&Name> {
        self.nodes.get(&ip).and_then(Holders::first)
    }

    /// Whether an address of the prefix is claimed or a node's.
    pub(super) fn meets(&self, net: &IpNet) -> bool {
        let bounds = || net.network()..=net.broadcast();
        self.claims.range(bounds()).next().is_some() || self.nodes.range(bounds()).next().is_some()
    }

    /// From which length on the prefixes around an address hold nobody's address by claim or report: one more
    /// than the length of an address, where the address itself is somebody's.
    pub(super) fn free_of_pods(&self, ip: IpAddr) -> u8 {
        free_from(&self.claims, ip).max(free_from(&self.pods, ip))
    }

    /// From which length on the prefixes around an address hold no node's address.
    pub(super) fn free_of_nodes(&self, ip: IpAddr) -> u8 {
        free_from(&self.nodes, ip)
    }

    /// The addresses that more than one live pod reports, with those pods.
    pub(super) fn contested(&self) -> impl Iterator<Item = (IpAddr, &BTreeSet<PodRef>)> {
        self.contested.iter().filter_map(|ip| match self.pods.get(ip) {
            Some(Holders::Many(pods)) => Some((*ip, pods)),
            _ => None,
        })
    }

    /// Puts a claim in place; gives back the one before.
    pub(super) fn put_claim(&mut self, claim: IpClaim) -> Option<IpClaim> {
        let before = self.drop_claim(claim.ip);
        self.taken.enter(claim.ip);
        if claim.is_egress() {
            self.egress.insert(claim.ip, claim);
            return before;
        }
        if let Some(pod) = &claim.pod {
            self.claims_by_pod.insert((pod.reference(), claim.ip));
        }
        self.claims_by_node.entry(claim.node.clone()).or_default().insert(claim.ip);
        self.claims.insert(claim.ip, claim);
        before
    }

    /// Takes a claim away and gives it back.
    pub(super) fn remove_claim(&mut self, ip: IpAddr) -> Option<IpClaim> {
        let claim = self.drop_claim(ip)?;
        self.note_taken(ip);
        Some(claim)
    }

    fn drop_claim(&mut self, ip: IpAddr) -> Option<IpClaim> {
        if let Some(claim) = self.egress.remove(&ip) {
            return Some(claim);
        }
        let claim = self.claims.remove(&ip)?;
        if let Some(pod) = &claim.pod {
            self.claims_by_pod.remove(&(pod.reference(), ip));
        }
        if let Some(of_node) = self.claims_by_node.get_mut(&claim.node) {
            of_node.remove(&ip);
            if of_node.is_empty() {
                self.claims_by_node.remove(&claim.node);
            }
        }
        Some(claim)
    }

    /// Enters the addresses that a pod reports.
    pub(super) fn enter_pod(&mut self, pod: &Pod) {
        for ip in reported(pod) {
            enter(&mut self.pods, *ip, &pod.reference);
            self.note_contest(*ip);
            self.note_taken(*ip);
        }
    }

    /// Takes out the addresses that a pod reported.
    pub(super) fn leave_pod(&mut self, pod: &Pod) {
        for ip in reported(pod) {
            leave(&mut self.pods, *ip, &pod.reference);
            self.note_contest(*ip);
            self.note_taken(*ip);
        }
    }

    fn note_contest(&mut self, ip: IpAddr) {
        if matches!(self.pods.get(&ip), Some(Holders::Many(_))) {
            self.contested.insert(ip);
        } else {
            self.contested.remove(&ip);
        }
    }

    /// Enters the addresses of a node.
    pub(super) fn enter_node(&mut self, node: &Node) {
        for ip in node.every_address() {
            enter(&mut self.nodes, ip, &node.name);
            self.note_taken(ip);
        }
    }

    /// Takes out the addresses of a node.
    pub(super) fn leave_node(&mut self, node: &Node) {
        for ip in node.every_address() {
            leave(&mut self.nodes, ip, &node.name);
            self.note_taken(ip);
        }
    }
}
