//! What the host has on a device: its addresses, the routes that leave by it, and its permanent neighbours, in a form
//! that any device can take. Pure.
//!
//! Each is kept as the kernel's own message, cleaned of what the kernel says and does not take (a state, a counter),
//! with the device's index taken out: so everything that the kernel knows of it comes along, with its protocol,
//! metric, source, flags and lifetime.

use std::net::{IpAddr, Ipv6Addr};

use rtnetlink::packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressProtocol, AddressScope,
    CacheInfo,
};
use rtnetlink::packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::netlink::{PROTOCOL, Step};

/// Lifetime without an end, seconds (`INFINITY_LIFE_TIME`, `linux/if_addr.h`).
const FOR_EVER: u32 = u32::MAX;

/// The flags of an address that are somebody's wish, not the kernel's state (`linux/if_addr.h`).
const WISHES: AddressFlags = AddressFlags::Nodad
    .union(AddressFlags::Homeaddress)
    .union(AddressFlags::Managetempaddr)
    .union(AddressFlags::Noprefixroute)
    .union(AddressFlags::Mcautojoin);

/// What the host has on a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Belongings {
    /// In the kernel's order.
    pub addresses: Vec<AddressMessage>,
    /// In the kernel's order.
    pub routes: Vec<RouteMessage>,
    /// Permanent ones.
    pub neighbours: Vec<NeighbourMessage>,
}

/// A device, as far as it matters what is the host's on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Index.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Hardware address.
    pub mac: Vec<u8>,
}

