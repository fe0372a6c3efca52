//! The record of what was moved from a NIC to its bridge, in the bridge's `external_ids`: JSON that people can read,
//! with the kernel's own messages for whoever moves everything back, which may be a later process. Pure.

use std::fmt::Write as _;

use rtnetlink::packet_core::{Emitable, Parseable};
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::neighbour::NeighbourMessage;
use rtnetlink::packet_route::route::RouteMessage;
use serde::{Deserialize, Serialize};

use super::belongings::{Belongings, address_text, neighbour_text, route_text};

/// Key of the bridge's `external_ids`.
pub const KEY: &str = "fabric.moved";

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Name of the NIC.
    pub nic: String,
    /// Index of the NIC when it was put into the bridge. The switch goes on with a device that is gone, and does not
    /// look for another of its name.
    pub opened: u32,
    /// Index of the bridge's device that holds it. Another device of the name is a new one, which holds nothing yet.
    pub device: u32,
    /// When, and since which boot.
    pub moment: Moment,
    /// What.
    pub belongings: Belongings,
}

/// A moment of the running kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moment {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Whole seconds since then.
    pub uptime: u64,
}

#[derive(Serialize, Deserialize)]
struct Json {
    nic: String,
    opened: u32,
    device: u32,
    #[serde(flatten)]
    moment: Moment,
    addresses: Vec<Entry>,
    routes: Vec<Entry>,
    neighbours: Vec<Entry>,
}

/// One message.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// For people.
    is: String,
    /// Its bytes behind the netlink header, in hexadecimal digits and in the byte order of the machine.
    message: String,
}

impl Record {
    /// As `external_ids` hold it.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_text(&self) -> Result<String, String> {
        let Belongings { addresses, routes, neighbours } = &self.belongings;
        let json = Json {
            nic: self.nic.clone(),
            opened: self.opened,
            device: self.device,
            moment: self.moment.clone(),
            addresses: addresses.iter().map(|m| entry(address_text(m), m)).collect(),
            routes: routes.iter().map(|m| entry(route_text(m), m)).collect(),
            neighbours: neighbours.iter().map(|m| entry(neighbour_text(m), m)).collect(),
        };
        serde_json::to_string(&json).map_err(|error| error.to_string())
    }

    /// Reads what [`Record::to_text`] wrote.
    ///
    /// # Errors
    /// It is something else, in words.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let json: Json = serde_json::from_str(text).map_err(|error| format!("{KEY}: {error}"))?;
        let addresses = json.addresses.iter().map(read::<AddressMessage>).collect::<Result<_, _>>()?;
        let routes = json.routes.iter().map(read::<RouteMessage>).collect::<Result<_, _>>()?;
        let neighbours = json.neighbours.iter().map(read::<NeighbourMessage>).collect::<Result<_, _>>()?;
        let belongings = Belongings { addresses, routes, neighbours };
        Ok(Self { nic: json.nic, opened: json.opened, device: json.device, moment: json.moment, belongings })
    }

    /// What of it is still alive at a later moment: nothing after another boot.
    pub fn alive_at(&self, now: &Moment) -> Belongings {
        if self.moment.boot != now.boot {
            return Belongings::default();
        }
        let mut belongings = self.belongings.clone();
        belongings.age(u32::try_from(now.uptime.saturating_sub(self.moment.uptime)).unwrap_or(u32::MAX));
        belongings
    }
}

fn entry(is: String, message: &impl Emitable) -> Entry {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    Entry { is, message: hex }
}

fn read<T: Parseable<[u8]>>(entry: &Entry) -> Result<T, String> {
    let wrong = |why: &str| format!("{KEY}: {}: {why}", entry.is);
    let digits = entry.message.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect();
    let bytes = bytes.ok_or_else(|| wrong("no hexadecimal digits"))?;
    T::parse(&bytes).map_err(|error| wrong(&error.to_string()))
}

#[cfg(test)]
mod tests;
