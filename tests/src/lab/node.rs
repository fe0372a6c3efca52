//! One node of a lab: its namespace, its folder and its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use super::names::Layout;
use super::wiring::Wiring;

/// The bridge that holds the node's wire and its address, and forwards with NORMAL.
pub const BRIDGE_PHYSICAL: &str = "br-phy";
/// The bridge that Fabric programs.
pub const BRIDGE_FABRIC: &str = "br-fabric";
/// Number that the wire's own host has in the place of a node's.
pub const OUTSIDE: u8 = 254;
/// Number that the office's router has on the wire.
pub const ROUTER: u8 = 253;

/// A node `nN`.
#[derive(Debug, Clone)]
pub struct Node {
    /// N.
    pub index: usize,
    /// `nN`, its name in the world.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Its folder.
    pub directory: PathBuf,
    /// How it is wired to the office, where the lab has one.
    pub wiring: Option<Wiring>,
}

impl Node {
    /// Node `nN` of the lab.
    pub fn new(layout: &Layout, index: usize, wiring: Option<Wiring>) -> Self {
        Self {
            index,
            name: format!("n{index}"),
            namespace: layout.name.node(index),
            directory: layout.node(index),
            wiring,
        }
    }

    /// The office's switch, which has a namespace and daemons as a node has, and no agent.
    pub fn office(layout: &Layout) -> Self {
        let namespace = layout.name.office("office");
        Self { index: 0, name: "office".to_owned(), namespace, directory: layout.office(), wiring: None }
    }

    /// Whether the lab puts the node's address on [`BRIDGE_PHYSICAL`], with the wire as its port.
    pub fn is_on_wire(&self) -> bool {
        self.wiring != Some(Wiring::OneNic)
    }

    /// `192.168.77.N` and `fd77::N`.
    pub fn addresses(&self) -> [IpAddr; 2] {
        addresses(u8::try_from(self.index).unwrap_or(OUTSIDE))
    }

    /// Socket of the node's `ovsdb-server`.
    pub fn database(&self) -> PathBuf {
        self.directory.join("db.sock")
    }

    /// OpenFlow socket of one of its bridges.
    pub fn openflow(&self, bridge: &str) -> PathBuf {
        self.directory.join(format!("{bridge}.mgmt"))
    }

    /// Folder of the agent's sockets.
    pub fn agent(&self) -> PathBuf {
        self.directory.join("agent")
    }

    /// Socket that `fabric-cni` asks.
    pub fn cni_socket(&self) -> PathBuf {
        self.agent().join("cni.sock")
    }

    /// Socket that people and tools ask.
    pub fn agent_socket(&self) -> PathBuf {
        self.agent().join("agent.sock")
    }

    /// The agent's configuration.
    pub fn config(&self) -> PathBuf {
        self.directory.join("node.yaml")
    }

    /// What the agent says.
    pub fn agent_log(&self) -> PathBuf {
        self.directory.join("agent.log")
    }
}

/// The addresses of a place on the wire. The IPv6 address shows the same digits as the IPv4 address.
pub fn addresses(place: u8) -> [IpAddr; 2] {
    let digits = u16::from(place / 100) << 8 | u16::from(place / 10 % 10) << 4 | u16::from(place % 10);
    [Ipv4Addr::new(192, 168, 77, place).into(), Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, digits).into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_show_the_same_digits() {
        assert_eq!(addresses(12).map(|a| a.to_string()), ["192.168.77.12", "fd77::12"]);
        assert_eq!(addresses(OUTSIDE).map(|a| a.to_string()), ["192.168.77.254", "fd77::254"]);
    }
}
