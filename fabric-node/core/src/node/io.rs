//! What the node is told and what it asks for.
//!
//! The IO rooms of the agent speak only these types: each takes the commands of its
//! kind and answers with the events of its kind. A command that has an outcome
//! carries a [`Task`], and the outcome comes back under the same number, exactly
//! once, whatever happened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use openflow::message::{FlowRemoved, MeterMod, PacketIn, PacketOut, Resume};
use openflow::{FlowMod, FlowStats, Mac};
use policy::{Edit, IpClaim, Name};

use super::connection::Connection;
use super::denial::Denial;
use super::host::HostState;
use crate::pipeline::site::Rates;

/// Number of an errand that the node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task(pub u64);

/// Number of a request that somebody outside waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Something happened.
#[derive(Debug)]
pub enum Event {
    /// The world changed: from the intake room, in order.
    World(Vec<Edit>),
    /// Every watch of the intake room has delivered its first full list.
    WorldSynced,
    /// From the ports room.
    Ports(PortsEvent),
    /// From the OpenFlow clients.
    Switch(SwitchEvent),
    /// From the host room: the tunnel neighbours of the last [`HostState`] are warm, or were given up.
    PeersSettled(BTreeSet<IpAddr>),
    /// From the host room: the prefixes of the networks that the node's interfaces are on and carry packets of.
    Links(BTreeSet<IpNet>),
    /// From the host room: the tunnel addresses of other nodes to which less comes through than the interface that
    /// carries tunnels takes, whole, each with the largest IP packet that does, bytes.
    PathMtus(BTreeMap<IpAddr, u32>),
    /// A CNI request, from the attach room.
    Request {
        /// Returned with the reply.
        id: RequestId,
        /// What is asked.
        request: Request,
    },
    /// The outcome of a command.
    Done {
        /// The number the command carried.
        task: Task,
        /// What became of it.
        outcome: Outcome,
    },
}

/// Something to do, for the room that the variant names.
#[derive(Debug)]
pub enum Command {
    /// For the OpenFlow clients.
    Switch(SwitchCommand),
    /// For the ports room.
    Ports {
        /// Comes back with [`Outcome::Port`].
        task: Task,
        /// What to do.
        command: PortsCommand,
    },
    /// For the store of the intake room.
    Claim {
        /// Comes back with [`Outcome::Claim`].
        task: Task,
        /// What to do.
        command: ClaimCommand,
    },
    /// For the attach room: the interface in the container's namespace.
    Wire {
        /// Comes back with [`Outcome::Wire`].
        task: Task,
        /// What to do.
        command: WireCommand,
    },
    /// For the host room: the whole desired state; it applies the difference.
    Host(HostState),
    /// For the host room: what these pods send out of the cluster leaves under this egress address from here on, or as others'
    /// does. Conversations that the kernel has given another source are to begin anew.
    Readdress(BTreeMap<IpAddr, Option<IpAddr>>),
    /// For the host room: the tunnel addresses of the nodes that pods here send to or have sent to, whole. What these
    /// paths carry is to be looked after.
    PathsInUse(BTreeSet<IpAddr>),
    /// For the uplinks room: the VLANs in use on each physical network, whole; 0 stands for untagged frames. Those of
    /// others do not come to the bridge.
    Uplinks(BTreeMap<Name, BTreeSet<u16>>),
    /// The answer to a request, for the attach room.
    Reply {
        /// The number of the request.
        id: RequestId,
        /// The answer.
        reply: Result<Reply, RequestError>,
    },
    /// For the log.
    Report(Denial),
}

/// News of Open vSwitch's database.
#[derive(Debug)]
pub enum PortsEvent {
    /// The database is reachable and the bridge and its tunnel ports exist; all ports of the bridge.
    Ready(Vec<PortRow>),
    /// A port of the bridge appeared or changed.
    Changed(PortRow),
    /// A port of the bridge is gone.
    Gone {
        /// Its name.
        name: String,
    },
    /// The database went away; [`PortsEvent::Ready`] follows when it is back.
    Down,
}

/// A port of the bridge, with its interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRow {
    /// Name of port and interface.
    pub name: String,
    /// Type of the interface: empty for a system device, `internal`, `vxlan`, ...
    pub kind: String,
    /// OpenFlow number; `None` until the switch has opened it.
    pub ofport: Option<u32>,
    /// Why the switch could not open it.
    pub error: Option<String>,
    /// `external_ids` of the interface: the agent's book of attachments.
    pub external_ids: BTreeMap<String, String>,
    /// Hardware address that the switch sees.
    pub mac: Option<Mac>,
}

/// For the ports room.
#[derive(Debug)]
pub enum PortsCommand {
    /// Add a port with its interface to the bridge (or bring an existing one to this
    /// form), and answer when the switch has given it a number.
    Add(PortSpec),
    /// Remove a port and its interface; one that does not exist is no error.
    Remove {
        /// Name of the port.
        name: String,
    },
}

