//! Packets that the switch hands to the controller, and their return into the pipeline.
//!
//! Three formats carry one thing: `OFPT_PACKET_IN`, `NXT_PACKET_IN` and `NXT_PACKET_IN2`, the only one with the user data of the `controller` action and the continuation of a paused packet. `NXT_RESUME` gives a
//! paused packet back: the continuation is opaque, and its bytes return as they came (OVS `ovs-fields(7)`,
//! `ofp-packet.c`).

use std::fmt::{self, Write as _};

use super::header::{NICIRA_VENDOR, nxt, put_vendor};
use super::packet::packet_summary;
use super::parts;
use super::property::{self, Property};
use super::text;
use super::{Verbosity, continuation};
use crate::matching::{Match, NXM};
use crate::wire::{DecodeError, Reader, Writer};

/// `buffer_id` of a packet that is in the message and not held by the switch.
pub const NO_BUFFER: u32 = u32::MAX;
/// `cookie` where no flow caused the packet-in.
pub const NO_COOKIE: u64 = u64::MAX;

/// `OFPR_NO_MATCH`: a table miss.
pub const REASON_NO_MATCH: u8 = 0;
/// `OFPR_ACTION`: an output to the controller.
pub const REASON_ACTION: u8 = 1;

const PACKET: u16 = 0;
const FULL_LEN: u16 = 1;
const BUFFER_ID: u16 = 2;
const TABLE_ID: u16 = 3;
const COOKIE: u16 = 4;
const REASON: u16 = 5;
const METADATA: u16 = 6;
const USERDATA: u16 = 7;
const CONTINUATION: u16 = 8;

/// How packet-ins are sent on a connection (`NXT_SET_PACKET_IN_FORMAT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PacketInFormat {
    /// `OFPT_PACKET_IN`.
    #[default]
    Standard,
    /// `NXT_PACKET_IN`.
    Nxt,
    /// `NXT_PACKET_IN2`, with user data and continuation.
    Nxt2,
}

impl PacketInFormat {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<PacketInFormat, DecodeError> {
        match r.u32("SetPacketInFormat.format")? {
            0 => Ok(PacketInFormat::Standard),
            1 => Ok(PacketInFormat::Nxt),
            2 => Ok(PacketInFormat::Nxt2),
            other => Err(DecodeError::BadValue { what: "SetPacketInFormat.format", value: other.into() }),
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            PacketInFormat::Standard => 0,
            PacketInFormat::Nxt => 1,
            PacketInFormat::Nxt2 => 2,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            PacketInFormat::Standard => "standard",
            PacketInFormat::Nxt => "nxt_packet_in",
            PacketInFormat::Nxt2 => "nxt_packet_in2",
        }
    }
}

/// A packet that the switch sent to the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketIn {
    /// The format it came in.
    pub format: PacketInFormat,
    /// The frame, from its Ethernet header on; cut to the `max_len` of the action.
    pub packet: Vec<u8>,
    /// Length of the frame before it was cut.
    pub full_len: u32,
    /// [`NO_BUFFER`]; Open vSwitch holds no packets.
    pub buffer_id: u32,
    /// The table whose flow sent it.
    pub table: u8,
    /// The cookie of that flow; [`NO_COOKIE`] if there is none.
    pub cookie: u64,
    /// `OFPR_*`.
    pub reason: u8,
    /// The pipeline fields of the packet that are not zero: `in_port`, registers, tunnel, conntrack.
    pub metadata: Match,
    /// The `userdata` of the `controller` action.
    pub userdata: Vec<u8>,
    /// State of a paused packet, for [`PacketIn::resume`]; `None` if the action did not pause it.
    pub continuation: Option<Vec<u8>>,
    /// Properties of no known type, as (type, value).
    pub other: Vec<(u16, Vec<u8>)>,
}

impl Default for PacketIn {
    fn default() -> Self {
        PacketIn {
            format: PacketInFormat::Nxt2,
            packet: Vec::new(),
            full_len: 0,
            buffer_id: NO_BUFFER,
            table: 0,
            cookie: NO_COOKIE,
            reason: REASON_ACTION,
            metadata: Match::default(),
            userdata: Vec::new(),
            continuation: None,
            other: Vec::new(),
        }
    }
}

impl PacketIn {
    /// The message that lets a paused packet go on where it stopped. Without a continuation the switch refuses it.
    pub fn resume(&self) -> Resume {
        self.clone().into_resume()
    }

    /// As [`PacketIn::resume`], without copying the packet.
    pub fn into_resume(self) -> Resume {
        Resume {
            packet: self.packet,
            table: self.table,
            cookie: self.cookie,
            reason: self.reason,
            metadata: self.metadata,
            continuation: self.continuation.unwrap_or_default(),
        }
    }

