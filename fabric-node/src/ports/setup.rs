//! What the switch must have before containers can be attached, and the transaction that makes it so. Pure, but for
//! [`kernel_module`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ovsdb::rows::{Bridge, OpenVSwitch};
use ovsdb::{Condition, Datum, Mutation, Transaction, Uuid};

use super::own::{self, MARK};
use super::view::View;
use super::{OLDEST, PortsConfig};
use crate::config::Datapath;

/// The first schema of `Open_vSwitch` that a supported version may have: 2.17 has 8.3.0.
const OLDEST_SCHEMA: (u32, u32) = (8, 3);

/// What is known beside the database.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Whether the kernel has the module `openvswitch`.
    pub kernel_module: bool,
    /// Version of the database's schema, where it was asked for.
    pub schema: Option<String>,
    /// MTU that the LOCAL interface is to have, bytes, once it is known.
    pub mtu: Option<u32>,
}

/// The way to a switch that is as it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// `system` or `netdev`.
    pub datapath: String,
    /// The difference; `None` when there is none.
    pub transaction: Option<Transaction>,
}

/// Whether the kernel has the datapath of Open vSwitch.
pub fn kernel_module() -> bool {
    let loaded = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    Path::new("/sys/module/openvswitch").exists()
        || loaded.lines().any(|line| line.starts_with("openvswitch "))
}

/// Compares the switch with what it should be.
///
/// # Errors
/// It cannot be made so: what stands in the way and what to do, in words.
pub fn plan(config: &PortsConfig, view: &View, surroundings: &Surroundings) -> Result<Plan, String> {
    let Some(root) = view.root() else {
        return Err(ovsdb::Error::NoRootRow.to_string());
    };
    supported(&root, surroundings.schema.as_deref())?;
    let bridge = view.bridge();
    if let Some((_, bridge)) = &bridge
        && !bridge.external_ids.contains_key(MARK)
    {
        let (name, node) = (&config.bridge, &config.node);
        return Err(format!(
            "bridge {name} is not Fabric's: remove it, or hand it over with \
             `ovs-vsctl set Bridge {name} external_ids:{MARK}={node}`"
        ));
    }
    let datapath = datapath(config, &root, bridge.as_ref().map(|(_, bridge)| bridge), view, surroundings)?;
    let names = own::wanted(config).into_iter().map(|port| port.name).chain([config.bridge.clone()]);
    if let Some((name, other)) = names.filter_map(|name| Some((view.elsewhere(&name)?, name))).next() {
        return Err(format!("bridge {name} has a port called {other}: remove that port"));
    }
    let mut transaction = Transaction::new();
    match bridge {
        None => make_bridge(&mut transaction, config, &datapath),
        Some((uuid, bridge)) => {
            mend_bridge(&mut transaction, config, &datapath, uuid, &bridge);
            mend_local(&mut transaction, config, view, surroundings.mtu);
            own::mend(&mut transaction, config, uuid, view)?;
        }
    }
    Ok(Plan { datapath, transaction: (!transaction.is_empty()).then_some(transaction) })
}

/// The first two numbers of a version: `3.1.0`, `2.17.9-0ubuntu1`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn supported(root: &OpenVSwitch, schema: Option<&str>) -> Result<(), String> {
    let (major, minor) = OLDEST;
    match (&root.ovs_version, schema) {
        (Some(version), _) => match numbers(version) {
            Some(found) if found >= OLDEST => Ok(()),
            _ => Err(format!(
                "Open vSwitch {version} is too old: {major}.{minor} or newer is needed; upgrade it on this node"
            )),
        },
        (None, Some(schema)) if numbers(schema).is_none_or(|found| found < OLDEST_SCHEMA) => Err(format!(
            "the database's schema {schema} is that of an Open vSwitch that is too old: {major}.{minor} or newer \
             is needed; upgrade it on this node"
        )),
        (None, _) => Ok(()),
    }
}

fn datapath(
    config: &PortsConfig,
    root: &OpenVSwitch,
    bridge: Option<&Bridge>,
    view: &View,
    surroundings: &Surroundings,
) -> Result<String, String> {
    let of = |bridge: &Bridge| match bridge.datapath_type.as_str() {
        "" => "system".to_owned(),
        kind => kind.to_owned(),
    };
    let others = || view.bridges().any(|other| of(&other) == "netdev");
    let wanted = match (config.datapath, bridge) {
        (Datapath::System, _) => "system".to_owned(),
        (Datapath::Netdev, _) => "netdev".to_owned(),
        (Datapath::Auto, Some(bridge)) => of(bridge),
        (Datapath::Auto, None) if others() || !surroundings.kernel_module => "netdev".to_owned(),
        (Datapath::Auto, None) => "system".to_owned(),
    };
    let offered: Vec<&str> = root.datapath_types.iter().map(String::as_str).collect();
    if offered.is_empty() {
        return Err("ovs-vswitchd has not said which datapaths it offers: is it running?".to_owned());
    }
    if !offered.contains(&wanted.as_str()) {
        let offered = offered.join(", ");
        return Err(format!(
            "ovs-vswitchd offers no datapath {wanted}, only {offered}; set ovs.datapath in the node file"
        ));
    }
    Ok(wanted)
}

