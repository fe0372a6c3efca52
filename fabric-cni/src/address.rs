//! Addresses as CNI writes them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Text that is no address; the message says what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AddressError {}

/// An Ethernet address, in the order of the wire; written `0a:58:0a:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = || AddressError(format!("{text:?} is no Ethernet address like 0a:58:0a:00:00:01"));
        let mut octets = [0_u8; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = u8::from_str_radix(part.ok_or_else(bad)?, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Mac(octets)) }
    }
}

/// An IP address with the length of its prefix, in bits; written `10.0.0.1/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    /// The address itself, host bits included.
    pub address: IpAddr,
    /// At most 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

impl Cidr {
    /// The destination of the default route of the family that `address` belongs to.
    pub fn default_route(address: IpAddr) -> Cidr {
        match address {
            IpAddr::V4(_) => Cidr { address: IpAddr::from([0_u8; 4]), prefix: 0 },
            IpAddr::V6(_) => Cidr { address: IpAddr::from([0_u16; 8]), prefix: 0 },
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = || AddressError(format!("{text:?} is no address with a prefix length like 10.0.0.1/24"));
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if prefix <= longest { Ok(Cidr { address, prefix }) } else { Err(bad()) }
    }
}

/// Reads an address that may carry a prefix length, and forgets the length: the
/// Network knows it (CNI conventions, capability `ips`).
pub fn bare_address(text: &str) -> Result<IpAddr, AddressError> {
    let parsed = match text.contains('/') {
        true => text.parse().map(|cidr: Cidr| cidr.address).ok(),
        false => text.parse().ok(),
    };
    parsed.ok_or_else(|| AddressError(format!("{text:?} is no IP address like 10.0.0.1 or fd00::1/64")))
}

macro_rules! string_conversions {
    ($($kind:ty),*) => {$(
        impl TryFrom<String> for $kind {
            type Error = AddressError;

            fn try_from(text: String) -> Result<Self, AddressError> {
                text.parse()
            }
        }

        impl From<$kind> for String {
            fn from(value: $kind) -> String {
                value.to_string()
            }
        }
    )*};
}

string_conversions!(Mac, Cidr);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_a_round_trip() {
        for text in ["0a:58:0a:00:00:01", "ff:ff:ff:ff:ff:ff"] {
            assert_eq!(text.parse::<Mac>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.1/24", "fd00::1/128", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "0a:58:0a:00:00", "0a:58:0a:00:00:01:02", "0a:58:0a:00:00:+1", "0a-58-0a-00-00-01"] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
        for text in ["", "10.0.0.1", "10.0.0.1/33", "fd00::/129", "10.0.0.1/", "10.0.0.256/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_address_may_carry_a_prefix() {
        assert_eq!(bare_address("10.0.0.9/24").unwrap(), "10.0.0.9".parse::<IpAddr>().unwrap());
        assert_eq!(bare_address("fd00::9").unwrap(), "fd00::9".parse::<IpAddr>().unwrap());
        assert!(bare_address("10.0.0.9/99").is_err());
    }
}
