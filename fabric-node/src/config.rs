//! The node file: what an administrator says about one node.
//!
//! The file is YAML. Everything has a default except where the world is kept. A field
//! that is not known, twice there or of the wrong type is an error that names the file,
//! the line and the field: a misspelt setting must not be a setting that silently does
//! nothing. `deploy/examples/node.yaml` shows every field.

mod physical;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

pub use physical::{MAX_PHYSICAL, PhysicalNetwork};

#[cfg(test)]
mod tests;

/// Where the node file is unless the command line says otherwise.
pub const DEFAULT_PATH: &str = "/etc/fabric/node.yaml";

/// Ten years in seconds: longer than any agent runs, and a time that can still be reckoned with.
const FOR_EVER: u64 = 315_360_000;

/// The most that a number without a bound of its own may be.
const MOST: u64 = u32::MAX as u64;

/// Longest name of a network device, bytes (`IFNAMSIZ` less the terminator, `linux/if.h`).
const MAX_DEVICE: usize = 15;

/// The node file, read and checked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeConfig {
    /// Name of this node, as the cluster's Node object spells it. Default: the host name.
    #[serde(default)]
    pub node: String,
    /// Where the world and the claims are kept. The one field that must be there.
    pub store: Store,
    /// Open vSwitch on this node.
    #[serde(default)]
    pub ovs: Ovs,
    /// Name of the bridge that carries the pods. Default: `br-fabric`.
    #[serde(default = "default_bridge")]
    pub bridge: String,
    /// What carries the tunnels: the MTU of the pods follows from that of this interface. Without it, 1,500
    /// bytes are assumed.
    #[serde(default)]
    pub tunnels: Tunnels,
    /// The agent's own sockets.
    #[serde(default)]
    pub sockets: Sockets,
    /// What to log: a level (`error`, `warn`, `info`, `debug`, `trace`), or the directives of
    /// `tracing_subscriber::EnvFilter` (`info,fabric_node::intake=debug`). Default: `info`.
    #[serde(default = "default_log")]
    pub log: String,
    /// Seconds between two full comparisons of the switch with what it should hold, from 1 to 315,360,000. Default: 300.
    #[serde(default = "default_reconcile_seconds")]
    pub reconcile_seconds: u64,
    /// Seconds that an address rests after its pod is gone, before it is used again; at most 315,360,000 (ten years).
    /// Default: 30.
    #[serde(default = "default_claim_rest_seconds")]
    pub claim_rest_seconds: u64,
    /// Seconds that the addresses of a pod which keeps them wait for its successor, once its container is gone; at
    /// most 315,360,000 (ten years), which stands for ever. Default: 3,600.
    #[serde(default = "default_claim_retention_seconds")]
    pub claim_retention_seconds: u64,
    /// Namespaces that talk with every tenant unless an annotation of theirs (`fabric.io/tenant`) says otherwise; the
    /// same on every node of a cluster. Default: `kube-system`.
    #[serde(default = "default_shared_namespaces")]
    pub shared_namespaces: Vec<String>,
    /// Whether this node may hold egress addresses (`fabric.io/egress-ip` of namespaces). It does so where one of its
    /// interfaces is on a network that has the address. Default: true.
    #[serde(default = "default_egress")]
    pub egress: bool,
    /// Bounds on what one pod can cost the node.
    #[serde(default)]
    pub limits: Limits,
    /// The physical networks that this node is on, by the name that Networks of mode `underlay` give
    /// (`physicalNetwork`), each with the NIC that leads there. Default: none.
    #[serde(default)]
    pub physical_networks: BTreeMap<String, PhysicalNetwork>,
}

/// Where the world and the claims are kept.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Store {
    /// A folder of manifests (`*.yaml`, `*.yml`, `*.json`), with the claims in `.claims` below it. It must
    /// exist.
    pub directory: PathBuf,
}

/// Open vSwitch on this node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ovs {
    /// Unix socket of `ovsdb-server`. Default: `/run/openvswitch/db.sock`.
    pub database: PathBuf,
    /// Folder of the bridges' OpenFlow sockets (`OVS_RUNDIR` of `ovs-vswitchd`). Default: `/run/openvswitch`.
    pub run_dir: PathBuf,
    /// Which datapath the bridge uses. Default: `auto`.
    pub datapath: Datapath,
}

impl Default for Ovs {
    fn default() -> Self {
        Self {
            database: PathBuf::from("/run/openvswitch/db.sock"),
            run_dir: PathBuf::from("/run/openvswitch"),
            datapath: Datapath::Auto,
        }
    }
}

/// Which datapath the bridge uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    /// The kernel's, where Open vSwitch offers it, else the userspace one.
    #[default]
    Auto,
    /// The kernel's.
    System,
    /// The userspace one.
    Netdev,
}

