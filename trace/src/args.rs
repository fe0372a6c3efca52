//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fabric_api::verdict::{End, Protocol, Traffic, TrafficError};
use policy::Family;

/// Where the agent of a node listens unless its file says otherwise.
const SOCKET: &str = "/run/fabric/agent.sock";

/// Explains who may talk to whom, and why: from a folder of manifests, or by the agent of this node.
#[derive(Debug, Parser)]
#[command(name = "fabric-trace", version, about, long_about = None, after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fabric-trace verdict shop/web shop/db --tcp 5432
  fabric-trace matrix --tcp 80,443 --udp 53 --manifests ./cluster
  fabric-trace check questions.csv --manifests ./cluster
  fabric-trace lint --manifests ./cluster

Without --manifests the agent of this node is asked over its socket, which is for root only.
`fabric-trace COMMAND --help` has more examples and the exit codes of each command.";

const VERDICT: &str = "\
Examples:
  fabric-trace verdict shop/web shop/db --tcp 5432
  fabric-trace verdict shop/web 192.0.2.7 --tcp 443 --manifests ./cluster
  fabric-trace verdict 192.0.2.7 shop/web --icmp -o json
  fabric-trace verdict shop/web kube-system/dns --udp 53 --family 6

Exit codes: 0 allowed, 1 denied, 2 no answer.";

const MATRIX: &str = "\
Examples:
  fabric-trace matrix --tcp 80
  fabric-trace matrix --tcp 80,443 --udp 53 --icmp --manifests ./cluster
  fabric-trace matrix --tcp 443 --ip 192.0.2.7 --ip 2001:db8::7 -o csv > matrix.csv

Exit codes: 0 printed, 2 no answer.";

const CHECK: &str = "\
QUESTIONS is a CSV file with the header from,to,protocol,port,verdict. from and to are NAMESPACE/NAME of a pod
or an address; protocol is TCP, UDP, SCTP or ICMP (without a port); verdict is allow, deny, or empty where
nothing is expected. Lines that begin with # are comments.

Examples:
  fabric-trace check questions.csv --manifests ./cluster
  fabric-trace check - -o csv --manifests ./cluster < questions.csv > answers.csv

Exit codes: 0 every answer is as expected, 1 some are not, 2 a question has no answer.";

const LINT: &str = "\
Examples:
  fabric-trace lint --manifests ./cluster
  fabric-trace lint -o json

Exit codes: 0 nothing found, 1 something found, 2 no answer.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tells whether a conversation may be opened, and every rule that was looked at.
    #[command(after_help = VERDICT, override_usage = "fabric-trace verdict FROM TO (--tcp PORT | --udp PORT | --sctp PORT | --icmp) [OPTIONS]")]
    Verdict(VerdictArgs),
    /// Prints who may talk to whom: all pods against all pods.
    #[command(after_help = MATRIX, override_usage = "fabric-trace matrix [--tcp PORT,...] [--udp PORT,...] [--sctp PORT,...] [--icmp] [OPTIONS]")]
    Matrix(MatrixArgs),
    /// Answers a file of questions, and compares the answers with those that it expects.
    #[command(after_help = CHECK)]
    Check(CheckArgs),
    /// Finds policies that select nothing, rules that never match, port names that no pod has, and what cannot
    /// be read.
    #[command(after_help = LINT)]
    Lint(LintArgs),
}

/// Where the cluster is read from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where the cluster is read from")]
pub struct Source {
    /// Read manifests instead of asking the agent: .yaml, .yml and .json files in DIR and below; may be given
    /// more than once.
    #[arg(long, value_name = "DIR", conflicts_with = "socket")]
    pub manifests: Vec<PathBuf>,
    /// Namespaces that talk with every tenant, as sharedNamespaces in the node file; give '' for none.
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "kube-system",
        requires = "manifests"
    )]
    pub shared_namespaces: Vec<String>,
    /// The agent's socket.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    pub socket: PathBuf,
}

#[derive(Debug, Args)]
pub struct VerdictArgs {
    /// Who opens the conversation: NAMESPACE/NAME of a pod, or an address.
    pub from: End,
    /// With whom: NAMESPACE/NAME of a pod, or an address.
    pub to: End,
    #[command(flatten)]
    pub sent: Sent,
    /// Over which addresses, where both ends have IPv4 and IPv6 [default: 4].
    #[arg(long, value_name = "4|6", value_parser = family)]
    pub family: Option<Family>,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    #[command(flatten)]
    pub source: Source,
}

