//! The world changed: what that means for this node.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use openflow::FlowMod;
use policy::{Change, Edit, Kind, Network, ObjectRef, PortBlock, Region, Resident};

use super::book::{Attachment, Stage};
use super::memory::{Concerned, Entry, Id, Learned, zone};
use super::wires::Resize;
use super::{Command, Errand, HostState, Node, SwitchCommand, segments};
use crate::pipeline::learned::{Decision, Pods, Query, decide};
use crate::pipeline::vocabulary::{HOST_NEXT_HOP_V4, HOST_NEXT_HOP_V6, ROUTER_MAC};

impl Node {
    pub(super) fn handle_edits(&mut self, edits: Vec<Edit>, now: Instant) {
        let mut changes = BTreeSet::new();
        for edit in edits {
            self.edits += 1;
            if let Edit::Remove(ObjectRef { kind: Kind::IpClaim, name, .. }) = &edit
                && let Some(ip) = policy::claim_address(name)
            {
                self.leases.freed(ip, now);
            }
            if !self.config.physical.is_empty() {
                self.former.note(&edit, &self.world, now);
            }
            self.note_for_egress(&edit, now);
            changes.extend(self.world.apply(edit));
        }
        if changes.is_empty() || !self.world_synced {
            return;
        }
        let of_site = changes.iter().any(|c| matches!(c, Change::Node(_) | Change::Network(_)));
        if of_site {
            self.resize_pods(Resize::Smaller, now);
            self.refresh_site(now);
        }
        if changes.iter().any(|c| matches!(c, Change::Pod(_))) {
            self.refresh_rates();
        }
        self.refresh_egress();
        self.refresh_groups(&changes);
        self.note_for_claims(&changes);
        self.judge_again(&changes, now);
        // Ways out go before what guards the ways back.
        self.refresh_exits();
        if changes.iter().any(|c| matches!(c, Change::Namespace(_))) {
            self.readdress_pods();
        }
        if of_site {
            self.resize_pods(Resize::All, now);
        }
        self.retry_parked(now);
        self.start_if_complete(now);
        self.serve_held(now);
    }

    /// Judges the decisions again that the changes concern, and replaces in one bundle those that came out otherwise.
    pub(super) fn judge_again(&mut self, changes: &BTreeSet<Change>, now: Instant) {
        let concerned = self.memory.concerned(changes, &self.world);
        if concerned.senders {
            self.want_whole_walk();
            self.want_echoes(now);
        }
        self.note_identities(&concerned.touched, now);
        self.judge(concerned, now);
        if changes.iter().any(|change| !matches!(change, Change::Service(_) | Change::Trace(_))) {
            let overfull: Vec<u16> = self.memory.overfull().iter().copied().collect();
            self.want_walk(overfull);
        }
    }

    /// A pod of this node that has changed may be one that others may not send to any more; their nodes judge that, and
    /// here it must not answer.
    fn note_identities(&mut self, touched: &BTreeSet<IpAddr>, now: Instant) {
        for address in touched {
            let Some(zone) = self.book.by_address(*address).map(|pod| pod.zone) else { continue };
            let identity = self.identity(*address);
            if self.identities.insert(*address, identity) != Some(identity) {
                self.want_walk([zone]);
                self.want_echoes(now);
            }
        }
    }

