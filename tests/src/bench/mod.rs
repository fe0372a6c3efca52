//! The benchmarks: every budget as a ratio to a peer that is measured in the same run.
//!
//! A machine that is busy slows Fabric and its peers alike, so what counts is the ratio,
//! and samples of both sides are taken in turn. What each part measures, and how, stands
//! at the head of its file and in `docs/benchmarks.md`.

mod bed;
mod cni;
mod first;
mod frames;
mod lan;
mod line;
mod packets;
mod plain;
mod player;
mod pods;
mod policy;
mod punts;
mod report;
mod restart;
mod stats;
mod switch;
mod throughput;
mod way;

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use serde_json::{Map, json};

use crate::lab::{Lab, LabError, Spec, interrupt};
use report::Row;

/// `fabric-bench`.
#[derive(Debug, Parser)]
#[command(name = "fabric-bench", version, about = "Measures Fabric beside its peers")]
#[command(after_help = "Exit codes: 0 measured (and, with --strict, all budgets met), 1 a budget missed \
                        (--strict), else those of fabric-lab.")]
pub struct Cli {
    /// What to measure; everything by default.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// What to print.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Fails where a budget is missed.
    #[arg(long)]
    strict: bool,
}

/// One group of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Part {
    /// Latency of the first packet of a conversation.
    First,
    /// CNI ADD and DEL.
    Cni,
    /// Throughput of learned conversations.
    Throughput,
    /// Punts answered per second, without a switch.
    Punts,
    /// Restart with many learned flows, and memory.
    Restart,
    /// Verdicts, edits and memory at 1,000, 10,000 and 100,000 pods.
    Policy,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A table for people.
    Text,
    /// The same rows for programs.
    Json,
}

/// Runs the benchmarks.
pub fn main(cli: &Cli) -> ExitCode {
    let began = Instant::now();
    let rows = match run(cli) {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("fabric-bench: {error}");
            return ExitCode::from(error.exit_code());
        }
    };
    match cli.output {
        Format::Text => print!("{}", report::text(&rows, began.elapsed())),
        Format::Json => println!("{}", report::json(&rows)),
    }
    ExitCode::from(u8::from(cli.strict && rows.iter().any(Row::missed)))
}

fn run(cli: &Cli) -> Result<Vec<Row>, LabError> {
    interrupt::catch()?;
    let wanted = |part: Part| cli.parts.is_empty() || cli.parts.contains(&part);
    let mut rows = Vec::new();
    if [Part::First, Part::Cni, Part::Throughput].into_iter().any(wanted) {
        let mut lab = lab_with_a_lan()?;
        let plain = plain::Plain::up(2)?;
        pods::attach(&mut lab)?;
        if wanted(Part::First) {
            say("first packets");
            rows.extend(first::measure(&lab, &plain)?);
        }
        if wanted(Part::Throughput) {
            say("throughput");
            rows.extend(throughput::measure(&lab, &plain)?);
        }
        if wanted(Part::Cni) {
            say("CNI ADD and DEL");
            rows.extend(cni::measure(&lab, &plain)?);
        }
        if wanted(Part::First) {
            rows.extend(first::after_a_kill(&lab)?);
        }
        lab.down()?;
    }
    if [Part::Punts, Part::Restart].into_iter().any(wanted) {
        rows.extend(without_a_switch(wanted)?);
    }
    if wanted(Part::Policy) {
        say("verdicts, edits and memory");
        rows.extend(policy::measure()?);
    }
    Ok(rows)
}

/// A lab of two nodes that are on the network of the VLAN as well.
fn lab_with_a_lan() -> Result<Lab, LabError> {
    let networks = json!({ way::PHYSICAL: { "nic": lan::NIC } });
    let config = Map::from_iter([("physicalNetworks".to_owned(), networks)]);
    let lab = Lab::up_without_agents(&Spec { config, ..Spec::for_test("bench", 2)? })?;
    lan::lay(&lab)?;
    lab.start_agents()?;
    Ok(lab)
}

/// The agent on a switch that is played.
fn without_a_switch(wanted: impl Fn(Part) -> bool) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    say("punts without a switch");
    let mut bed = bed::Bed::up()?;
    let measured = punts::measure(&mut bed)?;
    if wanted(Part::Punts) {
        rows.extend(measured);
    }
    if wanted(Part::Restart) {
        say("restart with learned flows");
        rows.extend(restart::measure(&mut bed)?);
    }
    bed.down()?;
    Ok(rows)
}

/// Progress, for somebody who waits.
fn say(what: &str) {
    eprintln!("measuring {what}");
}
