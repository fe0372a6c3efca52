//! An office beside the nodes: the network of a company that pods are to be part of.
//!
//! A further Open vSwitch plays the company's physical switch, with a trunk to a NIC of each node; a namespace plays
//! its router, with a leg in VLAN 100, VLAN 200, the untagged network, and on the wire where the nodes' addresses are;
//! two more are servers, one in each VLAN. The router knows no way to any overlay.
//!
//! | network | addresses | router | server |
//! |---|---|---|---|
//! | VLAN 100 | 10.100.0.0/16, fd10::/64 | 10.100.0.1, fd10::1 | 10.100.0.10, fd10::10 |
//! | VLAN 200 | 10.200.0.0/16, fd20::/64 | 10.200.0.1, fd20::1 | 10.200.0.10, fd20::10 |
//! | untagged | 10.50.0.0/16, fd50::/64 | 10.50.0.1, fd50::1 | |
//! | wire | 192.168.77.0/24, fd77::/64 | 192.168.77.253, fd77::253 | |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::error::LabError;
use super::names::{LabName, Layout, OFFICE};
use super::node::{Node, ROUTER, addresses};
use super::wire::{self, MTU, plain_checksums, quiet};
pub use super::wiring::PHYSICAL;
use super::wiring::{UPLINK, Wiring};
use super::{netns, switch};

/// The bridge of the physical switch.
pub const SWITCH: &str = "switch";
/// The interface of a server.
pub const SERVER_NIC: &str = "eth0";

/// A network of the office.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lan {
    /// VLAN 100.
    Vlan100,
    /// VLAN 200.
    Vlan200,
    /// Without a tag.
    Untagged,
}

impl Lan {
    /// All of them.
    pub const ALL: [Lan; 3] = [Lan::Vlan100, Lan::Vlan200, Lan::Untagged];

    /// Its VLAN.
    #[must_use]
    pub const fn vlan(self) -> Option<u16> {
        match self {
            Lan::Vlan100 => Some(100),
            Lan::Vlan200 => Some(200),
            Lan::Untagged => None,
        }
    }

    /// The addresses of a host of it: 1 is the router, 10 the server.
    #[must_use]
    pub fn host(self, number: u8) -> [IpAddr; 2] {
        let (four, six) = match self {
            Lan::Vlan100 => (100, 0xfd10),
            Lan::Vlan200 => (200, 0xfd20),
            Lan::Untagged => (50, 0xfd50),
        };
        let digits = match addresses(number) {
            [_, IpAddr::V6(v6)] => v6.segments()[7],
            _ => 0,
        };
        [Ipv4Addr::new(10, four, 0, number).into(), Ipv6Addr::new(six, 0, 0, 0, 0, 0, 0, digits).into()]
    }

    /// The router's interface in it, and the switch's port to that.
    #[must_use]
    pub const fn leg(self) -> &'static str {
        match self {
            Lan::Vlan100 => "vlan100",
            Lan::Vlan200 => "vlan200",
            Lan::Untagged => "untagged",
        }
    }

    /// The place of its server.
    #[must_use]
    pub const fn server(self) -> Option<&'static str> {
        match self {
            Lan::Vlan100 => Some("server100"),
            Lan::Vlan200 => Some("server200"),
            Lan::Untagged => None,
        }
    }
}

/// A cable from a port of the switch to a NIC.
struct Cable<'a> {
    port: String,
    /// VLAN of an access port; a trunk carries VLANs 100 and 200 with a tag.
    access: Option<Lan>,
    namespace: &'a str,
    nic: &'a str,
}

/// Makes the office's namespaces, cables and switch.
///
/// # Errors
/// With what the system or the switch refused.
pub fn lay(layout: &Layout, nodes: &[Node]) -> Result<(), LabError> {
    let name = &layout.name;
    let places = OFFICE.map(|place| name.office(place));
    let [office, router, ..] = &places;
    netns::add(places.iter().map(String::as_str))?;
    places.iter().try_for_each(|place| quiet(place))?;
    let wire = name.wire();
    let one_nic = nodes.iter().any(|node| node.wiring == Some(Wiring::OneNic));
    let servers = Lan::ALL.map(|lan| lan.server().map(|server| (lan, name.office(server))));
    let mut cables: Vec<Cable<'_>> = Vec::new();
    for node in nodes {
        let nic = node.wiring.map_or(UPLINK, Wiring::nic);
        cables.push(Cable { port: node.name.clone(), access: None, namespace: &node.namespace, nic });
    }
    for (lan, server) in servers.iter().flatten() {
        let port = lan.server().unwrap_or_default().to_owned();
        cables.push(Cable { port, access: Some(*lan), namespace: server, nic: SERVER_NIC });
    }
    for lan in Lan::ALL {
        cables.push(Cable {
            port: lan.leg().to_owned(),
            access: Some(lan),
            namespace: router,
            nic: lan.leg(),
        });
    }
    if one_nic {
        cables.push(Cable {
            port: "wire".to_owned(),
            access: Some(Lan::Untagged),
            namespace: &wire,
            nic: "office",
        });
    }
    connect(office, &cables)?;
    start_switch(layout, &cables)?;
    give_addresses(name, router, &servers)?;
    join_wire(&wire, router, one_nic)?;
    let alone = nodes.iter().filter(|node| !node.is_on_wire());
    alone.into_iter().try_for_each(|node| {
        netns::batch(&node.namespace, &format!("link set lo up\n{}", switch::address_lines(node, UPLINK)))
    })
}

