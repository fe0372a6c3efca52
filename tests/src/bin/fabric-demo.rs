//! Shows a folder of manifests on real switches.

use std::process::ExitCode;

use clap::Parser as _;
use fabric_tests::demo::{Cli, main as run};

fn main() -> ExitCode {
    run(&Cli::parse())
}
