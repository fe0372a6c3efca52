//! A flow that the switch removed (OpenFlow 1.5.1 §7.4.2).

use std::fmt::{self, Write as _};

use super::header::VERSION_15;
use super::oxs::Oxs;
use super::parts;
use super::text;
use crate::Match;
use crate::wire::{DecodeError, Reader, Writer};

/// Why a flow went (`OFPRR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemovedReason {
    /// No packet hit it for `idle_timeout` seconds.
    Idle,
    /// `hard_timeout` seconds passed.
    Hard,
    /// A flow-mod deleted it.
    Delete,
    /// A group that it used was deleted.
    GroupDelete,
    /// A meter that it used was deleted.
    MeterDelete,
    /// The switch made room.
    Eviction,
    /// A number that this library has no name for.
    Other(u8),
}

impl RemovedReason {
    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Idle,
            1 => Self::Hard,
            2 => Self::Delete,
            3 => Self::GroupDelete,
            4 => Self::MeterDelete,
            5 => Self::Eviction,
            other => Self::Other(other),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Hard => 1,
            Self::Delete => 2,
            Self::GroupDelete => 3,
            Self::MeterDelete => 4,
            Self::Eviction => 5,
            Self::Other(other) => other,
        }
    }

    pub(crate) fn name(number: u8) -> String {
        match Self::from_number(number) {
            Self::Idle => "idle".to_owned(),
            Self::Hard => "hard".to_owned(),
            Self::Delete => "delete".to_owned(),
            Self::GroupDelete => "group_delete".to_owned(),
            Self::MeterDelete => "meter_delete".to_owned(),
            Self::Eviction => "eviction".to_owned(),
            Self::Other(other) => other.to_string(),
        }
    }
}

/// A flow that is gone, and what it had counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The table it was in.
    pub table: u8,
    /// Why it went.
    pub reason: RemovedReason,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Its idle timeout in seconds.
    pub idle_timeout: u16,
    /// Its hard timeout in seconds.
    pub hard_timeout: u16,
    /// What it matched.
    pub matches: Match,
    /// Whole seconds that it lived.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// Packets that hit it.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

impl FlowRemoved {
    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<FlowRemoved, DecodeError> {
        if version >= VERSION_15 { Self::decode_15(r) } else { Self::decode_13(r) }
    }

    fn decode_15(r: &mut Reader<'_>) -> Result<FlowRemoved, DecodeError> {
        let table = r.u8("FlowRemoved.table_id")?;
        let reason = RemovedReason::from_number(r.u8("FlowRemoved.reason")?);
        let priority = r.u16("FlowRemoved.priority")?;
        let idle_timeout = r.u16("FlowRemoved.idle_timeout")?;
        let hard_timeout = r.u16("FlowRemoved.hard_timeout")?;
        let cookie = r.u64("FlowRemoved.cookie")?;
        let matches = parts::take_match(r, "FlowRemoved.match")?;
        let stats = Oxs::decode(r)?;
        let duration = stats.duration.unwrap_or(u64::MAX);
        let (duration_sec, duration_nsec) = parts::halves(duration);
        Ok(FlowRemoved {
            table,
            reason,
            priority,
            cookie,
            idle_timeout,
            hard_timeout,
            matches,
            duration_sec,
            duration_nsec,
            packets: stats.packets.unwrap_or(u64::MAX),
            bytes: stats.bytes.unwrap_or(u64::MAX),
        })
    }

    fn decode_13(r: &mut Reader<'_>) -> Result<FlowRemoved, DecodeError> {
        let cookie = r.u64("FlowRemoved.cookie")?;
        let priority = r.u16("FlowRemoved.priority")?;
        let reason = RemovedReason::from_number(r.u8("FlowRemoved.reason")?);
        let table = r.u8("FlowRemoved.table_id")?;
        let duration_sec = r.u32("FlowRemoved.duration_sec")?;
        let duration_nsec = r.u32("FlowRemoved.duration_nsec")?;
        let idle_timeout = r.u16("FlowRemoved.idle_timeout")?;
        let hard_timeout = r.u16("FlowRemoved.hard_timeout")?;
        let packets = r.u64("FlowRemoved.packet_count")?;
        let bytes = r.u64("FlowRemoved.byte_count")?;
        let matches = parts::take_match(r, "FlowRemoved.match")?;
        Ok(FlowRemoved {
            table,
            reason,
            priority,
            cookie,
            idle_timeout,
            hard_timeout,
            matches,
            duration_sec,
            duration_nsec,
            packets,
            bytes,
        })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        if version >= VERSION_15 {
            w.u8(self.table);
            w.u8(self.reason.number());
            w.u16(self.priority);
            w.u16(self.idle_timeout);
            w.u16(self.hard_timeout);
            w.u64(self.cookie);
            parts::put_match(w, &self.matches, version);
            let known = |count: u64| (count != u64::MAX).then_some(count);
            let duration = u64::from(self.duration_sec) << 32 | u64::from(self.duration_nsec);
            let stats = Oxs {
                duration: known(duration),
                packets: known(self.packets),
                bytes: known(self.bytes),
                ..Oxs::default()
            };
            stats.encode(w);
        } else {
            w.u64(self.cookie);
            w.u16(self.priority);
            w.u8(self.reason.number());
            w.u8(self.table);
            w.u32(self.duration_sec);
            w.u32(self.duration_nsec);
            w.u16(self.idle_timeout);
            w.u16(self.hard_timeout);
            w.u64(self.packets);
            w.u64(self.bytes);
            parts::put_match(w, &self.matches, version);
        }
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        write!(out, " {}", parts::match_text(&self.matches, Some(self.priority)))?;
        write!(out, " reason={}", RemovedReason::name(self.reason.number()))?;
        if self.table != 255 {
            write!(out, " table_id={}", self.table)?;
        }
        if self.cookie != 0 {
            write!(out, " cookie:{:#x}", self.cookie)?;
        }
        out.push_str(" duration");
        text::duration(out, self.duration_sec, self.duration_nsec)?;
        write!(out, " idle{}", self.idle_timeout)?;
        if self.hard_timeout != 0 {
            write!(out, " hard{}", self.hard_timeout)?;
        }
        writeln!(out, " pkts{} bytes{}", self.packets, self.bytes)
    }
}
