//! Numbers and pieces of flow texts from a seed.

/// A small generator of numbers (xorshift64*), so that a seed always gives the same flows.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[usize::try_from(self.below(list.len() as u64)).unwrap_or_default()]
    }

    pub fn mac(&mut self) -> String {
        let bytes: Vec<String> = (0..6).map(|_| format!("{:02x}", self.below(256))).collect();
        bytes.join(":")
    }

    pub fn ipv4(&mut self) -> String {
        format!("10.{}.{}.{}", self.below(256), self.below(256), self.below(256))
    }

    pub fn ipv6(&mut self) -> String {
        format!("fd00:{:x}::{:x}", self.below(65536), self.below(65536))
    }

    pub fn prefix(&mut self, address: String, width: u64) -> String {
        if self.chance(50) { address } else { format!("{address}/{}", 1 + self.below(width)) }
    }

    /// `value`, or `value/mask` with a mask of `bits` bits that is not the whole.
    pub fn masked(&mut self, bits: u32) -> String {
        let limit = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let value = self.next() & limit;
        if self.chance(50) {
            return format!("{value:#x}");
        }
        let mask = (1 + self.below(limit)).min(limit - 1);
        format!("{:#x}/{mask:#x}", value & mask)
    }

    pub fn field(&mut self) -> String {
        let number = self.below(16);
        let start = self.below(16);
        match self.below(3) {
            0 => format!("NXM_NX_REG{number}[]"),
            1 => format!("NXM_NX_REG{number}[{start}..{}]", start + 1 + self.below(15)),
            _ => format!("NXM_NX_REG{number}[{start}]"),
        }
    }
}
