//! The devices of attachments: what they should be, and packets whose size changes while containers run.
//!
//! A smaller MTU is given to containers before anything that follows from the same change, a larger one after it.

use std::time::Instant;

use policy::{Mode, Network};

use super::book::{Attachment, Stage};
use super::{AttachmentKey, Command, Errand, Node, PortRow, PortSpec, PortsCommand, WireCommand, WireSpec};
use crate::pipeline::site::{Segment, Tunnel};
use crate::pipeline::vocabulary::ROUTER_MAC;

/// First OpenFlow port asked for: the switch never takes these on its own.
const FIRST_PORT: u16 = 32_768;

/// Which MTUs are to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resize {
    /// Those that become smaller.
    Smaller,
    /// All that are not what they should be.
    All,
}

impl Node {
    pub(super) fn wire_spec(&self, attachment: &Attachment) -> WireSpec {
        let fabric_routes = attachment.segment.is_none();
        WireSpec {
            netns: attachment.netns.clone(),
            ifname: attachment.key.ifname.clone(),
            host_name: attachment.host_name.clone(),
            mac: attachment.mac,
            mtu: attachment.mtu,
            addresses: attachment.nets(),
            gateways: attachment.gateways.clone(),
            gateway_mac: fabric_routes.then_some(ROUTER_MAC),
            software_checksums: self.config.software_checksums,
        }
    }

    pub(super) fn port_spec(attachment: &Attachment) -> PortSpec {
        PortSpec {
            name: attachment.host_name.clone(),
            ofport_request: port_request(attachment.zone),
            external_ids: attachment.external_ids(),
        }
    }

    /// The MTU of a Network's pods, bytes: what fits into the interface that carries them, with the encapsulation
    /// around it. None of a physical network that this node is not on.
    pub(super) fn pod_mtu(&self, network: &Network) -> Option<u32> {
        match &network.mode {
            Mode::Overlay { encap, .. } => {
                let node = self.world.node(&self.config.node);
                let over_v6 = node.and_then(|n| n.tunnel_address).is_some_and(|a| a.is_ipv6());
                let overhead = Tunnel::of(*encap).map_or(0, |tunnel| tunnel.overhead(over_v6));
                Some(self.config.carrier_mtu.saturating_sub(overhead))
            }
            Mode::Underlay { physical_network, .. } => self.config.physical.get(physical_network).copied(),
        }
    }

    /// The MTU that an attachment should have; None where nothing says so, or where its Network has become of another
    /// kind than what it is attached to.
    fn wanted_mtu(&self, attachment: &Attachment) -> Option<u32> {
        let network = self.world.network(&attachment.network)?;
        let same_kind = Segment::of(network) == attachment.segment;
        let asked = attachment.asked_mtu.or(network.mtu);
        asked.or_else(|| self.pod_mtu(network)).filter(|_| same_kind)
    }

    /// The largest packet that pods here or the node itself may send into the fabric, bytes.
    pub(super) fn largest_mtu(&self) -> u32 {
        self.book.iter().map(|a| a.mtu.max(a.resizing.unwrap_or(0))).max().unwrap_or(0).max(self.host_mtu())
    }

    /// The smallest packet size that a pod here takes, bytes.
    pub(super) fn smallest_mtu(&self) -> Option<u32> {
        self.book.iter().map(|a| a.mtu).filter(|mtu| *mtu > 0).min()
    }

    /// The MTU of the node's own interface on the bridge: what every overlay carries.
    pub(super) fn host_mtu(&self) -> u32 {
        self.world.overlays().filter_map(|n| self.pod_mtu(n)).min().unwrap_or(self.config.carrier_mtu)
    }

    /// An attachment came, went or has another MTU: ways have to look at the size of packets only where one could be too
    /// large.
    pub(super) fn refresh_largest(&mut self, now: Instant) {
        let sizes = (self.smallest_mtu(), self.largest_mtu());
        if sizes != (self.site.smallest_mtu, self.site.largest_mtu) {
            self.refresh_site(now);
        }
    }

    /// Gives running containers the MTU that they should have by now; addresses and connections stay.
    pub(super) fn resize_pods(&mut self, which: Resize, now: Instant) {
        if !self.world_synced || !self.book_read {
            return;
        }
        for key in self.book.keys() {
            self.resize(&key, which, now);
        }
    }

    pub(super) fn resize(&mut self, key: &AttachmentKey, which: Resize, now: Instant) {
        let Some(attachment) = self.book.get(key) else { return };
        let settled =
            attachment.stage == Stage::Ready && !attachment.is_leaving() && attachment.resizing.is_none();
        let differs = |mtu: &u32| match which {
            Resize::Smaller => *mtu < attachment.mtu,
            Resize::All => *mtu != attachment.mtu,
        };
        let Some(mtu) = self.wanted_mtu(attachment).filter(|_| settled).filter(differs) else { return };
        let command = WireCommand::Resize {
            netns: attachment.netns.clone(),
            ifname: attachment.key.ifname.clone(),
            host_name: attachment.host_name.clone(),
            mtu,
        };
        if let Some(attachment) = self.book.get_mut(key) {
            attachment.resizing = Some(mtu);
        }
        self.refresh_largest(now);
        let task = self.errand(Errand::Resize { key: key.clone() });
        self.command(Command::Wire { task, command });
    }

    /// The devices have their MTU, or could not be given it: then the next compare tries again.
    pub(super) fn resized(&mut self, key: &AttachmentKey, result: Result<(), String>, now: Instant) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        let Some(mtu) = attachment.resizing.take() else { return };
        if let Err(error) = result {
            let trouble = format!("MTU {mtu} of a running container: {error}");
            self.unsized_pods.insert(key.clone(), trouble);
            return self.refresh_largest(now);
        }
        let leaving = attachment.is_leaving();
        self.set_mtu(key, mtu);
        self.unsized_pods.remove(key);
        self.refresh_largest(now);
        if !leaving {
            self.rebook(key);
            self.resize(key, Resize::All, now);
        }
    }

    fn set_mtu(&mut self, key: &AttachmentKey, mtu: u32) {
        if let Some((_, _, flows)) = self.change_pod(key, |book| book.set_mtu(key, mtu)) {
            self.commit(flows);
        }
    }

    /// Writes an attachment's row anew. A row that is not written is found wrong by the next agent.
    fn rebook(&mut self, key: &AttachmentKey) {
        let Some(spec) = self.book.get(key).map(Node::port_spec) else { return };
        let task = self.errand(Errand::Rebook);
        self.command(Command::Ports { task, command: PortsCommand::Add(spec) });
    }

    pub(super) fn rebooked(&mut self, result: Result<Option<PortRow>, String>, now: Instant) {
        if let Ok(Some(row)) = result {
            self.port_changed(row, now);
        }
    }
}

/// The OpenFlow port that the pod of a zone asks for.
pub(super) fn port_request(zone: u16) -> u16 {
    FIRST_PORT + zone % (u16::MAX - FIRST_PORT - 256)
}
