//! Finds the ends of messages in a stream of bytes.

use super::RpcError;

/// What a message may cost at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Length of one message in bytes.
    pub bytes: usize,
    /// Levels of objects and arrays, at most 120: the JSON reader stops at 128.
    pub depth: usize,
}

impl Default for Limits {
    /// 256 MiB, enough for the first sync of some 250,000 ports, and 64 levels; OVSDB needs a dozen.
    fn default() -> Self {
        Self { bytes: 256 << 20, depth: 64 }
    }
}

/// Memory that an empty buffer keeps.
const KEEP: usize = 1 << 20;

/// Cuts a stream into messages. Each byte is looked at once, however the stream is cut into reads.
///
/// It follows brackets and strings only; what is between them is for the JSON reader to judge. After an error the
/// stream has no known next message, so the connection must be closed.
#[derive(Debug)]
pub struct Splitter {
    limits: Limits,
    buffer: Vec<u8>,
    /// Where the message under way begins.
    start: usize,
    /// The first byte that was not looked at yet.
    scan: usize,
    /// The open brackets, outermost first.
    open: Vec<u8>,
    text: Text,
}

/// Where the scan stands with respect to strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    Escaped,
}

impl Splitter {
    /// A splitter at the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Self { limits, buffer: Vec::new(), start: 0, scan: 0, open: Vec::new(), text: Text::Outside }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scan -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// True when a message has begun and not ended.
    pub fn in_message(&self) -> bool {
        !self.open.is_empty()
    }

    /// The next whole message, or `None` until more bytes come.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, RpcError> {
        if self.open.is_empty() && !self.begin()? {
            return Ok(None);
        }
        let Some(rest) = self.buffer.get(self.scan..) else { return Ok(None) };
        let mut end = None;
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            at += 1;
            match self.text {
                Text::Escaped => self.text = Text::Inside,
                Text::Inside => match byte {
                    b'"' => self.text = Text::Outside,
                    b'\\' => self.text = Text::Escaped,
                    _ => at += plain(rest.get(at..).unwrap_or_default()),
                },
                Text::Outside => match byte {
                    b'"' => self.text = Text::Inside,
                    b'{' | b'[' if self.open.len() >= self.limits.depth => {
                        return Err(RpcError::TooDeep(self.limits.depth));
                    }
                    b'{' | b'[' => self.open.push(byte),
                    b'}' | b']' => {
                        let opened = if byte == b'}' { b'{' } else { b'[' };
                        if self.open.pop() != Some(opened) {
                            return Err(RpcError::Bracket(byte.into()));
                        }
                        if self.open.is_empty() {
                            end = Some(self.scan + at);
                            break;
                        }
                    }
                    _ => {}
                },
            }
        }
        self.scan += at;
        if self.scan - self.start > self.limits.bytes {
            return Err(RpcError::TooLong(self.limits.bytes));
        }
        let Some(end) = end else { return Ok(None) };
        let message = self.buffer.get(self.start..end);
        self.start = end;
        Ok(message)
    }

    /// Skips the space between messages; true when a message begins.
    fn begin(&mut self) -> Result<bool, RpcError> {
        let rest = self.buffer.get(self.scan..).unwrap_or_default();
        let space = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count();
        self.scan += space;
        self.start = self.scan;
        match self.buffer.get(self.scan) {
            None => {
                self.start = 0;
                self.scan = 0;
                self.buffer.clear();
                self.buffer.shrink_to(KEEP);
                Ok(false)
            }
            Some(b'{') => Ok(true),
            Some(&byte) => Err(RpcError::NotAnObject(byte)),
        }
    }
}

/// The number of leading bytes that neither end a string nor begin an escape.
fn plain(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| matches!(b, b'"' | b'\\')).unwrap_or(bytes.len())
}
