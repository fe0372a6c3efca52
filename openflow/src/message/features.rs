//! What a switch is and can do (OpenFlow 1.5.1 §7.3.1).

use std::fmt::{self, Write as _};

use super::text;
use crate::wire::{DecodeError, Reader, Writer};

/// Answer to a features request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Identifies the bridge; the low 48 bits are usually a MAC address.
    pub datapath_id: u64,
    /// Packets that the switch can hold for a later packet-out; 0 for Open vSwitch.
    pub n_buffers: u32,
    /// Number of flow tables.
    pub n_tables: u8,
    /// 0 for the main connection.
    pub auxiliary_id: u8,
    /// `OFPC_*` bits.
    pub capabilities: u32,
}

const CAPABILITIES: &[(u32, &str)] = &[
    (1 << 0, "FLOW_STATS"),
    (1 << 1, "TABLE_STATS"),
    (1 << 2, "PORT_STATS"),
    (1 << 3, "GROUP_STATS"),
    (1 << 5, "IP_REASM"),
    (1 << 6, "QUEUE_STATS"),
    (1 << 8, "PORT_BLOCKED"),
    (1 << 9, "BUNDLES"),
    (1 << 10, "FLOW_MONITORING"),
];

impl Features {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Features, DecodeError> {
        let datapath_id = r.u64("Features.datapath_id")?;
        let n_buffers = r.u32("Features.n_buffers")?;
        let n_tables = r.u8("Features.n_tables")?;
        let auxiliary_id = r.u8("Features.auxiliary_id")?;
        r.skip(2, "Features.pad")?;
        let capabilities = r.u32("Features.capabilities")?;
        r.skip(4, "Features.reserved")?;
        Ok(Features { datapath_id, n_buffers, n_tables, auxiliary_id, capabilities })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u64(self.datapath_id);
        w.u32(self.n_buffers);
        w.u8(self.n_tables);
        w.u8(self.auxiliary_id);
        w.zeros(2);
        w.u32(self.capabilities);
        w.zeros(4);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        write!(
            out,
            " dpid:{:016x}\nn_tables:{}, n_buffers:{}",
            self.datapath_id, self.n_tables, self.n_buffers
        )?;
        if self.auxiliary_id != 0 {
            write!(out, ", auxiliary_id:{}", self.auxiliary_id)?;
        }
        out.push_str("\ncapabilities: ");
        let known = CAPABILITIES.iter().fold(0, |all, (bit, _)| all | bit);
        text::bit_names(out, self.capabilities & known, CAPABILITIES, ' ')?;
        out.push('\n');
        Ok(())
    }
}
