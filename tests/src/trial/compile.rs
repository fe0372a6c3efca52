//! The flows of a node beside those that a compile from nothing gives: from the folder of
//! manifests and claims, and from the rows of the switch's database.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use fabric_core::pipeline::learned::{Context, Pods, decide, revive};
use fabric_core::pipeline::site::{LocalPod, Rates, Site, Tunnel};
use fabric_core::pipeline::statics::static_flows;
use fabric_core::pipeline::vocabulary::{Cookie, Kind};
use openflow::{Flow, FlowTable, Mac};
use policy::manifest::{Source, admit};
use policy::{Edit, World};
use serde_json::Value;

use super::Trial;
use crate::lab::node::BRIDGE_FABRIC;
use crate::lab::world::documents;

/// An interface's row: name, number, hardware address and `external_ids`.
struct Interface {
    name: String,
    ofport: Option<u32>,
    mac: Option<Mac>,
    ids: BTreeMap<String, String>,
}

/// The pods of a node, as the database has them.
struct Local(Vec<LocalPod>);

impl Pods for Local {
    fn by_zone(&self, zone: u16) -> Option<&LocalPod> {
        self.0.iter().find(|pod| pod.zone == zone)
    }
    fn by_port(&self, port: u32) -> Option<&LocalPod> {
        self.0.iter().find(|pod| pod.port == port)
    }
    fn by_address(&self, address: IpAddr) -> Option<&LocalPod> {
        self.0.iter().find(|pod| pod.addresses.contains(&address))
    }
}

/// What differs, a line each: static flows that are missing or strange, learned flows
/// that a packet of their region would not bring about.
#[must_use]
pub fn differences(trial: &Trial, node: &str) -> Vec<String> {
    let world = world(&trial.lab.layout().world());
    let rows = interfaces(trial, node);
    let site = Site {
        node: node.into(),
        addresses: world.node(node).map(|node| node.addresses.clone()).unwrap_or_default(),
        local_mac: rows.iter().find(|row| row.name == BRIDGE_FABRIC).and_then(|row| row.mac),
        tunnels: rows
            .iter()
            .find(|row| row.name == "fabric-vxlan")
            .and_then(|row| Some((Tunnel::Vxlan, row.ofport?)))
            .into_iter()
            .collect(),
        ..Site::default()
    };
    let local = Local(rows.iter().filter_map(pod).collect());
    let dump = trial.lab.dump_flows(node).unwrap().into_iter().map(|stats| stats.flow);
    let (learned, installed): (Vec<Flow>, Vec<Flow>) = dump.partition(is_learned);
    let wanted: FlowTable = static_flows(&site, &world, &local.0).into_iter().collect();
    let changes = FlowTable::diff(&installed.into_iter().collect(), &wanted);
    let mut lines: Vec<String> =
        changes.iter().map(|change| format!("{:?} {}", change.command, change.flow)).collect();
    let context = Context { site: &site, world: &world, pods: &local };
    lines.extend(
        learned.iter().filter(|flow| !holds(flow, &context)).map(|flow| format!("does not hold: {flow}")),
    );
    lines
}

fn is_learned(flow: &Flow) -> bool {
    Cookie(flow.cookie).kind().is_some_and(Kind::is_learned)
}

/// Drops for vacant addresses go by themselves.
fn holds(flow: &Flow, context: &Context<'_, Local>) -> bool {
    let decided = revive(flow, context.pods).and_then(|query| decide(&query, context));
    Cookie(flow.cookie).kind() == Some(Kind::Vacant) || decided.is_some_and(|decision| decision.flow == *flow)
}

/// The world of a folder of manifests, with the claims below it.
fn world(folder: &Path) -> World {
    let mut world = World::new();
    let files = [folder.to_owned(), folder.join(".claims")].into_iter().flat_map(fs::read_dir);
    let names = files.flatten().flatten().map(|entry| entry.path());
    for path in names.filter(|path| path.extension().is_some_and(|e| e == "yaml" || e == "json")) {
        // A claim that goes meanwhile is no error.
        let text = fs::read_to_string(&path).unwrap_or_default();
        for document in documents(&text) {
            let admission = admit(&Source::file(path.display().to_string(), 1), document);
            if let Some(object) = admission.object {
                world.apply(Edit::Put(object));
            }
        }
    }
    world
}

fn interfaces(trial: &Trial, node: &str) -> Vec<Interface> {
    let columns = "--columns=name,ofport,mac_in_use,external_ids";
    let text = trial.vsctl(node, &["--format=json", columns, "list", "Interface"]);
    let table: Value = serde_json::from_str(&text).unwrap();
    table["data"].as_array().into_iter().flatten().map(interface).collect()
}

/// Columns in the order asked for; an empty set is a value that is not there.
fn interface(row: &Value) -> Interface {
    let ids: BTreeMap<String, String> = serde_json::from_value::<Vec<(String, String)>>(row[3][1].clone())
        .map(|pairs| pairs.into_iter().collect())
        .unwrap_or_default();
    Interface {
        name: row[0].as_str().unwrap_or_default().to_owned(),
        ofport: row[1].as_u64().and_then(|n| u32::try_from(n).ok()),
        mac: row[2].as_str().and_then(|mac| mac.parse().ok()),
        ids,
    }
}

fn pod(row: &Interface) -> Option<LocalPod> {
    let addresses = row.ids.get("fabric.addresses")?.split(',');
    Some(LocalPod {
        zone: row.ids.get("fabric.zone")?.parse().ok()?,
        port: row.ofport?,
        mac: row.ids.get("fabric.mac")?.parse().ok()?,
        addresses: addresses.filter_map(|ip| ip.parse().ok()).collect(),
        leases: false,
        segment: None,
        rates: Rates::default(),
        mtu: 0,
        exits: std::collections::BTreeSet::new(),
    })
}
