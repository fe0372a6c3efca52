//! What the database says of the bridge of a physical network. Pure.

use std::collections::{BTreeMap, BTreeSet};

use ovsdb::rows::{Bridge, Interface, OpenVSwitch, Port, TypedRow};
use ovsdb::value::FromDatum;
use ovsdb::{Replica, RowChange, TableColumns, Uuid};

use fabric_core::node::PHYSICAL;

use super::MARK;
use super::record::{self, Record};

/// The tables that are followed.
pub fn tables() -> Vec<TableColumns> {
    vec![OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()]
}

/// The configuration that ovs-vswitchd has reached; below 0 when nothing is known.
pub fn cur_cfg(replica: &Replica) -> i64 {
    let root = OpenVSwitch::all(replica).find_map(|(_, root)| root.ok());
    root.map_or(-1, |root| root.cur_cfg)
}

/// A port with its first interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Row of the port.
    pub port: Uuid,
    /// VLANs that it carries.
    pub trunks: BTreeSet<i64>,
    /// Row of the interface.
    pub interface: Uuid,
    /// The interface.
    pub row: Interface,
}

/// The bridge of a physical network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its row.
    pub uuid: Uuid,
    /// The bridge.
    pub row: Bridge,
    /// Its LOCAL port, the NIC, and the patch port, as far as it has them.
    pub members: BTreeMap<String, Member>,
}

impl Found {
    /// Whether it is Fabric's.
    pub fn is_ours(&self) -> bool {
        self.row.external_ids.contains_key(MARK)
    }
}

/// The bridge of that name with those of its ports that are named.
pub fn find(replica: &Replica, bridge: &str, ports: &[&str]) -> Option<Found> {
    let (uuid, row) = Bridge::all(replica)
        .find_map(|(uuid, row)| row.ok().filter(|row| row.name == bridge).map(|row| (uuid, row)))?;
    let members = row.ports.iter().filter_map(|port| member(replica, *port, ports)).collect();
    Some(Found { uuid, row, members })
}

/// The datapath of a bridge, once that exists: `system` or `netdev`.
pub fn datapath(replica: &Replica, bridge: &str) -> Option<String> {
    let bridge = Bridge::all(replica).find_map(|(_, row)| row.ok().filter(|row| row.name == bridge))?;
    let named = Some(bridge.datapath_type).filter(|datapath| !datapath.is_empty());
    Some(named.unwrap_or_else(|| "system".to_owned()))
}

/// Names of the physical networks that have a bridge of Fabric's, or a patch port of Fabric's on one of somebody
/// else's, each with the NIC that its bridge has been given.
pub fn networks(replica: &Replica) -> BTreeMap<String, Option<String>> {
    let mut networks = BTreeMap::new();
    for (_, bridge) in Bridge::all(replica) {
        let Ok(bridge) = bridge else { continue };
        let network = bridge.external_ids.get(PHYSICAL).filter(|_| bridge.external_ids.contains_key(MARK));
        if let Some(network) = network {
            let record = bridge.external_ids.get(record::KEY);
            let nic = record.and_then(|text| Record::from_text(text).ok()).map(|record| record.nic);
            networks.insert(network.clone(), nic);
        }
    }
    for (_, port) in Port::all(replica) {
        let Ok(port) = port else { continue };
        let ids = &port.external_ids;
        if let Some(network) = ids.get(PHYSICAL).filter(|_| ids.contains_key(MARK)) {
            networks.entry(network.clone()).or_insert(None);
        }
    }
    networks
}

/// The bridge that has the device in one of its ports.
pub fn holder(replica: &Replica, device: &str) -> Option<String> {
    let interface = replica.rows(Interface::TABLE).find_map(|(uuid, row)| {
        let name = row.get("name").and_then(|name| String::from_datum(name).ok())?;
        (name == device).then_some(uuid)
    })?;
    let port = Port::all(replica)
        .find_map(|(uuid, row)| row.ok().filter(|row| row.interfaces.contains(&interface)).map(|_| uuid))?;
    Bridge::all(replica)
        .find_map(|(_, row)| row.ok().filter(|row| row.ports.contains(&port)))
        .map(|row| row.name)
}

/// Whether a change may concern one of these bridges, ports and devices.
pub fn concerns(change: &RowChange, names: &BTreeSet<String>) -> bool {
    if &*change.table == OpenVSwitch::TABLE {
        return false;
    }
    let named = |row: &Option<std::sync::Arc<ovsdb::Row>>| {
        let name = row.as_ref().and_then(|row| String::from_datum(row.get("name")?).ok());
        name.is_some_and(|name| names.contains(&name))
    };
    named(&change.old) || named(&change.new)
}

fn member(replica: &Replica, uuid: Uuid, names: &[&str]) -> Option<(String, Member)> {
    let port = Port::read(&**replica.get(Port::TABLE, uuid)?).ok()?;
    let interfaces = || {
        port.interfaces
            .iter()
            .filter_map(|uuid| Some((*uuid, Interface::read(&**replica.get(Interface::TABLE, *uuid)?).ok()?)))
    };
    let (interface, row) = interfaces().find(|(_, row)| names.contains(&row.name.as_str()))?;
    let member = Member { port: uuid, trunks: port.trunks.clone(), interface, row: row.clone() };
    Some((row.name, member))
}
