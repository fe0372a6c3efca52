//! Telling a VLAN where an address is: when its pod is ready, and when its node's way into the VLAN has changed.
//!
//! Twice (RFC 5227 §2.3, RFC 4861 §7.2.6), the second time a second later, in case the wire was not ready. Not after a
//! restart of the agent: nothing has moved.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::message::PacketOut;
use policy::Name;

use super::book::Stage;
use super::frames::announcement;
use super::{AttachmentKey, Command, Node, SwitchCommand};

/// Times that an address is announced.
const TIMES: u8 = 2;
/// Time between them.
const INTERVAL: Duration = Duration::from_secs(1);

/// Announcements of a pod's addresses that are to come.
#[derive(Debug)]
pub(super) struct Announcement {
    key: AttachmentKey,
    due: Instant,
    left: u8,
    /// The pods of this node know already.
    wire_only: bool,
}

impl Announcement {
    pub fn due(&self) -> Instant {
        self.due
    }
}

impl Node {
    /// Announces the addresses of an attachment, if it is in a VLAN.
    pub(super) fn announce(&mut self, key: &AttachmentKey, wire_only: bool, now: Instant) {
        if self.book.get(key).is_some_and(|a| a.segment.is_some()) {
            self.announcements.retain(|other| other.key != *key);
            self.announcements.push(Announcement { key: key.clone(), due: now, left: TIMES, wire_only });
        }
    }

    /// Sends the announcements that are due; while the switch is away they wait.
    pub(super) fn send_announcements(&mut self, now: Instant) {
        let mut packets = Vec::new();
        for mut announcement in std::mem::take(&mut self.announcements) {
            if announcement.due > now {
                self.announcements.push(announcement);
            } else if !self.up {
                announcement.due = now + INTERVAL;
                self.announcements.push(announcement);
            } else if let Some(made) = self.packets_of_announcement(&announcement) {
                packets.extend(made);
                announcement.left -= 1;
                announcement.due = now + INTERVAL;
                if announcement.left > 0 {
                    self.announcements.push(announcement);
                }
            }
        }
        if !packets.is_empty() {
            self.command(Command::Switch(SwitchCommand::Send { packets }));
        }
    }

    /// None where there is nobody any more to announce, or no way to the wire: its return is announced by itself.
    fn packets_of_announcement(&self, announcement: &Announcement) -> Option<Vec<PacketOut>> {
        let attachment = self.book.get(&announcement.key).filter(|a| a.stage == Stage::Ready)?;
        let segment = attachment.segment.as_ref()?;
        let actions = self.to_segment(segment, attachment.zone, announcement.wire_only)?;
        let packet = |ip: &IpAddr| {
            self::announcement(attachment.mac, *ip).map(|frame| PacketOut::new(frame, actions.clone()))
        };
        attachment.addresses.iter().map(packet).collect()
    }

    /// Announces the pods of physical networks whose uplink has come back, or has another number than when the switch
    /// was last in line: the NIC moved.
    pub(super) fn announce_moved(&mut self, now: Instant) {
        if !self.up {
            return;
        }
        let Some(before) = self.known_uplinks.replace(self.site.uplinks.clone()) else { return };
        let moved = |physical: &Name| before.get(physical) != self.site.uplinks.get(physical);
        let here = |physical: &Name| self.site.uplinks.contains_key(physical);
        let concerned: Vec<AttachmentKey> = self
            .book
            .iter()
            .filter(|a| a.stage == Stage::Ready)
            .filter(|a| a.segment.as_ref().is_some_and(|s| here(&s.physical) && moved(&s.physical)))
            .map(|a| a.key.clone())
            .collect();
        for key in &concerned {
            self.announce(key, true, now);
        }
        self.send_announcements(now);
    }
}

/// Uplinks as they were when the switch was last in line; none before it ever was.
pub(super) type KnownUplinks = Option<BTreeMap<Name, u32>>;
