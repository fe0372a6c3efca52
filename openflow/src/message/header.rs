//! The eight bytes that start every message, and the numbers of the message kinds.
//!
//! A stream is cut into messages by [`frame_length`] alone: nothing else of a message is needed to find its end.

use crate::wire::{DecodeError, Writer};

/// OpenFlow 1.3 (wire protocol 0x04).
pub const VERSION_13: u8 = 4;
/// OpenFlow 1.5 (wire protocol 0x06).
pub const VERSION_15: u8 = 6;

/// Bytes in the header: version, type, length of the whole message, transaction id; all big endian.
pub const HEADER_LEN: usize = 8;
/// The longest message there can be, header included: the length field has 16 bits.
pub const MAX_LEN: usize = u16::MAX as usize;

/// The experimenter number of the Nicira extensions.
pub const NICIRA_VENDOR: u32 = 0x0000_2320;
/// The experimenter number of the Open Networking Foundation.
pub const ONF_VENDOR: u32 = 0x4f4e_4600;

/// Message types of OpenFlow 1.3 to 1.5 (`enum ofp_type`).
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 0;
    pub(crate) const ERROR: u8 = 1;
    pub(crate) const ECHO_REQUEST: u8 = 2;
    pub(crate) const ECHO_REPLY: u8 = 3;
    pub(crate) const EXPERIMENTER: u8 = 4;
    pub(crate) const FEATURES_REQUEST: u8 = 5;
    pub(crate) const FEATURES_REPLY: u8 = 6;
    pub(crate) const GET_CONFIG_REQUEST: u8 = 7;
    pub(crate) const GET_CONFIG_REPLY: u8 = 8;
    pub(crate) const SET_CONFIG: u8 = 9;
    pub(crate) const PACKET_IN: u8 = 10;
    pub(crate) const FLOW_REMOVED: u8 = 11;
    pub(crate) const PORT_STATUS: u8 = 12;
    pub(crate) const PACKET_OUT: u8 = 13;
    pub(crate) const FLOW_MOD: u8 = 14;
    pub(crate) const GROUP_MOD: u8 = 15;
    pub(crate) const MULTIPART_REQUEST: u8 = 18;
    pub(crate) const MULTIPART_REPLY: u8 = 19;
    pub(crate) const BARRIER_REQUEST: u8 = 20;
    pub(crate) const BARRIER_REPLY: u8 = 21;
    pub(crate) const GET_ASYNC_REQUEST: u8 = 26;
    pub(crate) const GET_ASYNC_REPLY: u8 = 27;
    pub(crate) const SET_ASYNC: u8 = 28;
    pub(crate) const METER_MOD: u8 = 29;
    pub(crate) const BUNDLE_CONTROL: u8 = 33;
    pub(crate) const BUNDLE_ADD: u8 = 34;
}

/// Nicira experimenter subtypes (OVS `ofp-msgs.h`).
pub(crate) mod nxt {
    pub(crate) const SET_PACKET_IN_FORMAT: u32 = 16;
    pub(crate) const PACKET_IN: u32 = 17;
    pub(crate) const SET_ASYNC: u32 = 19;
    pub(crate) const SET_ASYNC2: u32 = 27;
    pub(crate) const RESUME: u32 = 28;
    pub(crate) const CT_FLUSH_ZONE: u32 = 29;
    pub(crate) const PACKET_IN2: u32 = 30;
    pub(crate) const CT_FLUSH: u32 = 32;
}

/// ONF experimenter subtypes: bundles as extension EXT-230 gives them to OpenFlow 1.3.
pub(crate) mod onf {
    pub(crate) const BUNDLE_CONTROL: u32 = 2300;
    pub(crate) const BUNDLE_ADD: u32 = 2301;
}

/// Starts the body of an experimenter message.
pub(crate) fn put_vendor(w: &mut Writer, vendor: u32, subtype: u32) {
    w.u32(vendor);
    w.u32(subtype);
}

/// The header of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Wire protocol version.
    pub version: u8,
    /// Message type (`OFPT_*`).
    pub kind: u8,
    /// Length of the whole message in bytes, header included.
    pub length: u16,
    /// Transaction id: a reply carries that of its request.
    pub xid: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`; `None` while fewer than [`HEADER_LEN`] bytes are there.
    pub fn peek(bytes: &[u8]) -> Option<Header> {
        let (head, _) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let [version, kind, l0, l1, x0, x1, x2, x3] = *head;
        Some(Header {
            version,
            kind,
            length: u16::from_be_bytes([l0, l1]),
            xid: u32::from_be_bytes([x0, x1, x2, x3]),
        })
    }
}

/// The length of the message at the start of `bytes`; `None` while the header is not whole.
///
/// # Errors
/// A length below [`HEADER_LEN`]: such a stream cannot be followed any further.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    match Header::peek(bytes) {
        None => Ok(None),
        Some(header) if usize::from(header.length) < HEADER_LEN => {
            Err(DecodeError::BadLength { what: "Header.length", length: usize::from(header.length) })
        }
        Some(header) => Ok(Some(usize::from(header.length))),
    }
}
