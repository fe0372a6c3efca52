//! The database's side of a physical network, as transactions. Pure.

use std::collections::{BTreeMap, BTreeSet};

use fabric_core::node::PHYSICAL;
use ovsdb::txn::NewRow;
use ovsdb::{Atom, Condition, Datum, Mutation, Transaction, Uuid};

use super::view::Found;
use super::{MARK, record};
use crate::config::PhysicalNetwork;

/// The VLAN that stands for none: without any, a port carries all (ovs-vswitchd.conf.db(5), `Port.trunks`), and this
/// number is no VLAN's (IEEE 802.1Q-2018, table 9-2).
const NO_VLAN: u16 = 4095;

/// A bridge as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name of this node.
    pub node: String,
    /// Name of the physical network.
    pub network: String,
    /// Name of the bridge.
    pub bridge: String,
    /// `system` or `netdev`.
    pub datapath: String,
    /// Hardware address of the NIC.
    pub mac: String,
    /// MTU of the NIC, bytes.
    pub mtu: u32,
    /// VLANs in use, 0 for untagged frames; `None` while that is not known.
    pub vlans: Option<BTreeSet<u16>>,
}

/// Makes the bridge, without the NIC.
pub fn make_bridge(wanted: &Wanted) -> Transaction {
    let mut txn = Transaction::new();
    let name = wanted.bridge.as_str();
    txn.require_no_row("Bridge", [Condition::eq("name", name)]);
    let columns = [("name", name.into()), ("type", "internal".into()), ("mtu_request", wanted.mtu.into())];
    let interface = txn.insert("Interface", columns);
    let local = txn.insert("Port", [("name", name.into()), ("interfaces", interface.into())]);
    let patch = make_patch(&mut txn, wanted);
    let ports: Datum = [local, patch].into_iter().map(Atom::from).collect();
    let settings = Datum::from_pairs(settings(wanted));
    let columns = [
        ("name", name.into()),
        ("ports", ports),
        ("fail_mode", "standalone".into()),
        ("datapath_type", wanted.datapath.as_str().into()),
        ("other_config", settings),
        (
            "external_ids",
            Datum::from_pairs([(MARK, wanted.node.as_str()), (PHYSICAL, wanted.network.as_str())]),
        ),
    ];
    let bridge = txn.insert("Bridge", columns);
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridges", bridge)]);
    txn
}

/// Brings Fabric's own bridge to its form, but for the NIC. Empty where it has it.
pub fn mend_bridge(wanted: &Wanted, found: &Found) -> Transaction {
    let mut txn = Transaction::new();
    let this = || [Condition::eq("_uuid", found.uuid)];
    let row = &found.row;
    if row.fail_mode.as_deref() != Some("standalone") || row.datapath_type != wanted.datapath {
        let columns =
            [("fail_mode", "standalone".into()), ("datapath_type", wanted.datapath.as_str().into())];
        txn.update("Bridge", this(), columns);
    }
    let settings = settings(wanted);
    if settings.iter().any(|(key, value)| row.other_config.get(*key) != Some(value)) {
        txn.set_keys("Bridge", this(), "other_config", settings);
    }
    let marks = [(MARK, wanted.node.as_str()), (PHYSICAL, wanted.network.as_str())];
    if marks.iter().any(|(key, value)| row.external_ids.get(*key).map(String::as_str) != Some(value)) {
        txn.set_keys("Bridge", this(), "external_ids", marks);
    }
    if let Some(local) = found.members.get(&wanted.bridge)
        && local.row.mtu_request != Some(i64::from(wanted.mtu))
    {
        let row = [Condition::eq("_uuid", local.interface)];
        txn.update("Interface", row, [("mtu_request", wanted.mtu.into())]);
    }
    mend_patch(&mut txn, wanted, found);
    txn
}

