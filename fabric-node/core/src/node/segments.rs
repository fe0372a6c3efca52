//! Pods in the VLANs of physical networks: which VLANs are in use, and what follows from that for the node's own flows.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use openflow::{Action, FlowMod, FlowTable};
use policy::{Change, Mode, Name, Network, World};

use super::book::{Attachment, Stage};
use super::{Command, Node, PHYSICAL, PortRow, RequestError};
use crate::pipeline::learned::Pods;
use crate::pipeline::site::{LocalPod, Segment, Site, Tunnel};
use crate::pipeline::statics::{node_flows, out_by_wire, pod_flows};

impl Node {
    /// The VLAN that a Network's pods are in on this node; none of an overlay's.
    ///
    /// # Errors
    /// Where this node is not on the physical network, or not yet.
    pub(super) fn segment_for(&self, network: &Network) -> Result<Option<Segment>, RequestError> {
        let Some(segment) = Segment::of(network) else { return Ok(None) };
        let Network { name, .. } = network;
        let physical = &segment.physical;
        if !self.config.physical.contains_key(physical) {
            return Err(RequestError::Invalid(format!(
                "Network {name} is on physical network {physical}, which this node's file does not map to a NIC: \
                 map it there, or keep the pod off node {}",
                self.config.node
            )));
        }
        if !self.site.uplinks.contains_key(physical) {
            return Err(RequestError::TryAgain(format!(
                "Network {name} is on physical network {physical}, and {} has no port to br-{physical} yet",
                self.config.bridge
            )));
        }
        Ok(Some(segment))
    }

    /// Tells which VLANs are in use: from the choice of a Network on, since addresses are looked for on the wire, until
    /// the attachment is gone.
    pub(super) fn refresh_uplinks(&mut self) {
        if !self.book_read || (self.uplinks.is_none() && !self.up) {
            return;
        }
        let mut wanted: BTreeMap<Name, BTreeSet<u16>> = BTreeMap::new();
        for segment in self.book.iter().filter_map(|a| a.segment.as_ref()) {
            wanted.entry(segment.physical.clone()).or_default().insert(segment.vlan.unwrap_or(0));
        }
        if self.uplinks.as_ref() != Some(&wanted) {
            self.uplinks = Some(wanted.clone());
            self.command(Command::Uplinks(wanted));
        }
    }

    /// What has to change in the node's own flows, which depend on the pods in VLANs.
    pub(super) fn node_flow_changes(&mut self) -> Vec<FlowMod> {
        if !self.up {
            return Vec::new();
        }
        let wanted: FlowTable = node_flows(&self.site, &self.world, self.book.pods()).into_iter().collect();
        let changes = FlowTable::diff(&self.node_flows, &wanted);
        self.node_flows = wanted;
        changes
    }

    /// Whether flows of the node itself speak of a pod.
    pub(super) fn is_in_node_flows(&self, pod: &LocalPod) -> bool {
        pod.segment.is_some() || pod.addresses.iter().any(|address| !self.world.is_overlay(*address))
    }

    /// What has to change in all static flows after the site has: numbers of tunnels and uplinks stand in those of pods
    /// as well.
    pub(super) fn static_flow_changes(&mut self, before: &Site) -> Vec<FlowMod> {
        if *before == self.site {
            return self.node_flow_changes();
        }
        let pods =
            |site: &Site| -> Vec<_> { self.book.pods().flat_map(|pod| pod_flows(site, pod)).collect() };
        let had: FlowTable = self.node_flows.iter().cloned().chain(pods(before)).collect();
        let wanted: FlowTable = node_flows(&self.site, &self.world, self.book.pods()).into_iter().collect();
        let all: FlowTable = wanted.iter().cloned().chain(pods(&self.site)).collect();
        self.node_flows = wanted;
        FlowTable::diff(&had, &all)
    }

    /// Who of the pods in VLANs is guarded may have changed, and groups reach those only that are not.
    pub(super) fn refresh_groups(&mut self, changes: &BTreeSet<Change>) {
        let concerns = |change: &Change| match change {
            Change::Address(ip) => self.book.by_address(*ip).is_some_and(|pod| pod.segment.is_some()),
            Change::Pod(pod) => {
                self.book.iter().any(|a| a.pod.as_ref().is_some_and(|p| p.reference() == *pod))
            }
            Change::Namespace(_) | Change::Policy(_) | Change::Tenants => true,
            Change::Node(_) | Change::Network(_) | Change::Service(_) | Change::Trace(_) => false,
        };
        let on_segments = self.book.pods().any(|pod| pod.segment.is_some());
        if on_segments && changes.iter().any(concerns) {
            let flows = self.node_flow_changes();
            self.commit(flows);
        }
    }

