//! What is done for one physical network: moving its NIC to the bridge, and moving it back.
//!
//! Every function looks at what there is and does what is missing, so that it does not matter where an earlier run
//! ended. The host's network is touched in one place only ([`Kernel::shift`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ovsdb::Transaction;
use tokio::time::{Instant, sleep};

use super::database::{CommitError, Database};
use super::guard;
use super::kernel::{Kernel, Link};
use super::plan::{self, Wanted};
use super::record::{self, Record};
use super::stuck::Stuck;
use super::view::{self, Found};
use super::{MARK, UplinksConfig};
use crate::config::PhysicalNetwork;
use crate::nft;

/// Time that a wait for the bridge's device takes between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A physical network, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Of the network.
    pub network: String,
    /// Of the NIC.
    pub nic: String,
    /// Of the bridge.
    pub bridge: String,
    /// Of the bridge's port to Fabric's bridge.
    pub patch: String,
}

impl Names {
    /// Of a network with this NIC.
    pub fn new(network: &str, nic: &str) -> Self {
        Self {
            network: network.to_owned(),
            nic: nic.to_owned(),
            bridge: PhysicalNetwork::bridge(network),
            patch: PhysicalNetwork::outer_port(network),
        }
    }

    /// The bridge, with the ports that matter.
    pub fn find(&self, database: &Database) -> Option<Found> {
        view::find(database.replica()?, &self.bridge, &[&self.bridge, &self.nic, &self.patch])
    }
}

/// The connections, and what was done last.
#[derive(Debug)]
pub struct Hands {
    /// Settings.
    pub config: UplinksConfig,
    /// Of Open vSwitch.
    pub database: Database,
    /// Of the host.
    pub kernel: Kernel,
    /// NICs whose frames the stack does not see, by physical network, with their index.
    pub guarded: BTreeMap<String, (String, u32)>,
    /// Indices of NICs that were looked at for being on.
    pub switched_on: BTreeSet<u32>,
}

impl Hands {
    /// Brings a physical network about. Where all is in place, it only looks.
    ///
    /// # Errors
    /// What stands in the way; whatever was moved is back.
    pub async fn bring_in(
        &mut self,
        names: &Names,
        allow_management: bool,
        vlans: Option<&BTreeSet<u16>>,
    ) -> Result<(), Stuck> {
        let Some(replica) = self.database.replica() else { return Err(Stuck::Later) };
        let Some(datapath) = view::datapath(replica, &self.config.bridge) else { return Err(Stuck::Later) };
        let holder = view::holder(replica, &names.nic);
        let found = names.find(&self.database);
        let Names { nic, bridge, .. } = names;
        if let Some(other) = holder.as_ref().filter(|holder| *holder != bridge) {
            return Err(Stuck::blocked(format!(
                "NIC {nic} is a port of bridge {other}: remove it there, or call the network as that bridge"
            )));
        }
        let link = self.kernel.link(nic).map_err(unreadable)?;
        let foreign = found.as_ref().filter(|found| !found.is_ours());
        if let Some(found) = foreign {
            let wanted = self.wanted(names, &datapath, link.as_ref(), vlans);
            return self.use_foreign(&wanted, found, holder.is_some(), names).await;
        }
        let link = link.ok_or_else(|| Stuck::blocked(format!("NIC {nic} does not exist on this node")))?;
        if holder.is_none() {
            self.may_move(&link, allow_management)?;
        }
        let wanted = self.wanted(names, &datapath, Some(&link), vlans);
        self.make_bridge(&wanted, found.as_ref()).await?;
        if holder.is_none() || self.forget_nic(names, &link).await? {
            self.add_nic(names, &link).await?;
        }
        self.switch_on(&link)?;
        self.move_all(names, &link).await?;
        if datapath == "netdev" {
            self.guard(names, Some(link.device.index)).await.map_err(Stuck::Failed)?;
        }
        let found = names.find(&self.database);
        match found.and_then(|found| found.members.get(nic)?.row.error.clone()) {
            Some(error) => Err(Stuck::blocked(format!("NIC {nic}: the switch cannot open it: {error}"))),
            None => Ok(()),
        }
    }

    fn wanted(
        &self,
        names: &Names,
        datapath: &str,
        link: Option<&Link>,
        vlans: Option<&BTreeSet<u16>>,
    ) -> Wanted {
        let mac =
            link.map(|link| link.device.mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>());
        Wanted {
            node: self.config.node.clone(),
            network: names.network.clone(),
            bridge: names.bridge.clone(),
            datapath: datapath.to_owned(),
            mac: mac.unwrap_or_default().join(":"),
            mtu: link.map_or(0, |link| link.mtu),
            vlans: vlans.cloned(),
        }
    }

