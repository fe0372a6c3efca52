//! What groups counted, and what groups a switch can have (OpenFlow 1.5.1 §7.3.5.9, §7.3.5.11).

use std::fmt::{self, Write as _};

use super::text;
use crate::wire::{DecodeError, Reader, Writer};

/// What a group counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupStats {
    /// The group.
    pub id: u32,
    /// Flows and groups that use it.
    pub references: u32,
    /// Packets that went in.
    pub packets: u64,
    /// Bytes that went in.
    pub bytes: u64,
    /// Whole seconds since it was made.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// For each bucket its packets and bytes.
    pub buckets: Vec<(u64, u64)>,
}

impl GroupStats {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<GroupStats, DecodeError> {
        const WHAT: &str = "GroupStats";
        let length = usize::from(r.u16(WHAT)?);
        let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: WHAT, length })?;
        let mut r = r.sub(size, WHAT)?;
        r.skip(2, WHAT)?;
        let id = r.u32(WHAT)?;
        let references = r.u32(WHAT)?;
        r.skip(4, WHAT)?;
        let packets = r.u64(WHAT)?;
        let bytes = r.u64(WHAT)?;
        let duration_sec = r.u32(WHAT)?;
        let duration_nsec = r.u32(WHAT)?;
        let mut buckets = Vec::new();
        while !r.is_empty() {
            buckets.push((r.u64("GroupStats.bucket")?, r.u64("GroupStats.bucket")?));
        }
        Ok(GroupStats { id, references, packets, bytes, duration_sec, duration_nsec, buckets })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        let start = w.len();
        w.u16(0);
        w.zeros(2);
        w.u32(self.id);
        w.u32(self.references);
        w.zeros(4);
        w.u64(self.packets);
        w.u64(self.bytes);
        w.u32(self.duration_sec);
        w.u32(self.duration_nsec);
        for (packets, bytes) in &self.buckets {
            w.u64(*packets);
            w.u64(*bytes);
        }
        w.patch_length(start, start);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        write!(out, " group_id={},", self.id)?;
        if self.duration_sec != u32::MAX {
            out.push_str("duration=");
            text::duration(out, self.duration_sec, self.duration_nsec)?;
            out.push(',');
        }
        write!(out, "ref_count={},packet_count={}", self.references, self.packets)?;
        write!(out, ",byte_count={}", self.bytes)?;
        for (i, (packets, bytes)) in self.buckets.iter().enumerate() {
            if *packets != u64::MAX {
                write!(out, ",bucket{i}:packet_count={packets},byte_count={bytes}")?;
            }
        }
        Ok(())
    }
}

/// What groups the switch can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GroupFeatures {
    /// Bit n set: groups of type n are known.
    pub types: u32,
    /// `OFPGFC_*`.
    pub capabilities: u32,
    /// How many groups of each type (all, select, indirect, fast failover).
    pub max_groups: [u32; 4],
    /// For each type the actions that its buckets may have: bit n for `OFPAT_` n.
    pub actions: [u32; 4],
}

/// Actions by their number in OpenFlow 1.3, in the order of OVS.
const ACTIONS: &[(u32, &str)] = &[
    (1 << 0, "output"),
    (1 << 22, "group"),
    (1 << 25, "set_field"),
    (1 << 18, "strip_vlan"),
    (1 << 17, "push_vlan"),
    (1 << 23, "mod_nw_ttl"),
    (1 << 24, "dec_ttl"),
    (1 << 15, "set_mpls_ttl"),
    (1 << 16, "dec_mpls_ttl"),
    (1 << 19, "push_mpls"),
    (1 << 20, "pop_mpls"),
    (1 << 21, "set_queue"),
];

impl GroupFeatures {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<GroupFeatures, DecodeError> {
        const WHAT: &str = "GroupFeatures";
        let mut features =
            GroupFeatures { types: r.u32(WHAT)?, capabilities: r.u32(WHAT)?, ..GroupFeatures::default() };
        for place in features.max_groups.iter_mut().chain(&mut features.actions) {
            *place = r.u32(WHAT)?;
        }
        Ok(features)
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.types);
        w.u32(self.capabilities);
        for value in self.max_groups.iter().chain(&self.actions) {
            w.u32(*value);
        }
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        const NAMES: [&str; 4] = ["all", "select", "indirect", "fast failover"];
        writeln!(out, "\n Group table:\n    Types:  {:#x}", self.types)?;
        writeln!(out, "    Capabilities:  {:#x}", self.capabilities)?;
        let kinds = (0..).zip(NAMES).zip(self.max_groups.iter().zip(self.actions));
        for ((_, name), (max, actions)) in kinds.filter(|((bit, _), _)| self.types >> bit & 1 == 1) {
            writeln!(out, "    {name} group:\n       max_groups={max:#x}")?;
            let known: Vec<&str> =
                ACTIONS.iter().filter(|(bit, _)| actions & bit != 0).map(|(_, name)| *name).collect();
            let list = if known.is_empty() { "<none>".to_owned() } else { known.join(" ") };
            writeln!(out, "       actions: {list}")?;
        }
        Ok(())
    }
}