/// The columns of the bridge row that are Fabric's to say, but for the keys of maps.
fn bridge_columns(datapath: &str) -> [(&'static str, Datum); 3] {
    [
        ("fail_mode", "secure".into()),
        ("datapath_type", datapath.into()),
        ("mcast_snooping_enable", false.into()),
    ]
}

/// The keys of `other_config` that are Fabric's to say.
///
/// The hardware address of the LOCAL port is fixed: the switch would take the least one of all its ports, which
/// changes as containers come and go.
fn bridge_settings(config: &PortsConfig) -> [(&'static str, String); 2] {
    [("hwaddr", local_mac(&config.node)), ("disable-in-band", "true".to_owned())]
}

/// A locally administered address from the node's name (FNV-1a).
fn local_mac(node: &str) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = node.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, fold);
    let [a, b, c, d, ..] = hash.to_be_bytes();
    format!("0e:fa:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Whether the LOCAL interface has its hardware address.
pub fn has_address(config: &PortsConfig, view: &View) -> bool {
    let wanted = local_mac(&config.node).parse().ok();
    wanted.is_some() && view.member(&config.bridge).is_some_and(|member| member.row.mac == wanted)
}

fn mark(node: &str) -> Datum {
    Datum::from_pairs([(MARK, node)])
}

fn make_bridge(txn: &mut Transaction, config: &PortsConfig, datapath: &str) {
    let name = config.bridge.as_str();
    txn.require_no_row("Bridge", [Condition::eq("name", name)]);
    let columns = [("name", name.into()), ("type", "internal".into()), ("mtu_request", config.mtu.into())];
    let interface = txn.insert("Interface", columns);
    let local = txn.insert("Port", [("name", name.into()), ("interfaces", interface.into())]);
    let others = own::make_all(txn, config);
    let settings: BTreeMap<String, String> =
        bridge_settings(config).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let ports: Datum = std::iter::once(local).chain(others).map(ovsdb::Atom::from).collect();
    let columns = bridge_columns(datapath).into_iter().chain([
        ("name", name.into()),
        ("ports", ports),
        ("other_config", settings.into()),
        ("external_ids", mark(&config.node)),
    ]);
    let bridge = txn.insert("Bridge", columns);
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridges", bridge)]);
}

fn mend_bridge(txn: &mut Transaction, config: &PortsConfig, datapath: &str, uuid: Uuid, bridge: &Bridge) {
    let this = || [Condition::eq("_uuid", uuid)];
    if bridge.fail_mode.as_deref() != Some("secure") || bridge.datapath_type != datapath {
        txn.update("Bridge", this(), bridge_columns(datapath));
    }
    let settings = bridge_settings(config);
    if settings.iter().any(|(key, value)| bridge.other_config.get(*key) != Some(value)) {
        txn.set_keys("Bridge", this(), "other_config", settings);
    }
    if bridge.external_ids.get(MARK) != Some(&config.node) {
        txn.set_keys("Bridge", this(), "external_ids", [(MARK, config.node.as_str())]);
    }
    if !bridge.protocols.is_empty() && !bridge.protocols.contains("OpenFlow15") {
        let wanted: BTreeSet<String> = ["OpenFlow15".to_owned()].into();
        txn.mutate("Bridge", this(), [Mutation::insert("protocols", wanted)]);
    }
}

/// An MTU that the interface has from an earlier agent stays until it is known what it should be.
fn mend_local(txn: &mut Transaction, config: &PortsConfig, view: &View, known: Option<u32>) {
    let Some(uuid) = view.member(&config.bridge).map(|member| member.interface) else { return };
    let Some(interface) = view.interface(uuid) else { return };
    let first = config.mtu.filter(|_| interface.mtu_request.is_none());
    let Some(mtu) = known.or(first) else { return };
    if interface.mtu_request != Some(i64::from(mtu)) {
        txn.update("Interface", [Condition::eq("_uuid", uuid)], [("mtu_request", Datum::from(mtu))]);
    }
}

#[cfg(test)]
mod tests;
