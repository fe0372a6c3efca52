//! Switch configuration: fragments, and how much of a missed packet is sent (OpenFlow 1.5.1 §7.3.2).

use std::fmt::{self, Write as _};

use crate::wire::{DecodeError, Reader, Writer};

const FRAGMENT_MASK: u16 = 0b11;
const INVALID_TTL_TO_CONTROLLER: u16 = 1 << 2;

/// Configuration of the switch, as one connection sees it.
///
/// Open vSwitch sends a connection on a bridge's management socket no packet-in at all until `miss_send_len` is set
/// to something above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchConfig {
    /// `OFPC_*`: low two bits are the treatment of IP fragments (0 normal, 1 drop, 2 reassemble).
    pub flags: u16,
    /// Bytes of a packet to send along with a packet-in for a table miss; 0xffff for the whole packet.
    pub miss_send_len: u16,
}

impl SwitchConfig {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<SwitchConfig, DecodeError> {
        Ok(SwitchConfig {
            flags: r.u16("SwitchConfig.flags")?,
            miss_send_len: r.u16("SwitchConfig.miss_send_len")?,
        })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u16(self.flags);
        w.u16(self.miss_send_len);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        let fragments = match self.flags & FRAGMENT_MASK {
            0 => "normal",
            1 => "drop",
            2 => "reassemble",
            _ => "nx-match",
        };
        write!(out, " frags={fragments}")?;
        if self.flags & INVALID_TTL_TO_CONTROLLER != 0 {
            out.push_str(" invalid_ttl_to_controller");
        }
        writeln!(out, " miss_send_len={}", self.miss_send_len)
    }
}
