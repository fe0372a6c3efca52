//! Chance that can be had again.

/// xorshift64 (Marsaglia 2003): the same order for the same seed and the same luck of threads.
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`, which is not 0.
    ///
    /// # Panics
    /// Where `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit
    }
}
