//! The Fabric agent: command line.

mod agent;
mod cleanup;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use fabric_node::config::{self, NodeConfig};
use fabric_node::serve;

/// Exit code for a command line or a node file that cannot be used.
const UNUSABLE: u8 = 2;

/// The Fabric agent: one per node.
#[derive(Debug, Parser)]
#[command(version, about, long_about = None, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fabric-node run --config /etc/fabric/node.yaml
  fabric-node status
  fabric-node status -o json --socket /run/fabric/agent.sock
  fabric-node ipam --claims
  fabric-node cleanup --config /etc/fabric/node.yaml

Exit codes: 0 done, 1 the agent failed or cannot be reached, or cleanup has left something, 2 the command line or the
node file cannot be used, or cleanup found a running agent.";

const CLEANUP: &str = "\
Moves addresses and routes back to the NICs of physical networks, and removes Fabric's bridges with their ports and
flows, the interfaces of containers, routes, neighbours and rules of nftables. Containers that run lose their network.
It prints what it removed, and on standard error what is left and why. Running it again does no harm.

It does not change: kernel settings that the agent switched on (forwarding of packets, which other programs may have
come to depend on), claims of addresses in the store, and bridges of somebody else, from which only Fabric's own port
goes.

Example:
  systemctl stop fabric-node && fabric-node cleanup --config /etc/fabric/node.yaml

Exit codes: 0 nothing is left, 1 something is left, 2 the node file cannot be used, or an agent is running.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the agent until it is told to end (SIGTERM, SIGINT).
    Run {
        /// The node file.
        #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
        config: PathBuf,
    },
    /// Takes everything of Fabric's off this node; the host stays connected.
    #[command(after_help = CLEANUP)]
    Cleanup {
        /// The node file.
        #[arg(long, value_name = "FILE", default_value = config::DEFAULT_PATH)]
        config: PathBuf,
        /// Goes on although an agent is running, which would make everything again.
        #[arg(long)]
        force: bool,
    },
    /// Shows how the running agent is.
    Status {
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = "/run/fabric/agent.sock")]
        socket: PathBuf,
        /// What to print.
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Shows how many addresses there are, and who has which.
    Ipam {
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = "/run/fabric/agent.sock")]
        socket: PathBuf,
        /// What to print.
        #[arg(short, long, value_enum, default_value_t = Format::Text)]
        output: Format,
        /// Lists each claim, with its pod, its node and since when, in place of the numbers.
        #[arg(long)]
        claims: bool,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// What the agent's socket answers, as documented in docs/api.md.
    Json,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run { config } => run(&config),
        Command::Cleanup { config, force } => clean_up(&config, force),
        Command::Status { socket, output } => status(&socket, output),
        Command::Ipam { socket, output, claims } => ipam(&socket, output, claims),
    }
}

fn load(path: &std::path::Path) -> Result<NodeConfig, config::ConfigError> {
    let hostname = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    NodeConfig::load(path, &hostname.unwrap_or_default())
}

fn clean_up(path: &std::path::Path, force: bool) -> ExitCode {
    let config = match load(path) {
        Ok(config) => config,
        Err(error) => return complain(&error, UNUSABLE),
    };
    agent::log("error");
    if !force && cleanup::agent_runs(&config) {
        let socket = config.agent_socket();
        let socket = socket.display();
        let error = format!(
            "an agent answers at {socket}: stop it first, or it would make everything again (--force goes on)"
        );
        return complain(&error, UNUSABLE);
    }
    let report = match runtime() {
        Ok(runtime) => runtime.block_on(cleanup::run(&config)),
        Err(error) => return complain(&error, 1),
    };
    report.done.iter().for_each(|line| println!("{line}"));
    report.left.iter().for_each(|line| eprintln!("fabric-node: left: {line}"));
    ExitCode::from(u8::from(!report.left.is_empty()))
}

fn run(path: &std::path::Path) -> ExitCode {
    let config = match load(path) {
        Ok(config) => config,
        Err(error) => return complain(&error, UNUSABLE),
    };
    agent::log(&config.log);
    match runtime().and_then(|runtime| runtime.block_on(agent::run(config))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error, 1),
    }
}

fn status(socket: &std::path::Path, output: Format) -> ExitCode {
    let asked = runtime().map(|runtime| runtime.block_on(serve::client::status(socket)));
    let status = match asked {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => return complain(&error, 1),
        Err(error) => return complain(&error, 1),
    };
    show(output, &status, |status| serve::render::status(status, agent::since_epoch()))
}

fn ipam(socket: &std::path::Path, output: Format, claims: bool) -> ExitCode {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error, 1),
    };
    if claims {
        return match runtime.block_on(serve::client::claims(socket)) {
            Ok(claims) => show(output, &claims, |claims| serve::render::ipam::claims(claims)),
            Err(error) => complain(&error, 1),
        };
    }
    match runtime.block_on(serve::client::ipam(socket)) {
        Ok(ipam) => show(output, &ipam, serve::render::ipam::pools),
        Err(error) => complain(&error, 1),
    }
}

fn show<T: serde::Serialize>(output: Format, answer: &T, text: impl FnOnce(&T) -> String) -> ExitCode {
    match output {
        Format::Text => print!("{}", text(answer)),
        Format::Json => match serde_json::to_string_pretty(answer) {
            Ok(text) => println!("{text}"),
            Err(error) => return complain(&error, 1),
        },
    }
    ExitCode::SUCCESS
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn complain(error: &dyn std::fmt::Display, code: u8) -> ExitCode {
    eprintln!("fabric-node: {error}");
    ExitCode::from(code)
}
