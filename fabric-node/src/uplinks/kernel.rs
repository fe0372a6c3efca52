//! The kernel's side: devices, what the host has on them, and moving that from one to another at once.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use rtnetlink::LinkUnspec;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::neighbour::{NeighbourAttribute, NeighbourMessage};
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use tokio::time::{Instant, sleep};

use super::belongings::{Belongings, Device, address_of};
use super::record::Moment;
use crate::netlink::{Netlink, Step, StepError};

/// Settings of the NIC that its bridge takes over, below `/proc/sys/net` (the kernel's `networking/ip-sysctl.rst`).
const SETTINGS: [(&str, &[&str]); 2] = [
    (
        "ipv4",
        &["rp_filter", "arp_ignore", "arp_announce", "arp_filter", "accept_local", "proxy_arp", "forwarding"],
    ),
    ("ipv6", &["disable_ipv6", "accept_ra", "autoconf", "use_tempaddr", "forwarding", "proxy_ndp"]),
];

/// Alias of the devices of Fabric's bridges (`ip link` shows it).
const ALIAS: &str = "fabric: host addresses of a physical network";

/// Time that the kernel may take to receive for an address that is there: some milliseconds.
const RECEIVED: Duration = Duration::from_millis(500);

/// Time between two looks at that.
const LOOK: Duration = Duration::from_millis(1);

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Index, name, hardware address.
    pub device: Device,
    /// MTU, bytes.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Index of what it is a part of: a Linux bridge, a bond, the kernel datapath of Open vSwitch.
    pub master: Option<u32>,
    /// Whether its alias says that it is the device of a bridge of Fabric's: for the time that the database is away.
    pub is_ours: bool,
}

/// What the ways to manage this host are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ways {
    /// Devices with a default route.
    defaults: BTreeSet<u32>,
    /// Devices with an address that others can reach.
    addressed: BTreeSet<u32>,
}

impl Ways {
    /// Why the device is the only way to manage this host, if it is.
    pub fn only_by(&self, index: u32) -> Option<&'static str> {
        let only = |devices: &BTreeSet<u32>| devices.len() == 1 && devices.contains(&index);
        if only(&self.defaults) {
            Some("it has the only default route")
        } else if only(&self.addressed) {
            Some("it has the only address")
        } else {
            None
        }
    }
}

/// Requests to the kernel. They take less than a millisecond each, so that nobody need wait beside them.
#[derive(Debug)]
pub struct Kernel {
    netlink: Netlink,
}

