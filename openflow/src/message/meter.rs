//! Meters: rate limits that flows send their packets through (OpenFlow 1.5.1 §7.3.4.4, §7.3.5.12 to .14).

use std::fmt::{self, Write as _};

use super::text;
use crate::wire::{DecodeError, Reader, Writer};

/// Rates are kilobits per second.
pub const KBPS: u16 = 1 << 0;
/// Rates are packets per second.
pub const PKTPS: u16 = 1 << 1;
/// The bands say how large a burst may be.
pub const BURST: u16 = 1 << 2;
/// Packets are counted.
pub const STATS: u16 = 1 << 3;
/// Every meter.
pub const METER_ALL: u32 = 0xffff_ffff;

const FLAGS: &[(u32, &str)] =
    &[(KBPS as u32, "kbps"), (PKTPS as u32, "pktps"), (BURST as u32, "burst"), (STATS as u32, "stats")];
const BAND_LEN: u16 = 16;
const DROP: u16 = 1;
const DSCP_REMARK: u16 = 2;

/// What to do with a meter (`OFPMC_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MeterCommand {
    /// Make it; it must not exist.
    Add,
    /// Change it; it must exist.
    Modify,
    /// Remove it, and all flows that use it.
    Delete,
}

/// What happens to the packets above a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BandKind {
    /// They are dropped.
    Drop,
    /// Their DSCP drop precedence is raised by so much.
    DscpRemark(u8),
}

/// One rate of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Band {
    /// What happens above the rate.
    pub kind: BandKind,
    /// The rate, in the unit of the meter's flags.
    pub rate: u32,
    /// The burst, in kilobits or packets; meaningful with [`BURST`].
    pub burst: u32,
}

/// A meter: its number, unit and bands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeterConfig {
    /// The meter.
    pub id: u32,
    /// [`KBPS`] or [`PKTPS`], [`BURST`], [`STATS`].
    pub flags: u16,
    /// Its rates.
    pub bands: Vec<Band>,
}

/// Makes, changes or removes a meter. Meter-mods cannot be part of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterCommand,
    /// The meter.
    pub meter: MeterConfig,
}

impl MeterMod {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<MeterMod, DecodeError> {
        let command = match r.u16("MeterMod.command")? {
            0 => MeterCommand::Add,
            1 => MeterCommand::Modify,
            2 => MeterCommand::Delete,
            other => return Err(DecodeError::BadValue { what: "MeterMod.command", value: other.into() }),
        };
        let flags = r.u16("MeterMod.flags")?;
        let id = r.u32("MeterMod.meter_id")?;
        let bands = decode_bands(r)?;
        Ok(MeterMod { command, meter: MeterConfig { id, flags, bands } })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u16(self.command as u16);
        w.u16(self.meter.flags);
        w.u32(self.meter.id);
        encode_bands(&self.meter.bands, w);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        out.push_str(match self.command {
            MeterCommand::Add => " ADD ",
            MeterCommand::Modify => " MOD ",
            MeterCommand::Delete => " DEL ",
        });
        self.meter.format(out)
    }
}

impl MeterConfig {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<MeterConfig, DecodeError> {
        let length = usize::from(r.u16("MeterConfig.length")?);
        let size = length.checked_sub(2).ok_or(DecodeError::BadLength { what: "MeterConfig", length })?;
        let mut r = r.sub(size, "MeterConfig")?;
        let flags = r.u16("MeterConfig.flags")?;
        let id = r.u32("MeterConfig.meter_id")?;
        let bands = decode_bands(&mut r)?;
        Ok(MeterConfig { id, flags, bands })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        let start = w.len();
        w.u16(0);
        w.u16(self.flags);
        w.u32(self.id);
        encode_bands(&self.bands, w);
        w.patch_length(start, start);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        format_id(self.id, '=', out)?;
        out.push(' ');
        for (bit, name) in FLAGS {
            if u32::from(self.flags) & bit != 0 {
                write!(out, "{name} ")?;
            }
        }
        let unknown = self.flags & !(KBPS | PKTPS | BURST | STATS);
        if unknown != 0 {
            write!(out, "flags:{unknown:#x} ")?;
        }
        out.push_str("bands=");
        for band in &self.bands {
            let name = if band.kind == BandKind::Drop { "drop" } else { "dscp_remark" };
            write!(out, "\ntype={name} rate={}", band.rate)?;
            if self.flags & BURST != 0 {
                write!(out, " burst_size={}", band.burst)?;
            }
            if let BandKind::DscpRemark(level) = band.kind {
                write!(out, " prec_level={level}")?;
            }
        }
        out.push('\n');
        Ok(())
    }
}

fn decode_bands(r: &mut Reader<'_>) -> Result<Vec<Band>, DecodeError> {
    const WHAT: &str = "Meter.band";
    let mut bands = Vec::new();
    while !r.is_empty() {
        let kind = r.u16(WHAT)?;
        let length = r.u16(WHAT)?;
        if length != BAND_LEN {
            return Err(DecodeError::BadLength { what: WHAT, length: length.into() });
        }
        let rate = r.u32(WHAT)?;
        let burst = r.u32(WHAT)?;
        let level = r.u8(WHAT)?;
        r.skip(3, WHAT)?;
        let kind = match kind {
            DROP => BandKind::Drop,
            DSCP_REMARK => BandKind::DscpRemark(level),
            other => return Err(DecodeError::BadValue { what: WHAT, value: other.into() }),
        };
        bands.push(Band { kind, rate, burst });
    }
    Ok(bands)
}