impl Belongings {
    /// Sorts out what a dump of the kernel says of a device.
    ///
    /// # Errors
    /// Something there cannot be moved to another device: what it is, in words.
    pub fn sort_out(
        device: &Device,
        dump: impl IntoIterator<Item = RouteNetlinkMessage>,
    ) -> Result<Self, String> {
        let mut found = Self::default();
        for message in dump {
            match message {
                RouteNetlinkMessage::NewAddress(address) if address.header.index == device.index => {
                    found.addresses.extend(host_address(address, device));
                }
                RouteNetlinkMessage::NewRoute(route) => found.routes.extend(host_route(route, device)?),
                RouteNetlinkMessage::NewNeighbour(neighbour) if neighbour.header.ifindex == device.index => {
                    found.neighbours.extend(host_neighbour(neighbour));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.routes.is_empty() && self.neighbours.is_empty()
    }

    /// Adds what `other` has beside.
    pub fn merge(&mut self, other: Self) {
        let has = |known: &[AddressMessage], new: &AddressMessage| known.iter().any(|a| same_address(a, new));
        let new: Vec<_> = other.addresses.into_iter().filter(|a| !has(&self.addresses, a)).collect();
        self.addresses.extend(new);
        let new: Vec<_> = other.routes.into_iter().filter(|r| !self.routes.contains(r)).collect();
        self.routes.extend(new);
        let new: Vec<_> = other.neighbours.into_iter().filter(|n| !self.neighbours.contains(n)).collect();
        self.neighbours.extend(new);
    }

    /// Whether both are the same but for lifetimes and order.
    pub fn is_like(&self, other: &Self) -> bool {
        let lasting = |belongings: &Self| {
            let addresses =
                belongings.addresses.iter().map(|a| (a.header.family, a.header.prefix_len, address_of(a)));
            let mut addresses: Vec<_> = addresses.map(|key| format!("{key:?}")).collect();
            let mut routes = belongings.routes.clone();
            for route in &mut routes {
                route.attributes.retain(|attribute| !matches!(attribute, RouteAttribute::Expires(_)));
            }
            let mut routes: Vec<_> = routes.iter().map(|route| format!("{route:?}")).collect();
            let mut neighbours: Vec<_> = belongings.neighbours.iter().map(|n| format!("{n:?}")).collect();
            addresses.sort();
            routes.sort();
            neighbours.sort();
            (addresses, routes, neighbours)
        };
        lasting(self) == lasting(other)
    }

    /// Takes `seconds` off the lifetimes; what has none left is gone.
    pub fn age(&mut self, seconds: u32) {
        self.addresses.retain_mut(|address| {
            address.attributes.iter_mut().all(|attribute| match attribute {
                AddressAttribute::CacheInfo(info) => {
                    info.ifa_preferred = less(info.ifa_preferred, seconds);
                    info.ifa_valid = less(info.ifa_valid, seconds);
                    info.ifa_valid > 0
                }
                _ => true,
            })
        });
        self.routes.retain_mut(|route| {
            route.attributes.iter_mut().all(|attribute| match attribute {
                RouteAttribute::Expires(left) => {
                    *left = less(*left, seconds);
                    *left > 0
                }
                _ => true,
            })
        });
    }

    /// The steps that put the addresses on a device. One that is there already fails with `EEXIST`.
    pub fn addresses_on(&self, index: u32) -> Vec<Step> {
        let (six, four): (Vec<_>, Vec<_>) =
            self.addresses.iter().partition(|a| a.header.family == AddressFamily::Inet6);
        // The kernel puts an IPv6 address before those that are there, an IPv4 address behind them.
        let addresses = four.into_iter().chain(six.into_iter().rev());
        addresses.flat_map(|address| add_address(address, index)).collect()
    }

    /// The steps that put all the rest on a device that has the addresses. A neighbour that is there already is
    /// replaced; a route that is there already fails with `EEXIST`.
    pub fn rest_on(&self, index: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        for neighbour in &self.neighbours {
            let what = format!("add neighbour {}", neighbour_text(neighbour));
            let mut message = neighbour.clone();
            message.header.ifindex = index;
            let message = RouteNetlinkMessage::NewNeighbour(message);
            steps.push(Step { what, message, flags: NLM_F_CREATE | NLM_F_REPLACE });
        }
        // A gateway is looked up among the routes of the device: those that need none go first.
        let (far, near): (Vec<_>, Vec<_>) = self.routes.iter().partition(|route| has_gateway(route));
        for route in near.into_iter().chain(far) {
            let what = format!("add route {}", route_text(route));
            let message = RouteNetlinkMessage::NewRoute(with_device(route, index));
            steps.push(Step { what, message, flags: NLM_F_CREATE | NLM_F_APPEND });
        }
        steps
    }

    /// What `other` does not have.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.addresses.retain(|address| !other.addresses.iter().any(|known| same_address(known, address)));
        rest.routes.retain(|route| !other.routes.contains(route));
        rest.neighbours.retain(|neighbour| !other.neighbours.contains(neighbour));
        rest
    }

    /// The steps that take everything off a device. What is gone already fails with `ESRCH`, `ENOENT` or
    /// `EADDRNOTAVAIL`.
    pub fn take_off(&self, index: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        for route in &self.routes {
            let what = format!("remove route {}", route_text(route));
            let message = RouteNetlinkMessage::DelRoute(with_device(route, index));
            steps.push(Step { what, message, flags: 0 });
        }
        for neighbour in &self.neighbours {
            let what = format!("remove neighbour {}", neighbour_text(neighbour));
            let mut message = neighbour.clone();
            message.header.ifindex = index;
            steps.push(Step { what, message: RouteNetlinkMessage::DelNeighbour(message), flags: 0 });
        }
        // The last one first: with the first address of a prefix the kernel takes the others of it.
        for address in self.addresses.iter().rev() {
            let what = format!("remove address {}", address_text(address));
            let mut message = address.clone();
            message.header.index = index;
            message.attributes.retain(|attribute| {
                matches!(attribute, AddressAttribute::Address(_) | AddressAttribute::Local(_))
            });
            steps.push(Step { what, message: RouteNetlinkMessage::DelAddress(message), flags: 0 });
        }
        steps
    }
}

fn less(left: u32, seconds: u32) -> u32 {
    if left == FOR_EVER { left } else { left.saturating_sub(seconds) }
}

fn same_address(a: &AddressMessage, b: &AddressMessage) -> bool {
    (a.header.family, a.header.prefix_len, address_of(a))
        == (b.header.family, b.header.prefix_len, address_of(b))
}

/// An IPv6 address goes on without duplicate detection, which would silence it for a second or two, and gets its own
/// flags afterwards: it was the host's before.
fn add_address(address: &AddressMessage, index: u32) -> Vec<Step> {
    let what = format!("add address {}", address_text(address));
    let mut message = address.clone();
    message.header.index = index;
    let step = |message, flags| Step {
        what: what.clone(),
        message: RouteNetlinkMessage::NewAddress(message),
        flags,
    };
    let flags = flags_of(address);
    if address.header.family != AddressFamily::Inet6 || flags.contains(AddressFlags::Nodad) {
        return vec![step(message, NLM_F_CREATE | NLM_F_EXCL)];
    }
    let mut silent = message.clone();
    silent.attributes.retain(|attribute| !matches!(attribute, AddressAttribute::Flags(_)));
    silent.attributes.push(AddressAttribute::Flags(flags | AddressFlags::Nodad));
    vec![step(silent, NLM_F_CREATE | NLM_F_EXCL), step(message, NLM_F_REPLACE)]
}

/// An address, cleaned; `None` for one that every device has of its own, or that the kernel makes by itself.
fn host_address(mut address: AddressMessage, device: &Device) -> Option<AddressMessage> {
    let header = &mut address.header;
    let flags = address.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    let flags = flags.unwrap_or(AddressFlags::from_bits_retain(u32::from(header.flags.bits())));
    let six = header.family == AddressFamily::Inet6;
    let temporary = six && flags.contains(AddressFlags::Secondary);
    let made = address.attributes.contains(&AddressAttribute::Protocol(AddressProtocol::LinkLocal));
    let own = six && header.scope == AddressScope::Link && address_of(&address) == link_local(&device.mac);
    // The host room puts an egress address where the others are.
    let egress = AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL));
    if temporary
        || made
        || own
        || address.attributes.contains(&egress)
        || flags.contains(AddressFlags::Dadfailed)
    {
        return None;
    }
    let header = &mut address.header;
    (header.index, header.flags) = (0, AddressHeaderFlags::empty());
    address.attributes.retain_mut(|attribute| match attribute {
        AddressAttribute::Label(label) => *label != device.name,
        AddressAttribute::CacheInfo(info) => {
            *info = lifetimes(info.ifa_preferred, info.ifa_valid);
            true
        }
        AddressAttribute::Address(_)
        | AddressAttribute::Local(_)
        | AddressAttribute::Broadcast(_)
        | AddressAttribute::RoutePriority(_)
        | AddressAttribute::Protocol(_) => true,
        _ => false,
    });
    address.attributes.push(AddressAttribute::Flags(flags & WISHES));
    Some(address)
}

