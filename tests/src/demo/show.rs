//! What the demo prints.

use std::collections::BTreeMap;
use std::path::Path;

use fabric_core::pipeline::vocabulary::Table;
use openflow::FlowStats;

use super::measure::{Reach, Round, address};
use super::pairs::Pairs;
use crate::lab::flows::named;
use crate::lab::names::LabName;
use crate::lab::record::PodRecord;

/// Widest line of a flow before it is broken, characters.
const WIDTH: usize = 110;

/// The pods and where they are.
pub fn pods(pods: &[PodRecord]) {
    println!("\n  {:<18} {:<5} addresses", "pod", "node");
    for pod in pods {
        println!("  {:<18} {:<5} {}", pod.pod, pod.node, pod.addresses.join(", "));
    }
}

/// How many flows each table has.
pub fn tables(flows: &[FlowStats]) {
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    flows.iter().for_each(|stats| *counts.entry(stats.flow.table).or_default() += 1);
    let name = |table: u8| Table::from_id(table).map_or_else(|| table.to_string(), |t| t.name().to_owned());
    let counts: Vec<String> =
        counts.into_iter().map(|(table, count)| format!("{} {count}", name(table))).collect();
    println!("  {}", counts.join(", "));
}

/// Flows, one after another, broken before their actions where they are long.
pub fn flows(flows: &[&FlowStats]) {
    for stats in flows {
        let text = named(&stats.flow.to_string());
        match text.split_once(" actions=") {
            Some((matches, actions)) if text.len() > WIDTH => {
                println!("  {matches}\n      actions={actions}")
            }
            _ => println!("  {text}"),
        }
    }
}

/// Round trips in one line.
pub fn round(round: &Round) -> String {
    let time = |time: Option<f64>| time.map_or("lost".to_owned(), |time| format!("{time:.2} ms"));
    format!(
        "first packet {}, later ones {} (median), {} of {} answered",
        time(round.first),
        time(round.later),
        round.answered,
        round.sent
    )
}

/// Round trips as a table.
pub fn rounds(rounds: &[(String, Round)]) {
    println!("  {:<52} {:>6} {:>6} {:>9}", "", "first", "later", "answered");
    let time = |time: Option<f64>| time.map_or("lost".to_owned(), |time| format!("{time:.2}"));
    for (what, round) in rounds {
        let answered = format!("{}/{}", round.answered, round.sent);
        println!("  {what:<52} {:>6} {:>6} {answered:>9}", time(round.first), time(round.later));
    }
}

/// Who reaches whom.
pub fn reach(reach: &Reach) {
    let width = reach.columns.iter().map(String::len).max().unwrap_or(0).max(4) + 2;
    let head: String = reach.columns.iter().map(|name| format!("{name:<width$}")).collect();
    println!("  {:<width$}{}", "from", head.trim_end());
    for (name, cells) in &reach.rows {
        let cells = cells.iter().map(|cell| format!("{:<width$}", cell.as_deref().unwrap_or(".")));
        println!("  {name:<width$}{}", cells.collect::<String>().trim_end());
    }
}

/// What the agents complain of, by node.
pub fn problems(problems: &[(String, String)]) {
    if !problems.is_empty() {
        println!("\nWhat the agents complain of:\n");
    }
    problems.iter().for_each(|(node, problem)| println!("  {node}: {problem}"));
}

/// What another program said.
pub fn indented(text: &str) {
    text.lines().for_each(|line| println!("{}", format!("  {line}").trim_end()));
}

/// How to look around in a lab that was kept.
pub fn look_around(name: &LabName, world: &Path, pairs: &Option<Pairs>) {
    println!("\nThe lab {name} stays up. To look around:\n");
    println!("  fabric-lab status --name {name}");
    if let Some(Pairs { talker, far, near }) = pairs {
        let peer = far.as_ref().or(near.as_ref()).and_then(|peer| address(peer, 4).or(address(peer, 6)));
        if let Some(peer) = peer {
            println!("  fabric-lab exec --name {name} pod/{} -- ping {peer}", talker.pod);
        }
        println!("  fabric-lab flows --name {name} {}", talker.node);
        println!("  fabric-lab exec --name {name} node/{} -- ovs-vsctl show", talker.node);
    }
    println!("  edit {}: pods come and go as the manifests say", world.display());
    println!("  fabric-lab down --name {name}");
    if let Some(folder) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        println!("\nfabric-lab is in {}", folder.display());
    }
}
