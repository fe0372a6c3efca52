//! Which entries a change of the world concerns: those whose answer it may alter, and as few others as can be.
//!
//! An answer depends on where addresses are (ways), on who lives at the subject's address and at those of the region
//! (verdicts; absences too, since a region may be as wide as it is because nobody was there), and on the rules for the
//! subject. The last are told apart by [`World::program`]: an edit of a policy concerns the subjects whose program it
//! changed, and nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use policy::region::prefix_lengths;
use policy::{Change, Direction, Family, Resident, World};

use super::{Id, Memory, subjects};
use crate::pipeline::learned::Query;

/// What is to be judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Concerned {
    /// Entries to be judged again.
    pub entries: BTreeSet<Id>,
    /// Remote addresses that have become guarded: their gates are missing.
    pub gates: BTreeSet<IpAddr>,
    /// Addresses where somebody else lives than before, or somebody has changed.
    pub touched: BTreeSet<IpAddr>,
    /// Whether a pod of another node that sends here may send something else than before. Its own node judges that, and
    /// ends what it forbids; here, what it sent must not be answered any more.
    pub senders: bool,
}

/// The subjects of verdicts, with the programs that they were judged by.
#[derive(Debug, Default)]
pub(super) struct Subjects(BTreeMap<(IpAddr, Direction), Judged>);

#[derive(Debug)]
struct Judged {
    program: u64,
    /// Entries that depend on it.
    entries: u32,
}

impl Subjects {
    pub fn enter(&mut self, subject: IpAddr, direction: Direction, world: &World) {
        let judged = self.0.entry((subject, direction));
        judged
            .or_insert_with(|| Judged { program: world.program(subject, direction), entries: 0 })
            .entries += 1;
    }

    pub fn leave(&mut self, subject: IpAddr, direction: Direction) {
        let Some(judged) = self.0.get_mut(&(subject, direction)) else { return };
        judged.entries = judged.entries.saturating_sub(1);
        if judged.entries == 0 {
            self.0.remove(&(subject, direction));
        }
    }

    /// Brings the programs of a subject up to date; whether what it may send is something else than before.
    fn refresh(&mut self, subject: IpAddr, world: &World) -> bool {
        let mut sends = false;
        for direction in [Direction::Egress, Direction::Ingress] {
            if let Some(judged) = self.0.get_mut(&(subject, direction)) {
                let program = world.program(subject, direction);
                let before = std::mem::replace(&mut judged.program, program);
                sends |= before != program && direction == Direction::Egress;
            }
        }
        sends
    }

    /// Brings all programs up to date, and gives the subjects whose programs are others than before.
    fn changed(&mut self, world: &World) -> Vec<(IpAddr, Direction)> {
        let mut changed = Vec::new();
        for ((subject, direction), judged) in &mut self.0 {
            let program = world.program(*subject, *direction);
            if std::mem::replace(&mut judged.program, program) != program {
                changed.push((*subject, *direction));
            }
        }
        changed
    }
}

impl Memory {
    /// What changes of the world concern.
    pub fn concerned(&mut self, changes: &BTreeSet<Change>, world: &World) -> Concerned {
        let mut concerned = Concerned::default();
        let everything = |change: &Change| matches!(change, Change::Network(_) | Change::Tenants);
        if changes.iter().any(everything) {
            concerned.entries.extend(self.ids());
            concerned.touched = touched(changes, world);
            concerned.senders = true;
            self.subjects.changed(world);
            self.note_gates(world, &mut concerned);
            return concerned;
        }
        let nodes = changes.iter().any(|change| matches!(change, Change::Node(_)));
        if nodes {
            concerned.entries.extend(self.ways());
        }
        let of_egress = |change: &Change| match change {
            Change::Namespace(_) => true,
            Change::Address(ip) => world.is_egress(*ip),
            _ => false,
        };
        if changes.iter().any(of_egress) {
            concerned.entries.extend(self.exits());
        }
        concerned.touched = touched(changes, world);
        for address in concerned.touched.clone() {
            let may_be_a_node = nodes || matches!(world.resident(address), Resident::Node(_));
            self.note_address(address, may_be_a_node, &mut concerned);
            let sends = self.subjects.refresh(address, world);
            concerned.senders |= sends && self.at(address).any(|id| self.is_sender(id));
            self.note_gate(address, world, &mut concerned);
        }
        if changes.iter().any(|change| matches!(change, Change::Policy(_))) {
            for (subject, direction) in self.subjects.changed(world) {
                for id in self.judged_by(subject, direction) {
                    if self.is_sender(id) {
                        concerned.senders = true;
                    } else {
                        concerned.entries.insert(id);
                    }
                }
            }
            self.note_gates(world, &mut concerned);
        }
        concerned
    }

