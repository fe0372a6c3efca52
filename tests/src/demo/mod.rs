//! The demo: a folder of manifests on real switches, measured with real packets.
//!
//! It shows the flows of a node before and after its first conversation, first-packet
//! and later round trips on one node and on two, and who reaches whom; then it puts
//! policies in place, and shows who reaches whom by then and why somebody does not. The
//! lab is taken down at the end, after an error and at Ctrl-C, unless it is to be kept.

mod isolation;
mod measure;
mod pairs;
mod show;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use openflow::{FlowKey, FlowStats};

use crate::lab::cli::failure;
use crate::lab::record::{PodRecord, State};
use crate::lab::world::nodes_asked_for;
use crate::lab::{Lab, LabError, LabName, Spec, interrupt};
use measure::{Reach, Round, reach, round_trips};
use pairs::Pairs;

/// How long the pods may take to be attached.
const PATIENCE: Duration = Duration::from_secs(60);

/// `fabric-demo`.
#[derive(Debug, Parser)]
#[command(name = "fabric-demo", version, about = "Shows a folder of manifests on real switches")]
#[command(
    after_help = "Example:\n  fabric-demo deploy/examples --then deploy/isolation\n\nExit codes are those of fabric-lab."
)]
pub struct Cli {
    /// Folder of manifests.
    world: PathBuf,
    /// Folder of manifests to put beside them after the first round.
    #[arg(long, value_name = "DIR")]
    then: Option<PathBuf>,
    /// Name of the lab.
    #[arg(long, short = 'l', value_name = "LAB", default_value = "demo")]
    name: LabName,
    /// Leaves the lab up, and says how to look around.
    #[arg(long)]
    keep: bool,
}

/// Runs the demo.
pub fn main(cli: &Cli) -> ExitCode {
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure("fabric-demo", error),
    }
}

fn run(cli: &Cli) -> Result<(), LabError> {
    interrupt::catch()?;
    let began = Instant::now();
    let mut lab = up(cli)?;
    println!("  up in {:.1} s", began.elapsed().as_secs_f64());
    let pods: Vec<PodRecord> = lab.pods().filter(|pod| pod.state == State::Attached).cloned().collect();
    show::pods(&pods);
    let pairs = Pairs::of(&pods);
    first_conversation(&lab, &pairs)?;
    println!("\nRound trips, ICMP echo, milliseconds:\n");
    show::rounds(&further_rounds(&lab, &pairs)?);
    println!("\nWho reaches whom, measured by ICMP echo (4: over IPv4, 6: over IPv6, -: no answer):\n");
    let reached = reach(&lab, &pods)?;
    show::reach(&reached);
    show::problems(&problems(&lab)?);
    if let Some(folder) = &cli.then {
        isolate(&lab, folder, &pods, &reached)?;
    }
    interrupt::check()?;
    if cli.keep {
        lab.keep();
        show::look_around(&cli.name, &cli.world, &pairs);
        return Ok(());
    }
    lab.down()?;
    println!("\nTaken down; {:.0} s in all.", began.elapsed().as_secs_f64());
    Ok(())
}

fn up(cli: &Cli) -> Result<Lab, LabError> {
    let source = cli.world.canonicalize().map_err(LabError::io(format!("find {}", cli.world.display())))?;
    let spec = Spec {
        office: None,
        name: cli.name.clone(),
        nodes: nodes_asked_for(&source).max(1),
        source: Some(source),
        agents: true,
        owned: !cli.keep,
        config: serde_json::Map::new(),
    };
    println!("{} nodes, each an Open vSwitch and an agent, for {}", spec.nodes, cli.world.display());
    let mut lab = Lab::up(&spec)?;
    lab.supervise()?;
    lab.wait_pods(PATIENCE)?;
    Ok(lab)
}

/// What the agents complain of, with the names of their nodes: it explains a table with gaps.
fn problems(lab: &Lab) -> Result<Vec<(String, String)>, LabError> {
    let mut found = Vec::new();
    for node in lab.nodes() {
        let problems = lab.agent_status(&node.name)?.problems;
        found.extend(problems.iter().map(|problem| (node.name.to_string(), problem.to_string())));
    }
    Ok(found)
}

/// Who reaches whom once further manifests are in place.
fn isolate(lab: &Lab, folder: &Path, pods: &[PodRecord], before: &Reach) -> Result<(), LabError> {
    let took = isolation::put(lab, folder)?;
    let took = took.as_secs_f64() * 1000.0;
    println!("\nThen {} is put beside it: in force on all nodes after {took:.0} ms\n", folder.display());
    let after = reach(lab, pods)?;
    show::reach(&after);
    if let Some((from, to)) = isolation::denied(before, &after) {
        println!("\nWhy {from} does not reach {to}: fabric-trace verdict {from} {to} --icmp\n");
        show::indented(&isolation::explained(lab, from, to)?);
    }
    Ok(())
}

/// Flows of the talker's node around its first conversation.
fn first_conversation(lab: &Lab, pairs: &Option<Pairs>) -> Result<(), LabError> {
    let Some(Pairs { talker, far, near }) = pairs else {
        println!("\nNo pod to talk: the folder has none with spec.nodeName.");
        return Ok(());
    };
    let Some(peer) = far.as_ref().or(near.as_ref()) else {
        println!("\nNo conversation to have: there is one pod only.");
        return Ok(());
    };
    let before = lab.dump_flows(&talker.node)?;
    println!("\nFlows of {} before its first conversation: {}", talker.node, before.len());
    show::tables(&before);
    let round = round_trips(lab, talker, peer, 4)?;
    let after = lab.dump_flows(&talker.node)?;
    let known: BTreeSet<FlowKey> = before.iter().map(|stats| stats.flow.key()).collect();
    let added: Vec<&FlowStats> = after.iter().filter(|stats| !known.contains(&stats.flow.key())).collect();
    println!("\n{} talks to {} on {}: {}", talker.pod, peer.pod, peer.node, show::round(&round));
    println!("\nFlows that {} learned from it: {}\n", talker.node, added.len());
    show::flows(&added);
    Ok(())
}

/// Conversations that nobody had yet: the near peer over both families, the far one over IPv6
/// (its IPv4 conversation is the first one above), and back.
fn further_rounds(lab: &Lab, pairs: &Option<Pairs>) -> Result<Vec<(String, Round)>, LabError> {
    let Some(Pairs { talker, near, far }) = pairs else { return Ok(Vec::new()) };
    let mut rounds = Vec::new();
    for (what, peer) in [("on one node", near), ("on two nodes", far)] {
        for family in [4, 6] {
            if let Some(peer) = peer {
                // From the peer: the talker's own IPv4 conversation is learned already.
                let round = round_trips(lab, peer, talker, family)?;
                rounds.push((format!("{what}, IPv{family}, {} to {}", peer.pod, talker.pod), round));
            }
        }
    }
    Ok(rounds)
}
