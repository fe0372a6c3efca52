//! Who reaches whom where pods are in VLANs of a company's network beside pods in an overlay, over which protocols, and
//! seen as whom. Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::Write as _;
use std::time::Duration;

use fabric_tests::lab::Wiring;
use fabric_tests::lab::office::Lan;
use fabric_tests::office::{Cell, Net, OfficeBed, Place, measure, table};
use serde_json::Map;

/// Two pods of each network on n1, and one on n2.
const PODS: [&str; 9] = ["web", "cart", "db", "till", "scanner", "printer", "camera", "recorder", "phone"];

/// Every cell that there is: pods to pods on their node and on another, pods and servers, pods and nodes. An overlay
/// has no way in for machines outside.
fn cells<'a>(pods: &'a [Place], servers: &'a [Place], nodes: &'a [Place]) -> Vec<Cell<'a>> {
    let node_of = |place: &Place| nodes.iter().find(|node| Some(&node.name) == place.node.as_ref()).unwrap();
    let mut cells = Vec::new();
    // The first pod of each network on n1.
    let first: Vec<&Place> = pods.iter().step_by(3).collect();
    for &from in &first {
        // Itself aside; of its own network the second pod, of others the first; and those on n2.
        let near = pods.iter().filter(|to| {
            to.node == from.node && (to.net == from.net) != first.iter().any(|f| f.name == to.name)
        });
        let far = pods.iter().filter(|to| to.node != from.node);
        for to in near.chain(far) {
            cells.push(Cell { from, to, seen: from });
        }
        for to in servers {
            // An overlay's addresses mean nothing outside.
            let seen = if from.net == Net::Overlay { node_of(from) } else { from };
            cells.push(Cell { from, to, seen });
            if from.net != Net::Overlay {
                cells.push(Cell { from: to, to: from, seen: to });
            }
        }
        for node in nodes {
            cells.push(Cell { from: node, to: from, seen: node });
            cells.push(Cell { from, to: node, seen: from });
        }
    }
    cells
}

fn whole_table(purpose: &str, wiring: Wiring) {
    let bed = OfficeBed::of_folder(purpose, wiring, &OfficeBed::example(), Map::new());
    let pods = PODS.map(|name| bed.pod(name));
    let servers = [Lan::Vlan100, Lan::Vlan200].map(|lan| bed.server(lan));
    let nodes = ["n1", "n2"].map(|name| bed.node(name));
    let measured: Vec<_> = cells(&pods, &servers, &nodes).into_iter().map(measure).collect();
    let took: Duration = measured.iter().map(|cell| cell.took).sum();
    // Written past the test harness, which keeps what is printed.
    let title = format!(
        "\nPods in VLANs beside an overlay, {wiring:?} ({} cells in {:.1} s)\n",
        measured.len(),
        took.as_secs_f64()
    );
    std::io::stdout().write_all((title + &table(&measured)).as_bytes()).unwrap();
    let faults: Vec<String> = measured.iter().flat_map(|cell| cell.faults().collect::<Vec<_>>()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn everybody_reaches_whom_they_should_where_a_second_nic_carries_the_vlans() {
    whole_table("unreach", Wiring::SecondNic);
}

#[test]
fn everybody_reaches_whom_they_should_where_the_only_nic_carries_all() {
    whole_table("unone", Wiring::OneNic);
}
