//! Links, routes and neighbours of the kernel, by rtnetlink(7), in the terms of the room.

use std::net::IpAddr;

use futures_util::{Stream, TryStreamExt};
use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{Error, LinkUnspec};

use super::PROTOCOL;
use crate::news::{self, MulticastGroup, News};

/// `ENOENT`, `ESRCH`, `ENODEV`, `EEXIST`, `EADDRNOTAVAIL` (errno(3)).
const GONE: [i32; 4] = [2, 3, 19, 99];
const EXISTS: i32 = 17;

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Index.
    pub index: u32,
    /// MTU, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Whether the device belongs to the kernel datapath of Open vSwitch.
    pub kernel_datapath: bool,
}

/// A route of the room's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Destination.
    pub prefix: IpNet,
    /// Index of the device.
    pub device: u32,
    /// Next hop.
    pub gateway: Option<IpAddr>,
    /// Preferred source.
    pub source: Option<IpAddr>,
}

/// A permanent neighbour of the room's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// Index of the device.
    pub device: u32,
    /// Network address.
    pub address: IpAddr,
    /// Link-layer address.
    pub mac: Vec<u8>,
}

/// Who gets a packet next: the destination itself, or a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// Index of the device.
    pub device: u32,
    /// Network address.
    pub address: IpAddr,
}

/// What is known of a hop's link-layer address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The hop confirmed it a moment ago.
    Confirmed,
    /// It never changes: an administrator said so, or the device has no such addresses.
    Fixed,
    /// Known, being asked for, or unknown.
    Other,
}

/// A change that the kernel reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A device changed, or went.
    Link {
        /// Index.
        index: u32,
        /// Whether it can carry packets.
        running: bool,
    },
    /// An address came, went, or has another lifetime.
    Address {
        /// The address.
        address: Option<IpAddr>,
        /// Whether it is there.
        present: bool,
    },
    /// A route of the room's went.
    Route,
    /// A neighbour changed.
    Neighbour(Hop, Standing),
    /// Changes were lost: anything may have changed.
    Lost,
}

/// A connection for requests.
#[derive(Debug, Clone)]
pub struct Netlink {
    pub(super) handle: rtnetlink::Handle,
}

