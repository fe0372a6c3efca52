//! The Networks: which are in force, and which one an address is of.
//!
//! No two Networks overlap. Of those that do, the older stands (`metadata.creationTimestamp`; one without
//! counts as younger than any with), and of the same age the one whose name sorts first; the other is out of
//! force until the first goes. So which one stands does not depend on the order of the edits, and in a
//! cluster a Network that is added takes nothing from one that is in use. The default Network is chosen in
//! the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use crate::address::overlap;
use crate::manifest::{Problem, Source};
use crate::name::{Kind, Name, ObjectRef};
use crate::object::Network;

/// All Networks, and what follows from them taken together.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    all: BTreeMap<Name, Network>,
    /// The prefixes of the Networks in force, by their first address: they are disjoint.
    by_first: BTreeMap<IpAddr, (IpNet, Name)>,
    in_force: BTreeSet<Name>,
    default: Option<Name>,
    problems: Vec<Problem>,
}

impl Networks {
    /// Puts a Network in place and says which ones are in force with another content than before, or not any
    /// more.
    pub(super) fn put(&mut self, network: Network) -> BTreeSet<Name> {
        if self.all.get(&network.name) == Some(&network) {
            return BTreeSet::new();
        }
        let name = network.name.clone();
        self.all.insert(name.clone(), network);
        let mut changed = self.settle();
        if self.in_force.contains(&name) {
            changed.insert(name);
        }
        changed
    }

    /// Takes a Network away and says which ones are in force that were not, or not any more.
    pub(super) fn remove(&mut self, name: &str) -> BTreeSet<Name> {
        match self.all.remove(name) {
            Some(_) => self.settle(),
            None => BTreeSet::new(),
        }
    }

    /// A Network in force.
    pub(super) fn get(&self, name: &str) -> Option<&Network> {
        self.in_force.get(name).and_then(|name| self.all.get(name))
    }

    /// The Networks in force, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Network> {
        self.in_force.iter().filter_map(|name| self.all.get(name))
    }

    /// How many Networks are in force.
    pub(super) fn count(&self) -> usize {
        self.in_force.len()
    }

    /// The default Network.
    pub(super) fn default(&self) -> Option<&Network> {
        self.default.as_ref().and_then(|name| self.all.get(name))
    }

    /// The Network in force that an address is of.
    pub(super) fn of(&self, ip: IpAddr) -> Option<&Network> {
        let (_, (net, name)) = self.by_first.range(..=ip).next_back()?;
        if net.contains(&ip) { self.all.get(name) } else { None }
    }

    /// A Network in force, and its prefix, that has addresses in common with `net`.
    pub(super) fn meeting(&self, net: &IpNet) -> Option<(&IpNet, &Name)> {
        let below = self.by_first.range(..=net.network()).next_back();
        let within = self.by_first.range(net.network()..=net.broadcast()).next();
        below
            .into_iter()
            .chain(within)
            .map(|(_, (known, name))| (known, name))
            .find(|(known, _)| overlap(known, net))
    }

    /// What is wrong with the Networks taken together.
    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Decides anew which Networks are in force, and says for which of them that is another answer than
    /// before.
    fn settle(&mut self) -> BTreeSet<Name> {
        let before = std::mem::take(&mut self.in_force);
        let default_before = self.default.take();
        self.by_first.clear();
        self.problems.clear();
        let all = std::mem::take(&mut self.all);
        let mut by_age: Vec<&Network> = all.values().collect();
        by_age.sort_by_key(|network| (network.created.is_none(), &network.created, &network.name));
        for network in by_age {
            self.settle_one(network);
        }
        self.all = all;
        let mut changed: BTreeSet<Name> = before.symmetric_difference(&self.in_force).cloned().collect();
        if default_before != self.default {
            changed.extend(default_before);
            changed.extend(self.default.clone());
        }
        changed
    }

    /// Brings one Network into force, unless an earlier one is in its way.
    fn settle_one(&mut self, network: &Network) {
        let clash = network
            .cidrs
            .iter()
            .find_map(|cidr| self.meeting(cidr).map(|(net, name)| (cidr, *net, name.clone())));
        if let Some((cidr, net, winner)) = clash {
            let message = format!(
                "{cidr} overlaps {net} of Network {winner}, which stands: this Network is not in force until one of \
                 them gives way"
            );
            self.report(network, "spec.cidrs", message);
            return;
        }
        for cidr in &network.cidrs {
            self.by_first.insert(cidr.network(), (*cidr, network.name.clone()));
        }
        self.in_force.insert(network.name.clone());
        match &self.default {
            Some(first) if network.default => {
                let message = format!("Network {first} is the default one already: set false on one of them");
                self.report(network, "spec.default", message);
            }
            None if network.default => self.default = Some(network.name.clone()),
            _ => {}
        }
    }

    fn report(&mut self, network: &Network, field: &str, message: String) {
        let object = Some(ObjectRef::cluster(Kind::Network, &network.name));
        self.problems.push(Problem { source: Source::world(), object, field: field.to_owned(), message });
    }
}
