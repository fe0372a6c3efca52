//! Measures Fabric beside its peers, and says which budgets are met.

use std::process::ExitCode;

use clap::Parser as _;
use fabric_tests::bench::{Cli, main as run};

fn main() -> ExitCode {
    run(&Cli::parse())
}
