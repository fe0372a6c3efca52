//! The node's own side of the fabric: routes, neighbours, masquerade, and the tunnel peers.
//!
//! The room is told the whole [`HostState`] and applies the difference between it and
//! what the kernel has: when the state changes, when the kernel reports that a link, an
//! address or one of the room's own routes changed, and every [`HostConfig::refresh`].
//! So a device that does not exist yet, or that the switch makes anew, is the normal
//! case and not an error.
//!
//! Routes and neighbours carry the protocol number [`PROTOCOL`]. Whatever carries
//! it is the room's, and goes when it is not wanted (leftovers of an earlier run too);
//! whatever does not is left alone, even where it stands in the way. Masquerade is the
//! nftables tables `ip fabric` and `ip6 fabric`, replaced as one transaction.
//!
//! Forwarding is switched on for a family once there is a route of that family, and
//! stays on: other programs of the host may have come to depend on it.
//!
//! # Egress addresses
//!
//! An address under which pods leave the cluster is put, alone in its prefix, on the interface that is on its network,
//! and announced. It has a lifetime in the kernel that the room renews (`egress`): where the agent has
//! died, the address goes before another node takes it over, and it outlives a restart. After each comparison that
//! succeeded, the room tells which networks the node's interfaces are on ([`Event::Links`]).
//!
//! # Tunnel peers
//!
//! The userspace datapath does not use the kernel's neighbours for its tunnels. It has a
//! table of its own, filled from ARP replies and neighbour advertisements that pass the
//! bridge on their way to the host, and a packet to a peer that is not in it is dropped.
//! So the kernel is made to ask anew: an existing entry is deleted and the kernel is told
//! to use it (`NTF_USE`), which sends a broadcast ARP request or a multicast neighbour
//! solicitation. The answer to a unicast solicitation would not do: Linux leaves the
//! link-layer address out of it and the switch ignores it. For IPv6 an empty datagram to
//! the discard port goes along: it lends the solicitation its source, while the device
//! has no link-local address yet (one to two seconds of duplicate detection). With the
//! kernel datapath, which queues packets while it resolves, an entry is never deleted.
//!
//! # Paths
//!
//! A path to a peer may carry less than the interface that it leaves by, and may change.
//! What each carries is found out by echo requests that must not be fragmented
//! (`paths`: which, and what follows from the answers; `prober`: the sockets).

mod conversations;
mod echo;
mod egress;
mod interfaces;
mod masquerade;
mod netlink;
mod paths;
mod peers;
mod plan;
mod prober;
mod room;
mod sysctl;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use fabric_core::node::{Event, HostState};
use prober::Wanted;
use tokio::sync::{mpsc, watch};

/// Routing protocol number of the routes, neighbours and addresses that the room makes (`rtm_protocol`, rtnetlink(7));
/// not in iproute2's `rt_protos`.
pub const PROTOCOL: u8 = crate::netlink::PROTOCOL;

/// Changes of the pods' egress addresses that may wait.
const QUEUE: usize = 1024;

/// Settings of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// The program that applies masquerade, `nft` of nftables.
    pub nft: PathBuf,
    /// Time between two comparisons without a cause, and between two askings of a peer that answered. The switch
    /// forgets a peer after 900 s without use.
    pub refresh: Duration,
    /// MTU of the interface that carries tunnels, bytes: no path is found to carry more. 0 where it is not known; then
    /// paths are not looked at.
    pub carrier_mtu: u32,
    /// Time that a peer has to answer before it is given up (and asked again later).
    pub patience: Duration,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            nft: PathBuf::from("nft"),
            refresh: Duration::from_secs(300),
            patience: Duration::from_secs(1),
            carrier_mtu: 0,
        }
    }
}

/// Speaks to the room. The room ends when the last handle is dropped; what it made stays, so that traffic outlives
/// the agent.
#[derive(Debug, Clone)]
pub struct Handle {
    state: watch::Sender<Option<HostState>>,
    leaving: mpsc::Sender<conversations::Leaving>,
    paths: watch::Sender<Wanted>,
    problems: watch::Receiver<Vec<String>>,
}

impl Handle {
    /// Wants `state`. Only the last one counts. It never waits.
    pub fn apply(&self, state: HostState) {
        self.paths.send_if_modified(|wanted| {
            let changed = wanted.peers != state.peers;
            wanted.peers.clone_from(&state.peers);
            changed
        });
        self.state.send_replace(Some(state));
    }

    /// These pods leave the cluster under this address from here on: conversations that left under another begin anew.
    pub async fn readdress(&self, pods: BTreeMap<IpAddr, Option<IpAddr>>) {
        // The task behind it ends after this handle only.
        let _ = self.leaving.send(pods).await;
    }

    /// Wants the paths to these peers looked after: what they carry is to be known soon. Of the last state's peers, the
    /// others are looked at from time to time.
    pub fn look_after(&self, peers: BTreeSet<IpAddr>) {
        self.paths.send_modify(|wanted| wanted.in_use = peers);
    }

    /// What stands in the way at the moment, sorted; each says what, where and what to do. Empty when all is applied.
    #[must_use]
    pub fn problems(&self) -> watch::Receiver<Vec<String>> {
        self.problems.clone()
    }
}

/// Starts the room. Must be called within a tokio runtime, in the network namespace of the node.
///
/// [`Event::PeersSettled`] follows every [`Handle::apply`] once, with the peers of that state; [`Event::Links`] the first one
/// and whatever changes the answer; [`Event::PathMtus`] comes when another path is found to be narrow, or not to be any
/// more.
#[must_use]
pub fn start(config: HostConfig, events: mpsc::Sender<Event>) -> Handle {
    let (state, wanted) = watch::channel(None);
    let (found, problems) = watch::channel(Vec::new());
    let (paths, peers) = watch::channel(Wanted::default());
    if config.carrier_mtu > 0 {
        tokio::spawn(prober::run(config.carrier_mtu, peers, events.clone()));
    }
    tokio::spawn(room::run(config, wanted, found, events));
    let (leaving, told) = mpsc::channel(QUEUE);
    tokio::spawn(conversations::run(told));
    Handle { state, leaving, paths, problems }
}

/// Removes all routes, neighbours, egress addresses and nftables tables that the room made in an earlier run. It goes on after a
/// failure. A room that runs meanwhile would make them again.
///
/// # Errors
/// All failures, one a line.
pub async fn cleanup(config: &HostConfig) -> Result<(), CleanupError> {
    let failures = room::cleanup(config).await;
    if failures.is_empty() { Ok(()) } else { Err(CleanupError(failures)) }
}

/// What could not be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct CleanupError(pub Vec<String>);
