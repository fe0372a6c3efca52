//! The ways between two nodes that throughput is measured on: a VLAN, and each encapsulation.

use serde_json::{Value, json};

/// Name that Networks and node files give the wire of VLANs.
pub const PHYSICAL: &str = "lan";

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A VLAN of a physical network.
    Vlan,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GRE with a key (RFC 2890).
    Gre,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Vlan, Way::Vxlan, Way::Geneve, Way::Gre];

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Way::Vlan => "VLAN",
            Way::Vxlan => "VXLAN",
            Way::Geneve => "Geneve",
            Way::Gre => "GRE",
        }
    }

    /// Its name in manifests, and of Open vSwitch's interfaces.
    pub const fn word(self) -> &'static str {
        match self {
            Way::Vlan => "vlan",
            Way::Vxlan => "vxlan",
            Way::Geneve => "geneve",
            Way::Gre => "gre",
        }
    }

    /// Its place in [`Way::ALL`], from 1: part of addresses, and identifier of its overlay.
    pub const fn number(self) -> u8 {
        match self {
            Way::Vlan => 1,
            Way::Vxlan => 2,
            Way::Geneve => 3,
            Way::Gre => 4,
        }
    }

    /// Its VLAN; of an overlay, that of its ports beside Fabric.
    pub fn tag(self) -> u16 {
        100 + u16::from(self.number())
    }

    /// MTU of its pods, bytes, on a wire of 1500.
    pub const fn mtu(self) -> u32 {
        match self {
            Way::Vlan => 1500,
            Way::Vxlan | Way::Geneve => 1450,
            Way::Gre => 1458,
        }
    }

    /// Reference of its pod on node `nN`.
    pub fn pod(self, node: usize) -> String {
        format!("default/{}-{node}", self.word())
    }

    /// The manifest of its Network.
    pub fn network(self) -> Value {
        let number = self.number();
        let cidrs = json!([format!("10.9{number}.0.0/16"), format!("fd9{number}::/64")]);
        let spec = match self {
            Way::Vlan => {
                json!({ "mode": "underlay", "physicalNetwork": PHYSICAL, "vlan": self.tag(), "cidrs": cidrs })
            }
            _ => json!({ "mode": "overlay", "encap": self.word(), "vni": number, "cidrs": cidrs }),
        };
        json!({
            "apiVersion": "fabric.io/v1alpha1", "kind": "Network",
            "metadata": { "name": self.word() }, "spec": spec,
        })
    }
}