fn lifetimes(preferred: u32, valid: u32) -> CacheInfo {
    let mut info = CacheInfo::default();
    (info.ifa_preferred, info.ifa_valid) = (preferred, valid);
    info
}

/// A route that leaves by the device, cleaned.
fn host_route(mut route: RouteMessage, device: &Device) -> Result<Option<RouteMessage>, String> {
    let leaves = route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Oif(index) => *index == device.index,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == device.index),
        _ => false,
    });
    let header = &mut route.header;
    let unicast = header.kind == RouteType::Unicast && !header.flags.contains(RouteFlags::Cloned);
    if !leaves || !unicast || is_link_local_prefix(&route) {
        return Ok(None);
    }
    if route.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::NhId(_))) {
        return Err(format!(
            "route {} of {} is made of a nexthop object, which belongs to its device: make it a plain route",
            route_text(&route),
            device.name
        ));
    }
    let header = &mut route.header;
    header.flags &= RouteFlags::Onlink;
    let expires = route.attributes.iter().find_map(|attribute| match attribute {
        // In ticks of which a second has a hundred (`USER_HZ`).
        RouteAttribute::CacheInfo(info) if info.expires > 0 => Some(info.expires / 100),
        _ => None,
    });
    route.attributes.retain_mut(|attribute| match attribute {
        RouteAttribute::Oif(index) => {
            *index = 0;
            true
        }
        RouteAttribute::MultiPath(hops) => {
            for hop in hops {
                hop.flags &= RouteNextHopFlags::Onlink;
                if hop.interface_index == device.index {
                    hop.interface_index = 0;
                }
            }
            true
        }
        RouteAttribute::Destination(_)
        | RouteAttribute::Source(_)
        | RouteAttribute::Gateway(_)
        | RouteAttribute::Via(_)
        | RouteAttribute::PrefSource(_)
        | RouteAttribute::Priority(_)
        | RouteAttribute::Table(_)
        | RouteAttribute::Metrics(_)
        | RouteAttribute::Realm(_)
        | RouteAttribute::Encap(_)
        | RouteAttribute::EncapType(_)
        | RouteAttribute::Preference(_) => true,
        _ => false,
    });
    route.attributes.extend(expires.map(RouteAttribute::Expires));
    Ok(Some(route))
}

