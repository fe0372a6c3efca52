//! The physical networks that a node is on.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{device_fault, is_label};

/// Longest name of a physical network, characters: its bridge is `br-NAME`, and a device's name has 15.
pub const MAX_PHYSICAL: usize = 12;

/// Names whose patch port (`fabric-NAME`) would be called like a tunnel port.
const TUNNELS: [&str; 3] = ["vxlan", "geneve", "gre"];

/// A physical network, as this node reaches it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhysicalNetwork {
    /// The NIC. It becomes a port of the bridge `br-NAME`, and the host's addresses and routes on it move along to
    /// the bridge. Where an administrator's own bridge `br-NAME` holds the NIC already, that one is used as it is.
    pub nic: String,
    /// Whether a NIC may be moved that carries the only way to manage this node: the only default route, or the only
    /// address. Default: `false`.
    #[serde(default)]
    pub allow_management: bool,
}

impl PhysicalNetwork {
    /// Name of the bridge of a physical network.
    #[must_use]
    pub fn bridge(name: &str) -> String {
        format!("br-{name}")
    }

    /// Name of the port of Fabric's bridge that leads to the bridge of a physical network.
    #[must_use]
    pub fn inner_port(name: &str) -> String {
        format!("to-{name}")
    }

    /// Name of the port of a physical network's bridge that leads to Fabric's bridge.
    #[must_use]
    pub fn outer_port(name: &str) -> String {
        format!("fabric-{name}")
    }
}

/// The first field that cannot be, and why. `bridge` is the one that carries the pods.
pub(super) fn fault(
    networks: &BTreeMap<String, PhysicalNetwork>,
    bridge: &str,
) -> Option<(&'static str, String)> {
    let mut nics: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, network) in networks {
        let nic = network.nic.as_str();
        let own = PhysicalNetwork::bridge(name);
        let fault = name_fault(name)
            .or_else(|| device_fault(nic).map(|fault| format!("{name}: nic: {fault}")))
            .or_else(|| {
                (own == bridge).then(|| {
                    format!("{name}: its bridge {own} would be the one that carries the pods; give another name, or another `bridge`")
                })
            })
            .or_else(|| {
                (nic == own || nic == bridge)
                    .then(|| format!("{name}: nic: {nic} is a bridge of Fabric's; give the NIC itself"))
            })
            .or_else(|| {
                let other = nics.insert(nic, name)?;
                Some(format!("{name} and {other} both name the NIC {nic}; a NIC leads to one network: give its VLANs in the Networks"))
            });
        if let Some(fault) = fault {
            return Some(("physicalNetworks", fault));
        }
    }
    networks.iter().find_map(|(name, network)| {
        let other = networks.keys().find(|other| PhysicalNetwork::bridge(other) == network.nic)?;
        let nic = &network.nic;
        let fault = format!("{name}: nic: {nic} is the bridge of {other}; give the NIC itself");
        Some(("physicalNetworks", fault))
    })
}

fn name_fault(name: &str) -> Option<String> {
    if TUNNELS.contains(&name) {
        return Some(format!("{name:?} would name a port like that of a tunnel; give another name"));
    }
    (!name.split('.').all(is_label) || name.len() > MAX_PHYSICAL).then(|| {
        format!(
            "{name:?} cannot name a physical network; give 1 to {MAX_PHYSICAL} lower-case letters, digits, '-' and '.'"
        )
    })
}