fn encode_bands(bands: &[Band], w: &mut Writer) {
    for band in bands {
        let (kind, level) = match band.kind {
            BandKind::Drop => (DROP, 0),
            BandKind::DscpRemark(level) => (DSCP_REMARK, level),
        };
        w.u16(kind);
        w.u16(BAND_LEN);
        w.u32(band.rate);
        w.u32(band.burst);
        w.u8(level);
        w.zeros(3);
    }
}

/// What a meter counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeterStats {
    /// The meter.
    pub id: u32,
    /// Flows that use it.
    pub flows: u32,
    /// Packets that went in.
    pub packets: u64,
    /// Bytes that went in.
    pub bytes: u64,
    /// Whole seconds since it was made.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// For each band the packets and bytes that it acted on (dropped, for a drop band).
    pub bands: Vec<(u64, u64)>,
}

impl MeterStats {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<MeterStats, DecodeError> {
        const WHAT: &str = "MeterStats";
        let id = r.u32(WHAT)?;
        let length = usize::from(r.u16(WHAT)?);
        r.skip(6, WHAT)?;
        let size = length.checked_sub(12).ok_or(DecodeError::BadLength { what: WHAT, length })?;
        let mut r = r.sub(size, WHAT)?;
        let flows = r.u32(WHAT)?;
        let packets = r.u64(WHAT)?;
        let bytes = r.u64(WHAT)?;
        let duration_sec = r.u32(WHAT)?;
        let duration_nsec = r.u32(WHAT)?;
        let mut bands = Vec::new();
        while !r.is_empty() {
            bands.push((r.u64("MeterStats.band")?, r.u64("MeterStats.band")?));
        }
        Ok(MeterStats { id, flows, packets, bytes, duration_sec, duration_nsec, bands })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        let start = w.len();
        w.u32(self.id);
        w.u16(0);
        w.zeros(6);
        w.u32(self.flows);
        w.u64(self.packets);
        w.u64(self.bytes);
        w.u32(self.duration_sec);
        w.u32(self.duration_nsec);
        for (packets, bytes) in &self.bands {
            w.u64(*packets);
            w.u64(*bytes);
        }
        w.patch_length(start + 4, start);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        format_id(self.id, ':', out)?;
        write!(out, " flow_count:{} packet_in_count:{}", self.flows, self.packets)?;
        write!(out, " byte_in_count:{} duration:", self.bytes)?;
        text::duration(out, self.duration_sec, self.duration_nsec)?;
        out.push_str(" bands:\n");
        for (i, (packets, bytes)) in self.bands.iter().enumerate() {
            writeln!(out, "{i}: packet_count:{packets} byte_count:{bytes}")?;
        }
        Ok(())
    }
}

/// What meters the switch can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MeterFeatures {
    /// How many meters.
    pub max_meters: u32,
    /// Bit n set: bands of type n are known.
    pub band_types: u32,
    /// [`KBPS`], [`PKTPS`], [`BURST`], [`STATS`].
    pub capabilities: u32,
    /// Bands per meter.
    pub max_bands: u8,
    /// Colours.
    pub max_color: u8,
    /// `OFPMFF_*` bits of OpenFlow 1.5 with the padding before them; absent in OpenFlow 1.3.
    pub extra: [u8; 2],
}

impl MeterFeatures {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<MeterFeatures, DecodeError> {
        const WHAT: &str = "MeterFeatures";
        let max_meters = r.u32(WHAT)?;
        let band_types = r.u32(WHAT)?;
        let capabilities = r.u32(WHAT)?;
        let max_bands = r.u8(WHAT)?;
        let max_color = r.u8(WHAT)?;
        let extra = r.array(WHAT)?;
        Ok(MeterFeatures { max_meters, band_types, capabilities, max_bands, max_color, extra })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.max_meters);
        w.u32(self.band_types);
        w.u32(self.capabilities);
        w.u8(self.max_bands);
        w.u8(self.max_color);
        w.bytes(&self.extra);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        const BAND_TYPES: &[(u32, &str)] = &[(1 << DROP, "drop"), (1 << DSCP_REMARK, "dscp_remark")];
        write!(out, "\nmax_meter:{} max_bands:{}", self.max_meters, self.max_bands)?;
        writeln!(out, " max_color:{}", self.max_color)?;
        out.push_str("band_types: ");
        text::bit_names(out, self.band_types, BAND_TYPES, ' ')?;
        out.push_str("\ncapabilities: ");
        text::bit_names(out, self.capabilities, FLAGS, ' ')?;
        out.push('\n');
        Ok(())
    }
}

/// `meter=3` or `meter=all`.
pub(crate) fn format_id(id: u32, separator: char, out: &mut String) -> fmt::Result {
    const MAX: u32 = 0xffff_0000;
    write!(out, "meter{separator}")?;
    match id {
        0..=MAX => write!(out, "{id}"),
        0xffff_fffd => write!(out, "slowpath"),
        0xffff_fffe => write!(out, "controller"),
        METER_ALL => write!(out, "all"),
        _ => write!(out, "unknown"),
    }
}
