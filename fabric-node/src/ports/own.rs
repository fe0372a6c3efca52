//! The ports of the bridge that are the node's own, beside LOCAL: tunnels, and patches to the bridges of physical
//! networks. Pure.

use std::collections::BTreeMap;

use fabric_core::node::PHYSICAL;
use ovsdb::txn::NewRow;
use ovsdb::{Condition, Datum, Mutation, Transaction, Uuid};

use super::PortsConfig;
use super::view::View;
use crate::config::PhysicalNetwork;

/// Key of `external_ids` that marks what is Fabric's.
pub const MARK: &str = "fabric";

/// UDP port of VXLAN (RFC 7348 §5).
const VXLAN_PORT: &str = "4789";

/// Number that the patch port of the first physical network asks for; those of the others follow.
const FIRST_PATCH: u16 = 16;

/// A kind of tunnel. Its port is `fabric-KIND`, with the far end and the key set by the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tunnel {
    /// VXLAN (RFC 7348).
    Vxlan,
    /// Geneve (RFC 8926).
    Geneve,
    /// GRE (RFC 2784) with a key.
    Gre,
}

impl Tunnel {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Vxlan, Self::Geneve, Self::Gre];

    /// Type of the interface (ovs-vswitchd.conf.db(5), table Interface).
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
        }
    }

    /// Name of the port.
    #[must_use]
    pub fn port(self) -> String {
        format!("fabric-{}", self.kind())
    }

    fn request(self) -> u16 {
        match self {
            Self::Vxlan => 1,
            Self::Geneve => 2,
            Self::Gre => 3,
        }
    }

    fn options(self) -> Vec<(&'static str, &'static str)> {
        let port = matches!(self, Self::Vxlan).then_some(("dst_port", VXLAN_PORT));
        [("remote_ip", "flow"), ("key", "flow")].into_iter().chain(port).collect()
    }
}

/// A port as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnPort {
    /// Name of port and interface.
    pub name: String,
    kind: &'static str,
    request: u16,
    options: BTreeMap<String, String>,
    external_ids: BTreeMap<String, String>,
}

impl OwnPort {
    /// Whether its state says something of this bridge alone: a patch whose other end is not there is no fault here.
    pub fn stands_alone(&self) -> bool {
        self.kind != "patch"
    }

    fn columns(&self) -> [(&'static str, Datum); 3] {
        [
            ("type", self.kind.into()),
            ("options", self.options.clone().into()),
            ("ofport_request", self.request.into()),
        ]
    }

    fn make(&self, txn: &mut Transaction) -> NewRow {
        let name = self.name.as_str();
        let columns = self
            .columns()
            .into_iter()
            .chain([("name", name.into()), ("external_ids", self.external_ids.clone().into())]);
        let interface = txn.insert("Interface", columns);
        txn.insert("Port", [("name", name.into()), ("interfaces", interface.into())])
    }
}

/// The ports that a configuration asks for.
pub fn wanted(config: &PortsConfig) -> Vec<OwnPort> {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let tunnel = |tunnel: &Tunnel| OwnPort {
        name: tunnel.port(),
        kind: tunnel.kind(),
        request: tunnel.request(),
        options: owned(&tunnel.options()),
        external_ids: owned(&[(MARK, &config.node)]),
    };
    let patch = |(request, name): (u16, &String)| OwnPort {
        name: PhysicalNetwork::inner_port(name),
        kind: "patch",
        request,
        options: owned(&[("peer", &PhysicalNetwork::outer_port(name))]),
        external_ids: owned(&[(MARK, &config.node), (PHYSICAL, name)]),
    };
    let patches = (FIRST_PATCH..).zip(&config.physical).map(patch);
    config.tunnels.iter().map(tunnel).chain(patches).collect()
}

/// Makes all ports, for a bridge that is being made.
pub fn make_all(txn: &mut Transaction, config: &PortsConfig) -> Vec<NewRow> {
    wanted(config).iter().map(|port| port.make(txn)).collect()
}

/// Brings the ports of a bridge to their form, and takes away patches to networks that the node is not on any more.
///
/// # Errors
/// A port of that name is not Fabric's.
pub fn mend(txn: &mut Transaction, config: &PortsConfig, bridge: Uuid, view: &View) -> Result<(), String> {
    let this = || [Condition::eq("_uuid", bridge)];
    let wanted = wanted(config);
    for port in &wanted {
        let Some(member) = view.member(&port.name) else {
            txn.require_row("Bridge", this());
            let row = port.make(txn);
            txn.mutate("Bridge", this(), [Mutation::insert("ports", row)]);
            continue;
        };
        if !member.row.external_ids.contains_key(MARK) {
            let bridge = &config.bridge;
            return Err(format!("port {} of bridge {bridge} is not Fabric's: remove it", port.name));
        }
        let Some(interface) = view.interface(member.interface) else { continue };
        let request = interface.ofport_request == Some(i64::from(port.request));
        let row = || [Condition::eq("_uuid", member.interface)];
        if interface.kind != port.kind || interface.options != port.options || !request {
            txn.update("Interface", row(), port.columns());
        }
        if port.external_ids.iter().any(|(key, value)| interface.external_ids.get(key) != Some(value)) {
            txn.set_keys("Interface", row(), "external_ids", port.external_ids.clone());
        }
    }
    for row in view.rows() {
        let ids = &row.external_ids;
        let patch = ids.contains_key(MARK) && ids.contains_key(PHYSICAL);
        if patch
            && !wanted.iter().any(|port| port.name == row.name)
            && let Some(member) = view.member(&row.name)
        {
            txn.mutate("Bridge", this(), [Mutation::delete("ports", Datum::scalar(member.port))]);
        }
    }
    Ok(())
}