    pub(crate) fn decode_standard(r: &mut Reader<'_>) -> Result<PacketIn, DecodeError> {
        let buffer_id = r.u32("PacketIn.buffer_id")?;
        let full_len = u32::from(r.u16("PacketIn.total_len")?);
        let reason = r.u8("PacketIn.reason")?;
        let table = r.u8("PacketIn.table_id")?;
        let cookie = r.u64("PacketIn.cookie")?;
        let metadata = parts::take_match(r, "PacketIn.match")?;
        r.skip(2, "PacketIn.pad")?;
        let packet = r.rest().to_vec();
        Ok(PacketIn {
            format: PacketInFormat::Standard,
            packet,
            full_len,
            buffer_id,
            table,
            cookie,
            reason,
            metadata,
            ..PacketIn::default()
        })
    }

    pub(crate) fn decode_nxt(r: &mut Reader<'_>) -> Result<PacketIn, DecodeError> {
        let buffer_id = r.u32("PacketIn.buffer_id")?;
        let full_len = u32::from(r.u16("PacketIn.total_len")?);
        let reason = r.u8("PacketIn.reason")?;
        let table = r.u8("PacketIn.table_id")?;
        let cookie = r.u64("PacketIn.cookie")?;
        let length = usize::from(r.u16("PacketIn.match_len")?);
        r.skip(6, "PacketIn.pad")?;
        let metadata = parts::take_oxms(r.bytes(length, "PacketIn.match")?)?;
        r.skip(length.next_multiple_of(8) - length, "PacketIn.match")?;
        r.skip(2, "PacketIn.pad")?;
        let packet = r.rest().to_vec();
        Ok(PacketIn {
            format: PacketInFormat::Nxt,
            packet,
            full_len,
            buffer_id,
            table,
            cookie,
            reason,
            metadata,
            ..PacketIn::default()
        })
    }

    pub(crate) fn decode_nxt2(r: &mut Reader<'_>) -> Result<PacketIn, DecodeError> {
        let mut pin = PacketIn::default();
        let mut full_len = None;
        while !r.is_empty() {
            let p = Property::next(r, "PacketIn2.property")?;
            match p.kind {
                PACKET => pin.packet = p.value.to_vec(),
                FULL_LEN => full_len = Some(p.u32()?),
                BUFFER_ID => pin.buffer_id = p.u32()?,
                TABLE_ID => pin.table = p.u8()?,
                COOKIE => pin.cookie = p.u64()?,
                REASON => pin.reason = p.u8()?,
                METADATA => pin.metadata = parts::take_oxms(p.value)?,
                USERDATA => pin.userdata = p.value.to_vec(),
                CONTINUATION => pin.continuation = Some(p.nested()?.to_vec()),
                other => pin.other.push((other, p.value.to_vec())),
            }
        }
        if pin.packet.is_empty() {
            return Err(DecodeError::MissingData("PacketIn2.packet"));
        }
        let length = u32::try_from(pin.packet.len()).unwrap_or(u32::MAX);
        pin.full_len = full_len.unwrap_or(length);
        if pin.full_len < length {
            return Err(DecodeError::BadValue { what: "PacketIn2.full_len", value: pin.full_len.into() });
        }
        Ok(pin)
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        match self.format {
            PacketInFormat::Standard => self.encode_standard(version, w),
            PacketInFormat::Nxt => self.encode_nxt(w),
            PacketInFormat::Nxt2 => self.encode_nxt2(version, w),
        }
    }

    fn encode_nxt(&self, w: &mut Writer) {
        put_vendor(w, NICIRA_VENDOR, nxt::PACKET_IN);
        w.u32(self.buffer_id);
        w.u16(u16::try_from(self.full_len).unwrap_or(u16::MAX));
        w.u8(self.reason);
        w.u8(self.table);
        w.u64(self.cookie);
        let length = w.len();
        w.u16(0);
        w.zeros(6);
        let start = w.len();
        parts::put_oxms(w, &self.metadata, NXM);
        w.patch_length(length, start);
        w.pad_from(start, 8);
        w.zeros(2);
        w.bytes(&self.packet);
    }

    fn encode_standard(&self, version: u8, w: &mut Writer) {
        w.u32(self.buffer_id);
        w.u16(u16::try_from(self.full_len).unwrap_or(u16::MAX));
        w.u8(self.reason);
        w.u8(self.table);
        w.u64(self.cookie);
        parts::put_match(w, &self.metadata, version);
        w.zeros(2);
        w.bytes(&self.packet);
    }

