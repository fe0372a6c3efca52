//! OpenFlow messages as bytes: cut out of a stream, told apart by their headers. A player
//! that decoded everything would be slower than what it measures.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;

use openflow::message::{Body, HEADER_LEN, Header, Message, NICIRA_VENDOR, frame_length};

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// `OFPT_HELLO` (OpenFlow 1.5.1 §7.1.1), and so on.
pub const HELLO: u8 = 0;
/// `OFPT_ECHO_REQUEST`.
pub const ECHO_REQUEST: u8 = 2;
/// `OFPT_EXPERIMENTER`.
const EXPERIMENTER: u8 = 4;
/// `OFPT_FEATURES_REQUEST`.
pub const FEATURES_REQUEST: u8 = 5;
/// `OFPT_GET_CONFIG_REQUEST`.
pub const GET_CONFIG_REQUEST: u8 = 7;
/// `OFPT_FLOW_MOD`.
pub const FLOW_MOD: u8 = 14;
/// `OFPT_MULTIPART_REQUEST`.
pub const MULTIPART_REQUEST: u8 = 18;
/// `OFPT_BARRIER_REQUEST`.
pub const BARRIER_REQUEST: u8 = 20;
/// `OFPT_METER_MOD`.
pub const METER_MOD: u8 = 29;
/// `OFPT_BUNDLE_CONTROL`.
pub const BUNDLE_CONTROL: u8 = 33;
/// `OFPT_BUNDLE_ADD_MESSAGE`.
pub const BUNDLE_ADD: u8 = 34;
/// `NXT_RESUME` (OVS `nicira-ext.h`).
const RESUME: u32 = 28;

/// The messages that come over a stream.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    start: usize,
    chunk: Vec<u8>,
}

impl Frames {
    /// Nothing has come.
    pub fn new() -> Self {
        Self { bytes: Vec::new(), start: 0, chunk: vec![0; CHUNK] }
    }

    /// Reads what is there; waits as long as the stream's timeout says. False at the end of the stream.
    ///
    /// # Errors
    /// With the stream's error.
    pub fn fill(&mut self, stream: &mut UnixStream) -> io::Result<bool> {
        self.bytes.drain(..self.start);
        self.start = 0;
        let length = stream.read(&mut self.chunk)?;
        self.bytes.extend_from_slice(self.chunk.get(..length).unwrap_or_default());
        Ok(length > 0)
    }

    /// The next whole message.
    pub fn next(&mut self) -> Option<&[u8]> {
        let rest = self.bytes.get(self.start..)?;
        let length = frame_length(rest).ok()??;
        let frame = rest.get(..length)?;
        self.start += length;
        Some(frame)
    }
}

/// Its type.
pub fn kind(frame: &[u8]) -> u8 {
    Header::peek(frame).map_or(u8::MAX, |header| header.kind)
}

/// Its transaction id.
pub fn xid(frame: &[u8]) -> u32 {
    Header::peek(frame).map_or(0, |header| header.xid)
}

/// Whether a message gives a paused packet back.
pub fn is_resume(frame: &[u8]) -> bool {
    let subtype = [NICIRA_VENDOR.to_be_bytes(), RESUME.to_be_bytes()].concat();
    kind(frame) == EXPERIMENTER && frame.get(HEADER_LEN..HEADER_LEN + 8) == Some(&subtype)
}

/// A message as bytes.
pub fn encode(version: u8, xid: u32, body: Body) -> Vec<u8> {
    Message { version, xid, body }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::message::{Resume, VERSION_15};
    use std::io::Write as _;

    #[test]
    fn messages_are_cut_out_of_the_stream() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let resume = encode(VERSION_15, 7, Body::Resume(Resume { packet: vec![1], ..Resume::default() }));
        let echo = encode(VERSION_15, 8, Body::EchoRequest(vec![1, 2]));
        let bytes = [resume.clone(), echo].concat();
        let (first, second) = bytes.split_at(resume.len() + 3);
        far.write_all(first).unwrap();
        let mut frames = Frames::new();
        assert!(frames.fill(&mut near).unwrap());
        assert!(frames.next().is_some_and(is_resume));
        assert!(frames.next().is_none(), "the second one is not whole");
        far.write_all(second).unwrap();
        assert!(frames.fill(&mut near).unwrap());
        assert_eq!(frames.next().map(|frame| (kind(frame), xid(frame))), Some((ECHO_REQUEST, 8)));
        drop(far);
        assert!(!frames.fill(&mut near).unwrap());
    }
}
