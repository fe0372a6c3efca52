//! Whether somebody in the VLAN has an address already, before a pod gets it.
//!
//! A claim keeps pods apart; machines that are no pods know nothing of claims. So an address of a physical network is
//! looked for on the wire first (RFC 5227 §2.1.1 and RFC 4862 §5.4, shortened): three probes, 200 ms apart, and 200 ms
//! more for the last answer. Who answers for the address, or looks for it as well, is in the way: a picked address is
//! given back and another one taken, a fixed one fails the attachment. The pod's own claim may have had another holder a
//! moment ago, whose machine may answer once more: that does not count.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::message::{PacketIn, PacketOut};
use openflow::{Flow, FlowMod, Mac};
use policy::{Edit, Kind, Object, ObjectRef, World};

use super::attach::CLAIM_TRIES;
use super::book::{Attachment, Stage};
use super::fading::Fading;
use super::frames::{claimant, joins, probe};
use super::segments;
use super::{AttachmentKey, ClaimCommand, Command, Errand, Node, RequestError, SwitchCommand};
use crate::pipeline::statics::probe_flows;

/// Probes for an address.
const PROBES: u32 = 3;
/// Time between them, and after the last.
const INTERVAL: Duration = Duration::from_millis(200);

/// Addresses of an attachment that are being looked for.
#[derive(Debug)]
pub(super) struct Probe {
    key: AttachmentKey,
    addresses: Vec<IpAddr>,
    sent: u32,
    next: Instant,
}

impl Probe {
    pub fn due(&self) -> Instant {
        self.next
    }
}

