//! Paths to other nodes that carry less than the interface which they leave by.
//!
//! The host room finds out what each path carries. The node tells it which paths are in use, and when one has become
//! narrower or wider, judges the ways that lead there again: they look at the size of packets where there may be some
//! that do not fit. The MTU of pods stays that of the interface, since most of what they send goes elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use policy::{Family, Name};

use super::memory::Concerned;
use super::{Command, Node};
use crate::pipeline::site::Tunnel;

/// Time between two tellings of which paths are in use.
const PAUSE: Duration = Duration::from_millis(500);
/// The least MTU of IPv6 (RFC 8200 §5).
const LEAST_V6: u32 = 1280;

/// What the host room was told last of the paths in use.
#[derive(Debug, Default)]
pub(super) struct PathsInUse {
    told: BTreeSet<IpAddr>,
    not_before: Option<Instant>,
}

/// A path that carries less than the interface which it leaves by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NarrowPath {
    /// The node that it leads to, where one has the address.
    pub node: Option<Name>,
    /// Tunnel address of that node.
    pub address: IpAddr,
    /// The largest IP packet that comes through, the tunnel's headers counted, bytes.
    pub mtu: u32,
}

impl Node {
    /// The host room has found other paths narrow than before: all of them, with what each carries, bytes.
    pub(super) fn handle_path_mtus(&mut self, paths: BTreeMap<IpAddr, u32>, now: Instant) {
        let differs = |peer: &&IpAddr| self.site.path_mtus.get(*peer) != paths.get(*peer);
        let changed: BTreeSet<IpAddr> =
            self.site.path_mtus.keys().chain(paths.keys()).filter(differs).copied().collect();
        if changed.is_empty() {
            return;
        }
        let before = self.site.clone();
        self.site.path_mtus = paths;
        self.site.overfills = self.site.may_overfill(&self.world);
        if self.up {
            let flows = self.static_flow_changes(&before);
            self.commit(flows);
        }
        let entries = self.memory.ways_to(&changed);
        self.judge(Concerned { entries, ..Concerned::default() }, now);
    }

    /// Tells which paths are in use, where these are others than before.
    pub(super) fn tell_paths(&mut self, now: Instant) {
        if self.paths_told_at().is_none_or(|at| at > now) {
            return;
        }
        let in_use = self.memory.peers();
        if in_use != self.paths_in_use.told {
            self.paths_in_use = PathsInUse { told: in_use.clone(), not_before: Some(now + PAUSE) };
            self.command(Command::PathsInUse(in_use));
        }
    }

    /// When the paths in use are to be told.
    pub(super) fn paths_told_at(&self) -> Option<Instant> {
        let at = self.paths_in_use.not_before.unwrap_or(self.clock.at);
        self.memory.has_other_peers().then_some(at)
    }

    /// The narrow paths, in the order of their addresses.
    pub(super) fn narrow_paths(&self) -> Vec<NarrowPath> {
        let node = |address: &IpAddr| {
            let mut nodes = self.world.nodes();
            nodes.find(|node| node.tunnel_address == Some(*address)).map(|node| node.name.clone())
        };
        let paths = self.site.path_mtus.iter();
        paths.map(|(address, mtu)| NarrowPath { node: node(address), address: *address, mtu: *mtu }).collect()
    }

    /// Paths too narrow for IPv6, in words: a sender need not send less than the least MTU.
    pub(super) fn too_narrow(&self) -> Vec<String> {
        let six = |n: &&policy::Network| n.cidrs.iter().any(|cidr| Family::of(cidr.addr()) == Family::V6);
        let kinds: BTreeSet<Tunnel> = self
            .world
            .networks()
            .filter(six)
            .filter_map(|n| self.site.tunnel_of(n))
            .map(|t| t.kind)
            .collect();
        let least = |address| kinds.iter().filter_map(|kind| self.site.capacity(*kind, address)).min();
        let narrow = self.site.path_mtus.iter().filter_map(|(address, mtu)| {
            let fits = least(*address).filter(|fits| *fits < LEAST_V6)?;
            Some(format!(
                "path to {address}: it carries packets of {mtu} bytes, which leaves {fits} for those of pods, and \
                 IPv6 needs {LEAST_V6} (RFC 8200): widen the path"
            ))
        });
        narrow.collect()
    }
}