/// What carries the tunnels: an interface or a prefix, or nothing said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tunnels {
    /// Name of the interface whose addresses are the ends of the tunnels.
    pub interface: Option<String>,
    /// Prefix that the address of the tunnels' end is in.
    pub cidr: Option<IpNet>,
}

/// The agent's own sockets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Sockets {
    /// Folder of `cni.sock` and `agent.sock`, made where it is missing. Default: `/run/fabric`.
    pub directory: PathBuf,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { directory: PathBuf::from("/run/fabric") }
    }
}

/// Bounds on what one pod can cost the node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Packets a second that may ask the agent about new conversations, out of one pod and, counted apart,
    /// into it; those above are dropped, and their senders retransmit. At least 1. Default: 1,000.
    pub conversations_per_second: u32,
    /// Connections that are tracked for one pod: those that it opens, and those that are opened to it; above that,
    /// connections that it opens or receives get no answer. At least 1,024. Default: 65,536.
    pub connections_per_pod: u32,
    /// Learned flows that one pod may hold; the least recently used make room. At least 64. Default: 4,096.
    pub learned_flows_per_pod: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { conversations_per_second: 1_000, connections_per_pod: 65_536, learned_flows_per_pod: 4_096 }
    }
}

const fn default_egress() -> bool {
    true
}

fn default_bridge() -> String {
    "br-fabric".to_owned()
}

fn default_shared_namespaces() -> Vec<String> {
    vec!["kube-system".to_owned()]
}

fn default_log() -> String {
    "info".to_owned()
}

const fn default_reconcile_seconds() -> u64 {
    300
}

const fn default_claim_rest_seconds() -> u64 {
    30
}

const fn default_claim_retention_seconds() -> u64 {
    3_600
}

/// Why a node file is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "{}: {source}; write one (deploy/examples/node.yaml shows every field) or name another with --config",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is no YAML, or has other fields than a node file has.
    #[error("{}{}: {message}", path.display(), At(*line))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1, where it could be told.
        line: Option<u64>,
        /// What is wrong there.
        message: String,
    },
    /// A field has a value that cannot be.
    #[error("{}: {field}: {message}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The field, in dotted spelling.
        field: &'static str,
        /// What is wrong and what is wanted.
        message: String,
    },
}

/// `:LINE`, or nothing.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

impl NodeConfig {
    /// Reads and checks the node file at `path`. `hostname` names the node where the file does not.
    ///
    /// # Errors
    /// [`ConfigError`] says which file, line and field, and what is wanted.
    pub fn load(path: &Path, hostname: &str) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text, hostname)
    }

    /// Reads and checks `text`, which `path` holds.
    ///
    /// # Errors
    /// As [`NodeConfig::load`].
    pub fn parse(path: &Path, text: &str, hostname: &str) -> Result<Self, ConfigError> {
        let mut config = read(text).map_err(|fault| fault.in_file(path))?;
        if config.node.is_empty() {
            hostname.clone_into(&mut config.node);
        }
        match config.fault() {
            Some((field, message)) => Err(ConfigError::Value { path: path.to_owned(), field, message }),
            None => Ok(config),
        }
    }

    /// Time between two full comparisons with the switch.
    #[must_use]
    pub const fn reconcile(&self) -> Duration {
        Duration::from_secs(self.reconcile_seconds)
    }

    /// Time that a freed address rests.
    #[must_use]
    pub const fn claim_rest(&self) -> Duration {
        Duration::from_secs(self.claim_rest_seconds)
    }

    /// Time that kept addresses wait for the successor of their pod.
    #[must_use]
    pub const fn claim_retention(&self) -> Duration {
        Duration::from_secs(self.claim_retention_seconds)
    }

    /// The socket that `fabric-cni` asks.
    #[must_use]
    pub fn cni_socket(&self) -> PathBuf {
        self.sockets.directory.join("cni.sock")
    }

    /// The socket that people and tools ask.
    #[must_use]
    pub fn agent_socket(&self) -> PathBuf {
        self.sockets.directory.join("agent.sock")
    }

    /// The first field whose value cannot be, and why.
    fn fault(&self) -> Option<(&'static str, String)> {
        let paths = [
            ("store.directory", &self.store.directory),
            ("ovs.database", &self.ovs.database),
            ("ovs.runDir", &self.ovs.run_dir),
            ("sockets.directory", &self.sockets.directory),
        ];
        let limits = [
            ("reconcileSeconds", self.reconcile_seconds, 1..=FOR_EVER),
            ("claimRestSeconds", self.claim_rest_seconds, 0..=FOR_EVER),
            ("claimRetentionSeconds", self.claim_retention_seconds, 0..=FOR_EVER),
            ("limits.conversationsPerSecond", self.limits.conversations_per_second.into(), 1..=MOST),
            ("limits.connectionsPerPod", self.limits.connections_per_pod.into(), 1_024..=MOST),
            ("limits.learnedFlowsPerPod", self.limits.learned_flows_per_pod.into(), 64..=MOST),
        ];
        node_fault(&self.node)
            .map(|message| ("node", message))
            .or_else(|| paths.into_iter().find_map(|(field, path)| Some((field, path_fault(path)?))))
            .or_else(|| device_fault(&self.bridge).map(|message| ("bridge", message)))
            .or_else(|| self.tunnels.fault())
            .or_else(|| physical::fault(&self.physical_networks, &self.bridge))
            .or_else(|| log_fault(&self.log).map(|message| ("log", message)))
            .or_else(|| {
                let fault = self.shared_namespaces.iter().find_map(|name| namespace_fault(name));
                fault.map(|message| ("sharedNamespaces", message))
            })
            .or_else(|| {
                limits
                    .into_iter()
                    .find_map(|(field, value, wanted)| Some((field, number_fault(value, &wanted)?)))
            })
    }
}

