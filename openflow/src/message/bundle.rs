//! Bundles: messages that the switch applies together, all or none (OpenFlow 1.5.1 §7.3.9, extension EXT-230 for 1.3).

use std::fmt::{self, Write as _};

use super::header::{HEADER_LEN, Header};
use super::text;
use super::{Message, Verbosity};
use crate::wire::{DecodeError, Reader, Writer};

/// All messages of the bundle take effect, or none.
pub const ATOMIC: u16 = 1 << 0;
/// The messages take effect in the order in which they were added.
pub const ORDERED: u16 = 1 << 1;

const FLAGS: &[(u32, &str)] = &[(ATOMIC as u32, "atomic"), (ORDERED as u32, "ordered")];

/// A step in the life of a bundle (`OFPBCT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BundleStep {
    /// Asks to open one.
    OpenRequest,
    /// It is open.
    OpenReply,
    /// Asks to accept no more messages.
    CloseRequest,
    /// It is closed.
    CloseReply,
    /// Asks to apply it.
    CommitRequest,
    /// It was applied.
    CommitReply,
    /// Asks to forget it.
    DiscardRequest,
    /// It is forgotten.
    DiscardReply,
}

const STEPS: [(BundleStep, &str); 8] = [
    (BundleStep::OpenRequest, "OPEN_REQUEST"),
    (BundleStep::OpenReply, "OPEN_REPLY"),
    (BundleStep::CloseRequest, "CLOSE_REQUEST"),
    (BundleStep::CloseReply, "CLOSE_REPLY"),
    (BundleStep::CommitRequest, "COMMIT_REQUEST"),
    (BundleStep::CommitReply, "COMMIT_REPLY"),
    (BundleStep::DiscardRequest, "DISCARD_REQUEST"),
    (BundleStep::DiscardReply, "DISCARD_REPLY"),
];

/// Opens, closes, commits or discards a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BundleControl {
    /// Chosen by the controller, one name space per connection.
    pub id: u32,
    /// What is asked or answered.
    pub step: BundleStep,
    /// [`ATOMIC`], [`ORDERED`]; the same in every message of a bundle.
    pub flags: u16,
}

impl BundleControl {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<BundleControl, DecodeError> {
        let id = r.u32("BundleControl.bundle_id")?;
        let number = r.u16("BundleControl.type")?;
        let flags = r.u16("BundleControl.flags")?;
        let (step, _) = STEPS
            .get(usize::from(number))
            .ok_or(DecodeError::BadValue { what: "BundleControl.type", value: number.into() })?;
        Ok(BundleControl { id, step: *step, flags })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.id);
        w.u16(self.step as u16);
        w.u16(self.flags);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        let name = STEPS.iter().find(|(step, _)| *step == self.step).map_or("", |(_, name)| name);
        write!(out, "\n bundle_id={} type={name} flags=", alternate_hex(self.id))?;
        text::bit_names(out, self.flags.into(), FLAGS, ' ')
    }
}

/// Adds one message to an open bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleAdd {
    /// The bundle.
    pub id: u32,
    /// As when it was opened.
    pub flags: u16,
    /// The message; its version and transaction id are those of the message around it.
    pub message: Box<Message>,
    /// Bundle properties after the message, as they came.
    pub properties: Vec<u8>,
}

impl BundleAdd {
    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<BundleAdd, DecodeError> {
        let id = r.u32("BundleAdd.bundle_id")?;
        r.skip(2, "BundleAdd.pad")?;
        let flags = r.u16("BundleAdd.flags")?;
        let inner = Header::peek(r.peek()).ok_or(DecodeError::MissingData("BundleAdd.message"))?;
        let length = usize::from(inner.length);
        if length < HEADER_LEN {
            return Err(DecodeError::BadLength { what: "BundleAdd.message", length });
        }
        let message = Message::decode_inner(r.bytes(length, "BundleAdd.message")?)?;
        Ok(BundleAdd { id, flags, message: Box::new(message), properties: r.rest().to_vec() })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.id);
        w.u16(0);
        w.u16(self.flags);
        self.message.encode_to(w);
        w.bytes(&self.properties);
    }

    pub(crate) fn format(&self, verbosity: Verbosity, out: &mut String) -> fmt::Result {
        write!(out, "\n bundle_id={} flags=", alternate_hex(self.id))?;
        text::bit_names(out, self.flags.into(), FLAGS, ' ')?;
        out.push('\n');
        self.message.format(verbosity, out)
    }
}

fn alternate_hex(id: u32) -> String {
    if id == 0 { "0".to_owned() } else { format!("{id:#x}") }
}