/// Key of `external_ids` that tells, on the interface of a patch to the bridge of a physical network, its name.
pub const PHYSICAL: &str = "fabric.physical";

/// A port to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortSpec {
    /// Name of port and interface: a network device of the host.
    pub name: String,
    /// Number to ask for.
    pub ofport_request: u16,
    /// `external_ids` of the interface.
    pub external_ids: BTreeMap<String, String>,
}

/// News of the switch.
#[derive(Debug)]
pub enum SwitchEvent {
    /// The connection for flows is up; the contents of the switch are unknown.
    Connected,
    /// It is down; commits under way have an unknown outcome.
    Disconnected,
    /// A packet without an answer.
    PacketIn(Box<PacketIn>),
    /// It refused a message that has no outcome, or a command never reached it: what it holds is in doubt.
    Refused,
    /// A flow with `send_flow_rem` went.
    FlowRemoved(Box<FlowRemoved>),
}

/// For the OpenFlow clients, and for the connections room. What changes flows goes out on one connection, in order.
#[derive(Debug)]
pub enum SwitchCommand {
    /// Meters first, then the flows as one atomic bundle. Comes back with [`Outcome::Committed`].
    Commit {
        /// Number of the errand.
        task: Task,
        /// Meters to add, change or remove.
        meters: Vec<MeterMod>,
        /// Flow changes, in order.
        flows: Vec<FlowMod>,
    },
    /// Flow changes and then the packet that waits for them; no outcome.
    Learn {
        /// Flow changes, in order.
        flows: Vec<FlowMod>,
        /// The paused packet, unless it is not to go on.
        resume: Option<Resume>,
    },
    /// Empty a conntrack zone. Comes back with [`Outcome::Committed`] after a barrier.
    FlushZone {
        /// Number of the errand.
        task: Task,
        /// The zone.
        zone: u16,
    },
    /// Packets of the agent's own, each with what is to happen to it; no outcome.
    Send {
        /// The packets, in order.
        packets: Vec<PacketOut>,
    },
    /// Read all flows. Comes back with [`Outcome::Dump`].
    Dump {
        /// Number of the errand.
        task: Task,
    },
    /// Read the tracked connections of some zones. Comes back with [`Outcome::Connections`].
    ReadConnections {
        /// Number of the errand.
        task: Task,
        /// The zones.
        zones: BTreeSet<u16>,
    },
    /// Wait until the switch has nothing left of decisions that it took by flows that are gone: it remembers those for
    /// a while. Comes back with [`Outcome::Committed`].
    Settle {
        /// Number of the errand.
        task: Task,
    },
    /// Track no more than so many connections in each of these zones; new ones above that are not tracked, and their
    /// answers do not pass. Comes back with [`Outcome::Committed`].
    LimitConnections {
        /// Number of the errand.
        task: Task,
        /// The zones.
        zones: BTreeSet<u16>,
        /// Connections in a zone.
        most: u32,
    },
    /// Make the switch forget these connections; one that is gone already is no error. Comes back with
    /// [`Outcome::Committed`].
    EndConnections {
        /// Number of the errand.
        task: Task,
        /// The connections.
        connections: Vec<Connection>,
    },
}

/// For the claim store.
#[derive(Debug)]
pub enum ClaimCommand {
    /// Create the claim; fails with [`ClaimError::Taken`] where the address has one.
    Create(IpClaim),
    /// Remove the claim of the address if its `owner` is this one; one that does not exist is no error.
    Release {
        /// The address.
        ip: IpAddr,
        /// `owner` of the claim.
        owner: String,
    },
    /// Replace the claim of an address, or remove it, where it is exactly as given or there is none; fails with
    /// [`ClaimError::Taken`] where it is another.
    Exchange {
        /// The claim as it is known.
        from: Box<IpClaim>,
        /// What it becomes, for the same address; `None` to remove it.
        to: Option<Box<IpClaim>>,
    },
}

/// Why a claim could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Somebody holds the address.
    #[error("{} is held by {}", .0.ip, .0.owner)]
    Taken(Box<IpClaim>),
    /// The store did not do it.
    #[error("claim store: {0}")]
    Store(String),
}

/// For the attach room's hands.
#[derive(Debug)]
pub enum WireCommand {
    /// Make the pair of devices and set the container's side up.
    Create(WireSpec),
    /// Give the container's side of a pair its addresses and routes.
    Address(WireSpec),
    /// Remove the pair; one that does not exist is no error.
    Remove {
        /// The host's end.
        host_name: String,
    },
    /// Compare the container's side with what it should be.
    Check(WireSpec),
    /// Give both ends of the pair another MTU: a smaller one to the container's end first, a larger one to the host's.
    Resize {
        /// Path of the network namespace.
        netns: String,
        /// Name of the interface inside.
        ifname: String,
        /// The host's end.
        host_name: String,
        /// MTU of both ends, bytes.
        mtu: u32,
    },
}

