//! Pseudo-random choices (SplitMix64): the same seed gives the same choices everywhere.

/// A source of choices.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
    careful: bool,
}

impl Dice {
    /// Dice that roll as the seed says.
    pub fn new(seed: u64) -> Dice {
        Dice { state: seed, careful: false }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.number() % end).unwrap_or(0)
    }

    /// A number of the range, both ends included.
    pub fn between(&mut self, first: usize, last: usize) -> usize {
        first + self.below((last + 1).saturating_sub(first))
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// From here on, or no more, nothing slips.
    pub fn be_careful(&mut self, careful: bool) {
        self.careful = careful;
    }

    /// True so many times in a hundred, for what no careful author writes.
    pub fn slips(&mut self, chance: usize) -> bool {
        !self.careful && self.percent(chance)
    }

    /// One of the values.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> Option<T> {
        values.get(self.below(values.len())).copied()
    }

    /// One of the texts; empty when there is none.
    pub fn word<'w>(&mut self, words: &[&'w str]) -> &'w str {
        self.pick(words).unwrap_or_default()
    }

    /// A port number, any.
    pub fn port(&mut self) -> u16 {
        u16::try_from(self.number() & 0xffff).unwrap_or_default()
    }
}
