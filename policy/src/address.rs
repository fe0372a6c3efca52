//! Addresses: families, ranges of addresses, hardware addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A hardware address, in the order of transmission.
pub type Mac = [u8; 6];

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families, IPv4 first.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The family of a prefix.
    pub fn of_net(net: &IpNet) -> Family {
        Family::of(net.addr())
    }

    /// The length of an address in bits.
    pub fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The prefix that holds every address of the family.
    pub fn everything(self) -> IpNet {
        let unspecified = match self {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        prefix(unspecified, 0)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// The prefix of `length` bits that holds `address`; a length beyond the family's is the address alone.
pub fn prefix(address: IpAddr, length: u8) -> IpNet {
    let length = length.min(Family::of(address).bits());
    IpNet::new(address, length).unwrap_or(IpNet::from(address)).trunc()
}

/// Whether two prefixes of one family have an address in common.
pub fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// The address as a number, IPv4 in the low 32 bits.
pub(crate) fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// How many bits two addresses have in common from the left; None where they are of different families.
pub(crate) fn common_bits(a: IpAddr, b: IpAddr) -> Option<u8> {
    let bits = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros(),
        _ => return None,
    };
    u8::try_from(bits).ok()
}

/// The address of `family` by its number; None where an IPv4 address would need more than 32 bits.
pub(crate) fn from_number(family: Family, number: u128) -> Option<IpAddr> {
    match family {
        Family::V4 => u32::try_from(number).ok().map(|n| IpAddr::V4(Ipv4Addr::from(n))),
        Family::V6 => Some(IpAddr::V6(Ipv6Addr::from(number))),
    }
}

/// Addresses of one family from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct IpRange {
    first: IpAddr,
    last: IpAddr,
}

impl IpRange {
    /// The range from `first` to `last`; None when the families differ or `last` is before `first`.
    pub fn new(first: IpAddr, last: IpAddr) -> Option<IpRange> {
        (Family::of(first) == Family::of(last) && first <= last).then_some(IpRange { first, last })
    }

    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// Whether the address is one of the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// The addresses that both have.
    pub fn common(&self, other: &IpRange) -> Option<IpRange> {
        IpRange::new(self.first.max(other.first), self.last.min(other.last))
            .filter(|_| self.family() == other.family())
    }

    /// One range of the addresses of both, where they have some in common.
    pub(crate) fn joined(&self, other: &IpRange) -> Option<IpRange> {
        self.common(other)?;
        IpRange::new(self.first.min(other.first), self.last.max(other.last))
    }

    /// Its addresses before those of another range of the family.
    pub fn part_before(&self, other: &IpRange) -> Option<IpRange> {
        let end = to_number(other.first).checked_sub(1)?;
        IpRange::new(self.first, from_number(self.family(), end)?.min(self.last))
    }

    /// Its addresses after those of another range of the family.
    pub fn part_after(&self, other: &IpRange) -> Option<IpRange> {
        let start = to_number(other.last).checked_add(1)?;
        IpRange::new(from_number(self.family(), start)?.max(self.first), self.last)
    }

    /// How many addresses it has; the whole of IPv6 counts one less, so that the number fits.
    pub fn size(&self) -> u128 {
        (to_number(self.last) - to_number(self.first)).saturating_add(1)
    }

    /// The address that is `offset` after the first, if it is in the range.
    pub fn nth(&self, offset: u128) -> Option<IpAddr> {
        let number = to_number(self.first).checked_add(offset)?;
        from_number(self.family(), number).filter(|address| *address <= self.last)
    }
}

impl From<IpNet> for IpRange {
    fn from(net: IpNet) -> IpRange {
        IpRange { first: net.network(), last: net.broadcast() }
    }
}

impl From<IpAddr> for IpRange {
    fn from(address: IpAddr) -> IpRange {
        IpRange { first: address, last: address }
    }
}

impl From<IpRange> for String {
    fn from(range: IpRange) -> String {
        range.to_string()
    }
}

impl TryFrom<String> for IpRange {
    type Error = ParseRangeError;

    fn try_from(text: String) -> Result<IpRange, ParseRangeError> {
        text.parse()
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// The text is not a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a range of addresses: FIRST-LAST of one family in ascending order, a CIDR or one address is wanted"
)]
pub struct ParseRangeError(pub String);

impl FromStr for IpRange {
    type Err = ParseRangeError;

    /// Reads `FIRST-LAST`, a CIDR, or one address.
    fn from_str(text: &str) -> Result<IpRange, ParseRangeError> {
        let text = text.trim();
        let wrong = || ParseRangeError(text.to_owned());
        if let Some((first, last)) = text.split_once('-') {
            let first = first.trim().parse().map_err(|_| wrong())?;
            let last = last.trim().parse().map_err(|_| wrong())?;
            return IpRange::new(first, last).ok_or_else(wrong);
        }
        if text.contains('/') {
            return text.parse::<IpNet>().map(|net| IpRange::from(net.trunc())).map_err(|_| wrong());
        }
        text.parse::<IpAddr>().map(IpRange::from).map_err(|_| wrong())
    }
}

/// The hardware address as `02:00:0a:f4:01:05`.
pub fn format_mac(mac: Mac) -> String {
    let [a, b, c, d, e, f] = mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// Reads a hardware address: six bytes of two hexadecimal digits, separated by colons.
pub fn parse_mac(text: &str) -> Option<Mac> {
    let mut mac = [0u8; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next()?;
        if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests;