/// The container's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireSpec {
    /// Path of the network namespace.
    pub netns: String,
    /// Name of the interface inside.
    pub ifname: String,
    /// Name of the host's end (at most 15 bytes).
    pub host_name: String,
    /// Hardware address inside.
    pub mac: Mac,
    /// MTU of both ends, bytes.
    pub mtu: u32,
    /// Addresses inside, with their prefix lengths.
    pub addresses: Vec<IpNet>,
    /// Next hops for the default routes, one a family at most, reached on-link.
    pub gateways: Vec<IpAddr>,
    /// Hardware address of every next hop, where the fabric is the next hop: a permanent neighbour inside, so that the
    /// first packet needs no ARP. Without one, the next hops are routers of the VLAN and answer for themselves.
    pub gateway_mac: Option<Mac>,
    /// Whether transmit checksums must be computed before the packet leaves (userspace datapath).
    pub software_checksums: bool,
}

/// What became of a command.
#[derive(Debug)]
pub enum Outcome {
    /// Of [`PortsCommand`]: the row for `Add`, `None` for `Remove`.
    Port(Result<Option<PortRow>, String>),
    /// Of [`ClaimCommand`].
    Claim(Result<(), ClaimError>),
    /// Of [`WireCommand`]; the error says what, where and what to do.
    Wire(Result<(), String>),
    /// Of [`SwitchCommand::Commit`], [`SwitchCommand::FlushZone`], [`SwitchCommand::EndConnections`],
    /// [`SwitchCommand::LimitConnections`] and [`SwitchCommand::Settle`].
    Committed(Result<(), String>),
    /// Of [`SwitchCommand::ReadConnections`]; the error says what, where and what to do.
    Connections(Result<Vec<Connection>, String>),
    /// Of [`SwitchCommand::Dump`].
    Dump(Result<Vec<FlowStats>, String>),
}

/// A request from the container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// CNI ADD.
    Attach(AttachRequest),
    /// The beginning of a CNI ADD with the IPAM plugin `dhcp`: an interface on which nothing passes but what its DHCP
    /// client says and hears.
    Prepare(AttachRequest),
    /// The end of that: the address that the interface has waited for.
    Complete {
        /// With the address.
        request: AttachRequest,
        /// Routers that the DHCP server names, for a Network that names none.
        routers: Vec<IpAddr>,
    },
    /// CNI DEL.
    Detach(AttachmentKey),
    /// CNI CHECK.
    Check {
        /// Which attachment.
        key: AttachmentKey,
        /// Path of the network namespace.
        netns: String,
    },
    /// CNI GC: every attachment of this network configuration that is not listed goes.
    Collect {
        /// Name of the network configuration.
        network: String,
        /// Attachments in use.
        valid: BTreeSet<AttachmentKey>,
    },
    /// CNI STATUS.
    Ready,
}

/// What CNI tells attachments apart by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentKey {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
}

/// CNI ADD, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachRequest {
    /// Which attachment.
    pub key: AttachmentKey,
    /// Path of the network namespace.
    pub netns: String,
    /// `name` of the network configuration.
    pub network: String,
    /// The pod, where the runtime names it (`K8S_POD_NAMESPACE`, `K8S_POD_NAME`, `K8S_POD_UID`).
    pub pod: Option<policy::PodIdent>,
    /// Addresses asked for by the runtime (`ips` capability, `IP` of `CNI_ARGS`), or given by an IPAM plugin.
    pub ips: Vec<IpAddr>,
    /// The IPAM plugin that gave them, or is to, where one does: these are the container's only addresses then.
    pub ipam: Option<String>,
    /// Hardware address asked for by the runtime.
    pub mac: Option<Mac>,
    /// MTU of the network configuration, bytes.
    pub mtu: Option<u32>,
    /// Limits asked for by the runtime (capability `bandwidth`); the pod's annotations go before.
    pub rates: Rates,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Attach`] and [`Request::Complete`]; without addresses, to [`Request::Prepare`].
    Attached(Attached),
    /// To all others.
    Done,
}

/// An attachment that carries traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Name of the host's end.
    pub host_name: String,
    /// Hardware address inside.
    pub mac: Mac,
    /// MTU, bytes.
    pub mtu: u32,
    /// Addresses inside.
    pub addresses: Vec<IpNet>,
    /// Next hops of the default routes.
    pub gateways: Vec<IpAddr>,
    /// The Network.
    pub network: Name,
}

/// Why a request was not fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It may succeed later, unchanged: CNI error 11.
    #[error("{0}")]
    TryAgain(String),
    /// The agent cannot serve: CNI error 50 for STATUS.
    #[error("{0}")]
    NotReady(String),
    /// The request contradicts itself or the cluster: CNI error 7.
    #[error("{0}")]
    Invalid(String),
    /// No address is to be had: the message names the pool, or the holder.
    #[error("{0}")]
    NoAddress(String),
    /// Nothing is known of this attachment: CNI error 3.
    #[error("{0}")]
    Unknown(String),
    /// Something failed on this node.
    #[error("{0}")]
    Failed(String),
}
