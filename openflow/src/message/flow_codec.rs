//! Flow-mods and flow statistics as bytes (OpenFlow 1.5.1 §7.3.4.1, §7.3.5.2).

use std::time::Duration;

use super::header::VERSION_15;
use super::oxs::Oxs;
use super::parts;
use crate::action;
use crate::flow::{Flow, FlowFlags, FlowMod, FlowModCommand, FlowStats};
use crate::wire::{DecodeError, Reader, Writer};

pub(crate) fn decode_flow_mod(r: &mut Reader<'_>, version: u8) -> Result<FlowMod, DecodeError> {
    let cookie = r.u64("FlowMod.cookie")?;
    let cookie_mask = r.u64("FlowMod.cookie_mask")?;
    let table = r.u8("FlowMod.table_id")?;
    let command = match r.u8("FlowMod.command")? {
        0 => FlowModCommand::Add,
        1 => FlowModCommand::Modify,
        2 => FlowModCommand::ModifyStrict,
        3 => FlowModCommand::Delete,
        4 => FlowModCommand::DeleteStrict,
        other => return Err(DecodeError::BadValue { what: "FlowMod.command", value: other.into() }),
    };
    let idle_timeout = r.u16("FlowMod.idle_timeout")?;
    let hard_timeout = r.u16("FlowMod.hard_timeout")?;
    let priority = r.u16("FlowMod.priority")?;
    let buffer_id = r.u32("FlowMod.buffer_id")?;
    let out_port = r.u32("FlowMod.out_port")?;
    let out_group = r.u32("FlowMod.out_group")?;
    let flags = FlowFlags(r.u16("FlowMod.flags")?);
    let importance = r.u16("FlowMod.importance")?;
    let matches = parts::take_match(r, "FlowMod.match")?;
    let actions = action::decode_instructions(&mut Reader::new(r.rest()), version)?;
    let flow = Flow { table, priority, cookie, idle_timeout, hard_timeout, flags, matches, actions };
    Ok(FlowMod { command, flow, cookie_mask, out_port, out_group, buffer_id, importance })
}

pub(crate) fn encode_flow_mod(flow_mod: &FlowMod, w: &mut Writer, version: u8) {
    let flow = &flow_mod.flow;
    w.u64(flow.cookie);
    w.u64(flow_mod.cookie_mask);
    w.u8(flow.table);
    w.u8(match flow_mod.command {
        FlowModCommand::Add => 0,
        FlowModCommand::Modify => 1,
        FlowModCommand::ModifyStrict => 2,
        FlowModCommand::Delete => 3,
        FlowModCommand::DeleteStrict => 4,
    });
    w.u16(flow.idle_timeout);
    w.u16(flow.hard_timeout);
    w.u16(flow.priority);
    w.u32(flow_mod.buffer_id);
    w.u32(flow_mod.out_port);
    w.u32(flow_mod.out_group);
    w.u16(flow.flags.0);
    w.u16(flow_mod.importance);
    parts::put_match(w, &flow.matches, version);
    action::encode_instructions(w, &flow.actions, version);
}

pub(crate) fn decode_flow_stats(r: &mut Reader<'_>, version: u8) -> Result<FlowStats, DecodeError> {
    const WHAT: &str = "FlowStats";
    let length = usize::from(r.u16("FlowStats.length")?);
    let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: WHAT, length })?;
    let mut r = r.sub(size, WHAT)?;
    let mut stats = FlowStats::default();
    let flow = &mut stats.flow;
    if version >= VERSION_15 {
        r.skip(2, WHAT)?;
        flow.table = r.u8("FlowStats.table_id")?;
        r.skip(1, WHAT)?;
        flow.priority = r.u16("FlowStats.priority")?;
        flow.idle_timeout = r.u16("FlowStats.idle_timeout")?;
        flow.hard_timeout = r.u16("FlowStats.hard_timeout")?;
        flow.flags = FlowFlags(r.u16("FlowStats.flags")?);
        stats.importance = r.u16("FlowStats.importance")?;
        flow.cookie = r.u64("FlowStats.cookie")?;
        flow.matches = parts::take_match(&mut r, "FlowStats.match")?;
        let counted = Oxs::decode(&mut r)?;
        let (seconds, nanoseconds) = parts::halves(counted.duration.unwrap_or(0));
        stats.duration = Duration::new(seconds.into(), nanoseconds);
        stats.idle_age = counted.idle.map(|idle| parts::halves(idle).0);
        stats.packets = counted.packets.unwrap_or(u64::MAX);
        stats.bytes = counted.bytes.unwrap_or(u64::MAX);
    } else {
        flow.table = r.u8("FlowStats.table_id")?;
        r.skip(1, WHAT)?;
        let seconds = r.u32("FlowStats.duration")?;
        let nanoseconds = r.u32("FlowStats.duration")?;
        stats.duration = Duration::new(seconds.into(), nanoseconds);
        flow.priority = r.u16("FlowStats.priority")?;
        flow.idle_timeout = r.u16("FlowStats.idle_timeout")?;
        flow.hard_timeout = r.u16("FlowStats.hard_timeout")?;
        flow.flags = FlowFlags(r.u16("FlowStats.flags")?);
        stats.importance = r.u16("FlowStats.importance")?;
        r.skip(2, WHAT)?;
        flow.cookie = r.u64("FlowStats.cookie")?;
        stats.packets = r.u64("FlowStats.packet_count")?;
        stats.bytes = r.u64("FlowStats.byte_count")?;
        flow.matches = parts::take_match(&mut r, "FlowStats.match")?;
    }
    flow.actions = action::decode_instructions(&mut Reader::new(r.rest()), version)?;
    Ok(stats)
}

pub(crate) fn encode_flow_stats(stats: &FlowStats, w: &mut Writer, version: u8) {
    let flow = &stats.flow;
    let start = w.len();
    let seconds = u32::try_from(stats.duration.as_secs()).unwrap_or(u32::MAX);
    let nanoseconds = stats.duration.subsec_nanos();
    w.u16(0);
    if version >= VERSION_15 {
        w.zeros(2);
        w.u8(flow.table);
        w.u8(0);
        w.u16(flow.priority);
        w.u16(flow.idle_timeout);
        w.u16(flow.hard_timeout);
        w.u16(flow.flags.0);
        w.u16(stats.importance);
        w.u64(flow.cookie);
        parts::put_match(w, &flow.matches, version);
        let counted = Oxs {
            duration: Some(u64::from(seconds) << 32 | u64::from(nanoseconds)),
            idle: stats.idle_age.map(|idle| u64::from(idle) << 32),
            packets: (stats.packets != u64::MAX).then_some(stats.packets),
            bytes: (stats.bytes != u64::MAX).then_some(stats.bytes),
            flows: None,
        };
        counted.encode(w);
    } else {
        w.u8(flow.table);
        w.u8(0);
        w.u32(seconds);
        w.u32(nanoseconds);
        w.u16(flow.priority);
        w.u16(flow.idle_timeout);
        w.u16(flow.hard_timeout);
        w.u16(flow.flags.0);
        w.u16(stats.importance);
        w.zeros(2);
        w.u64(flow.cookie);
        w.u64(stats.packets);
        w.u64(stats.bytes);
        parts::put_match(w, &flow.matches, version);
    }
    action::encode_instructions(w, &flow.actions, version);
    w.patch_length(start, start);
}