/// What one conversation carries.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "What is sent")]
pub struct Sent {
    /// TCP to this port.
    #[arg(long, value_name = "PORT", value_parser = port())]
    tcp: Option<u16>,
    /// UDP to this port.
    #[arg(long, value_name = "PORT", value_parser = port())]
    udp: Option<u16>,
    /// SCTP to this port.
    #[arg(long, value_name = "PORT", value_parser = port())]
    sctp: Option<u16>,
    /// ICMP, between IPv6 addresses ICMPv6.
    #[arg(long)]
    icmp: bool,
}

impl Sent {
    /// What is sent.
    pub fn traffic(&self) -> Result<Traffic, TrafficError> {
        let ports = [(Protocol::Tcp, self.tcp), (Protocol::Udp, self.udp), (Protocol::Sctp, self.sctp)];
        match ports.into_iter().find(|(_, port)| port.is_some()) {
            Some((protocol, port)) => Traffic::new(protocol, port),
            None => Traffic::new(Protocol::Icmp, None),
        }
    }
}

#[derive(Debug, Args)]
pub struct MatrixArgs {
    #[command(flatten)]
    pub sent: SentEach,
    /// An address to ask beside the pods; may be given more than once.
    #[arg(long, value_name = "ADDRESS")]
    pub ip: Vec<std::net::IpAddr>,
    /// Only over these addresses, where pods have IPv4 and IPv6 [default: 4 where both ends have it, else 6].
    #[arg(long, value_name = "4|6", value_parser = family)]
    pub family: Option<Family>,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    #[command(flatten)]
    pub source: Source,
}

/// What conversations carry: each of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
#[command(next_help_heading = "What is sent")]
pub struct SentEach {
    /// TCP to each of these ports.
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', value_parser = port())]
    tcp: Vec<u16>,
    /// UDP to each of these ports.
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', value_parser = port())]
    udp: Vec<u16>,
    /// SCTP to each of these ports.
    #[arg(long, value_name = "PORT,...", value_delimiter = ',', value_parser = port())]
    sctp: Vec<u16>,
    /// ICMP, between IPv6 addresses ICMPv6.
    #[arg(long)]
    icmp: bool,
}

impl SentEach {
    /// What is sent, each once, in the order TCP, UDP, SCTP, ICMP and as given.
    pub fn traffic(&self) -> Result<Vec<Traffic>, TrafficError> {
        let ports = [(Protocol::Tcp, &self.tcp), (Protocol::Udp, &self.udp), (Protocol::Sctp, &self.sctp)];
        let ported = ports
            .into_iter()
            .flat_map(|(protocol, ports)| ports.iter().map(move |port| Traffic::new(protocol, Some(*port))));
        let icmp = self.icmp.then(|| Traffic::new(Protocol::Icmp, None));
        let mut each = Vec::new();
        for traffic in ported.chain(icmp) {
            let traffic = traffic?;
            if !each.contains(&traffic) {
                each.push(traffic);
            }
        }
        Ok(each)
    }
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The file of questions; - reads standard input.
    #[arg(value_name = "QUESTIONS.csv")]
    pub questions: OsString,
    /// Over which addresses, where both ends of a question have IPv4 and IPv6 [default: 4].
    #[arg(long, value_name = "4|6", value_parser = family)]
    pub family: Option<Family>,
    /// What to print: text has what differs from the expectations, csv and json have every answer.
    #[arg(short, long, value_enum, default_value_t = TableFormat::Text)]
    pub output: TableFormat,
    #[command(flatten)]
    pub source: Source,
}

#[derive(Debug, Args)]
pub struct LintArgs {
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    #[command(flatten)]
    pub source: Source,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// As documented in docs/trace.md.
    Json,
}

/// How many answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// For people.
    Text,
    /// As documented in docs/trace.md.
    Json,
    /// The header from,to,protocol,port,verdict and a row for each answer.
    Csv,
}

fn port() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..)
}

fn family(text: &str) -> Result<Family, &'static str> {
    match text {
        "4" => Ok(Family::V4),
        "6" => Ok(Family::V6),
        _ => Err("4 or 6 is wanted"),
    }
}
