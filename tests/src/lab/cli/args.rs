//! Arguments that several verbs share.

use clap::{Args, ValueEnum};

use crate::lab::names::LabName;

/// Which lab.
#[derive(Debug, Args)]
pub struct Which {
    /// Name of the lab.
    #[arg(long, short = 'l', value_name = "LAB", default_value = "lab", global = false)]
    pub name: LabName,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}