impl Netlink {
    /// Opens two sockets in the network namespace of the calling thread: one for requests, one for changes.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub fn open() -> std::io::Result<(Self, impl Stream<Item = Change> + Unpin + use<>)> {
        // With strict checking the kernel filters routes itself, and a host may have a great many. Before Linux 4.20
        // it cannot, and what it sends is filtered here in any case.
        let (requests, handle, _) =
            rtnetlink::new_connection_with_strict_check().or_else(|_| rtnetlink::new_connection())?;
        tokio::spawn(requests);
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Neigh,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv6Route,
        ];
        let changes = news::follow(&groups, change)?;
        Ok((Self { handle }, changes))
    }

    /// The device of that name, if there is one.
    pub async fn link(&self, name: &str) -> Result<Option<Link>, Error> {
        let found = self.handle.link().get().match_name(name.to_owned()).execute().try_next().await;
        match found {
            Ok(message) => Ok(message.as_ref().map(link)),
            Err(error) if errno(&error).is_some_and(|code| GONE.contains(&code)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the MTU and switches the device on.
    pub async fn set_link(&self, index: u32, mtu: u32) -> Result<(), Error> {
        let message = LinkUnspec::new_with_index(index).mtu(mtu).up().build();
        self.handle.link().change(message).execute().await
    }

    /// The room's routes in the main table, on every device.
    pub async fn routes(&self) -> Result<Vec<Route>, Error> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut filter = request(family);
            filter.header.protocol = PROTOCOL.into();
            let mut found = self.handle.route().get(filter).execute();
            while let Some(message) = found.try_next().await? {
                routes.extend(own_route(&message));
            }
        }
        routes.sort();
        Ok(routes)
    }

    /// Devices with a route learned from a router advertisement.
    pub async fn advertised(&self) -> Result<Vec<u32>, Error> {
        let mut devices = Vec::new();
        let mut filter = request(AddressFamily::Inet6);
        filter.header.protocol = RouteProtocol::Ra;
        let mut found = self.handle.route().get(filter).execute();
        while let Some(message) = found.try_next().await? {
            if message.header.protocol == RouteProtocol::Ra {
                devices.extend(message.attributes.iter().filter_map(output_device));
            }
        }
        devices.sort_unstable();
        devices.dedup();
        Ok(devices)
    }

    /// Name of a device.
    pub async fn name(&self, index: u32) -> Result<Option<String>, Error> {
        let message = self.handle.link().get().match_index(index).execute().try_next().await?;
        Ok(message.and_then(|message| {
            message.attributes.into_iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            })
        }))
    }

    /// Adds a route; one with the same destination that is there already is an error.
    pub async fn add_route(&self, route: &Route) -> Result<(), Error> {
        self.handle.route().add(route_message(route)).execute().await
    }

    /// Removes a route; one that does not exist is no error.
    pub async fn remove_route(&self, route: &Route) -> Result<(), Error> {
        unless_gone(self.handle.route().del(route_message(route)).execute().await)
    }

    /// The next hop on the way to `address`; `None` when there is no way, or it is this host.
    pub async fn hop(&self, address: IpAddr) -> Result<Option<Hop>, Error> {
        let mut message = request(family(address));
        message.header.destination_prefix_length = bits(address);
        message.attributes.push(RouteAttribute::Destination(address.into()));
        let answer = match self.handle.route().get(message).execute().try_next().await {
            Ok(answer) => answer,
            // ENETUNREACH, EHOSTUNREACH and what unreachable, prohibit and blackhole routes give.
            Err(error) if matches!(errno(&error), Some(101 | 113 | 13 | 22)) => None,
            Err(error) => return Err(error),
        };
        Ok(answer.filter(|route| route.header.kind == RouteType::Unicast).and_then(|route| {
            let device = route.attributes.iter().find_map(output_device)?;
            let gateway = route.attributes.iter().find_map(gateway);
            Some(Hop { device, address: gateway.unwrap_or(address) })
        }))
    }

    /// The room's permanent neighbours, on every device.
    pub async fn neighbours(&self) -> Result<Vec<Neighbour>, Error> {
        let mut neighbours = Vec::new();
        let mut found = self.handle.neighbours().get().execute();
        while let Some(message) = found.try_next().await? {
            neighbours.extend(own_neighbour(&message));
        }
        neighbours.sort();
        Ok(neighbours)
    }

    /// What is known of every hop.
    pub async fn standings(&self) -> Result<Vec<(Hop, Standing)>, Error> {
        let messages: Vec<NeighbourMessage> = self.handle.neighbours().get().execute().try_collect().await?;
        Ok(messages.iter().filter_map(standing).collect())
    }

    /// Makes a neighbour permanent, whatever it was.
    pub async fn add_neighbour(&self, neighbour: &Neighbour) -> Result<(), Error> {
        let request = self.handle.neighbours().add(neighbour.device, neighbour.address);
        let mut request = request.link_layer_address(&neighbour.mac).replace();
        request.message_mut().attributes.push(NeighbourAttribute::Protocol(PROTOCOL.into()));
        request.execute().await
    }

    /// Forgets a neighbour; one that does not exist is no error.
    pub async fn forget(&self, hop: Hop) -> Result<(), Error> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop.address);
        message.header.ifindex = hop.device;
        message.attributes.push(NeighbourAttribute::Destination(neighbour_address(hop.address)));
        unless_gone(self.handle.neighbours().del(message).execute().await)
    }

    /// Has the kernel resolve a neighbour as if there were a packet for it.
    pub async fn resolve(&self, hop: Hop) -> Result<(), Error> {
        let request = self.handle.neighbours().add(hop.device, hop.address);
        request.state(NeighbourState::None).flags(NeighbourFlags::Use).replace().execute().await
    }
}

/// Whether the error says that something is there already.
pub fn exists(error: &Error) -> bool {
    errno(error) == Some(EXISTS)
}

pub(super) fn unless_gone(outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if errno(&error).is_some_and(|code| GONE.contains(&code)) => Ok(()),
        other => other,
    }
}

