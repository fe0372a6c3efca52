//! Bytes that can be made again from a number, and what tells two byte streams apart.

/// A stream of bytes that looks random and is the same for the same seed.
#[derive(Debug, Clone)]
pub struct Payload(u64);

impl Payload {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend(self.0.to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// Number and hash (FNV-1a, 64 bits) of the bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// How many.
    pub bytes: usize,
    /// Their hash.
    pub hash: u64,
}

impl Digest {
    /// Of all these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { bytes: bytes.len(), hash }
    }
}
