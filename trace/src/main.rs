//! `fabric-trace`: explains who may talk to whom, and why.
//!
//! The cluster is read from a folder of manifests, without the help of anybody, or the
//! agent of the node is asked over its socket. Either way the answers are made by the same
//! functions ([`fabric_api::verdict`]), from the same engine that decides for the switch.

mod args;
mod check;
mod cluster;
mod csv_form;
mod error;
mod lint;
mod manifests;
mod matrix;
mod outcome;
mod progress;
mod questions;
mod sink;
mod table;
mod truth;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
use outcome::Exit;

fn main() -> ExitCode {
    let exit = match Arguments::parse().command {
        Command::Verdict(args) => verdict::run(&args),
        Command::Matrix(args) => matrix::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Lint(args) => lint::run(&args),
    };
    let exit = exit.unwrap_or_else(|error| {
        eprintln!("fabric-trace: {error}");
        Exit::NoAnswer
    });
    exit.into()
}