fn connect(office: &str, cables: &[Cable<'_>]) -> Result<(), LabError> {
    let mut lines = "link set lo up\n".to_owned();
    for Cable { port, namespace, nic, .. } in cables {
        lines +=
            &format!("link add {port} mtu {MTU} type veth peer name {nic} mtu {MTU} netns {namespace}\n");
        // What comes in is the switch's business, not the kernel's.
        lines += &format!("link set {port} addrgenmode none\nlink set {port} arp off up\n");
    }
    netns::batch(office, &lines)?;
    cables.iter().try_for_each(|Cable { port, namespace, nic, .. }| {
        netns::batch(namespace, &format!("link set {nic} up\n"))?;
        plain_checksums(office, port)?;
        plain_checksums(namespace, nic)
    })
}

fn start_switch(layout: &Layout, cables: &[Cable<'_>]) -> Result<(), LabError> {
    let mut words =
        format!("add-br {SWITCH} -- set Bridge {SWITCH} datapath_type=netdev fail_mode=standalone");
    for Cable { port, access, .. } in cables {
        words += &format!(" -- add-port {SWITCH} {port}");
        match access {
            Some(lan) => {
                words += &lan.vlan().map_or(String::new(), |vlan| format!(" tag={vlan}"));
            }
            None => words += " trunks=0,100,200",
        }
    }
    let switch = Node::office(layout);
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    switch::make_database(&switch, &words)?;
    switch::run_vswitchd(&switch)?;
    switch::wait_for(&switch, SWITCH)
}

fn give_addresses(name: &LabName, router: &str, servers: &[Option<(Lan, String)>]) -> Result<(), LabError> {
    let mut lines = "link set lo up\n".to_owned();
    for lan in Lan::ALL {
        lines += &with_addresses(lan.host(1), 16, lan.leg());
    }
    netns::batch(router, &lines)?;
    for (lan, server) in servers.iter().flatten() {
        let ways = lan.host(1).map(|gateway| format!("route add default via {gateway}\n")).concat();
        netns::batch(
            server,
            &format!("link set lo up\n{}{ways}", with_addresses(lan.host(10), 16, SERVER_NIC)),
        )?;
    }
    // Hosts on the wire find the VLANs by the router.
    let ways = [Lan::Vlan100, Lan::Vlan200].map(|lan| {
        let [[v4, v6], [router4, router6]] = [lan.host(0), addresses(ROUTER)];
        format!("route add {v4}/16 via {router4}\nroute add {v6}/64 via {router6}\n")
    });
    let leg = format!(
        "link add router mtu {MTU} type veth peer name wire mtu {MTU} netns {router}\nlink set router master {} up\n",
        wire::BRIDGE
    );
    netns::batch(&name.wire(), &(leg + &ways.concat()))?;
    netns::batch(router, &with_addresses(addresses(ROUTER), 24, "wire"))
}

fn join_wire(wire: &str, router: &str, one_nic: bool) -> Result<(), LabError> {
    plain_checksums(wire, "router")?;
    plain_checksums(router, "wire")?;
    if one_nic {
        // The untagged network is the wire, where the router has a leg already.
        netns::batch(wire, &format!("link set office master {} up\n", wire::BRIDGE))?;
        netns::batch(router, &format!("link set {} down\n", Lan::Untagged.leg()))?;
    }
    Ok(())
}

fn with_addresses([v4, v6]: [IpAddr; 2], width: u8, device: &str) -> String {
    format!("addr add {v4}/{width} dev {device}\naddr add {v6}/64 dev {device} nodad\nlink set {device} up\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_show_the_same_digits_in_both_families() {
        assert_eq!(Lan::Vlan100.host(10).map(|ip| ip.to_string()), ["10.100.0.10", "fd10::10"]);
        assert_eq!(Lan::Untagged.host(1).map(|ip| ip.to_string()), ["10.50.0.1", "fd50::1"]);
    }
}