impl Kernel {
    /// Opens a socket in the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open_strict()? })
    }

    /// The device of that name, if there is one.
    pub fn link(&mut self, name: &str) -> io::Result<Option<Link>> {
        Ok(self.netlink.link(name)?.map(|message| link(&message)))
    }

    /// Name of the device of that index.
    pub fn name(&mut self, index: u32) -> io::Result<Option<String>> {
        let all = self.netlink.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        Ok(all.iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(message) if message.header.index == index => {
                Some(link(message).device.name)
            }
            _ => None,
        }))
    }

    /// What the host has on a device.
    ///
    /// # Errors
    /// What cannot be read, or cannot be moved.
    pub fn belongings(&mut self, device: &Device) -> Result<Belongings, String> {
        let told = |error: io::Error| format!("rtnetlink: cannot read what {} has: {error}", device.name);
        let mut address = AddressMessage::default();
        address.header.index = device.index;
        let mut dump = self.netlink.dump(RouteNetlinkMessage::GetAddress(address)).map_err(told)?;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut route = RouteMessage::default();
            route.header.address_family = family;
            route.attributes.push(RouteAttribute::Oif(device.index));
            dump.extend(self.netlink.dump(RouteNetlinkMessage::GetRoute(route)).map_err(told)?);
        }
        let mut neighbour = NeighbourMessage::default();
        neighbour.attributes.push(NeighbourAttribute::IfIndex(device.index));
        dump.extend(self.netlink.dump(RouteNetlinkMessage::GetNeighbour(neighbour)).map_err(told)?);
        Belongings::sort_out(device, dump)
    }

    /// The ways to manage this host.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn ways(&mut self) -> io::Result<Ways> {
        let mut ways = Ways::default();
        let loopback = self.link("lo")?.map(|link| link.device.index);
        for message in self.netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))? {
            let RouteNetlinkMessage::NewAddress(address) = message else { continue };
            let index = address.header.index;
            if address.header.scope == AddressScope::Universe && Some(index) != loopback {
                ways.addressed.insert(index);
            }
        }
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            for message in self.netlink.dump(RouteNetlinkMessage::GetRoute(request))? {
                let RouteNetlinkMessage::NewRoute(route) = message else { continue };
                if route.header.destination_prefix_length == 0 && route.header.kind == RouteType::Unicast {
                    ways.defaults.extend(devices(&route));
                }
            }
        }
        Ok(ways)
    }

    /// Switches the device of a bridge of Fabric's on with an MTU, and marks it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn bring_up(&mut self, device: &Device, mtu: u32) -> Result<(), StepError> {
        let message = LinkUnspec::new_with_index(device.index).mtu(mtu).alias(ALIAS).up().build();
        let what = format!("switch {} on with MTU {mtu}", device.name);
        self.netlink.apply(vec![Step { what, message: RouteNetlinkMessage::SetLink(message), flags: 0 }])
    }

    /// Switches a device on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn switch_on(&mut self, device: &Device) -> Result<(), StepError> {
        let message = LinkUnspec::new_with_index(device.index).up().build();
        let what = format!("switch {} on", device.name);
        self.netlink.apply(vec![Step { what, message: RouteNetlinkMessage::SetLink(message), flags: 0 }])
    }

    /// Moves belongings from one device to another. They go off the one when the other has all of them, so that the
    /// host has them at any time, whenever this ends.
    ///
    /// # Errors
    /// What the other device cannot have: nothing has moved.
    pub async fn shift(
        &mut self,
        belongings: &Belongings,
        from: Option<&Device>,
        to: &Device,
    ) -> Result<(), Vec<String>> {
        let had = self.belongings(to).map_err(|error| vec![error])?;
        let mut failures = self.apply(belongings.addresses_on(to.index));
        if failures.is_empty() {
            self.received(belongings, to).await;
            failures = self.apply(belongings.rest_on(to.index));
        }
        if !failures.is_empty() {
            failures.extend(self.apply(belongings.without(&had).take_off(to.index)));
            return Err(failures);
        }
        let steps = from.map(|from| belongings.take_off(from.index)).unwrap_or_default();
        let kept = self.apply(steps);
        kept.iter().for_each(|kept| tracing::warn!("{}: {kept}", to.name));
        Ok(())
    }

    /// Waits until the device takes packets to its IPv6 addresses: the kernel sees to that a little later. An answer
    /// of a neighbour that came before would be lost, and be asked for again after a second.
    async fn received(&mut self, belongings: &Belongings, device: &Device) {
        let six = belongings.addresses.iter().filter_map(address_of).filter(IpAddr::is_ipv6);
        let wanted: BTreeSet<IpAddr> = six.collect();
        let end = Instant::now() + RECEIVED;
        while !self.locals(device).is_ok_and(|locals| wanted.is_subset(&locals)) && Instant::now() < end {
            sleep(LOOK).await;
        }
    }

    /// The IPv6 addresses that a device takes packets to.
    fn locals(&mut self, device: &Device) -> io::Result<BTreeSet<IpAddr>> {
        let mut request = RouteMessage::default();
        request.header.address_family = AddressFamily::Inet6;
        request.attributes.push(RouteAttribute::Oif(device.index));
        let dump = self.netlink.dump(RouteNetlinkMessage::GetRoute(request))?;
        let local = dump.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route)
                if route.header.kind == RouteType::Local && devices(&route).contains(&device.index) =>
            {
                route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Destination(RouteAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
                    _ => None,
                })
            }
            _ => None,
        });
        Ok(local.collect())
    }

    /// Carries out steps; what fails, but for what was as it should be.
    fn apply(&mut self, steps: Vec<Step>) -> Vec<String> {
        let benign = [Errno::EEXIST, Errno::ESRCH, Errno::ENOENT, Errno::EADDRNOTAVAIL];
        let failures = self.netlink.apply_all(steps);
        let failures =
            failures.into_iter().filter(|failure| !benign.iter().any(|number| failure.is(*number)));
        failures.map(|failure| failure.to_string()).collect()
    }

    /// Whether a device has an address that the kernel still probes for duplicates.
    pub fn probes(&mut self, device: &Device) -> io::Result<bool> {
        let mut request = AddressMessage::default();
        request.header.index = device.index;
        let dump = self.netlink.dump(RouteNetlinkMessage::GetAddress(request))?;
        Ok(dump.iter().any(|message| match message {
            RouteNetlinkMessage::NewAddress(address) => {
                address.header.index == device.index
                    && address_of(address).is_some_and(|ip| ip.is_ipv6())
                    && address.attributes.iter().any(|attribute| match attribute {
                        AddressAttribute::Flags(flags) => flags.contains(AddressFlags::Tentative),
                        _ => false,
                    })
            }
            _ => false,
        }))
    }
}

/// Gives a bridge's device the settings of its NIC.
pub fn copy_settings(from: &str, to: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (family, keys) in SETTINGS {
        let conf = Path::new("/proc/sys/net").join(family).join("conf");
        for key in keys {
            let (source, target) = (conf.join(from).join(key), conf.join(to).join(key));
            // A kernel without the family, or without the setting, has nothing to copy.
            let (Ok(wanted), Ok(found)) = (fs::read_to_string(source), fs::read_to_string(&target)) else {
                continue;
            };
            if wanted != found
                && let Err(error) = fs::write(&target, &wanted)
            {
                problems.push(format!("setting {} to {}: {error}", target.display(), wanted.trim()));
            }
        }
    }
    problems
}

/// This moment of the running kernel.
pub fn moment() -> Moment {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let uptime = read("/proc/uptime");
    let seconds = uptime.split('.').next().and_then(|seconds| seconds.parse().ok());
    Moment {
        boot: read("/proc/sys/kernel/random/boot_id").trim().to_owned(),
        uptime: seconds.unwrap_or_default(),
    }
}

fn devices(route: &RouteMessage) -> Vec<u32> {
    route
        .attributes
        .iter()
        .flat_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => vec![*index],
            RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
            _ => Vec::new(),
        })
        .collect()
}

fn link(message: &LinkMessage) -> Link {
    let mut link = Link {
        device: Device { index: message.header.index, name: String::new(), mac: Vec::new() },
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        master: None,
        is_ours: false,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.device.name.clone_from(name),
            LinkAttribute::Address(mac) => link.device.mac.clone_from(mac),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::IfAlias(alias) => link.is_ours = alias == ALIAS,
            LinkAttribute::Controller(master) => link.master = Some(*master),
            _ => {}
        }
    }
    link
}
