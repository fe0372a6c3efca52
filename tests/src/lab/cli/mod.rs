//! The command line of `fabric-lab`.

mod args;
mod exec;
mod show;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use args::{Format, Which};

use super::names::{LabName, Layout};
use super::{LabError, interrupt, teardown};

const LONG: &str = "\
A cluster of switches on one machine: every node is a network namespace with an Open vSwitch of its own \
(userspace datapath) and a real Fabric agent, every pod a namespace attached by the real fabric-cni. \
It needs root, Debian's openvswitch-switch, iproute2, ethtool and nftables, and neither Kubernetes nor a kernel module. \
The host's own Open vSwitch is never touched.

Node nN is 192.168.77.N and fd77::N; the wire itself, 192.168.77.254 and fd77::254, plays the world outside.";

const EXAMPLES: &str = "\
Examples:
  fabric-lab up --world deploy/examples     a lab as a folder of manifests says; edits take effect
  fabric-lab status                         its nodes and pods
  fabric-lab exec pod/shop/web -- ping -c1 10.244.0.9
  fabric-lab exec node/n1 -- ovs-vsctl show
  fabric-lab exec wire -- ping -c1 192.168.77.1
  fabric-lab flows n1                       what Fabric put into the switch of n1
  fabric-lab down                           leaves nothing behind

Exit codes:
  0  done                        4  not ready: up in part, or not in time
  1  something failed            5  no such lab, node or pod
  2  wrong use                   6  a program is not installed
  3  root is needed              130  interrupted
  exec exits as its command does.

Environment:
  FABRIC_LAB_DIR  folder of all labs (default /run/fabric-lab)
  FABRIC_BIN_DIR  folder of fabric-node and fabric-cni (default: beside fabric-lab)
  FABRIC_LAB_LOG  what agents log (default info)";

/// `fabric-lab`.
#[derive(Debug, Parser)]
#[command(name = "fabric-lab", version, about = "A cluster of switches on one machine")]
#[command(long_about = LONG, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Makes a lab and returns when it is ready; replaces the one of the same name.
    Up(up::UpArgs),
    /// Runs a command in a pod, on a node, or on the wire.
    #[command(
        after_help = "Places: pod/NAMESPACE/NAME, node/NAME, wire, and with an office: office, router, server100, server200. On a node, OVS's own programs find its switch."
    )]
    Exec {
        #[command(flatten)]
        which: Which,
        /// Where: pod/NAMESPACE/NAME, node/NAME, wire, or a place of the office.
        place: String,
        /// The command and its arguments.
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// Shows the flows of a node's br-fabric.
    Flows {
        #[command(flatten)]
        which: Which,
        /// The node, as n1.
        node: String,
        /// The bridge.
        #[arg(long, default_value = super::node::BRIDGE_FABRIC)]
        bridge: String,
        /// How to print.
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// Shows nodes and pods; exit code 4 where one of them is not well.
    Status {
        #[command(flatten)]
        which: Which,
        /// How to print.
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// Takes a lab down, whatever is left of it.
    Down {
        #[command(flatten)]
        which: Which,
    },
    /// Lists the labs of this machine.
    List {
        /// How to print.
        #[arg(short, long, value_enum, default_value = "text")]
        output: Format,
    },
    /// Keeps a lab as its folder says; `up` starts this.
    #[command(hide = true)]
    Supervise {
        /// Folder of the lab.
        #[arg(long)]
        directory: PathBuf,
    },
}

/// Runs a command line; errors are printed once, here.
pub fn main(cli: Cli) -> ExitCode {
    match run(cli.verb) {
        Ok(code) => code,
        Err(error) => failure("fabric-lab", error),
    }
}

/// Prints an error once, and gives the exit code for it. What a signal cut short fails by
/// the signal, whatever fell first.
pub fn failure(program: &str, error: LabError) -> ExitCode {
    let error = if interrupt::requested() { LabError::Interrupted } else { error };
    eprintln!("{program}: {error}");
    ExitCode::from(error.exit_code())
}

fn run(verb: Verb) -> Result<ExitCode, LabError> {
    let done = |()| ExitCode::SUCCESS;
    if !matches!(verb, Verb::List { .. }) && !nix::unistd::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    match verb {
        Verb::Up(args) => up::up(&args).map(done),
        Verb::Exec { which, place, command } => exec::exec(&which.name, &place, &command),
        Verb::Flows { which, node, bridge, output } => {
            show::flows(&which.name, &node, &bridge, output).map(done)
        }
        Verb::Status { which, output } => show::status(&which.name, output).map(done),
        Verb::Down { which } => down(&which.name).map(done),
        Verb::List { output } => show::list(output).map(done),
        Verb::Supervise { directory } => up::supervise(&directory).map(done),
    }
}

fn down(name: &LabName) -> Result<(), LabError> {
    // A Ctrl-C must not leave half a lab.
    interrupt::catch()?;
    let layout = Layout::new(name)?;
    let _lock = teardown::lock(&layout)?;
    if teardown::remove(&layout)? { Ok(()) } else { Err(LabError::NoSuchLab(name.to_string())) }
}
