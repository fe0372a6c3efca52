//! Fingerprints that are the same in every process and version for the same content.

/// A running hash (FNV-1a, 64 bits, mixed once more at the end, so that every bit of the content reaches every bit of
/// the result).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest(u64);

impl Digest {
    /// The hash of nothing yet.
    pub(crate) fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn byte(self, byte: u8) -> Digest {
        Digest((self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    fn bytes(self, bytes: &[u8]) -> Digest {
        bytes.iter().fold(self, |digest, byte| digest.byte(*byte))
    }

    /// Adds a number.
    #[must_use]
    pub(crate) fn number(self, number: impl Into<u128>) -> Digest {
        self.bytes(&number.into().to_be_bytes())
    }

    /// Adds a text, and where it ends.
    #[must_use]
    pub(crate) fn text(self, text: &str) -> Digest {
        self.bytes(text.as_bytes()).byte(0xff)
    }

    /// Adds fingerprints, and how many they are.
    #[must_use]
    pub(crate) fn list(self, fingerprints: &[u64]) -> Digest {
        let counted = self.number(u64::try_from(fingerprints.len()).unwrap_or(u64::MAX));
        fingerprints.iter().fold(counted, |digest, each| digest.bytes(&each.to_be_bytes()))
    }

    /// Adds fingerprints whose order and repetition do not matter.
    #[must_use]
    pub(crate) fn set(self, mut fingerprints: Vec<u64>) -> Digest {
        fingerprints.sort_unstable();
        fingerprints.dedup();
        self.list(&fingerprints)
    }

    /// The fingerprint of what was added.
    pub(crate) fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ (mixed >> 33)
    }
}

/// FNV-1a of a text, 64 bits.
pub(crate) fn fnv(text: &str) -> u64 {
    Digest::new().bytes(text.as_bytes()).0
}
