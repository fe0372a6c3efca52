//! Hello: which versions the sender speaks (OpenFlow 1.5.1 §7.5.1).

use std::fmt::{self, Write as _};

use super::Message;
use super::text;
use crate::wire::{DecodeError, Reader, Writer};

const VERSION_BITMAP: u16 = 1;
const ELEMENT_HEAD: usize = 4;

/// A hello message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    /// Bit n set: the sender speaks wire version n. `None`: no bitmap was sent, and the header's version is the
    /// highest of a range without gaps.
    pub versions: Option<u32>,
    /// Elements other than one version bitmap of 32 bits, as they came.
    pub other: Vec<u8>,
}

impl Hello {
    /// A hello that offers exactly `version`.
    pub fn only(version: u8) -> Hello {
        Hello { versions: Some(1_u32.checked_shl(version.into()).unwrap_or(0)), other: Vec::new() }
    }

    /// The versions offered, as a bitmap, with the version of the message's header where no bitmap was sent.
    pub fn offered(&self, header_version: u8) -> u32 {
        match self.versions {
            Some(bitmap) => bitmap,
            None => (1_u32..32).take(header_version.into()).fold(0, |all, bit| all | 1 << bit),
        }
    }

    /// Whether wire version `version` is offered.
    pub fn offers(&self, header_version: u8, version: u8) -> bool {
        self.offered(header_version).checked_shr(version.into()).unwrap_or(0) & 1 == 1
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Hello, DecodeError> {
        let mut hello = Hello::default();
        while !r.is_empty() {
            let whole = r.clone();
            let kind = r.u16("Hello.element")?;
            let length = usize::from(r.u16("Hello.element")?);
            let size = length
                .checked_sub(ELEMENT_HEAD)
                .ok_or(DecodeError::BadLength { what: "Hello.element", length })?;
            let mut value = r.sub(size, "Hello.element")?;
            r.skip((length.next_multiple_of(8) - length).min(r.remaining()), "Hello.element")?;
            if kind == VERSION_BITMAP && size == 4 && hello.versions.is_none() {
                hello.versions = Some(value.u32("Hello.versions")?);
            } else {
                let used = whole.remaining() - r.remaining();
                hello.other.extend_from_slice(whole.clone().bytes(used, "Hello.element")?);
            }
        }
        Ok(hello)
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        if let Some(versions) = self.versions {
            w.u16(VERSION_BITMAP);
            w.u16(8);
            w.u32(versions);
        }
        w.bytes(&self.other);
    }

    pub(crate) fn format(&self, message: &Message, out: &mut String) -> fmt::Result {
        out.push_str("\n version bitmap: ");
        let bitmap = self.offered(message.version);
        let mut separator = "";
        for version in (0..32).filter(|v| bitmap >> v & 1 == 1) {
            write!(out, "{separator}{version:#04x}")?;
            separator = ", ";
        }
        if !self.other.is_empty() {
            out.push_str("\n unknown data in hello:\n");
            text::hex_dump(out, &message.encode(), true)?;
        }
        Ok(())
    }
}
