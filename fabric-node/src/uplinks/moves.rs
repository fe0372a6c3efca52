//! The NIC into the bridge, and what the host has on it onto the bridge's device.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::belongings::Belongings;
use super::database::CommitError;
use super::hands::{Hands, Names, recorded, unreadable};
use super::kernel::{self, Link};
use super::plan;
use super::record::{Moment, Record};
use super::stuck::Stuck;
use super::undo::Undone;
use super::view::{self, Found};

/// Time that the kernel may probe for a duplicate of the bridge's own link-local address (RFC 4862 §5.4: one probe,
/// one second, and up to one second's delay), before the NIC goes into the bridge: there it would silence the host.
const PROBES: Duration = Duration::from_secs(3);

/// Time between two looks at the probes.
const LOOK: Duration = Duration::from_millis(20);

impl Hands {
    /// Puts the NIC into the bridge, the record with it, and waits until the switch has it.
    pub(super) async fn add_nic(&mut self, names: &Names, link: &Link) -> Result<(), Stuck> {
        let Names { nic, bridge, .. } = names;
        let device = self.bridge_device(bridge).await?;
        kernel::copy_settings(nic, bridge).iter().for_each(|problem| tracing::warn!("{problem}"));
        let end = Instant::now() + PROBES;
        while self.kernel.probes(&device.device).map_err(unreadable)? && Instant::now() < end {
            sleep(LOOK).await;
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
        self.free_nic(names, &mut Undone::default()).await;
        Err(Stuck::Failed(format!(
            "NIC {nic} cannot be put into bridge {bridge}, and stays as it was: {why}"
        )))
    }

    /// Takes a NIC out of the bridge that the switch opened when it was another device.
    pub(super) async fn forget_nic(&mut self, names: &Names, link: &Link) -> Result<bool, Stuck> {
        let Some(found) = names.find(&self.database) else { return Ok(false) };
        let (Some(record), Some(member)) = (recorded(&found), found.members.get(&names.nic)) else {
            return Ok(false);
        };
        if record.opened == link.device.index || record.moment.boot != kernel::moment().boot {
            return Ok(false);
        }
        let txn = plan::remove_port(found.uuid, member.port);
        let removed = self.database.commit(txn, self.config.patience).await;
        removed.map_err(|error| Stuck::Failed(format!("NIC {}: {error}", names.nic)))?;
        Ok(true)
    }

    /// Switches a NIC on once; whoever switches it off later means it.
    pub(super) fn switch_on(&mut self, link: &Link) -> Result<(), Stuck> {
        if self.switched_on.insert(link.device.index) && !link.up {
            let on = self.kernel.switch_on(&link.device);
            return on.map_err(|error| Stuck::Failed(error.to_string()));
        }
        Ok(())
    }

    /// What is on the NIC, and on the bridge's device already, as the record to be.
    fn take_record(&mut self, names: &Names, link: &Link, device: &Link) -> Result<String, Stuck> {
        let mut belongings = self.kernel.belongings(&device.device).map_err(Stuck::blocked)?;
        belongings.merge(self.kernel.belongings(&link.device).map_err(Stuck::blocked)?);
        let record = Record {
            nic: names.nic.clone(),
            opened: link.device.index,
            device: device.device.index,
            moment: kernel::moment(),
            belongings,
        };
        record.to_text().map_err(Stuck::Failed)
    }

    /// Moves what is on the NIC to the bridge's device. On a device that is new, everything of the record goes on.
    pub(super) async fn move_all(&mut self, names: &Names, link: &Link) -> Result<(), Stuck> {
        let Names { nic, bridge, .. } = names;
        let device = self.bridge_device(bridge).await?;
        let found = names.find(&self.database).ok_or(Stuck::Later)?;
        let before = recorded(&found);
        let on_nic = self.kernel.belongings(&link.device).map_err(Stuck::blocked)?;
        let is_new = before.as_ref().is_none_or(|record| record.device != device.device.index);
        if on_nic.is_empty() && !is_new {
            return self.keep_record(&found, before, link, &device).await;
        }
        let moment = kernel::moment();
        let mut known = before.as_ref().map(|record| record.alive_at(&moment)).unwrap_or_default();
        let mut moving = if is_new { known.clone() } else { Belongings::default() };
        moving.merge(on_nic.clone());
        known.merge(on_nic);
        let record = Record {
            nic: nic.clone(),
            opened: opened(before.as_ref(), link, &moment),
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
        let Err(failures) = self.kernel.shift(moving, Some(&link.device), &device.device).await else {
            return Ok(());
        };
        let Names { nic, bridge, .. } = names;
        let mut undone = Undone::default();
        self.free_nic(names, &mut undone).await;
        let left = undone.left.iter().map(|left| format!("; left: {left}")).collect::<String>();
        Err(Stuck::Failed(format!(
            "what the host has on NIC {nic} cannot be moved to {bridge}, and was put back: {}{left}",
            failures.join("; ")
        )))
    }

    /// Keeps the record as the bridge's device is: the host may have renewed or changed something there.
    async fn keep_record(
        &mut self,
        found: &Found,
        record: Option<Record>,
        link: &Link,
        device: &Link,
    ) -> Result<(), Stuck> {
        let Some(record) = record.filter(|_| device.up) else { return Ok(()) };
        let belongings = self.kernel.belongings(&device.device).map_err(Stuck::blocked)?;
        // A device that goes away loses them first.
        let still = self.kernel.link(&device.device.name).map_err(unreadable)?;
        if still.as_ref() != Some(device) || record.belongings.is_like(&belongings) {
            return Ok(());
        }
        let moment = kernel::moment();
        let opened = opened(Some(&record), link, &moment);
        self.write_record(found, &Record { opened, moment, belongings, ..record }).await
    }

    async fn write_record(&mut self, found: &Found, record: &Record) -> Result<(), Stuck> {
        let text = record.to_text().map_err(Stuck::Failed)?;
        let written = self.database.write(plan::write_record(found.uuid, &text)).await;
        written.map(drop).map_err(|error| Stuck::Failed(format!("bridge {}: {error}", found.row.name)))
    }
}

/// Index of the NIC that the switch has opened: that of the record, and after a boot, since when the switch is
/// another one, that of the NIC.
fn opened(record: Option<&Record>, link: &Link, now: &Moment) -> u32 {
    record.filter(|record| record.moment.boot == now.boot).map_or(link.device.index, |record| record.opened)
}
