//! Machines on a wire that take the address of a running pod.
//!
//! Before a pod gets an address, the wire is asked for it ([`super::probes`]); a machine may take it later. What such a
//! machine says of the address the switch drops, so that nobody here believes it, and the agent gets a copy: one in
//! [`CLAIMED_SECONDS`] for each address, since flows keep the rest from it. Each time it announces the pod, which keeps
//! its address (RFC 5227 §2.4 (c)), and tells people, until the machine was not heard for a while.
//!
//! An earlier holder of the address does not count, and no pod does: its own node sees to what it says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::message::{PacketIn, PacketOut};
use openflow::{Flow, FlowMod, Mac};
use policy::Name;

use super::book::Attachment;
use super::frames::{announcement, claimant};
use super::segments;
use super::{AttachmentKey, Command, Node, SwitchCommand};
use crate::pipeline::learned::Pods;
use crate::pipeline::site::Segment;
use crate::pipeline::statics::quiet_flows;
use crate::pipeline::vocabulary::CLAIMED_SECONDS;

/// How long nothing more is heard of an address, and the least time between two announcements that defend it.
const QUIET: Duration = Duration::from_secs(CLAIMED_SECONDS as u64);
/// How long a machine is told of after it was last heard.
const REMEMBERED: Duration = Duration::from_secs(300);

/// A machine that claims the address of a pod of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The address.
    pub address: IpAddr,
    /// Hardware address that claims it.
    pub machine: Mac,
    /// Whose it is, in words: `pod NAMESPACE/NAME`, or `container ID` where no pod is known.
    pub holder: String,
    /// The Network.
    pub network: Name,
    /// Where both are.
    pub segment: Segment,
}

/// Who claims addresses of this node's pods.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    /// When each machine was last heard.
    heard: BTreeMap<(IpAddr, Mac), Instant>,
    /// Until when nothing is heard of an address.
    quiet: BTreeMap<IpAddr, Instant>,
    /// How often a machine was heard for the first time, or forgotten.
    pub changes: u64,
    /// Announcements that defended an address.
    pub defences: u64,
}

impl Conflicts {
    pub fn due(&self) -> Option<Instant> {
        self.heard.values().min().map(|heard| *heard + REMEMBERED)
    }

    fn is_quiet(&self, address: IpAddr, now: Instant) -> bool {
        self.quiet.get(&address).is_some_and(|until| *until > now)
    }

    fn hush(&mut self, address: IpAddr, now: Instant) {
        self.quiet.retain(|_, until| *until > now);
        self.quiet.insert(address, now + QUIET);
    }

    fn note(&mut self, address: IpAddr, machine: Mac, now: Instant) {
        let is_first = self.heard.insert((address, machine), now).is_none();
        self.changes += u64::from(is_first);
    }

    /// Forgets the machines that have been quiet for long.
    pub fn expire(&mut self, now: Instant) {
        self.keep(|_, heard| heard + REMEMBERED > now);
    }

    /// The address is no pod's of this node any more.
    pub fn forget(&mut self, address: IpAddr) {
        self.keep(|of, _| of != address);
        self.quiet.remove(&address);
    }

    fn keep(&mut self, stays: impl Fn(IpAddr, Instant) -> bool) {
        let before = self.heard.len();
        self.heard.retain(|(address, _), heard| stays(*address, *heard));
        self.changes += u64::from(self.heard.len() != before);
    }
}

impl Node {
    /// Somebody on a wire speaks for the address of a pod here.
    pub(super) fn claimed_on_wire(&mut self, packet_in: &PacketIn, now: Instant) {
        let Some((address, machine)) = claimant(&packet_in.packet) else { return };
        if !self.up || self.conflicts.is_quiet(address, now) {
            return;
        }
        let Some(flows) = self.quieting(address) else { return };
        self.conflicts.hush(address, now);
        self.commit(flows.into_iter().map(FlowMod::add).collect());
        let Some(attachment) = self.attachment_of(address) else { return };
        if self.is_known_there(attachment, address, machine, now) {
            return;
        }
        let packet = self.defence(attachment, address);
        self.conflicts.note(address, machine, now);
        if let Some(packet) = packet {
            self.conflicts.defences += 1;
            self.command(Command::Switch(SwitchCommand::Send { packets: vec![packet] }));
        }
    }

    fn attachment_of(&self, address: IpAddr) -> Option<&Attachment> {
        let zone = self.book.by_address(address)?.zone;
        let key: &AttachmentKey = self.book.of_zone(zone)?;
        self.book.get(key)
    }

    /// Flows that keep from the agent who claims an address.
    fn quieting(&self, address: IpAddr) -> Option<Vec<Flow>> {
        let segment = self.attachment_of(address)?.segment.as_ref()?;
        Some(quiet_flows(self.site.segment_number(segment)?, address))
    }

    /// Those that are to be in the switch at this time.
    pub(super) fn flows_of_conflicts(&self, now: Instant) -> Vec<Flow> {
        let quiet = self.conflicts.quiet.iter().filter(|(_, until)| **until > now);
        quiet.filter_map(|(address, _)| self.quieting(*address)).flatten().collect()
    }

    /// Whether a hardware address is the pod's own, an earlier holder's, or any pod's.
    fn is_known_there(&self, attachment: &Attachment, address: IpAddr, machine: Mac, now: Instant) -> bool {
        machine == attachment.mac
            || self.former.is_of(address, machine, attachment, &self.world, now)
            || self.world.claims().any(|claim| Mac(claim.mac) == machine)
    }

    /// Tells the wire whose the address is; pods here have not heard otherwise.
    fn defence(&self, attachment: &Attachment, address: IpAddr) -> Option<PacketOut> {
        let actions = self.to_segment(attachment.segment.as_ref()?, attachment.zone, true)?;
        Some(PacketOut::new(announcement(attachment.mac, address)?, actions))
    }

    /// Who claims addresses of pods here, in the order of the addresses.
    pub(super) fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        self.conflicts.heard.keys().filter_map(|(address, machine)| {
            let attachment = self.attachment_of(*address)?;
            Some(Conflict {
                address: *address,
                machine: *machine,
                holder: attachment.holder(),
                network: attachment.network.clone(),
                segment: attachment.segment.clone()?,
            })
        })
    }
}

impl Conflict {
    /// What is wrong, and what to do.
    pub(super) fn problem(&self) -> String {
        let Conflict { address, machine, holder, network, segment } = self;
        let place = segments::name(segment);
        format!(
            "address {address} of {holder} is also used in {place} by the machine with the MAC {machine}: give that \
             machine another one, or exclude the address from Network {network} (spec.exclude) and create the pod again"
        )
    }
}