impl Tunnels {
    fn fault(&self) -> Option<(&'static str, String)> {
        match (&self.interface, &self.cidr) {
            (Some(interface), Some(cidr)) => Some((
                "tunnels",
                format!(
                    "both interface ({interface}) and cidr ({cidr}) are given; give the one that is meant"
                ),
            )),
            (Some(interface), None) => device_fault(interface).map(|message| ("tunnels.interface", message)),
            _ => None,
        }
    }
}

/// Whether a text is a DNS label but for its length (RFC 1123 §2.1), in lower case.
fn is_label(text: &str) -> bool {
    let ends = text.starts_with('-') || text.ends_with('-');
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !ends && text.bytes().all(fits)
}

/// A namespace's name is a DNS label (RFC 1123), as the API server demands.
fn namespace_fault(name: &str) -> Option<String> {
    (!is_label(name) || name.len() > 63).then(|| {
        format!(
            "{name:?} cannot name a namespace; give up to 63 lower-case letters, digits and '-', or [] for none"
        )
    })
}

/// A node's name is a DNS subdomain (RFC 1123), as the API server demands of Node objects.
fn node_fault(name: &str) -> Option<String> {
    let sound = name.len() <= 253 && name.split('.').all(is_label);
    (!sound).then(|| {
        format!(
            "{name:?} cannot name a node; give the name of this node's Node object \
             (lower-case letters, digits, '-' and '.')"
        )
    })
}

/// What the kernel takes as the name of a network device (`dev_valid_name`).
fn device_fault(name: &str) -> Option<String> {
    let sound = (1..=MAX_DEVICE).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace());
    (!sound).then(|| {
        format!(
            "{name:?} cannot name a network device; give 1 to {MAX_DEVICE} bytes without '/', ':' and blanks"
        )
    })
}

fn number_fault(number: u64, wanted: &RangeInclusive<u64>) -> Option<String> {
    let (least, most) = (wanted.start(), wanted.end());
    if number < *least {
        Some(format!("{number} is too small; give a number of at least {least}"))
    } else if number > *most {
        Some(format!("{number} is too large; give a number of at most {most}"))
    } else {
        None
    }
}

fn path_fault(path: &Path) -> Option<String> {
    (!path.is_absolute())
        .then(|| format!("{:?} is not absolute; begin it with '/'", path.display().to_string()))
}

fn log_fault(directives: &str) -> Option<String> {
    tracing_subscriber::EnvFilter::try_new(directives).err().map(|error| {
        format!("{directives:?} is no filter ({error}); give error, warn, info, debug or trace, or TARGET=LEVEL,...")
    })
}

/// The document's fields; the error knows the field that it was reading.
fn read(text: &str) -> Result<NodeConfig, SyntaxFault> {
    let mut field = String::new();
    serde_saphyr::with_deserializer_from_str(text, |document| {
        serde_path_to_error::deserialize(document).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    })
    .map_err(|error| SyntaxFault { field, error: Box::new(error) })
}

/// What is wrong with a text, and where in it.
struct SyntaxFault {
    field: String,
    error: Box<serde_saphyr::Error>,
}

impl SyntaxFault {
    fn in_file(self, path: &Path) -> ConfigError {
        let error = self.error.without_snippet();
        let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        let place = error
            .location()
            .map(|place| (place.line(), format!(" at line {}, column {}", place.line(), place.column())));
        let text = match &place {
            Some((_, suffix)) => text.strip_suffix(suffix.as_str()).unwrap_or(&text),
            None => &text,
        };
        let text = match error {
            serde_saphyr::Error::InvalidScalar { ty: "u32" | "u64", .. } => "give a whole number, 0 or above",
            _ => text,
        };
        let message = match self.field.trim_end_matches(['?', '.']) {
            "" => text.to_owned(),
            field => format!("{field}: {text}"),
        };
        ConfigError::Syntax { path: path.to_owned(), line: place.map(|(line, _)| line), message }
    }
}
