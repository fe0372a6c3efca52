//! What is done for one physical network: moving its NIC to the bridge, and moving it back.
//!
//! Every function looks at what there is and does what is missing, so that it does not matter where an earlier run
//! ended. The host's network is touched in one system call only ([`Kernel::shift`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ovsdb::Transaction;
use tokio::time::{Instant, sleep};

use super::UplinksConfig;
use super::belongings::Belongings;
use super::database::{CommitError, Database};
use super::guard;
use super::kernel::{self, Kernel, Link};
use super::plan::{self, Wanted};
use super::record::{self, Record};
use super::stuck::Stuck;
use super::view::{self, Found};
use crate::config::PhysicalNetwork;
use crate::nft;

/// Time that the kernel may probe for a duplicate of the bridge's own link-local address (RFC 4862 §5.4: one probe,
/// one second, and up to one second's delay), before the NIC goes into the bridge: there it would silence the host.
const PROBES: Duration = Duration::from_secs(3);

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
        if holder.is_none() {
            self.add_nic(names, &link).await?;
        }
        self.move_all(names, &link).await?;
        if datapath == "netdev" {
            self.guard(names, Some(link.device.index)).await.map_err(Stuck::Failed)?;
        }
        Ok(())
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
        if found.members.get(patch).is_some_and(|member| !member.row.external_ids.contains_key(plan::MARK)) {
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
    async fn bridge_device(&mut self, bridge: &str) -> Result<Link, Stuck> {
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

    /// Puts the NIC into the bridge, the record with it, and waits until the switch has it.
    async fn add_nic(&mut self, names: &Names, link: &Link) -> Result<(), Stuck> {
        let Names { nic, bridge, .. } = names;
        let device = self.bridge_device(bridge).await?;
        kernel::copy_settings(nic, bridge).iter().for_each(|problem| tracing::warn!("{problem}"));
        let end = Instant::now() + PROBES;
        while self.kernel.probes(&device.device).map_err(unreadable)? && Instant::now() < end {
            sleep(LOOK * 4).await;
        }
        let record = self.take_record(names, link, &device)?;
        let found = names.find(&self.database).ok_or(Stuck::Later)?;
        let txn = plan::add_nic(&found, &self.config.node, nic, &record);
        let committed = self.database.commit(txn, self.config.patience).await;
        let opened = |found: &Found| {
            let row = &found.members.get(nic)?.row;
            match (&row.error, row.ofport) {
                (Some(error), _) => Some(Err(error.clone())),
                (None, Some(number)) if number > 0 => Some(Ok(())),
                _ => None,
            }
        };
        let told = match committed {
            Ok(()) => {
                let names = names.clone();
                let look = |replica: &ovsdb::Replica| {
                    let ports = [names.bridge.as_str(), names.nic.as_str()];
                    view::find(replica, &names.bridge, &ports).is_some_and(|found| opened(&found).is_some())
                };
                self.database.wait(self.config.patience, look).await;
                let opened = names.find(&self.database).and_then(|found| opened(&found));
                opened.unwrap_or_else(|| Err(CommitError::Silent.to_string()))
            }
            Err(error) => Err(error.to_string()),
        };
        let Err(why) = told else { return Ok(()) };
        self.take_out_nic(names).await;
        Err(Stuck::Failed(format!(
            "NIC {nic} cannot be put into bridge {bridge}, and stays as it was: {why}"
        )))
    }

    /// What is on the NIC, and on the bridge's device already, as the record to be.
    fn take_record(&mut self, names: &Names, link: &Link, device: &Link) -> Result<String, Stuck> {
        let mut belongings = self.kernel.belongings(&device.device).map_err(Stuck::blocked)?;
        belongings.merge(self.kernel.belongings(&link.device).map_err(Stuck::blocked)?);
        let record = Record {
            nic: names.nic.clone(),
            device: device.device.index,
            moment: kernel::moment(),
            belongings,
        };
        record.to_text().map_err(Stuck::Failed)
    }

    /// Moves what is on the NIC to the bridge's device. On a device that is new, everything of the record goes on.
    async fn move_all(&mut self, names: &Names, link: &Link) -> Result<(), Stuck> {
        let Names { nic, bridge, .. } = names;
        let device = self.bridge_device(bridge).await?;
        let found = names.find(&self.database).ok_or(Stuck::Later)?;
        let before = recorded(&found);
        let on_nic = self.kernel.belongings(&link.device).map_err(Stuck::blocked)?;
        let is_new = before.as_ref().is_none_or(|record| record.device != device.device.index);
        if on_nic.is_empty() && !is_new {
            return self.keep_record(&found, before, &device).await;
        }
        let moment = kernel::moment();
        let mut known = before.as_ref().map(|record| record.alive_at(&moment)).unwrap_or_default();
        let mut moving = if is_new { known.clone() } else { Belongings::default() };
        moving.merge(on_nic.clone());
        known.merge(on_nic);
        let record = Record {
            nic: nic.clone(),
            device: before.as_ref().map_or(0, |record| record.device),
            moment,
            belongings: known,
        };
        if before.is_none_or(|before| !before.belongings.is_like(&record.belongings)) {
            self.write_record(&found, &record).await?;
        }
        if is_new {
            kernel::copy_settings(nic, bridge).iter().for_each(|problem| tracing::warn!("{problem}"));
        }
        self.shift(names, &moving, link, &device).await?;
        if is_new {
            self.write_record(&found, &Record { device: device.device.index, ..record }).await?;
        }
        let (addresses, routes) = (moving.addresses.len(), moving.routes.len());
        tracing::info!(%nic, %bridge, addresses, routes, "what the host had on the NIC is on the bridge");
        Ok(())
    }

    async fn shift(
        &mut self,
        names: &Names,
        moving: &Belongings,
        link: &Link,
        device: &Link,
    ) -> Result<(), Stuck> {
        let (from, to) = (link.device.index, device.device.index);
        let failures = self.kernel.shift(moving, Some(from), to);
        if failures.is_empty() {
            return Ok(());
        }
        let back = self.kernel.shift(moving, Some(to), from);
        self.take_out_nic(names).await;
        let back = if back.is_empty() { String::new() } else { format!("; and back: {}", back.join("; ")) };
        let Names { nic, bridge, .. } = names;
        Err(Stuck::Failed(format!(
            "what the host has on NIC {nic} cannot be moved to {bridge}, and was put back: {}{back}",
            failures.join("; ")
        )))
    }

    /// Keeps the record as the bridge's device is: the host may have renewed or changed something there.
    async fn keep_record(
        &mut self,
        found: &Found,
        record: Option<Record>,
        device: &Link,
    ) -> Result<(), Stuck> {
        let Some(record) = record.filter(|_| device.up) else { return Ok(()) };
        let belongings = self.kernel.belongings(&device.device).map_err(Stuck::blocked)?;
        // A device that goes away loses them first.
        let still = self.kernel.link(&device.device.name).map_err(unreadable)?;
        if still.as_ref() != Some(device) || record.belongings.is_like(&belongings) {
            return Ok(());
        }
        self.write_record(found, &Record { moment: kernel::moment(), belongings, ..record }).await
    }

    async fn write_record(&mut self, found: &Found, record: &Record) -> Result<(), Stuck> {
        let text = record.to_text().map_err(Stuck::Failed)?;
        let written = self.database.write(plan::write_record(found.uuid, &text)).await;
        written.map(drop).map_err(|error| Stuck::Failed(format!("bridge {}: {error}", found.row.name)))
    }

    /// Takes the NIC out of the bridge; the bridge stays, and does nothing.
    async fn take_out_nic(&mut self, names: &Names) {
        let Some(found) = names.find(&self.database) else { return };
        let Some(member) = found.members.get(&names.nic) else { return };
        let txn = plan::remove_port(found.uuid, member.port);
        if let Err(error) = self.database.commit(txn, self.config.patience).await {
            tracing::warn!("NIC {} is to leave bridge {}: {error}", names.nic, names.bridge);
        }
    }

    /// Moves everything back to the NIC and removes the bridge; from somebody else's bridge, the patch port. What it
    /// did, and what is left, in words.
    pub async fn put_back(&mut self, names: &Names) -> Undone {
        let Names { nic, bridge, patch, .. } = names;
        let mut undone = Undone::default();
        let found = names.find(&self.database);
        if let Some(found) = found.as_ref().filter(|found| !found.is_ours()) {
            let own =
                found.members.get(patch).filter(|patch| patch.row.external_ids.contains_key(plan::MARK));
            if let Some(member) = own {
                let outcome =
                    self.database.commit(plan::remove_port(found.uuid, member.port), self.config.patience);
                undone.note(&format!("port {patch} of bridge {bridge}"), outcome.await);
            }
            return undone;
        }
        if let Err(error) = self.guard(names, None).await {
            undone.left.push(error);
        }
        if let Some(found) = &found
            && let Some(member) = found.members.get(nic)
        {
            let outcome =
                self.database.commit(plan::remove_port(found.uuid, member.port), self.config.patience);
            undone.note(&format!("NIC {nic} in bridge {bridge}"), outcome.await);
        }
        self.move_back(names, found.as_ref(), &mut undone);
        if let Some(found) = &found {
            let outcome = self.database.commit(plan::remove_bridge(found.uuid), self.config.patience).await;
            undone.note(&format!("bridge {bridge}"), outcome);
        }
        undone
    }

    fn move_back(&mut self, names: &Names, found: Option<&Found>, undone: &mut Undone) {
        let Names { nic, bridge, .. } = names;
        let device = self.kernel.link(bridge).ok().flatten();
        let on_device = match &device {
            Some(device) => self.kernel.belongings(&device.device),
            None => Ok(Belongings::default()),
        };
        // Without the database, the device itself tells whose it is.
        if found.is_none() && device.as_ref().is_some_and(|device| !device.is_ours) {
            return;
        }
        let mut belongings = match on_device {
            Ok(belongings) => belongings,
            Err(error) => return undone.left.push(error),
        };
        let record = found.and_then(recorded);
        let index = device.as_ref().map(|device| device.device.index);
        if let Some(record) = record.filter(|record| belongings.is_empty() && index != Some(record.device)) {
            belongings = record.alive_at(&kernel::moment());
        }
        if belongings.is_empty() {
            return;
        }
        let Ok(Some(link)) = self.kernel.link(nic) else {
            undone.left.push(format!(
                "the addresses of bridge {bridge} have nowhere to go: NIC {nic} does not exist on this node"
            ));
            return;
        };
        let failures = self.kernel.shift(&belongings, index, link.device.index);
        if failures.is_empty() {
            undone.done.push(format!("addresses and routes of {bridge} moved back to {nic}"));
        }
        undone.left.extend(failures);
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
    async fn guard(&mut self, names: &Names, index: Option<u32>) -> Result<(), String> {
        let wanted = index.map(|index| (names.nic.clone(), index));
        if self.guarded.get(&names.network) == wanted.as_ref() && wanted.is_some() {
            return Ok(());
        }
        let before = self.guarded.clone();
        match wanted {
            Some(wanted) => drop(self.guarded.insert(names.network.clone(), wanted)),
            None => drop(self.guarded.remove(&names.network)),
        }
        let nics = self.guarded.iter().map(|(network, (nic, _))| (network.clone(), nic.clone())).collect();
        let outcome = nft::run(&self.config.nft, &guard::script(&nics)).await;
        if outcome.is_err() {
            self.guarded = before;
        }
        outcome.map_err(|error| format!("NIC {}: frames would be received twice: {error}", names.nic))
    }
}

/// What was undone, and what could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undone {
    /// Things that were removed or moved back.
    pub done: Vec<String>,
    /// Things that are left, each with the reason.
    pub left: Vec<String>,
}

impl Undone {
    fn note(&mut self, what: &str, outcome: Result<(), CommitError>) {
        match outcome {
            Ok(()) => self.done.push(format!("{what} removed")),
            Err(CommitError::Silent) => {
                self.left.push(format!("{what}: removed from the database; {}", CommitError::Silent))
            }
            Err(error) => self.left.push(format!("{what}: {error}")),
        }
    }
}

fn recorded(found: &Found) -> Option<Record> {
    let text = found.row.external_ids.get(record::KEY)?;
    let record = Record::from_text(text);
    record.inspect_err(|error| tracing::warn!("bridge {}: {error}", found.row.name)).ok()
}

fn unreadable(error: std::io::Error) -> Stuck {
    Stuck::Failed(format!("rtnetlink: {error}"))
}
