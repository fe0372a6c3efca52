//! Cursors over wire bytes: every read is checked and every failure names what was being read.
//!
//! All integers are in network byte order. [`Reader`] never copies and never panics; [`Writer`]
//! appends and can go back to fill in lengths.

/// Why bytes from a peer are not what they claim to be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end in the middle of the named part.
    #[error("the bytes end inside {0}")]
    MissingData(&'static str),
    /// A length field contradicts the bytes or the rules of the named part.
    #[error("{what} has the impossible length {length}")]
    BadLength {
        /// The part whose length is wrong.
        what: &'static str,
        /// The length found.
        length: usize,
    },
    /// A value that the named part cannot have.
    #[error("{what} has the impossible value {value:#x}")]
    BadValue {
        /// The part whose value is wrong.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// Bytes remain after the end of the named part.
    #[error("{left} bytes are left after {what}")]
    TrailingData {
        /// The part that ended early.
        what: &'static str,
        /// How many bytes remain.
        left: usize,
    },
    /// A message of an OpenFlow version that this library does not speak.
    #[error("OpenFlow version {0:#04x} is not supported (known: 0x04, 0x06)")]
    BadVersion(u8),
    /// Lists inside lists, deeper than any switch sends.
    #[error("{0} is nested too deeply")]
    TooDeep(&'static str),
}

impl DecodeError {
    /// The same error, told of the part of the message that `what` names: bytes that end early
    /// are missing there.
    #[must_use]
    pub fn within(self, what: &'static str) -> Self {
        match self {
            DecodeError::MissingData(_) => DecodeError::MissingData(what),
            other => other,
        }
    }
}

/// A checked cursor over received bytes.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether no byte is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All bytes that are left; the cursor moves to the end.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The bytes that are left, without moving.
    #[must_use]
    pub fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn bytes(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(DecodeError::MissingData(what))?;
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::MissingData(what))?;
        self.rest = tail;
        Ok(*head)
    }

    /// Passes over `n` bytes.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn skip(&mut self, n: usize, what: &'static str) -> Result<(), DecodeError> {
        self.bytes(n, what).map(|_| ())
    }

    /// A cursor over the next `n` bytes alone; this one moves past them.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn sub(&mut self, n: usize, what: &'static str) -> Result<Reader<'a>, DecodeError> {
        self.bytes(n, what).map(Reader::new)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] at the end.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(what).map(|[b]| b)
    }

    /// Two bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// Four bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// Eight bytes, big-endian.
    ///
    /// # Errors
    /// [`DecodeError::MissingData`] if fewer are left.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// [`DecodeError::TrailingData`] otherwise.
    pub fn finish(&self, what: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::TrailingData { what, left }),
        }
    }
}

/// Bytes being written, big-endian.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    buf: Vec<u8>,
}

impl Writer {
    /// Nothing written yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Nothing written yet, with room for `n` bytes.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        Self { buf: Vec::with_capacity(n) }
    }

    /// How many bytes were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) {
        self.buf.push(v);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) {
        self.bytes(&v.to_be_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) {
        self.bytes(&v.to_be_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.bytes(&v.to_be_bytes());
    }

    /// Appends `v` as it is.
    pub fn bytes(&mut self, v: &[u8]) {
        self.buf.extend_from_slice(v);
    }

    /// Appends the low `n` bytes of `v` (`n` ≤ 16).
    pub fn uint(&mut self, v: u128, n: usize) {
        let all = v.to_be_bytes();
        self.bytes(all.get(16usize.saturating_sub(n)..).unwrap_or(&all));
    }

    /// Appends `n` zero bytes.
    pub fn zeros(&mut self, n: usize) {
        self.buf.resize(self.buf.len() + n, 0);
    }

    /// Appends zero bytes until the whole length is a multiple of `multiple`.
    pub fn pad_to(&mut self, multiple: usize) {
        self.pad_from(0, multiple);
    }

    /// Appends zero bytes until the length counted from `start` is a multiple of `multiple`.
    pub fn pad_from(&mut self, start: usize, multiple: usize) {
        let length = self.buf.len().saturating_sub(start);
        self.zeros(length.next_multiple_of(multiple.max(1)) - length);
    }

    /// Overwrites the two bytes at `at`; nothing happens where they do not exist.
    pub fn patch_u16(&mut self, at: usize, v: u16) {
        if let Some(place) = self.buf.get_mut(at..at + 2) {
            place.copy_from_slice(&v.to_be_bytes());
        }
    }

    /// Writes the number of bytes from `start` to the end into the two bytes at `at`.
    ///
    /// A part above 65,535 bytes has no wire form: its length becomes 65,535, which the peer
    /// refuses as malformed instead of reading past it.
    pub fn patch_length(&mut self, at: usize, start: usize) {
        let length = self.buf.len().saturating_sub(start);
        self.patch_u16(at, u16::try_from(length).unwrap_or(u16::MAX));
    }

    /// Forgets what was written after the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.buf.truncate(length);
    }

    /// The bytes written.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.buf
    }

    /// The bytes written so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodeError, Reader, Writer};

    #[test]
    fn what_is_written_is_read() {
        let mut w = Writer::new();
        w.u8(1);
        w.u16(0x0203);
        w.u32(0x0405_0607);
        w.u64(8);
        w.uint(0x0a0b_0c0d, 3);
        w.pad_to(8);
        assert_eq!(w.len(), 24);
        let mut r = Reader::new(w.as_slice());
        assert_eq!(r.u8("a"), Ok(1));
        assert_eq!(r.u16("b"), Ok(0x0203));
        assert_eq!(r.u32("c"), Ok(0x0405_0607));
        assert_eq!(r.u64("d"), Ok(8));
        assert_eq!(r.bytes(3, "e"), Ok(&[0x0b, 0x0c, 0x0d][..]));
        assert_eq!(r.finish("all"), Err(DecodeError::TrailingData { what: "all", left: 6 }));
        assert_eq!(r.sub(7, "f").unwrap_err(), DecodeError::MissingData("f"));
        assert_eq!((r.remaining(), r.rest().len(), r.is_empty()), (6, 6, true));
        assert_eq!(r.u8("g"), Err(DecodeError::MissingData("g")));
    }

    #[test]
    fn lengths_are_filled_in_and_never_wrap() {
        let mut w = Writer::with_capacity(4);
        w.u16(7);
        w.u16(0);
        w.zeros(5);
        w.pad_from(2, 8);
        w.patch_length(2, 0);
        assert_eq!(w.as_slice(), [0, 7, 0, 10, 0, 0, 0, 0, 0, 0]);
        w.zeros(70_000);
        w.patch_length(2, 0);
        w.patch_u16(1_000_000, 9);
        w.truncate(4);
        assert_eq!(w.into_vec(), [0, 7, 0xff, 0xff]);
    }
}
