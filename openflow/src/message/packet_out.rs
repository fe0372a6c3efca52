//! A packet that the controller has the switch send (OpenFlow 1.5.1 §7.3.6).

use std::fmt::{self, Write as _};

use super::Verbosity;
use super::header::VERSION_15;
use super::packet::packet_summary;
use super::packet_in::NO_BUFFER;
use super::parts;
use super::text;
use crate::action::Action;
use crate::field::Field;
use crate::matching::Match;
use crate::port;
use crate::wire::{DecodeError, Reader, Writer};

/// A packet, its pipeline fields and what to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketOut {
    /// [`NO_BUFFER`], or a packet that the switch holds.
    pub buffer_id: u32,
    /// The pipeline fields that the packet starts with; OpenFlow 1.3 carries `in_port` only.
    pub metadata: Match,
    /// What happens to it.
    pub actions: Vec<Action>,
    /// The frame, from its Ethernet header on.
    pub packet: Vec<u8>,
}

impl PacketOut {
    /// A packet that the controller made, given to `actions`.
    pub fn new(packet: Vec<u8>, actions: Vec<Action>) -> PacketOut {
        let metadata = Match::new().with(Field::IN_PORT, port::CONTROLLER);
        PacketOut { buffer_id: NO_BUFFER, metadata, actions, packet }
    }

    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<PacketOut, DecodeError> {
        let buffer_id = r.u32("PacketOut.buffer_id")?;
        let (metadata, actions) = if version >= VERSION_15 {
            let length = usize::from(r.u16("PacketOut.actions_len")?);
            r.skip(2, "PacketOut.pad")?;
            (parts::take_match(r, "PacketOut.match")?, r.bytes(length, "PacketOut.actions")?)
        } else {
            let in_port = r.u32("PacketOut.in_port")?;
            let length = usize::from(r.u16("PacketOut.actions_len")?);
            r.skip(6, "PacketOut.pad")?;
            (Match::new().with(Field::IN_PORT, in_port), r.bytes(length, "PacketOut.actions")?)
        };
        let actions = parts::take_actions(actions, version)?;
        Ok(PacketOut { buffer_id, metadata, actions, packet: r.rest().to_vec() })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        w.u32(self.buffer_id);
        let length = if version >= VERSION_15 {
            let length = w.len();
            w.u16(0);
            w.u16(0);
            parts::put_match(w, &self.metadata, version);
            length
        } else {
            let in_port = self.metadata.exact(Field::IN_PORT).and_then(|port| u32::try_from(port).ok());
            w.u32(in_port.unwrap_or(port::CONTROLLER));
            let length = w.len();
            w.u16(0);
            w.zeros(6);
            length
        };
        let start = w.len();
        parts::put_actions(w, &self.actions, version);
        w.patch_length(length, start);
        if self.buffer_id == NO_BUFFER {
            w.bytes(&self.packet);
        }
    }

    pub(crate) fn format(&self, verbosity: Verbosity, out: &mut String) -> fmt::Result {
        write!(out, " {}", parts::match_text(&self.metadata, None))?;
        write!(out, " actions={}", parts::actions_text(&self.actions))?;
        if self.buffer_id != NO_BUFFER {
            return write!(out, " buffer={:#010x}", self.buffer_id);
        }
        write!(out, " data_len={}", self.packet.len())?;
        if !self.packet.is_empty() {
            out.push('\n');
            packet_summary(&self.packet, out)?;
        }
        if verbosity == Verbosity::Full {
            text::hex_dump(out, &self.packet, false)?;
        }
        Ok(())
    }
}