    /// A hash of all that policies of others can say of who lives at an address.
    pub(super) fn identity(&self, address: IpAddr) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self.world.resident(address) {
            Resident::Pod(pod, namespace) => {
                format!("{:?}", (&pod.reference, &pod.uid, &pod.labels, &pod.ports, &namespace.labels))
                    .hash(&mut hasher);
            }
            other => std::mem::discriminant(&other).hash(&mut hasher),
        }
        hasher.finish()
    }

    /// Judges every decision again.
    pub(super) fn judge_all(&mut self, now: Instant) {
        self.judge(Concerned { entries: self.memory.ids().collect(), ..Concerned::default() }, now);
    }

    pub(super) fn judge(&mut self, concerned: Concerned, now: Instant) {
        let mut bundle = Bundle::default();
        for id in concerned.entries {
            self.judged += 1;
            self.judge_one(id, &mut bundle, now);
        }
        for destination in concerned.gates {
            self.open_gate(destination, &mut bundle, now);
        }
        // One query may have left a key that another one moved to.
        bundle.deleted.retain(|deleted| self.memory.find_same(&deleted.flow).is_none());
        let Bundle { mut added, deleted, lost } = bundle;
        added.extend(deleted);
        if !added.is_empty() {
            self.want_settled();
        }
        self.commit(added);
        self.want_walk(lost);
    }

    fn judge_one(&mut self, id: Id, bundle: &mut Bundle, now: Instant) {
        let Some(entry) = self.memory.entry(id) else { return };
        let query = *entry.query();
        let decision = decide(&query, &self.context());
        if let Some(before) = entry.allowed()
            && !decision.as_ref().is_some_and(|decision| allows_all_of(decision, before))
        {
            bundle.lost.extend(zone(&query));
        }
        match (entry, decision) {
            (Entry::Flow(learned), Some(decision)) if decision.flow == learned.flow => {
                let reasons = self.tallies.reasons(&decision);
                self.memory.set_reasons(id, reasons);
            }
            (Entry::Flow(learned), Some(decision)) => {
                let asker = learned.asker;
                if self.memory.find_same(&decision.flow) != Some(id)
                    && let Some(Entry::Flow(before)) = self.memory.remove(id)
                {
                    bundle.deleted.push(FlowMod::delete_strict(before.flow.key()));
                }
                bundle.added.push(FlowMod::add(decision.flow.clone()));
                let reasons = self.tallies.reasons(&decision);
                self.memory.insert(Learned::sent(query, decision, reasons, asker, now), &self.world);
            }
            (Entry::Flow(_), None) => {
                if let Some(Entry::Flow(before)) = self.memory.remove(id) {
                    bundle.deleted.push(FlowMod::delete_strict(before.flow.key()));
                }
            }
            (Entry::Dormant(dormant), decision) => {
                if !decision.is_some_and(|decision| allows_all_of(&decision, &dormant.region)) {
                    self.memory.remove(id);
                }
            }
        }
    }

    /// A way leads through a gate from here on.
    fn open_gate(&mut self, destination: IpAddr, bundle: &mut Bundle, now: Instant) {
        let query = Query::Gate { destination };
        let Some(decision) = decide(&query, &self.context()) else { return };
        bundle.added.push(FlowMod::add(decision.flow.clone()));
        let reasons = self.tallies.reasons(&decision);
        self.memory.insert(Learned::sent(query, decision, reasons, None, now), &self.world);
        // Who sent there before was not asked about at the other end.
        bundle.lost.extend(self.book.pods().map(|pod| pod.zone));
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
        self.encapsulations.extend(segments::encapsulations(&self.world));
        self.site.tunnels = segments::tunnels(&self.ports);
        self.site.tunnels.retain(|kind, _| self.encapsulations.contains(kind));
        self.site.uplinks = segments::uplinks(&self.ports);
        self.site.carrier_mtu = self.config.carrier_mtu;
        self.site.egress = self.held_egress();
        self.site.largest_mtu = self.largest_mtu();
        self.site.smallest_mtu = self.smallest_mtu();
        self.site.local_mtu = self.host_mtu();
        self.site.overfills = self.site.may_overfill(&self.world);
        if self.up {
            let changes = self.static_flow_changes(&before);
            self.commit(changes);
        }
        self.refresh_host();
        if self.site != before {
            self.judge_all(now);
            self.announce_moved(now);
            if self.site.uplinks != before.uplinks {
                self.probe_anew(now);
            }
        }
    }

    pub(super) fn refresh_host(&mut self) {
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
        let (egress_asked, egress) = self.host_egress();
        let overlays: Vec<_> = self.world.overlays().collect();
        let others = self.world.nodes().filter(|node| node.name != self.config.node);
        HostState {
            device: self.config.bridge.clone(),
            mtu: self.host_mtu(),
            gateway_mac: Some(ROUTER_MAC),
            gateways: vec![HOST_NEXT_HOP_V4.into(), HOST_NEXT_HOP_V6.into()],
            routes: overlays
                .iter()
                .flat_map(|n| n.cidrs.iter().copied())
                .chain(self.pods_in_vlans())
                .chain(self.stray_addresses())
                .collect(),
            sources: one_a_family(&self.site.addresses),
            masquerade: overlays
                .iter()
                .filter(|n| n.snat)
                .flat_map(|n| n.cidrs.iter().copied())
                .chain(self.stray_addresses())
                .collect(),
            on_wire: self.pods_in_vlans().collect(),
            unmasked: overlays.iter().filter(|n| n.snat).flat_map(|n| unmasked(n)).collect(),
            egress_asked,
            egress,
            peers: others.filter_map(|node| node.tunnel_address).collect(),
        }
    }

    /// The addresses of this node's pods in VLANs: the wire does not lead back to them.
    fn pods_in_vlans(&self) -> impl Iterator<Item = IpNet> {
        let here =
            |a: &&Attachment| a.segment.is_some() && matches!(a.stage, Stage::Installing | Stage::Ready);
        self.book.iter().filter(here).flat_map(|a| a.addresses.iter().copied().map(IpNet::from))
    }

    pub(super) fn handle_peers_settled(&mut self, peers: &BTreeSet<IpAddr>, now: Instant) {
        if *peers == self.host.peers {
            self.peers_settled = true;
            self.finish_warm(now);
        }
    }
}

/// Changes that go out together.
#[derive(Default)]
struct Bundle {
    added: Vec<FlowMod>,
    deleted: Vec<FlowMod>,
    /// Zones that lost an allow: connections in them may be forbidden.
    lost: BTreeSet<u16>,
}

/// Whether a decision allows every packet of a region that was allowed before.
fn allows_all_of(decision: &Decision, before: &Region) -> bool {
    decision.allows
        && decision.region.is_some_and(|region| {
            region.peer.contains(&before.peer)
                && region.protocol.is_none_or(|protocol| before.protocol == Some(protocol))
                && holds_block(region.ports, before.ports)
        })
}

fn holds_block(ports: PortBlock, before: PortBlock) -> bool {
    match (ports, before) {
        (PortBlock::All, _) | (PortBlock::Hidden, PortBlock::Hidden) => true,
        (PortBlock::Block { .. }, PortBlock::Block { base, mask }) => {
            ports.contains(Some(base)) && ports.contains(Some(base | !mask))
        }
        _ => false,
    }
}

/// The exceptions of a Network, by the prefix of their family.
fn unmasked(network: &Network) -> impl Iterator<Item = (IpNet, BTreeSet<IpNet>)> {
    network.cidrs.iter().filter_map(|cidr| {
        let of_family = |net: &&IpNet| net.addr().is_ipv4() == cidr.addr().is_ipv4();
        let except: BTreeSet<IpNet> = network.snat_except.iter().filter(of_family).copied().collect();
        (!except.is_empty()).then_some((*cidr, except))
    })
}

fn one_a_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let v4 = addresses.iter().find(|a| a.is_ipv4());
    let v6 = addresses.iter().find(|a| a.is_ipv6());
    v4.into_iter().chain(v6).copied().collect()
}
