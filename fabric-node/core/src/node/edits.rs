//! The world changed: what that means for this node.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use openflow::{FlowKey, FlowMod, FlowTable};
use policy::{Change, Edit, Kind, Mode, ObjectRef};

use super::memory::Learned;
use super::{Command, Errand, HostState, Node, SwitchCommand};
use crate::pipeline::learned::decide;
use crate::pipeline::site::Tunnel;
use crate::pipeline::statics::node_flows;
use crate::pipeline::vocabulary::{HOST_NEXT_HOP_V4, HOST_NEXT_HOP_V6, ROUTER_MAC};

impl Node {
    pub(super) fn handle_edits(&mut self, edits: Vec<Edit>, now: Instant) {
        let mut changes = BTreeSet::new();
        for edit in edits {
            if let Edit::Remove(ObjectRef { kind: Kind::IpClaim, name, .. }) = &edit
                && let Some(ip) = policy::claim_address(name)
            {
                self.leases.freed(ip, now);
            }
            changes.extend(self.world.apply(edit));
        }
        if changes.is_empty() || !self.world_synced {
            return;
        }
        if changes.iter().any(|c| matches!(c, Change::Node(_) | Change::Network(_))) {
            self.refresh_site(now);
        }
        self.judge_again(&changes, now);
        self.retry_parked(now);
        self.start_if_complete(now);
        self.serve_held(now);
    }

    /// Judges the decisions again that the changes concern, and replaces in one bundle those that came out otherwise.
    pub(super) fn judge_again(&mut self, changes: &BTreeSet<Change>, now: Instant) {
        self.judge(changes.iter().flat_map(|c| self.memory.concerned(c)).collect(), now);
    }

    /// Judges these decisions again.
    pub(super) fn judge(&mut self, concerned: BTreeSet<FlowKey>, now: Instant) {
        let mut added = Vec::new();
        let mut deleted = Vec::new();
        for key in concerned {
            let Some(learned) = self.memory.get(&key) else { continue };
            let query = learned.query;
            let asker = learned.asker;
            match decide(&query, &self.context()) {
                Some(decision) if decision.flow == learned.flow => {}
                Some(decision) => {
                    if decision.flow.key() != key {
                        self.memory.remove(&key);
                        deleted.push(key);
                    }
                    self.memory.insert(Learned::sent(query, decision.flow.clone(), asker, now));
                    added.push(FlowMod::add(decision.flow));
                }
                None => {
                    self.memory.remove(&key);
                    deleted.push(key);
                }
            }
        }
        // One query may have left a key that another one moved to.
        deleted.retain(|key| self.memory.get(key).is_none());
        added.extend(deleted.into_iter().map(FlowMod::delete_strict));
        self.commit(added);
    }

    /// Sends flow changes as one bundle; while the switch is away, the compare that follows will.
    pub(super) fn commit(&mut self, flows: Vec<FlowMod>) {
        if flows.is_empty() || !self.up {
            return;
        }
        self.deletions.note(&flows);
        let task = self.errand(Errand::Commit);
        self.command(Command::Switch(SwitchCommand::Commit { task, meters: vec![], flows }));
    }

    /// Brings what depends on Nodes, Networks and the bridge's own ports up to date.
    pub(super) fn refresh_site(&mut self, now: Instant) {
        let before = self.site.clone();
        let node = self.world.node(&self.config.node);
        self.site.addresses = node.map(|n| n.addresses.clone()).unwrap_or_default();
        self.site.local_mac = self.ports.get(&self.config.bridge).and_then(|row| row.mac);
        self.site.tunnels = self
            .ports
            .get(&self.config.vxlan_port)
            .and_then(|row| row.ofport)
            .map(|port| (Tunnel::Vxlan, port))
            .into_iter()
            .collect();
        if self.up {
            let wanted: FlowTable = node_flows(&self.site, &self.world).into_iter().collect();
            let changes = FlowTable::diff(&self.node_flows, &wanted);
            self.node_flows = wanted;
            self.commit(changes);
        }
        self.refresh_host();
        if self.site != before {
            self.judge(self.memory.keys().into_iter().collect(), now);
        }
    }

    fn refresh_host(&mut self) {
        if !self.world_synced || !self.ports_ready {
            return;
        }
        let wanted = self.wanted_host();
        if wanted == self.host {
            return;
        }
        if wanted.peers != self.host.peers {
            self.peers_settled = wanted.peers.is_empty();
        }
        self.host = wanted.clone();
        self.command(Command::Host(wanted));
    }

    fn wanted_host(&self) -> HostState {
        let overlays: Vec<_> =
            self.world.networks().filter(|n| matches!(n.mode, Mode::Overlay { .. })).collect();
        let others = self.world.nodes().filter(|node| node.name != self.config.node);
        HostState {
            device: self.config.bridge.clone(),
            mtu: overlays.iter().map(|n| self.pod_mtu(n)).min().unwrap_or(self.config.carrier_mtu),
            gateway_mac: Some(ROUTER_MAC),
            gateways: vec![HOST_NEXT_HOP_V4.into(), HOST_NEXT_HOP_V6.into()],
            routes: overlays.iter().flat_map(|n| n.cidrs.iter().copied()).collect(),
            sources: one_a_family(&self.site.addresses),
            masquerade: overlays.iter().filter(|n| n.snat).flat_map(|n| n.cidrs.iter().copied()).collect(),
            peers: others.filter_map(|node| node.tunnel_address).collect(),
        }
    }

    pub(super) fn handle_peers_settled(&mut self, peers: &BTreeSet<IpAddr>, now: Instant) {
        if *peers == self.host.peers {
            self.peers_settled = true;
            self.finish_warm(now);
        }
    }
}

fn one_a_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let v4 = addresses.iter().find(|a| a.is_ipv4());
    let v6 = addresses.iter().find(|a| a.is_ipv6());
    v4.into_iter().chain(v6).copied().collect()
}
