//! The host's interfaces: the networks that they are on, and the room's own addresses on them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::Error;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

use super::PROTOCOL;
use super::netlink::{Netlink, address_of, unless_gone};

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Index of the interface.
    pub device: u32,
    /// With the length of its prefix.
    pub net: IpNet,
    /// Whether it carries the room's mark.
    pub own: bool,
}

/// An interface that carries packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Hardware address.
    pub mac: Vec<u8>,
}

/// The interfaces that carry packets, but for the loopback and the bridge's own, and the addresses of all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interfaces {
    /// The interfaces.
    pub running: Vec<Interface>,
    /// The addresses.
    pub addresses: Vec<Address>,
}

impl Interfaces {
    /// The prefixes of the networks that they are on.
    pub fn links(&self) -> BTreeSet<IpNet> {
        self.on_links().map(|address| address.net.trunc()).collect()
    }

    /// The interface that is on the network of an address.
    pub fn of(&self, ip: IpAddr) -> Option<&Interface> {
        let fits = self.on_links().filter(|address| address.net.contains(&ip));
        let best =
            fits.max_by_key(|address| (address.net.prefix_len(), std::cmp::Reverse(address.device)))?;
        self.running.iter().find(|interface| interface.index == best.device)
    }

    fn on_links(&self) -> impl Iterator<Item = &Address> {
        self.addresses.iter().filter(|address| {
            let net = address.net;
            let link_local = match net.addr() {
                IpAddr::V4(v4) => v4.is_link_local(),
                IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            !address.own
                && !link_local
                && net.prefix_len() < net.max_prefix_len()
                && self.running.iter().any(|interface| interface.index == address.device)
        })
    }
}

impl Netlink {
    /// The interfaces and addresses of the host; `bridge` names the one that is the bridge's own.
    pub async fn interfaces(&self, bridge: &str) -> Result<Interfaces, Error> {
        let links: Vec<LinkMessage> = self.handle.link().get().execute().try_collect().await?;
        let addresses: Vec<AddressMessage> = self.handle.address().get().execute().try_collect().await?;
        let running = links.iter().filter_map(running).filter(|interface| interface.name != bridge).collect();
        Ok(Interfaces { running, addresses: addresses.iter().filter_map(address).collect() })
    }

    /// Puts an address alone in its prefix on an interface, for some seconds from here on. The host itself does not choose it
    /// as a source: it is deprecated from the start (RFC 4862 §5.5.4).
    pub async fn lend(&self, device: u32, ip: IpAddr, seconds: u32) -> Result<(), Error> {
        let mut request = self.handle.address().add(device, ip, IpNet::from(ip).prefix_len()).replace();
        let attributes = &mut request.message_mut().attributes;
        attributes.push(AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)));
        attributes.push(AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute));
        let mut lifetime = CacheInfo::default();
        (lifetime.ifa_preferred, lifetime.ifa_valid) = (0, seconds);
        attributes.push(AddressAttribute::CacheInfo(lifetime));
        request.execute().await
    }

    /// Takes an address off an interface; one that is not there is no error.
    pub async fn take_off(&self, address: &Address) -> Result<(), Error> {
        let ip = address.net.addr();
        let length = address.net.prefix_len();
        let message = self.handle.address().add(address.device, ip, length).message_mut().clone();
        unless_gone(self.handle.address().del(message).execute().await)
    }
}

fn address(message: &AddressMessage) -> Option<Address> {
    let own = AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL));
    let net = IpNet::new(address_of(message)?, message.header.prefix_len).ok()?;
    Some(Address { device: message.header.index, net, own: message.attributes.contains(&own) })
}

fn running(message: &LinkMessage) -> Option<Interface> {
    let flags = message.header.flags;
    if !flags.contains(LinkFlags::Up | LinkFlags::LowerUp) || flags.contains(LinkFlags::Loopback) {
        return None;
    }
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })?;
    let mac = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(mac) => Some(mac.clone()),
        _ => None,
    });
    Some(Interface { index: message.header.index, name, mac: mac.unwrap_or_default() })
}
