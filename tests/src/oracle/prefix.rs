//! Prefixes of addresses.

use std::net::IpAddr;

/// A prefix. Bits of the base beyond its length count for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    base: IpAddr,
    length: u32,
}

impl Prefix {
    /// Reads `ADDRESS/LENGTH`.
    pub fn parse(text: &str) -> Option<Prefix> {
        let (base, length) = text.split_once('/')?;
        let base: IpAddr = base.parse().ok()?;
        if length.is_empty() || !length.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let length: u32 = length.parse().ok()?;
        (length <= bits(base)).then_some(Prefix { base, length })
    }

    /// Whether the address is one of the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        let size = bits(self.base);
        if bits(address) != size {
            return false;
        }
        for bit in 0..self.length {
            let place = size - 1 - bit;
            if number(self.base) >> place & 1 != number(address) >> place & 1 {
                return false;
            }
        }
        true
    }

    /// Whether the other prefix is a part of this one, and not the whole.
    pub fn is_wider_than(&self, other: &Prefix) -> bool {
        self.length < other.length && self.contains(other.base)
    }

    /// The lowest and the highest address.
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        let size = bits(self.base);
        let hosts = if self.length == 0 && size == 128 { u128::MAX } else { (1 << (size - self.length)) - 1 };
        let first = number(self.base) & !hosts;
        (address(self.base, first), address(self.base, first | hosts))
    }
}

/// The length of an address in bits.
fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address as a number.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// The address with a number, of the family of another address; numbers beyond IPv4 wrap round in it.
pub(super) fn address(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => {
            let [.., a, b, c, d] = number.to_be_bytes();
            IpAddr::from([a, b, c, d])
        }
        IpAddr::V6(_) => IpAddr::from(number.to_be_bytes()),
    }
}
