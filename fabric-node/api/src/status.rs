//! How the agent is.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::{Pool, Problem, WorldCounts};

/// The answer to `GET /v1/status`: the agent as it is at the moment of the question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Version of the agent.
    pub version: String,
    /// Name of the node.
    pub node: String,
    /// What the agent does.
    pub state: State,
    /// When it came to be in this state: seconds since the Unix epoch.
    pub since: u64,
    /// What it waits for or lacks, one a line; empty in [`State::Running`].
    pub waiting_for: Vec<String>,
    /// The switch of this node.
    pub switch: Switch,
    /// Where the world and the claims are kept.
    pub store: Store,
    /// What is known of the cluster.
    pub world: WorldCounts,
    /// Containers attached on this node, by container id and interface.
    pub attachments: Vec<Attachment>,
    /// Addresses held by this node, by address.
    pub leases: Vec<Lease>,
    /// How the addresses of Networks are used, by Network and family.
    pub pools: Vec<Pool>,
    /// Machines that claim addresses of containers on this node, by address.
    pub conflicts: Vec<Conflict>,
    /// Announcements that defended addresses against such machines, since the agent started.
    pub defences: u64,
    /// Flows that the agent wants in the switch.
    pub flows: Flows,
    /// Packets that came to the agent for a decision, by table and outcome.
    pub punts: Vec<Punts>,
    /// Packets that policy denied since the agent started, by reason.
    pub denied: Vec<Tally>,
    /// New conversations that policy allowed although policies in audit mode would deny them, by reason.
    pub audited: Vec<Tally>,
    /// What has come of the edits of the cluster's objects.
    pub policy: PolicyState,
    /// Packets dropped since the switch started, by cause, as of the last time the agent read the counters.
    pub drops: BTreeMap<String, u64>,
    /// Paths to other nodes that carry less than the interface which they leave by, by address.
    pub paths: Vec<Path>,
    /// What is wrong until somebody acts.
    pub problems: Vec<Problem>,
}

/// What the agent does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does not attach containers and judges no packet yet: the store or the switch has not been read.
    #[default]
    Starting,
    /// All is well.
    Running,
    /// It works, but something that it needs is away: [`Status::waiting_for`] names it.
    Degraded,
    /// It was told to end, and finishes what it began.
    Stopping,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Stopping => "stopping",
        })
    }
}

/// The switch of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Switch {
    /// Whether the OpenFlow connection is up.
    pub connected: bool,
    /// Whether the connection to the database of Open vSwitch is up.
    pub database_connected: bool,
    /// Name of the bridge.
    pub bridge: String,
    /// Version of Open vSwitch, where it says so.
    pub ovs_version: Option<String>,
    /// Datapath of the bridge: `system` or `netdev`.
    pub datapath: Option<String>,
}

/// Where the world and the claims are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Store {
    /// Which kind of store.
    pub kind: StoreKind,
    /// The folder, or the address of the API server.
    pub location: String,
    /// Whether every watch has delivered its first full list.
    pub synced: bool,
}

/// Kind of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// A folder of manifests.
    #[default]
    Directory,
    /// The API server of Kubernetes.
    Kubernetes,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Directory => "directory",
            Self::Kubernetes => "kubernetes",
        })
    }
}

/// A container's interface on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attachment {
    /// Id of the container, as the runtime names it.
    pub container: String,
    /// Name of the interface inside.
    pub ifname: String,
    /// The pod, `namespace/name`, where the runtime named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The Network.
    pub network: String,
    /// Where it is on the underlay; absent in an overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Segment>,
    /// Addresses inside.
    pub addresses: Vec<IpAddr>,
    /// MTU, bytes.
    #[serde(default)]
    pub mtu: u32,
    /// What it may send and receive.
    #[serde(default)]
    pub rates: Rates,
    /// Hardware address inside, `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    /// Name of the host's end: the port of the bridge.
    pub port: String,
    /// Number of the port, once the switch has opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ofport: Option<u32>,
    /// Conntrack zone.
    pub zone: u16,
    /// Whether its flows are in the switch.
    pub ready: bool,
}

/// A VLAN of a physical network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// Name of the physical network.
    pub physical_network: String,
    /// 1 to 4094; absent where frames have no tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
}

impl fmt::Display for Segment {
    /// `NETWORK/VLAN`, or `NETWORK` without a tag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.vlan {
            Some(vlan) => write!(f, "{}/{vlan}", self.physical_network),
            None => f.write_str(&self.physical_network),
        }
    }
}

/// Limits of a container's interface, bits per second; absent where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rates {
    /// Out of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<u64>,
    /// Into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<u64>,
}

/// A machine on a wire that claims the address of a container on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The address.
    pub ip: IpAddr,
    /// Whose it is: `pod NAMESPACE/NAME`, or `container ID` where no pod is known.
    pub holder: String,
    /// The Network.
    pub network: String,
    /// Where both are.
    pub segment: Segment,
    /// Hardware address of the machine, `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
}

/// An address that this node holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The address.
    pub ip: IpAddr,
    /// Its Network.
    pub network: String,
    /// `CONTAINERID/IFNAME` of the attachment that it was taken for.
    pub owner: String,
    /// What it is in.
    pub state: LeaseState,
}

/// What becomes of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// Its claim is being made.
    Claiming,
    /// A container has it.
    Held,
    /// It is kept for the successor of a pod that is away.
    Retained,
    /// It was given back and is not used again for a while.
    Resting,
}

impl fmt::Display for LeaseState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Claiming => "claiming",
            Self::Held => "held",
            Self::Retained => "retained",
            Self::Resting => "resting",
        })
    }
}

/// A path to another node that carries less than the interface which it leaves by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// The node that it leads to; empty where no node has the address.
    pub node: String,
    /// Tunnel address of that node.
    pub address: IpAddr,
    /// The largest IP packet that comes through, the tunnel's own headers counted, bytes.
    pub mtu: u32,
}

/// Flows that the agent wants in the switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Flows {
    /// Flows that follow from the world and the ports alone.
    pub r#static: u64,
    /// Flows that answer punts, by the table they are in.
    pub learned: Vec<TableFlows>,
}

/// Number of flows in a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableFlows {
    /// Name of the table.
    pub table: String,
    /// How many.
    pub flows: u64,
}

/// Packets or conversations with one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// The reason, as a verdict spells it.
    pub because: String,
    /// How many.
    pub count: u64,
}

/// What has come of the edits of the cluster's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyState {
    /// Edits that the agent has taken since it started. One that writes an object waits until this has grown, and then
    /// for [`PolicyState::settled`].
    pub edits: u64,
    /// Whether everything that follows from them is in the switch, and no connection is left that they forbid.
    pub settled: bool,
    /// Learned decisions that edits made the agent judge again.
    pub judged_again: u64,
    /// Verdicts that are remembered without a flow in the switch, for connections that they let in.
    pub dormant: u64,
}

/// Packets that came to the agent for a decision, since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Punts {
    /// Name of the table that had no flow for them.
    pub table: String,
    /// What was done: `allowed`, `denied`, `waiting`, `malformed`, ...
    pub outcome: String,
    /// How many.
    pub packets: u64,
}