    /// Actions that give a frame to everybody in a VLAN but one of the pods, or to the wire alone; nothing while the
    /// wire cannot be reached.
    pub(super) fn to_segment(&self, segment: &Segment, but: u16, wire_only: bool) -> Option<Vec<Action>> {
        let number = self.site.segment_number(segment)?;
        let here = |pod: &&LocalPod| !wire_only && pod.zone != but && !pod.addresses.is_empty();
        let pods = self.book.pods().filter(here).filter(|pod| pod.segment.as_ref() == Some(segment));
        let mut actions: Vec<Action> =
            pods.map(|pod| Action::Output { port: pod.port, max_len: 0 }).collect();
        actions.extend(out_by_wire(number));
        Some(actions)
    }

    /// Networks that have become of another kind than their running pods were attached to, in words: such pods keep what
    /// they have until they are made anew, since their addresses, gateway and way out are all of the other kind.
    pub(super) fn outdated(&self) -> Vec<String> {
        let mut outdated: BTreeMap<(&Name, String, String), Vec<String>> = BTreeMap::new();
        for attachment in self.book.iter().filter(|attachment| attachment.stage == Stage::Ready) {
            let (name, was) = (&attachment.network, attachment.segment.as_ref());
            let Some(is) = self.world.network(name).map(Segment::of) else { continue };
            if is.as_ref() != was {
                let pods = outdated.entry((name, kind(is.as_ref()), kind(was))).or_default();
                pods.push(attachment.holder());
            }
        }
        let told = outdated.into_iter().map(|((network, is, was), pods)| {
            let pods = some_of(&pods);
            format!(
                "Network {network} is {is}, but was {was} when these were attached. They stay so, and reach those \
                 attached since then in part or not at all. Create them again: {pods}"
            )
        });
        told.collect()
    }

    /// Addresses of pods here that are on no wire, and of no overlay either: their Network has become of another kind, or
    /// is not in force any more. No prefix of an overlay speaks for them.
    pub(super) fn stray_addresses(&self) -> impl Iterator<Item = IpNet> {
        let here =
            |a: &&Attachment| a.segment.is_none() && matches!(a.stage, Stage::Installing | Stage::Ready);
        let addresses = self.book.iter().filter(here).flat_map(|a| a.addresses.iter().copied());
        addresses.filter(|address| !self.world.is_overlay(*address)).map(IpNet::from)
    }
}

/// Pods that a message names.
const NAMED: usize = 16;

/// The first of many, and how many more there are.
fn some_of(pods: &[String]) -> String {
    let more = pods.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("and {more} more"));
    pods.iter().take(NAMED).cloned().chain(rest).collect::<Vec<_>>().join(", ")
}

/// A kind of Network, for people.
fn kind(segment: Option<&Segment>) -> String {
    match segment {
        Some(segment) => format!("in {}", name(segment)),
        None => "an overlay".to_owned(),
    }
}

/// A VLAN, for people.
pub(super) fn name(segment: &Segment) -> String {
    match segment.vlan {
        Some(vlan) => format!("VLAN {vlan} of physical network {}", segment.physical),
        None => format!("physical network {}, untagged", segment.physical),
    }
}

/// The encapsulations of the world's Networks.
pub(super) fn encapsulations(world: &World) -> impl Iterator<Item = Tunnel> + '_ {
    world.networks().filter_map(|network| match network.mode {
        Mode::Overlay { encap, .. } => Tunnel::of(encap),
        Mode::Underlay { .. } => None,
    })
}

/// The tunnel ports among the rows of the bridge.
pub(super) fn tunnels(rows: &BTreeMap<String, PortRow>) -> BTreeMap<Tunnel, u32> {
    let kind = |row: &PortRow| match row.kind.as_str() {
        "vxlan" => Some(Tunnel::Vxlan),
        "geneve" => Some(Tunnel::Geneve),
        "gre" => Some(Tunnel::Gre),
        _ => None,
    };
    rows.values().filter_map(|row| Some((kind(row)?, row.ofport?))).collect()
}

/// The patches to the bridges of physical networks among the rows of the bridge.
pub(super) fn uplinks(rows: &BTreeMap<String, PortRow>) -> BTreeMap<Name, u32> {
    let physical = |row: &PortRow| row.external_ids.get(PHYSICAL).map(|name| Name::from(name.as_str()));
    rows.values().filter_map(|row| Some((physical(row)?, row.ofport?))).collect()
}
