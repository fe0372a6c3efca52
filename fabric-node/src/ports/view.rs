//! What the database says of the bridge, followed change by change. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabric_core::node::PortRow;
use ovsdb::rows::{Bridge, Interface, OpenVSwitch, Port, TypedRow};
use ovsdb::{Replica, Row, RowChange, TableColumns, Uuid};

/// The bridge's port numbers end here (`OFPP_MAX`, OpenFlow 1.5 §7.2.1); the LOCAL port is 65534 in the database.
const LAST_PORT: i64 = 65534;

/// The tables that the view is made of.
pub fn tables() -> Vec<TableColumns> {
    vec![OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()]
}

/// News of the bridge's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A port is gone.
    Gone(String),
    /// A port appeared or changed.
    Changed(PortRow),
}

/// A port of the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its row.
    pub port: Uuid,
    /// The row of its interface.
    pub interface: Uuid,
    /// Number that was asked for.
    pub ofport_request: Option<i64>,
    /// As the node knows it.
    pub row: PortRow,
}

/// The database, and the bridge in it.
#[derive(Debug)]
pub struct View {
    name: String,
    replica: Replica,
    bridge: Option<(Uuid, BTreeSet<Uuid>)>,
    /// By row of the port.
    members: BTreeMap<Uuid, Member>,
    /// Port of an interface, for the ports of the bridge.
    interfaces: BTreeMap<Uuid, Uuid>,
    /// Every port of the switch.
    names: BTreeMap<String, Uuid>,
}

impl View {
    /// The bridge of that name, which need not exist.
    pub fn new(name: &str, replica: Replica) -> Self {
        let mut view = Self {
            name: name.to_owned(),
            bridge: None,
            members: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            names: BTreeMap::new(),
            replica,
        };
        let ports: Vec<(Uuid, Arc<Row>)> =
            view.replica.rows(Port::TABLE).map(|(uuid, row)| (uuid, row.clone())).collect();
        for (uuid, row) in &ports {
            view.rename(*uuid, None, Some(row));
        }
        let touched = view.find_bridge();
        view.look_at(&touched);
        view
    }

    /// Follows changes. Ports that went come first, so that one of the same name that came is not taken for gone.
    pub fn follow(&mut self, changes: &[RowChange]) -> Vec<News> {
        let mut touched = BTreeSet::new();
        let mut bridges = false;
        for change in changes {
            self.replica.follow(change);
        }
        for change in changes {
            match &*change.table {
                Bridge::TABLE => bridges = true,
                Port::TABLE => {
                    self.rename(change.uuid, change.old.as_ref(), change.new.as_ref());
                    touched.insert(change.uuid);
                }
                Interface::TABLE => touched.extend(self.interfaces.get(&change.uuid)),
                _ => {}
            }
        }
        if bridges {
            touched.extend(self.find_bridge());
        }
        self.look_at(&touched)
    }

    /// The root row, if there is one that can be read.
    pub fn root(&self) -> Option<OpenVSwitch> {
        OpenVSwitch::all(&self.replica).find_map(|(_, root)| root.ok())
    }

    /// The configuration that ovs-vswitchd has reached; below 0 when nothing is known.
    pub fn cur_cfg(&self) -> i64 {
        self.root().map_or(-1, |root| root.cur_cfg)
    }

    /// The bridge.
    pub fn bridge(&self) -> Option<(Uuid, Bridge)> {
        let (uuid, _) = self.bridge.as_ref()?;
        Some((*uuid, Bridge::read(&**self.replica.get(Bridge::TABLE, *uuid)?).ok()?))
    }

    /// All bridges of the switch.
    pub fn bridges(&self) -> impl Iterator<Item = Bridge> {
        Bridge::all(&self.replica).filter_map(|(_, bridge)| bridge.ok())
    }

    /// All ports of the bridge.
    pub fn rows(&self) -> Vec<PortRow> {
        self.members.values().map(|member| member.row.clone()).collect()
    }

