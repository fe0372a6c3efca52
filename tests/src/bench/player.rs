//! Plays packet-ins to a controller as fast as they are answered, as a switch would: so
//! many may be without an answer, then the switch holds the next ones back.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::frames::Frames;

/// Packet-ins without an answer, as many as Open vSwitch queues for a controller.
const WINDOW: usize = 100;
/// After which packet-ins without an answer count as lost.
const LOST: Duration = Duration::from_secs(1);

/// What a message of the controller means to the player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// One packet-in is answered.
    Answer,
    /// Something else.
    Other,
}

/// What became of the packet-ins.
#[derive(Debug, Clone, Copy, Default)]
pub struct Played {
    /// Answered.
    pub answered: usize,
    /// Not answered.
    pub lost: usize,
    /// From the first packet-in to the last answer.
    pub took: Duration,
}

impl Played {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let answered = self.answered as f64;
        answered / self.took.as_secs_f64().max(1e-9)
    }
}

/// Plays `packets` in order, `rounds` times; `hear` judges every message that comes, and
/// may add bytes to send.
///
/// # Errors
/// Where the connection ends.
pub fn play(
    stream: &mut UnixStream,
    frames: &mut Frames,
    packets: &[Vec<u8>],
    rounds: usize,
    mut hear: impl FnMut(&[u8], &mut Vec<u8>) -> Heard,
) -> io::Result<Played> {
    stream.set_read_timeout(Some(LOST))?;
    let mut queue = std::iter::repeat_n(packets, rounds).flatten();
    let (mut out, mut open, mut played) = (Vec::new(), 0, Played::default());
    let start = Instant::now();
    loop {
        if open <= WINDOW / 2 {
            for packet in queue.by_ref().take(WINDOW - open) {
                out.extend_from_slice(packet);
                open += 1;
            }
        }
        if open == 0 {
            return Ok(played);
        }
        stream.write_all(&out)?;
        out.clear();
        match frames.fill(stream) {
            Ok(true) => {}
            Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                played.lost += open;
                open = 0;
            }
            Err(error) => return Err(error),
        }
        while let Some(frame) = frames.next() {
            if hear(frame, &mut out) == Heard::Answer && open > 0 {
                open -= 1;
                played.answered += 1;
                played.took = start.elapsed();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::frames::{ECHO_REQUEST, encode, kind};
    use openflow::message::{Body, VERSION_15};

    #[test]
    fn every_packet_is_played_and_counted() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let packets: Vec<Vec<u8>> =
            (0..150).map(|n| encode(VERSION_15, n, Body::EchoRequest(vec![0; 4]))).collect();
        let answering = std::thread::spawn(move || {
            let mut frames = Frames::new();
            let mut count = 0;
            while count < 300 && frames.fill(&mut far).unwrap() {
                while let Some(frame) = frames.next() {
                    far.write_all(frame).unwrap();
                    count += 1;
                }
            }
        });
        let played = play(&mut near, &mut Frames::new(), &packets, 2, |frame, _| {
            if kind(frame) == ECHO_REQUEST { Heard::Answer } else { Heard::Other }
        });
        let played = played.unwrap();
        assert_eq!((played.answered, played.lost), (300, 0));
        assert!(played.rate() > 0.0);
        answering.join().unwrap();
    }
}
