//! Messages in their wire form before they have transaction ids, so that whoever has them can encode them, not the task
//! that reads from the switch.

use super::{SendError, Session};
use crate::message::{Body, HEADER_LEN, Header, MAX_LEN, Message, VERSION_15};
use crate::wire::Writer;

/// Whole messages, one after the other, each short enough to be sent.
#[derive(Debug, Clone, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    count: usize,
}

impl Outgoing {
    /// Encodes messages in order.
    ///
    /// # Errors
    /// [`SendError::TooLong`].
    pub fn encode(bodies: impl IntoIterator<Item = Body>) -> Result<Outgoing, SendError> {
        let mut w = Writer::with_capacity(512);
        let mut count = 0;
        for body in bodies {
            let start = w.len();
            Message { version: VERSION_15, xid: 0, body }.encode_to(&mut w);
            let length = w.len() - start;
            if length > MAX_LEN {
                return Err(SendError::TooLong { length });
            }
            count += 1;
        }
        Ok(Outgoing { bytes: w.into_vec(), count })
    }
}

impl Session {
    /// Sends messages in order; only refusals are ever heard of them.
    ///
    /// # Errors
    /// [`SendError::NotReady`]; nothing was sent.
    pub fn send_encoded(&mut self, outgoing: Outgoing) -> Result<(), SendError> {
        self.ready()?;
        let Outgoing { mut bytes, count } = outgoing;
        let mut xid = self.reserve(count);
        let mut rest = bytes.as_mut_slice();
        while let Some(header) = Header::peek(rest) {
            if let Some(place) = rest.get_mut(HEADER_LEN - 4..HEADER_LEN) {
                place.copy_from_slice(&xid.to_be_bytes());
            }
            xid = xid.wrapping_add(1);
            rest = rest.get_mut(usize::from(header.length)..).unwrap_or_default();
        }
        self.outbox.bytes(&bytes);
        Ok(())
    }
}