    /// A port of the bridge.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.get(self.names.get(name)?)
    }

    /// The whole row of an interface.
    pub fn interface(&self, uuid: Uuid) -> Option<Interface> {
        Interface::read(&**self.replica.get(Interface::TABLE, uuid)?).ok()
    }

    /// Name of the other bridge that has a port of that name, if one has.
    pub fn elsewhere(&self, name: &str) -> Option<String> {
        let port = self.names.get(name)?;
        let owner = self.bridges().find(|bridge| bridge.ports.contains(port));
        owner.map(|bridge| bridge.name).filter(|bridge| *bridge != self.name)
    }

    fn rename(&mut self, port: Uuid, old: Option<&Arc<Row>>, new: Option<&Arc<Row>>) {
        let name = |row: Option<&Arc<Row>>| Port::read(&**row?).ok().map(|port| port.name);
        if let Some(old) = name(old)
            && self.names.get(&old) == Some(&port)
        {
            self.names.remove(&old);
        }
        self.names.extend(name(new).map(|new| (new, port)));
    }

    /// Finds the bridge and its ports anew; the ports that came or went.
    fn find_bridge(&mut self) -> BTreeSet<Uuid> {
        let found = Bridge::all(&self.replica)
            .find_map(|(uuid, bridge)| bridge.ok().filter(|b| b.name == self.name).map(|b| (uuid, b.ports)));
        let before = std::mem::replace(&mut self.bridge, found);
        let ports = |bridge: &Option<(Uuid, BTreeSet<Uuid>)>| bridge.as_ref().map(|(_, p)| p.clone());
        let (before, after) = (ports(&before).unwrap_or_default(), ports(&self.bridge).unwrap_or_default());
        before.symmetric_difference(&after).copied().collect()
    }

    fn look_at(&mut self, touched: &BTreeSet<Uuid>) -> Vec<News> {
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        for port in touched {
            let new = self.read(*port);
            let old = self.members.remove(port);
            if let Some(old) = &old {
                self.interfaces.remove(&old.interface);
                if new.as_ref().is_none_or(|new| new.row.name != old.row.name) {
                    gone.push(News::Gone(old.row.name.clone()));
                }
            }
            if let Some(new) = new {
                if old.is_none_or(|old| old.row != new.row) {
                    changed.push(News::Changed(new.row.clone()));
                }
                self.interfaces.insert(new.interface, *port);
                self.members.insert(*port, new);
            }
        }
        gone.extend(changed);
        gone
    }

    /// Reads a port of the bridge, with the interface of its name, or its first one.
    fn read(&self, uuid: Uuid) -> Option<Member> {
        self.bridge.as_ref().filter(|(_, ports)| ports.contains(&uuid))?;
        let port = Port::read(&**self.replica.get(Port::TABLE, uuid)?).ok()?;
        let mut interfaces: Vec<(Uuid, Interface)> =
            port.interfaces.iter().filter_map(|uuid| Some((*uuid, self.interface(*uuid)?))).collect();
        let at = interfaces.iter().position(|(_, interface)| interface.name == port.name).unwrap_or_default();
        if interfaces.is_empty() {
            return None;
        }
        let (interface, found) = interfaces.swap_remove(at);
        let ofport_request = found.ofport_request;
        Some(Member { port: uuid, interface, ofport_request, row: row(port.name, found) })
    }
}

fn row(name: String, interface: Interface) -> PortRow {
    let ofport = interface.ofport.filter(|number| (1..=LAST_PORT).contains(number));
    PortRow {
        name,
        kind: interface.kind,
        ofport: ofport.and_then(|number| u32::try_from(number).ok()),
        error: interface.error,
        external_ids: interface.external_ids,
        mac: interface.mac_in_use.and_then(|mac| mac.parse().ok()),
    }
}

#[cfg(test)]
mod tests;
