//! Bridges, ports and tunnels, by way of the database of Open vSwitch.
//!
//! On every connection to the database, and whenever somebody changes what is Fabric's,
//! the room compares the database with what there should be and writes the difference as
//! one transaction: the bridge, its LOCAL interface, the tunnel ports and the patch ports
//! to the bridges of physical networks. It then waits
//! until `ovs-vswitchd` has acted (`cur_cfg` reaches the transaction's `next_cfg`,
//! ovs-vswitchd.conf.db(5)) before it reports [`PortsEvent::Ready`] with all ports; from
//! there on it reports what changes.
//!
//! Rows are told apart by UUID and name, never by OpenFlow number. What is Fabric's has
//! `external_ids` of Fabric: key `fabric` on the bridge, the tunnel ports and the patch
//! ports (these also say `fabric.physical`), keys that begin with `fabric.` on the
//! interfaces of containers. A tunnel that the switch cannot open is a problem and holds
//! nothing else up. Nothing else is ever touched; where something else has a
//! name that is needed, that is a problem that names it.
//!
//! # Datapath
//!
//! With `datapath: auto` the bridge keeps the datapath that it has. A new bridge gets the
//! userspace datapath (`netdev`) when another bridge of this switch uses it, since packets
//! pass between bridges of one datapath only, or when the kernel module `openvswitch` is
//! not loaded; otherwise the kernel's (`system`). `ovs-vswitchd` must offer it
//! (`Open_vSwitch.datapath_types`).
//!
//! [`PortsEvent::Ready`]: fabric_core::node::PortsEvent::Ready

mod cleanup;
mod errands;
#[cfg(test)]
mod fixture;
mod own;
mod room;
mod setup;
mod view;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use fabric_core::node::{Event, PortsCommand, Task};
use tokio::sync::{mpsc, watch};

use crate::config::Datapath;

pub use cleanup::{Removal, cleanup};
pub use own::Tunnel;

/// The oldest Open vSwitch that is supported.
pub const OLDEST: (u32, u32) = (2, 17);

/// Settings of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortsConfig {
    /// Unix socket of `ovsdb-server`.
    pub database: PathBuf,
    /// Name of this node; marks the bridge, and its hash is the LOCAL interface's hardware address.
    pub node: String,
    /// Name of the bridge.
    pub bridge: String,
    /// Which datapath the bridge is to use.
    pub datapath: Datapath,
    /// The tunnel ports.
    pub tunnels: Vec<Tunnel>,
    /// The physical networks, each with a patch port to its bridge.
    pub physical: BTreeSet<String>,
    /// MTU of the LOCAL interface until [`Handle::set_mtu`] says another, bytes. Without either the switch sets the least
    /// MTU of all ports, again and again.
    pub mtu: Option<u32>,
    /// Time after which a command that did not succeed is answered with an error.
    pub patience: Duration,
}

impl PortsConfig {
    /// A bridge `br-fabric` with a tunnel port of every kind in the usual database, and no physical networks.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            database: PathBuf::from("/run/openvswitch/db.sock"),
            node: node.to_owned(),
            bridge: "br-fabric".to_owned(),
            datapath: Datapath::Auto,
            tunnels: Tunnel::ALL.to_vec(),
            physical: BTreeSet::new(),
            mtu: None,
            patience: Duration::from_secs(10),
        }
    }
}

/// What is known of the switch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchFacts {
    /// Its version, where the database has it.
    pub version: Option<String>,
    /// `system` or `netdev`, once it is decided.
    pub datapath: Option<String>,
    /// What stands in the way, sorted; each says what, where and what to do. Empty when all is as it should be.
    pub problems: Vec<String>,
}

/// Speaks to the room. The room ends when the last handle is dropped; bridge and ports stay.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: mpsc::Sender<(Task, PortsCommand)>,
    mtu: watch::Sender<Option<u32>>,
    facts: watch::Receiver<SwitchFacts>,
    configured: Datapath,
}

/// Commands on their way into the room.
const QUEUE: usize = 256;

impl Handle {
    /// Has a command carried out; its outcome comes back as [`Event::Done`] under the task's number, exactly once.
    /// The room takes commands at once, whether the database is there or not.
    pub async fn send(&self, task: Task, command: PortsCommand) {
        if self.commands.send((task, command)).await.is_err() {
            tracing::error!("the ports room has ended; task {} is lost", task.0);
        }
    }

    /// Has the LOCAL interface ask the switch for this MTU, bytes: any other that it is given does not last.
    pub fn set_mtu(&self, mtu: u32) {
        self.mtu.send_if_modified(|known| known.replace(mtu) != Some(mtu));
    }

    /// What is known of the switch, as it changes.
    #[must_use]
    pub fn facts(&self) -> watch::Receiver<SwitchFacts> {
        self.facts.clone()
    }

    /// Version of Open vSwitch, where the database has it.
    #[must_use]
    pub fn ovs_version(&self) -> Option<String> {
        self.facts.borrow().version.clone()
    }

    /// `system` or `netdev`: the bridge's datapath, and as long as it is not decided, what it is most likely to be.
    #[must_use]
    pub fn datapath_type(&self) -> String {
        let decided = self.facts.borrow().datapath.clone();
        decided.unwrap_or_else(|| {
            let system = match self.configured {
                Datapath::System => true,
                Datapath::Netdev => false,
                Datapath::Auto => setup::kernel_module(),
            };
            if system { "system" } else { "netdev" }.to_owned()
        })
    }

    /// Whether the bridge's datapath is the userspace one; see [`Handle::datapath_type`].
    #[must_use]
    pub fn is_userspace(&self) -> bool {
        self.datapath_type() == "netdev"
    }

    /// What stands in the way at the moment; see [`SwitchFacts::problems`].
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.facts.borrow().problems.clone()
    }
}

/// Starts the room. Must be called within a tokio runtime.
#[must_use]
pub fn start(config: PortsConfig, events: mpsc::Sender<Event>) -> Handle {
    let (commands, inbox) = mpsc::channel(QUEUE);
    let (found, facts) = watch::channel(SwitchFacts::default());
    let configured = config.datapath;
    let (mtu, sizes) = watch::channel(None);
    tokio::spawn(room::run(config, inbox, sizes, found, events));
    Handle { commands, mtu, facts, configured }
}