    fn encode_nxt2(&self, version: u8, w: &mut Writer) {
        put_vendor(w, NICIRA_VENDOR, nxt::PACKET_IN2);
        property::put_bytes(w, PACKET, &self.packet);
        if usize::try_from(self.full_len) != Ok(self.packet.len()) {
            property::put_u32(w, FULL_LEN, self.full_len);
        }
        if self.buffer_id != NO_BUFFER {
            property::put_u32(w, BUFFER_ID, self.buffer_id);
        }
        put_origin(w, version, self.table, self.cookie, self.reason, &self.metadata);
        if let Some(continuation) = &self.continuation {
            put_continuation(w, continuation);
        }
        if !self.userdata.is_empty() {
            property::put_bytes(w, USERDATA, &self.userdata);
        }
        for (kind, value) in &self.other {
            property::put_bytes(w, *kind, value);
        }
    }

    pub(crate) fn format(&self, version: u8, verbosity: Verbosity, out: &mut String) -> fmt::Result {
        if self.table != 0 {
            write!(out, " table_id={}", self.table)?;
        }
        if self.cookie != NO_COOKIE {
            write!(out, " cookie={:#x}", self.cookie)?;
        }
        write!(out, " total_len={} {}", self.full_len, parts::match_text(&self.metadata, None))?;
        write!(out, " (via {}) data_len={}", reason_name(self.reason), self.packet.len())?;
        self.format_buffer(out)?;
        out.push('\n');
        if !self.userdata.is_empty() {
            out.push_str(" userdata=");
            text::dotted_hex(out, &self.userdata)?;
            out.push('\n');
        }
        if let Some(bytes) = &self.continuation {
            continuation::format(bytes, version, out)?;
        }
        packet_summary(&self.packet, out)?;
        if verbosity == Verbosity::Full {
            text::hex_dump(out, &self.packet, false)?;
        }
        Ok(())
    }

    fn format_buffer(&self, out: &mut String) -> fmt::Result {
        let full_len = usize::try_from(self.full_len).unwrap_or(usize::MAX);
        if self.buffer_id == NO_BUFFER {
            out.push_str(" (unbuffered)");
            if full_len != self.packet.len() {
                out.push_str(" (***total_len != data_len***)");
            }
        } else {
            write!(out, " buffer={:#010x}", self.buffer_id)?;
            if full_len < self.packet.len() {
                out.push_str(" (***total_len < data_len***)");
            }
        }
        Ok(())
    }
}

/// Lets a paused packet go on (`NXT_RESUME`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resume {
    /// The frame, as it came or changed.
    pub packet: Vec<u8>,
    /// The table of the packet-in.
    pub table: u8,
    /// The cookie of the packet-in.
    pub cookie: u64,
    /// The reason of the packet-in.
    pub reason: u8,
    /// The pipeline fields with which the packet goes on, as they came or changed.
    pub metadata: Match,
    /// The continuation of the packet-in, unchanged.
    pub continuation: Vec<u8>,
}

impl Resume {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Resume, DecodeError> {
        PacketIn::decode_nxt2(r).map(PacketIn::into_resume)
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        property::put_bytes(w, PACKET, &self.packet);
        put_origin(w, version, self.table, self.cookie, self.reason, &self.metadata);
        put_continuation(w, &self.continuation);
    }

    pub(crate) fn format(&self, version: u8, verbosity: Verbosity, out: &mut String) -> fmt::Result {
        let pin = PacketIn {
            full_len: u32::try_from(self.packet.len()).unwrap_or(u32::MAX),
            packet: self.packet.clone(),
            table: self.table,
            cookie: self.cookie,
            reason: self.reason,
            metadata: self.metadata.clone(),
            continuation: Some(self.continuation.clone()),
            ..PacketIn::default()
        };
        pin.format(version, verbosity, out)
    }
}

fn put_origin(w: &mut Writer, version: u8, table: u8, cookie: u64, reason: u8, metadata: &Match) {
    property::put_u8(w, TABLE_ID, table);
    if cookie != NO_COOKIE {
        property::put_u64(w, COOKIE, cookie);
    }
    property::put_u8(w, REASON, reason);
    let at = property::begin(w, METADATA);
    parts::put_oxms(w, metadata, version);
    property::end(w, at);
}

fn put_continuation(w: &mut Writer, continuation: &[u8]) {
    let at = property::begin_nested(w, CONTINUATION);
    w.bytes(continuation);
    property::end(w, at);
}

pub(crate) fn reason_name(reason: u8) -> String {
    match reason {
        0 => "no_match".to_owned(),
        1 => "action".to_owned(),
        2 => "invalid_ttl".to_owned(),
        3 => "action_set".to_owned(),
        4 => "group".to_owned(),
        5 => "packet_out".to_owned(),
        6 | 7 => String::new(),
        other => other.to_string(),
    }
}