    /// What depends on ways: where addresses are and how nodes are reached.
    fn ways(&self) -> impl Iterator<Item = Id> + '_ {
        let is_way = |id: &Id| {
            self.entry(*id).is_some_and(|entry| {
                matches!(
                    entry.query(),
                    Query::Route { .. }
                        | Query::Exit { .. }
                        | Query::Return { .. }
                        | Query::Wire { .. }
                        | Query::TunnelSource { .. }
                        | Query::Gate { .. }
                        | Query::Vacant { .. }
                )
            })
        };
        self.ids().filter(is_way)
    }

    /// What depends on who holds which egress address.
    fn exits(&self) -> impl Iterator<Item = Id> + '_ {
        let is_exit = |id: &Id| {
            let entry = self.entry(*id);
            entry.is_some_and(|entry| matches!(entry.query(), Query::Exit { .. } | Query::Return { .. }))
        };
        self.ids().filter(is_exit)
    }

    /// Who lives at the address is another. A verdict for every address there is does not look at who lives where, or
    /// it would not cover its own subject; but it may have looked at nodes, of which there may have been none.
    fn note_address(&self, address: IpAddr, may_be_a_node: bool, concerned: &mut Concerned) {
        concerned.entries.extend(self.at(address));
        for length in prefix_lengths(Family::of(address)) {
            if length > 0 || may_be_a_node {
                let prefix = policy::address::prefix(address, length);
                concerned.entries.extend(self.covering(prefix));
            }
        }
    }

    fn at(&self, address: IpAddr) -> impl Iterator<Item = Id> + '_ {
        self.by_address.range((address, 0)..=(address, Id::MAX)).map(|(_, id)| *id)
    }

    /// The verdicts that cover just this prefix.
    fn covering(&self, prefix: IpNet) -> impl Iterator<Item = Id> + '_ {
        let lowest = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        self.by_region
            .range((prefix, lowest, 0)..)
            .take_while(move |(peer, _, _)| *peer == prefix)
            .map(|(_, _, id)| *id)
    }

    /// Whether the entry stands for a pod of another node that sends here.
    fn is_sender(&self, id: Id) -> bool {
        self.entry(id).is_some_and(|entry| matches!(entry.query(), Query::TunnelSource { .. }))
    }

    fn judged_by(&self, subject: IpAddr, direction: Direction) -> impl Iterator<Item = Id> + '_ {
        let depends = move |id: &Id| {
            self.entry(*id).is_some_and(|entry| subjects(entry.query()).any(|s| s == (subject, direction)))
        };
        self.at(subject).filter(depends)
    }

    fn note_gates(&mut self, world: &World, concerned: &mut Concerned) {
        let ways: Vec<IpAddr> = self.ways.keys().copied().collect();
        for address in ways {
            self.note_gate(address, world, concerned);
        }
    }

    /// A way that leads through a gate from here on, or no longer does.
    fn note_gate(&mut self, address: IpAddr, world: &World, concerned: &mut Concerned) {
        let Some(way) = self.ways.get_mut(&address) else { return };
        if std::mem::replace(&mut way.gated, is_gated(address, world)) == way.gated {
            return;
        }
        if way.gated {
            concerned.gates.insert(address);
        }
        concerned.entries.extend(self.at(address));
    }
}

/// Whether new conversations to an address of another node are to be judged at its end too.
pub(super) fn is_gated(address: IpAddr, world: &World) -> bool {
    world.is_guarded(address) || matches!(world.resident(address), Resident::Unknown)
}

/// The addresses where somebody else lives than before, or somebody has changed.
fn touched(changes: &BTreeSet<Change>, world: &World) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::new();
    for change in changes {
        match change {
            Change::Address(address) => drop(addresses.insert(*address)),
            Change::Pod(reference) => {
                addresses.extend(world.pod(reference).into_iter().flat_map(|pod| pod.ips.iter().copied()));
                addresses.extend(world.claims_of(reference).map(|claim| claim.ip));
            }
            Change::Node(name) => {
                addresses.extend(world.node(name).into_iter().flat_map(policy::Node::every_address));
            }
            Change::Namespace(name) => {
                for pod in world.pods_of(name) {
                    addresses.extend(&pod.ips);
                    addresses.extend(world.claims_of(&pod.reference).map(|claim| claim.ip));
                }
            }
            Change::Network(_)
            | Change::Policy(_)
            | Change::Tenants
            | Change::Service(_)
            | Change::Trace(_) => {}
        }
    }
    addresses
}
