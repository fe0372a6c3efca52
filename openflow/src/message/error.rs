//! Errors from the peer, with the names that Open vSwitch gives them (OpenFlow 1.5.1 §7.5.4).

use std::fmt;

use super::error_names;
use super::text;
use super::{Message, Verbosity};
use crate::wire::{DecodeError, Reader, Writer};

const EXPERIMENTER: u16 = 0xffff;
const HELLO_FAILED: u16 = 0;

/// An error message: what went wrong, and (part of) the message that caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfError {
    /// Wire version of the message: the numbers mean different things in different versions.
    pub version: u8,
    /// Error type (`OFPET_*`); for experimenter errors the experimenter's own number.
    pub kind: u16,
    /// Error code within the type; 0 for experimenter errors.
    pub code: u16,
    /// Whose numbers they are: 0 for the standard, otherwise an experimenter id.
    pub vendor: u32,
    /// At least the first 64 bytes of the offending message; for a failed hello, text.
    pub data: Vec<u8>,
}

impl OfError {
    /// The name as `ovs-ofctl` prints it, such as `OFPBMC_BAD_PREREQ`; `None` for numbers that OVS does not know.
    pub fn name(&self) -> Option<&'static str> {
        error_names::name(self.version, self.vendor, self.kind, self.code)
    }

    pub(crate) fn decode(version: u8, r: &mut Reader<'_>) -> Result<OfError, DecodeError> {
        let kind = r.u16("Error.type")?;
        let code = r.u16("Error.code")?;
        let (vendor, kind, code) =
            if kind == EXPERIMENTER { (r.u32("Error.experimenter")?, code, 0) } else { (0, kind, code) };
        Ok(OfError { version, kind, code, vendor, data: r.rest().to_vec() })
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        if self.vendor == 0 {
            w.u16(self.kind);
            w.u16(self.code);
        } else {
            w.u16(EXPERIMENTER);
            w.u16(self.kind);
            w.u32(self.vendor);
        }
        w.bytes(&self.data);
    }

    pub(crate) fn format(&self, out: &mut String) -> fmt::Result {
        out.push_str(&format!(" {self}\n"));
        if self.vendor == 0 && self.kind == HELLO_FAILED {
            return text::printable(out, &self.data);
        }
        format_bytes(&self.data, out)
    }
}

/// The name alone, or the numbers where there is none.
impl fmt::Display for OfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None if self.vendor == 0 => write!(f, "error type {} code {}", self.kind, self.code),
            None => write!(f, "error type {} of experimenter {:#x}", self.kind, self.vendor),
        }
    }
}

/// Prints the message that an error quotes, which may have been cut short.
fn format_bytes(data: &[u8], out: &mut String) -> fmt::Result {
    let declared = super::header::Header::peek(data).map(|header| usize::from(header.length));
    match (Message::decode(data), declared) {
        (Ok(message), _) => message.format(Verbosity::Brief, out),
        (Err(_), None) if data.is_empty() => {
            out.push_str("OpenFlow message is empty\n");
            Ok(())
        }
        (Err(_), None) => {
            out.push_str(&format!("OpenFlow packet too short (only {} bytes):\n", data.len()));
            text::hex_dump(out, data, true)
        }
        (Err(_), Some(length)) if length > data.len() => {
            out.push_str(&format!("(***truncated to {} bytes from {length}***)\n", data.len()));
            text::hex_dump(out, data, true)
        }
        (Err(error), Some(_)) => {
            out.push_str(&format!("***decode error: {error}***\n"));
            text::hex_dump(out, data, true)
        }
    }
}