    /// An administrator's own bridge gets the patch port and nothing else.
    async fn use_foreign(
        &mut self,
        wanted: &Wanted,
        found: &Found,
        has_nic: bool,
        names: &Names,
    ) -> Result<(), Stuck> {
        let Names { nic, bridge, patch, .. } = names;
        if !has_nic {
            return Err(Stuck::blocked(format!(
                "bridge {bridge} is not Fabric's and does not have the NIC {nic}: add it there, or remove the bridge"
            )));
        }
        let datapath = match found.row.datapath_type.as_str() {
            "" => "system",
            datapath => datapath,
        };
        if datapath != wanted.datapath {
            return Err(Stuck::blocked(format!(
                "bridge {bridge} has datapath {datapath} and bridge {} has {}: packets pass between bridges of one \
                 datapath only; set ovs.datapath in the node file",
                self.config.bridge, wanted.datapath
            )));
        }
        if found.members.get(patch).is_some_and(|member| !member.row.external_ids.contains_key(MARK)) {
            return Err(Stuck::blocked(format!(
                "port {patch} of bridge {bridge} is not Fabric's: remove it"
            )));
        }
        let mut txn = Transaction::new();
        plan::mend_patch(&mut txn, wanted, found);
        self.commit_if_any(txn).await
    }

    /// Whether the NIC may be touched at all.
    fn may_move(&mut self, link: &Link, allow_management: bool) -> Result<(), Stuck> {
        let nic = &link.device.name;
        if link.device.mac.len() != 6 {
            return Err(Stuck::blocked(format!("NIC {nic} is no Ethernet device: name one that is")));
        }
        if let Some(master) = link.master {
            let master =
                self.kernel.name(master).ok().flatten().unwrap_or_else(|| "another device".to_owned());
            return Err(Stuck::blocked(format!(
                "NIC {nic} belongs to {master}: name that one as the NIC, or take {nic} out of it"
            )));
        }
        if allow_management {
            return Ok(());
        }
        match self.kernel.ways().map_err(unreadable)?.only_by(link.device.index) {
            Some(why) => Err(Stuck::blocked(format!(
                "NIC {nic} is the only way to manage this node ({why}), and stays as it is; \
                 set allowManagement: true to have it moved all the same"
            ))),
            None => Ok(()),
        }
    }

    async fn make_bridge(&mut self, wanted: &Wanted, found: Option<&Found>) -> Result<(), Stuck> {
        let (bridge, mtu) = (wanted.bridge.clone(), wanted.mtu);
        let txn = match found {
            None => plan::make_bridge(wanted),
            Some(found) => plan::mend_bridge(wanted, found),
        };
        self.commit_if_any(txn).await?;
        let device = self.bridge_device(&bridge).await?;
        if !device.up || device.mtu != mtu || !device.is_ours {
            self.kernel.bring_up(&device.device, mtu).map_err(|error| Stuck::Failed(error.to_string()))?;
        }
        Ok(())
    }

    /// The bridge's device, which appears when the switch has acted.
    pub(super) async fn bridge_device(&mut self, bridge: &str) -> Result<Link, Stuck> {
        let end = Instant::now() + self.config.patience;
        loop {
            if let Some(link) = self.kernel.link(bridge).map_err(unreadable)? {
                return Ok(link);
            }
            if Instant::now() >= end {
                return Err(Stuck::Failed(format!(
                    "the device of bridge {bridge} does not appear; {}",
                    CommitError::Silent
                )));
            }
            sleep(LOOK).await;
        }
    }

    async fn commit_if_any(&mut self, txn: Transaction) -> Result<(), Stuck> {
        if txn.is_empty() {
            return Ok(());
        }
        self.database
            .commit(txn, self.config.patience)
            .await
            .map_err(|error| Stuck::Failed(error.to_string()))
    }

    /// Has the stack not see (or, without an index, see) what a NIC receives.
    pub(super) async fn guard(&mut self, names: &Names, index: Option<u32>) -> Result<(), String> {
        let wanted = index.map(|index| (names.nic.clone(), index));
        if self.guarded.get(&names.network) == wanted.as_ref() && wanted.is_some() {
            return Ok(());
        }
        let script = match &wanted {
            Some((nic, _)) => guard::on(&names.network, nic),
            None if self.guarded.keys().all(|network| *network == names.network) => guard::none(),
            None => guard::off(&names.network),
        };
        let outcome = nft::run(&self.config.nft, &script).await;
        match wanted.filter(|_| outcome.is_ok()) {
            Some(wanted) => drop(self.guarded.insert(names.network.clone(), wanted)),
            None => drop(self.guarded.remove(&names.network)),
        }
        outcome.map_err(|error| format!("NIC {}: frames would be received twice: {error}", names.nic))
    }
}

/// What the bridge's record says, if it has one that can be read.
pub(super) fn recorded(found: &Found) -> Option<Record> {
    let text = found.row.external_ids.get(record::KEY)?;
    let record = Record::from_text(text);
    record.inspect_err(|error| tracing::warn!("bridge {}: {error}", found.row.name)).ok()
}

/// A failure to read what the kernel has.
pub(super) fn unreadable(error: std::io::Error) -> Stuck {
    Stuck::Failed(format!("rtnetlink: {error}"))
}
