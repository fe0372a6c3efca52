//! Physical networks: the bridge of each, its NIC, and the host's addresses that move along.
//!
//! For every physical network of the node file the room makes the bridge `br-NAME`, which forwards as a plain switch
//! (`fail_mode` standalone: so the host keeps its network when nobody controls it), with a patch port to Fabric's
//! bridge that carries the VLANs in use. Then the NIC goes into the bridge, and what the host has on it (addresses,
//! the routes that leave by it, permanent neighbours) moves to the bridge's device, which has the NIC's hardware
//! address, MTU and settings.
//!
//! # The move
//!
//! ```text
//! look: is the NIC free, and not the only way to manage this node?
//!   -> bridge and device, up, its link-local address probed
//!   -> one transaction: the NIC's port, and the record of what the host has on it
//!   -> the switch has opened the NIC
//!   -> everything onto the bridge's device, and when it is there, off the NIC
//! ```
//!
//! The record is JSON in `external_ids` of the bridge (`record.rs`), written with the port, before the host's network
//! is touched. No step relies on memory: each looks at the database and the kernel and does what is missing, so that
//! a run that ended anywhere is taken up by the next one, or undone by [`cleanup`]. Where a step fails, everything
//! goes back to the NIC, and the network is tried again later.
//!
//! * All in place: nothing is done. So a restart of the agent does not touch the host's network.
//! * The bridge's device is new (the userspace datapath's goes with `ovs-vswitchd`): it gets everything of the record.
//! * The NIC has addresses again (after a boot, or because a program of the host put them there): they move as well.
//! * The host changes something on the bridge's device: the record follows.
//!
//! Temporary addresses (RFC 8981) and the link-local address that each device makes for itself stay. Rules
//! (`ip rule`), `tc` and firewall rules that name the NIC are not changed.
//!
//! # Somebody else's bridge
//!
//! A bridge `br-NAME` that is not Fabric's and has the NIC is used as it is: it gets the patch port, and nothing else
//! of it is ever changed.

mod belongings;
mod cleanup;
mod database;
mod guard;
mod hands;
mod kernel;
mod moves;
mod plan;
mod record;
mod room;
mod stuck;
mod undo;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use policy::Name;
use tokio::sync::watch;

use crate::config::PhysicalNetwork;

pub use cleanup::cleanup;
pub use undo::Undone;

/// Key of `external_ids` that marks what is Fabric's.
const MARK: &str = "fabric";

/// Settings of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UplinksConfig {
    /// Unix socket of `ovsdb-server`.
    pub database: PathBuf,
    /// Name of this node; marks what is Fabric's.
    pub node: String,
    /// Name of Fabric's bridge, whose datapath the others get.
    pub bridge: String,
    /// The physical networks.
    pub networks: BTreeMap<String, PhysicalNetwork>,
    /// The program that applies rules of nftables.
    pub nft: PathBuf,
    /// Time that the switch has to act.
    pub patience: Duration,
}

impl UplinksConfig {
    /// No physical networks, in the usual database.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            database: PathBuf::from("/run/openvswitch/db.sock"),
            node: node.to_owned(),
            bridge: "br-fabric".to_owned(),
            networks: BTreeMap::new(),
            nft: PathBuf::from("nft"),
            patience: Duration::from_secs(10),
        }
    }
}

/// Speaks to the room. The room ends when the last handle is dropped; bridges, ports and addresses stay.
#[derive(Debug, Clone)]
pub struct Handle {
    vlans: watch::Sender<Option<BTreeMap<Name, BTreeSet<u16>>>>,
    problems: watch::Receiver<Vec<String>>,
}

impl Handle {
    /// Wants these VLANs, 0 for untagged frames, to pass between each physical network and Fabric's bridge. Only the
    /// last call counts. It never waits.
    pub fn apply(&self, vlans: BTreeMap<Name, BTreeSet<u16>>) {
        self.vlans.send_replace(Some(vlans));
    }

    /// What stands in the way at the moment, sorted; each says what, where and what to do. Empty when all is in place.
    #[must_use]
    pub fn problems(&self) -> watch::Receiver<Vec<String>> {
        self.problems.clone()
    }
}

/// Starts the room. Must be called within a tokio runtime, in the network namespace of the node.
///
/// A physical network that is in place, but not in the configuration any more, is undone.
#[must_use]
pub fn start(config: UplinksConfig) -> Handle {
    let (vlans, wanted) = watch::channel(None);
    let (found, problems) = watch::channel(Vec::new());
    tokio::spawn(room::run(config, wanted, found));
    Handle { vlans, problems }
}
