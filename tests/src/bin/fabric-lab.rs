//! A cluster of switches on one machine.

use std::process::ExitCode;

use clap::Parser as _;
use fabric_tests::lab::cli::{Cli, main as run};

fn main() -> ExitCode {
    run(Cli::parse())
}