/// `fe80::/64`, which every device has of its own.
fn is_link_local_prefix(route: &RouteMessage) -> bool {
    let prefix = RouteAttribute::Destination(RouteAddress::Inet6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)));
    route.attributes.contains(&prefix) && !has_gateway(route)
}

fn host_neighbour(mut neighbour: NeighbourMessage) -> Option<NeighbourMessage> {
    if neighbour.header.state != NeighbourState::Permanent {
        return None;
    }
    neighbour.header.ifindex = 0;
    neighbour.attributes.retain(|attribute| {
        matches!(
            attribute,
            NeighbourAttribute::Destination(_)
                | NeighbourAttribute::LinkLayerAddress(_)
                | NeighbourAttribute::Protocol(_)
        )
    });
    Some(neighbour)
}

fn with_device(route: &RouteMessage, index: u32) -> RouteMessage {
    let mut route = route.clone();
    for attribute in &mut route.attributes {
        match attribute {
            RouteAttribute::Oif(own) => *own = index,
            RouteAttribute::MultiPath(hops) => {
                for hop in hops.iter_mut().filter(|hop| hop.interface_index == 0) {
                    hop.interface_index = index;
                }
            }
            _ => {}
        }
    }
    route
}

fn has_gateway(route: &RouteMessage) -> bool {
    route.attributes.iter().any(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::MultiPath(_)
        )
    })
}

fn flags_of(address: &AddressMessage) -> AddressFlags {
    let flags = address.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    flags.unwrap_or(AddressFlags::empty())
}

/// The address itself: `IFA_LOCAL` where there is one (rtnetlink(7)).
pub fn address_of(address: &AddressMessage) -> Option<IpAddr> {
    let local = address.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    local.or_else(|| {
        address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })
}

/// The link-local address that the kernel makes of a hardware address (RFC 4291, appendix A).
fn link_local(mac: &[u8]) -> Option<IpAddr> {
    let [a, b, c, d, e, f] = *mac else { return None };
    let word = |high: u8, low: u8| u16::from_be_bytes([high, low]);
    let id = [word(a ^ 2, b), word(c, 0xff), word(0xfe, d), word(e, f)];
    Some(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, id[0], id[1], id[2], id[3])))
}

/// As people write it: `192.0.2.1/24`.
pub fn address_text(address: &AddressMessage) -> String {
    let ip = address_of(address).map_or_else(|| "?".to_owned(), |ip| ip.to_string());
    format!("{ip}/{}", address.header.prefix_len)
}

/// As people write it: `default via 192.0.2.254 metric 100`.
pub fn route_text(route: &RouteMessage) -> String {
    let find = |pick: fn(&RouteAttribute) -> Option<String>| route.attributes.iter().find_map(pick);
    let destination = find(|attribute| match attribute {
        RouteAttribute::Destination(address) => route_address(address),
        _ => None,
    });
    let via = find(|attribute| match attribute {
        RouteAttribute::Gateway(address) => route_address(address).map(|gateway| format!(" via {gateway}")),
        _ => None,
    });
    let metric = find(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(format!(" metric {metric}")),
        _ => None,
    });
    let destination = destination.map_or_else(
        || "default".to_owned(),
        |address| format!("{address}/{}", route.header.destination_prefix_length),
    );
    format!("{destination}{}{}", via.unwrap_or_default(), metric.unwrap_or_default())
}

fn route_address(address: &RouteAddress) -> Option<String> {
    match address {
        RouteAddress::Inet(ip) => Some(ip.to_string()),
        RouteAddress::Inet6(ip) => Some(ip.to_string()),
        _ => None,
    }
}

/// As people write it.
pub fn neighbour_text(neighbour: &NeighbourMessage) -> String {
    use rtnetlink::packet_route::neighbour::NeighbourAddress;
    let ip = neighbour.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(ip.to_string()),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(ip.to_string()),
        _ => None,
    });
    ip.unwrap_or_else(|| "?".to_owned())
}