fn errno(error: &Error) -> Option<i32> {
    match error {
        Error::NetlinkError(message) => message.code.map(|code| -code.get()),
        _ => None,
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn request(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message
}

fn route_message(route: &Route) -> RouteMessage {
    let mut message = request(family(route.prefix.addr()));
    let header = &mut message.header;
    header.destination_prefix_length = route.prefix.prefix_len();
    header.table = RouteHeader::RT_TABLE_MAIN;
    header.protocol = PROTOCOL.into();
    header.scope = RouteScope::Universe;
    header.kind = RouteType::Unicast;
    // The next hop is in no prefix of the device.
    header.flags = RouteFlags::Onlink;
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Destination(route.prefix.network().into()));
    attributes.push(RouteAttribute::Oif(route.device));
    attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
    attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    message
}

fn own_route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(PROTOCOL) || header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let unspecified = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0_u8; 4]),
        _ => IpAddr::from([0_u8; 16]),
    };
    let find = |pick: fn(&RouteAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(pick);
    let destination = find(|attribute| match attribute {
        RouteAttribute::Destination(address) => route_address(address),
        _ => None,
    });
    let source = find(|attribute| match attribute {
        RouteAttribute::PrefSource(address) => route_address(address),
        _ => None,
    });
    let prefix = IpNet::new(destination.unwrap_or(unspecified), header.destination_prefix_length).ok()?;
    let device = message.attributes.iter().find_map(output_device)?;
    Some(Route { prefix, device, gateway: find(gateway), source })
}

fn output_device(attribute: &RouteAttribute) -> Option<u32> {
    match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    }
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(address) => route_address(address),
        _ => None,
    }
}

fn route_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn neighbour_address(address: IpAddr) -> NeighbourAddress {
    match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    }
}

fn own_neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    let own = NeighbourAttribute::Protocol(PROTOCOL.into());
    if message.header.state != NeighbourState::Permanent || !message.attributes.contains(&own) {
        return None;
    }
    let mac = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(mac) => Some(mac.clone()),
        _ => None,
    });
    let hop = hop_of(message)?;
    Some(Neighbour { device: hop.device, address: hop.address, mac: mac.unwrap_or_default() })
}

fn hop_of(message: &NeighbourMessage) -> Option<Hop> {
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(IpAddr::from(*address)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(IpAddr::from(*address)),
        _ => None,
    })?;
    Some(Hop { device: message.header.ifindex, address })
}

fn standing(message: &NeighbourMessage) -> Option<(Hop, Standing)> {
    let standing = match message.header.state {
        NeighbourState::Reachable => Standing::Confirmed,
        NeighbourState::Permanent | NeighbourState::Noarp => Standing::Fixed,
        _ => Standing::Other,
    };
    Some((hop_of(message)?, standing))
}

fn link(message: &LinkMessage) -> Link {
    let mtu = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    let kernel_datapath = message.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.iter().any(|info| match info {
            LinkInfo::Kind(InfoKind::Other(kind)) => kind == "openvswitch",
            _ => false,
        }),
        _ => false,
    });
    let up = message.header.flags.contains(LinkFlags::Up);
    Link { index: message.header.index, mtu: mtu.unwrap_or_default(), up, kernel_datapath }
}

/// The address that a message is about.
pub fn address_of(message: &AddressMessage) -> Option<IpAddr> {
    let of = |pick: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(pick);
    // Of a link between two ends the other is what the kernel calls the address.
    of(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    })
    .or_else(|| {
        of(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })
}

fn change(news: News<'_>) -> Option<Change> {
    let News::Message(message) = news else { return Some(Change::Lost) };
    match message {
        RouteNetlinkMessage::NewLink(message) => {
            let running = message.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp);
            Some(Change::Link { index: message.header.index, running })
        }
        RouteNetlinkMessage::DelLink(message) => {
            Some(Change::Link { index: message.header.index, running: false })
        }
        RouteNetlinkMessage::NewAddress(message) => {
            Some(Change::Address { address: address_of(message), present: true })
        }
        RouteNetlinkMessage::DelAddress(message) => {
            Some(Change::Address { address: address_of(message), present: false })
        }
        RouteNetlinkMessage::DelRoute(message) => own_route(message).map(|_| Change::Route),
        RouteNetlinkMessage::NewNeighbour(message) => {
            standing(message).map(|(hop, standing)| Change::Neighbour(hop, standing))
        }
        _ => None,
    }
}
