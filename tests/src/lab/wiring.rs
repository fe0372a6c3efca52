//! How nodes are wired to an office.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Name that Networks and node files give the company's network.
pub const PHYSICAL: &str = "office";
/// The node's end of the wire, inside its namespace.
pub const UPLINK: &str = "eth0";

/// How nodes are wired to an office.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// The wire carries addresses and tunnels, a second NIC the VLANs.
    SecondNic,
    /// The only NIC carries addresses, tunnels and VLANs. The untagged network of the office is the wire then.
    OneNic,
}

impl Wiring {
    /// The node's NIC that leads into the office.
    #[must_use]
    pub const fn nic(self) -> &'static str {
        match self {
            Wiring::SecondNic => "eth1",
            Wiring::OneNic => UPLINK,
        }
    }

    /// Fields of the agent's configuration.
    pub(super) fn config(self) -> Map<String, Value> {
        let networks = json!({ PHYSICAL: { "nic": self.nic(), "allowManagement": self == Wiring::OneNic } });
        let mut config = Map::from_iter([("physicalNetworks".to_owned(), networks)]);
        if self == Wiring::OneNic {
            // The interface goes from the NIC to its bridge, with the address.
            config.insert("tunnels".to_owned(), json!({ "cidr": "192.168.77.0/24" }));
        }
        config
    }
}
