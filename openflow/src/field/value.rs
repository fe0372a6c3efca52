//! Field values as plain numbers, and Ethernet addresses.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A field's value: right-aligned, in host order, whatever the field's width.
///
/// An Ethernet address takes the low 48 bits, an IPv6 address all 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Value(pub u128);

macro_rules! value_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Value {
            fn from(v: $t) -> Self {
                Value(u128::from(v))
            }
        }
    )*};
}
value_from!(u8, u16, u32, u64, u128, Ipv6Addr);

impl From<Ipv4Addr> for Value {
    fn from(v: Ipv4Addr) -> Self {
        Value(u128::from(u32::from(v)))
    }
}

impl From<Mac> for Value {
    fn from(v: Mac) -> Self {
        Value(u128::from(v.to_u64()))
    }
}

/// An Ethernet address, first byte first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// The address as a number of 48 bits.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The low 48 bits of `v` as an address.
    #[must_use]
    pub fn from_u64(v: u64) -> Self {
        let [_, _, a, b, c, d, e, f] = v.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }

    /// Whether the address names a group (broadcast and multicast).
    #[must_use]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an Ethernet address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an Ethernet address (aa:bb:cc:dd:ee:ff)")]
pub struct MacError(pub String);

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(s: &str) -> Result<Self, MacError> {
        let bad = || MacError(s.to_owned());
        let mut bytes = [0u8; 6];
        let mut parts = s.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| matches!(p.len(), 1 | 2)).ok_or_else(bad)?;
            if !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(bad());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Mac(bytes)) }
    }
}
