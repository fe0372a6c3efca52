//! Statistics in OXS form (OpenFlow 1.5.1 §7.2.4): a list of type-length-value items after a length of 16 bits.

use crate::wire::{DecodeError, Reader, Writer};

const CLASS: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE_TIME: u8 = 1;
const FLOW_COUNT: u8 = 3;
const PACKET_COUNT: u8 = 4;
const BYTE_COUNT: u8 = 5;

/// The statistics of one flow or of many; `None` where the peer sent none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Oxs {
    /// Seconds in the upper half, nanoseconds in the lower.
    pub(crate) duration: Option<u64>,
    pub(crate) idle: Option<u64>,
    pub(crate) flows: Option<u32>,
    pub(crate) packets: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Oxs {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Oxs, DecodeError> {
        const WHAT: &str = "Stats";
        r.skip(2, WHAT)?;
        let length = usize::from(r.u16(WHAT)?);
        let size = length.checked_sub(4).ok_or(DecodeError::BadLength { what: WHAT, length })?;
        let mut list = r.sub(size, WHAT)?;
        r.skip(length.next_multiple_of(8) - length, WHAT)?;
        let mut stats = Oxs::default();
        while !list.is_empty() {
            let class = list.u16(WHAT)?;
            let field = list.u8(WHAT)? >> 1;
            let length = list.u8(WHAT)?;
            let mut value = list.sub(length.into(), WHAT)?;
            match (class, field, length) {
                (CLASS, DURATION, 8) => stats.duration = Some(value.u64(WHAT)?),
                (CLASS, IDLE_TIME, 8) => stats.idle = Some(value.u64(WHAT)?),
                (CLASS, PACKET_COUNT, 8) => stats.packets = Some(value.u64(WHAT)?),
                (CLASS, BYTE_COUNT, 8) => stats.bytes = Some(value.u64(WHAT)?),
                (CLASS, FLOW_COUNT, 4) => stats.flows = Some(value.u32(WHAT)?),
                _ => {}
            }
        }
        Ok(stats)
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        let start = w.len();
        w.u16(0);
        w.u16(0);
        let mut put = |field: u8, value: Option<u64>| {
            if let Some(value) = value {
                w.u16(CLASS);
                w.u8(field << 1);
                w.u8(8);
                w.u64(value);
            }
        };
        put(DURATION, self.duration);
        put(IDLE_TIME, self.idle);
        put(PACKET_COUNT, self.packets);
        put(BYTE_COUNT, self.bytes);
        if let Some(flows) = self.flows {
            w.u16(CLASS);
            w.u8(FLOW_COUNT << 1);
            w.u8(4);
            w.u32(flows);
        }
        w.patch_length(start + 2, start);
        w.pad_from(start, 8);
    }
}