impl Node {
    /// The claims are made: the devices come next, or first a look at the wire.
    pub(super) fn probe_or_wire(&mut self, key: &AttachmentKey, now: Instant) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        let unclear = attachment.addresses.iter().filter(|ip| !attachment.clear.contains(ip));
        let addresses: Vec<IpAddr> = unclear.copied().collect();
        if attachment.segment.is_none() || addresses.is_empty() {
            return self.wire(key);
        }
        attachment.stage = Stage::Probing;
        self.probes.push(Probe { key: key.clone(), addresses, sent: 0, next: now });
        self.send_probes(now);
    }

    /// The wires are reached by other ports than before: looks at them begin anew.
    pub(super) fn probe_anew(&mut self, now: Instant) {
        for probe in &mut self.probes {
            (probe.sent, probe.next) = (0, now);
        }
        self.send_probes(now);
    }

    /// Flows that show the agent who claims the addresses that it is looking for.
    pub(super) fn flows_of_probes(&self) -> Vec<Flow> {
        self.probes.iter().flat_map(|probe| self.flows_of_probe(probe)).collect()
    }

    fn flows_of_probe(&self, probe: &Probe) -> Vec<Flow> {
        let segment = self.book.get(&probe.key).and_then(|a| a.segment.as_ref());
        let Some(number) = segment.and_then(|segment| self.site.segment_number(segment)) else {
            return Vec::new();
        };
        probe.addresses.iter().flat_map(|ip| probe_flows(number, *ip)).collect()
    }

    /// Sends the probes that are due, and lets those go on whose addresses nobody has claimed.
    pub(super) fn send_probes(&mut self, now: Instant) {
        for mut probe in std::mem::take(&mut self.probes) {
            if self.book.get(&probe.key).is_none_or(|a| a.stage != Stage::Probing || a.is_leaving()) {
                continue;
            }
            if probe.next > now {
                self.probes.push(probe);
            } else if !self.up {
                // Nothing is heard while the switch is away: from the start, once it is back.
                (probe.sent, probe.next) = (0, now + INTERVAL);
                self.probes.push(probe);
            } else if probe.sent == PROBES {
                if let Some(attachment) = self.book.get_mut(&probe.key) {
                    attachment.clear.append(&mut probe.addresses);
                }
                self.wire(&probe.key);
            } else if let Some(packets) = self.packets_of_probe(&probe) {
                if probe.sent == 0 {
                    self.commit(self.flows_of_probe(&probe).into_iter().map(FlowMod::add).collect());
                }
                self.command(Command::Switch(SwitchCommand::Send { packets }));
                (probe.sent, probe.next) = (probe.sent + 1, now + INTERVAL);
                self.probes.push(probe);
            } else {
                let what =
                    "the port to the physical network went while addresses were looked for on the wire";
                self.fail(&probe.key, RequestError::TryAgain(what.to_owned()));
            }
        }
    }

    /// Before the first question about an IPv6 address, its group is joined: who else looks for it asks the group.
    fn packets_of_probe(&self, Probe { key, addresses, sent, .. }: &Probe) -> Option<Vec<PacketOut>> {
        let attachment = self.book.get(key)?;
        let (segment, mac) = (attachment.segment.as_ref()?, attachment.mac);
        let actions = self.to_segment(segment, attachment.zone, false)?;
        let by_wire = self.to_segment(segment, attachment.zone, true)?;
        let mut packets = Vec::new();
        for ip in addresses {
            if let IpAddr::V6(v6) = ip
                && *sent == 0
            {
                packets.push(PacketOut::new(joins(mac, *v6)?, by_wire.clone()));
            }
            packets.push(PacketOut::new(probe(mac, *ip)?, actions.clone()));
        }
        Some(packets)
    }

    /// Somebody in a VLAN has claimed an address that was looked for a moment ago.
    pub(super) fn heard(&mut self, packet_in: &PacketIn, now: Instant) {
        let Some((address, mac)) = claimant(&packet_in.packet) else { return };
        let found = self.probes.iter().position(|probe| probe.addresses.contains(&address));
        let Some(at) = found else { return };
        let attachment = self.probes.get(at).and_then(|probe| self.book.get(&probe.key));
        let Some(attachment) = attachment.filter(|a| !a.is_leaving()) else { return };
        if mac == attachment.mac || self.former.is_of(address, mac, attachment, &self.world, now) {
            return;
        }
        let key = self.probes.remove(at).key;
        self.conflict(&key, address, mac, now);
    }

    fn conflict(&mut self, key: &AttachmentKey, address: IpAddr, holder: Mac, now: Instant) {
        let Some(attachment) = self.book.get_mut(key) else { return };
        let owner = attachment.owner();
        let place = attachment.segment.as_ref().map(segments::name).unwrap_or_default();
        let taken = format!("address {address} is in use in {place} by a machine with the MAC {holder}");
        if attachment.fixed.contains(&address) {
            let what = format!("{taken}: end its use there, or ask for another address");
            return self.fail(key, RequestError::NoAddress(what));
        }
        if attachment.refused >= CLAIM_TRIES {
            let what = format!(
                "{taken}, and so were {CLAIM_TRIES} addresses before it: exclude what machines use from Network {} \
                 (spec.exclude)",
                attachment.network
            );
            return self.fail(key, RequestError::NoAddress(what));
        }
        attachment.addresses.retain(|ip| *ip != address);
        attachment.stage = Stage::Claiming { open: 1 };
        self.leases.freed(address, now);
        // Not kept for a successor either.
        let task = self.errand(Errand::Release { ip: address });
        let command = ClaimCommand::Release { ip: address, owner };
        self.command(Command::Claim { task, command });
        self.refused(key);
        self.claim_another(key, address, now);
    }
}

/// Who had addresses before.
#[derive(Debug, Default)]
pub(super) struct Former {
    holders: Fading<Mac>,
}

/// How long the machine of an earlier holder may still answer.
const LINGERS: Duration = Duration::from_secs(60);

impl Former {
    /// Notes whose claim goes with an edit, or changes hands.
    pub fn note(&mut self, edit: &Edit, world: &World, now: Instant) {
        let (ip, next) = match edit {
            Edit::Put(Object::IpClaim(claim)) => (Some(claim.ip), Some(claim.mac)),
            Edit::Remove(ObjectRef { kind: Kind::IpClaim, name, .. }) => (policy::claim_address(name), None),
            _ => return,
        };
        let Some(claim) = ip.and_then(|ip| world.claim(ip)).filter(|claim| Some(claim.mac) != next) else {
            return;
        };
        self.holders.note(claim.ip, Mac(claim.mac), now + LINGERS, now);
    }

    /// Whether a hardware address is that of an earlier holder of the address.
    pub fn is_of(&self, ip: IpAddr, mac: Mac, attachment: &Attachment, world: &World, now: Instant) -> bool {
        let remembered = self.holders.get(ip, now) == Some(&mac);
        let owner = attachment.owner();
        let other = world.claim(ip).is_some_and(|claim| claim.owner != owner && Mac(claim.mac) == mac);
        remembered || other
    }
}
