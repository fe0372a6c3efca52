//! Which asynchronous messages a connection gets (OpenFlow 1.5.1 §7.3.10).
//!
//! Two layouts: six fixed masks (OpenFlow 1.3), or one property per message kind and role (1.4 and later), where
//! kinds that are not named keep their setting. Nicira messages carry either
//! layout in any version.

use std::fmt::{self, Write as _};

use super::flow_removed::RemovedReason;
use super::header::{NICIRA_VENDOR, VERSION_15, nxt, put_vendor};
use super::packet_in;
use super::property::{self, Property};
use crate::wire::{DecodeError, Reader, Writer};

const KINDS: usize = 6;
const NAMES: [&str; KINDS] =
    ["PACKET_IN", "PORT_STATUS", "FLOW_REMOVED", "ROLE_STATUS", "TABLE_STATUS", "REQUESTFORWARD"];
/// OpenFlow 1.3 knows the first three kinds.
const LEGACY_KINDS: usize = 3;
const NO_MATCH_BIT: u32 = 1 << 0;
const EXPLICIT_MISS_BIT: u32 = 1 << 6;

/// A kind of asynchronous message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AsyncKind {
    /// Packet-ins; bits are `OFPR_*`.
    PacketIn,
    /// Port status; bits are `OFPPR_*`.
    PortStatus,
    /// Flow removed; bits are `OFPRR_*`.
    FlowRemoved,
    /// Role status; bits are `OFPCRR_*`.
    RoleStatus,
    /// Table status; bits are `OFPTR_*`.
    TableStatus,
    /// Requests of other controllers; bits are `OFPRFR_*`.
    RequestForward,
}

/// Masks of reasons per kind of message; `None` where the message does not speak of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncMasks([Option<u32>; KINDS]);

impl AsyncMasks {
    /// The mask of `kind`.
    pub fn get(&self, kind: AsyncKind) -> Option<u32> {
        self.0.get(kind as usize).copied().flatten()
    }

    /// These masks with that of `kind` set.
    #[must_use]
    pub fn with(mut self, kind: AsyncKind, mask: u32) -> Self {
        self.set(kind as usize, mask);
        self
    }

    fn set(&mut self, kind: usize, mask: u32) {
        if let Some(place) = self.0.get_mut(kind) {
            *place = Some(mask);
        }
    }
}

/// Which message carries an asynchronous configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AsyncForm {
    /// `OFPT_SET_ASYNC` and `OFPT_GET_ASYNC_REPLY`.
    #[default]
    Standard,
    /// `NXT_SET_ASYNC_CONFIG`: fixed masks.
    Nxt,
    /// `NXT_SET_ASYNC_CONFIG2`: properties; Open vSwitch takes it up to OpenFlow 1.3.
    Nxt2,
}

/// An asynchronous configuration, for the role of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncConfig {
    /// The message that carries it.
    pub form: AsyncForm,
    /// As long as the connection is primary or equal (the role without role requests).
    pub primary: AsyncMasks,
    /// As long as it is secondary.
    pub secondary: AsyncMasks,
}

impl AsyncForm {
    fn has_properties(self, version: u8) -> bool {
        match self {
            AsyncForm::Standard => version >= VERSION_15,
            AsyncForm::Nxt => false,
            AsyncForm::Nxt2 => true,
        }
    }
}

impl AsyncConfig {
    pub(crate) fn decode(
        form: AsyncForm,
        version: u8,
        r: &mut Reader<'_>,
    ) -> Result<AsyncConfig, DecodeError> {
        let config =
            if form.has_properties(version) { Self::decode_properties(r) } else { Self::decode_legacy(r) };
        Ok(AsyncConfig { form, ..config? })
    }

    pub(crate) fn encode(&self, version: u8, w: &mut Writer) {
        match self.form {
            AsyncForm::Standard => {}
            AsyncForm::Nxt => put_vendor(w, NICIRA_VENDOR, nxt::SET_ASYNC),
            AsyncForm::Nxt2 => put_vendor(w, NICIRA_VENDOR, nxt::SET_ASYNC2),
        }
        if self.form.has_properties(version) { self.encode_properties(w) } else { self.encode_legacy(w) }
    }

    fn decode_legacy(r: &mut Reader<'_>) -> Result<AsyncConfig, DecodeError> {
        let mut config = AsyncConfig::default();
        for kind in 0..LEGACY_KINDS {
            config.primary.set(kind, r.u32("AsyncConfig.mask")?);
            config.secondary.set(kind, r.u32("AsyncConfig.mask")?);
        }
        Ok(config)
    }

    fn encode_legacy(&self, w: &mut Writer) {
        for kind in 0..LEGACY_KINDS {
            for masks in [&self.primary, &self.secondary] {
                w.u32(masks.0.get(kind).copied().flatten().unwrap_or(0));
            }
        }
    }

    fn decode_properties(r: &mut Reader<'_>) -> Result<AsyncConfig, DecodeError> {
        let mut config = AsyncConfig::default();
        while !r.is_empty() {
            let p = Property::next(r, "AsyncConfig.property")?;
            let kind = usize::from(p.kind >> 1);
            if kind >= KINDS {
                return Err(DecodeError::BadValue { what: "AsyncConfig.property", value: p.kind.into() });
            }
            let masks = if p.kind & 1 == 1 { &mut config.primary } else { &mut config.secondary };
            masks.set(kind, p.u32()?);
        }
        Ok(config)
    }

    fn encode_properties(&self, w: &mut Writer) {
        for (kind, (secondary, primary)) in (0_u16..).zip(self.secondary.0.iter().zip(&self.primary.0)) {
            for (number, mask) in [(kind << 1, secondary), (kind << 1 | 1, primary)] {
                if let Some(mask) = mask {
                    property::put_u32(w, number, *mask);
                }
            }
        }
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        for (role, masks) in [("primary", &self.primary), ("secondary", &self.secondary)] {
            write!(out, "\n {role}:\n")?;
            for (kind, (name, mask)) in NAMES.iter().zip(masks.0).enumerate() {
                write!(out, "{name:>16}:")?;
                let mut mask = mask.unwrap_or(0);
                if kind == AsyncKind::PacketIn as usize && mask & NO_MATCH_BIT != 0 {
                    mask |= EXPLICIT_MISS_BIT;
                }
                for bit in (0..32_u8).filter(|bit| mask >> bit & 1 == 1) {
                    let reason = reason_name(kind, bit);
                    if !reason.is_empty() {
                        write!(out, " {reason}")?;
                    }
                }
                out.push_str(if mask == 0 { " (off)\n" } else { "\n" });
            }
        }
        Ok(())
    }
}

fn reason_name(kind: usize, bit: u8) -> String {
    let name = match (kind, bit) {
        (0, _) => return packet_in::reason_name(bit),
        (2, _) => return RemovedReason::name(bit),
        (1, 0) => "add",
        (1, 1) => "delete",
        (1, 2) => "modify",
        (3, 0) => "primary_request",
        (3, 1) => "configuration_changed",
        (3, 2) => "experimenter_data_changed",
        (4, 3) => "vacancy_down",
        (4, 4) => "vacancy_up",
        (5, 0) => "group_mod_request",
        (5, 1) => "meter_mod_request",
        _ => return bit.to_string(),
    };
    name.to_owned()
}