/// Brings the patch port to its form, on a bridge that may be somebody else's.
pub fn mend_patch(txn: &mut Transaction, wanted: &Wanted, found: &Found) {
    let Some(patch) = found.members.get(&PhysicalNetwork::outer_port(&wanted.network)) else {
        let port = make_patch(txn, wanted);
        let this = [Condition::eq("_uuid", found.uuid)];
        txn.mutate("Bridge", this, [Mutation::insert("ports", port)]);
        return;
    };
    let columns = patch_columns(wanted);
    let peer = PhysicalNetwork::inner_port(&wanted.network);
    if patch.row.kind != "patch"
        || patch.row.options.get("peer") != Some(&peer)
        || patch.row.options.len() != 1
    {
        txn.update("Interface", [Condition::eq("_uuid", patch.interface)], columns);
    }
    let Some(vlans) = &wanted.vlans else { return };
    let trunks: BTreeSet<i64> = trunks(vlans).into_iter().map(i64::from).collect();
    if patch.trunks != trunks {
        let columns = [("trunks", trunks_datum(vlans)), ("vlan_mode", "trunk".into())];
        txn.update("Port", [Condition::eq("_uuid", patch.port)], columns);
    }
}

/// Adds the NIC, with the record of what the host has on it: the one is not without the other.
pub fn add_nic(found: &Found, node: &str, nic: &str, record: &str) -> Transaction {
    let mut txn = Transaction::new();
    let this = || [Condition::eq("_uuid", found.uuid)];
    txn.require_row("Bridge", this());
    let ids = || Datum::from_pairs([(MARK, node)]);
    let interface = txn.insert("Interface", [("name", nic.into()), ("external_ids", ids())]);
    let port =
        txn.insert("Port", [("name", nic.into()), ("interfaces", interface.into()), ("external_ids", ids())]);
    txn.mutate("Bridge", this(), [Mutation::insert("ports", port)]);
    txn.set_keys("Bridge", this(), "external_ids", [(record::KEY, record)]);
    txn
}

/// Writes the record anew.
pub fn write_record(bridge: Uuid, record: &str) -> Transaction {
    let mut txn = Transaction::new();
    txn.set_keys("Bridge", [Condition::eq("_uuid", bridge)], "external_ids", [(record::KEY, record)]);
    txn
}

/// Takes a port off the bridge.
pub fn remove_port(bridge: Uuid, port: Uuid) -> Transaction {
    let mut txn = Transaction::new();
    let this = [Condition::eq("_uuid", bridge)];
    txn.mutate("Bridge", this, [Mutation::delete("ports", Datum::scalar(port))]);
    txn
}

/// Removes the bridge.
pub fn remove_bridge(bridge: Uuid) -> Transaction {
    let mut txn = Transaction::new();
    txn.mutate("Open_vSwitch", [], [Mutation::delete("bridges", Datum::scalar(bridge))]);
    txn
}

/// The keys of `other_config` that are Fabric's to say. The bridge's device has the NIC's hardware address, so that
/// the switch port, the router and DHCP see the same host as before.
fn settings(wanted: &Wanted) -> [(&'static str, String); 2] {
    [("hwaddr", wanted.mac.clone()), ("disable-in-band", "true".to_owned())]
}

fn trunks(vlans: &BTreeSet<u16>) -> BTreeSet<u16> {
    if vlans.is_empty() { [NO_VLAN].into() } else { vlans.clone() }
}

fn trunks_datum(vlans: &BTreeSet<u16>) -> Datum {
    trunks(vlans).into_iter().map(|vlan| Atom::Integer(i64::from(vlan))).collect()
}

fn patch_columns(wanted: &Wanted) -> [(&'static str, Datum); 2] {
    let peer = PhysicalNetwork::inner_port(&wanted.network);
    let options: BTreeMap<String, String> = [("peer".to_owned(), peer)].into();
    [("type", "patch".into()), ("options", options.into())]
}

fn make_patch(txn: &mut Transaction, wanted: &Wanted) -> NewRow {
    let name = PhysicalNetwork::outer_port(&wanted.network);
    let ids = || Datum::from_pairs([(MARK, wanted.node.as_str()), (PHYSICAL, wanted.network.as_str())]);
    let columns =
        patch_columns(wanted).into_iter().chain([("name", name.as_str().into()), ("external_ids", ids())]);
    let interface = txn.insert("Interface", columns);
    let none = BTreeSet::new();
    let columns = [
        ("name", name.as_str().into()),
        ("interfaces", interface.into()),
        ("external_ids", ids()),
        ("trunks", trunks_datum(wanted.vlans.as_ref().unwrap_or(&none))),
        ("vlan_mode", "trunk".into()),
    ];
    txn.insert("Port", columns)
}
