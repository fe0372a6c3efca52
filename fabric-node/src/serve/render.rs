//! A status as text for people.

use std::fmt::{self, Write};
use std::time::Duration;

use fabric_api::{Attachment, Lease, Path, Status, Tally};

pub mod ipam;
mod table;

use table::Table;

#[cfg(test)]
mod tests;

/// Renders a status, asked at `now` (since the Unix epoch), as lines of text.
#[must_use]
pub fn status(status: &Status, now: Duration) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, status, now);
    text
}

fn write(text: &mut String, status: &Status, now: Duration) -> fmt::Result {
    let age = Age(now.as_secs().saturating_sub(status.since));
    let (node, state) = (&status.node, status.state);
    writeln!(text, "{node}: {state} for {age}, fabric-node {}", status.version)?;
    for lack in &status.waiting_for {
        writeln!(text, "  waits for {lack}")?;
    }
    writeln!(text)?;
    writeln!(text, "switch    {}", Switch(status))?;
    let synced = if status.store.synced { "synced" } else { "not synced" };
    writeln!(text, "store     {} {}, {synced}", status.store.kind, status.store.location)?;
    writeln!(text, "world     {}", World(status))?;
    writeln!(text, "flows     {}", Flows(status))?;
    writeln!(text, "punts     {}", Punts(status))?;
    writeln!(text, "drops     {}", Drops(status))?;
    writeln!(text, "policy    {}", Policy(status))?;
    attachments(text, &status.attachments)?;
    leases(text, &status.leases)?;
    paths(text, &status.paths)?;
    tallies(text, "Denied packets", &status.denied)?;
    tallies(text, "Conversations that audit would deny", &status.audited)?;
    if !status.problems.is_empty() {
        writeln!(text, "\nProblems ({})", status.problems.len())?;
    }
    status.problems.iter().try_for_each(|problem| writeln!(text, "{problem}"))
}

fn attachments(text: &mut String, attachments: &[Attachment]) -> fmt::Result {
    if attachments.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&[
        "POD",
        "INTERFACE",
        "ADDRESSES",
        "NETWORK",
        "VLAN",
        "MTU",
        "SENDS",
        "RECEIVES",
        "PORT",
        "OFPORT",
        "ZONE",
        "READY",
    ]);
    for attachment in attachments {
        let addresses: Vec<_> = attachment.addresses.iter().map(ToString::to_string).collect();
        table.row([
            attachment.pod.clone().unwrap_or_else(|| attachment.container.clone()),
            attachment.ifname.clone(),
            addresses.join(","),
            attachment.network.clone(),
            attachment.segment.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            attachment.mtu.to_string(),
            rate(attachment.rates.egress),
            rate(attachment.rates.ingress),
            attachment.port.clone(),
            attachment.ofport.map_or_else(|| "-".to_owned(), |ofport| ofport.to_string()),
            attachment.zone.to_string(),
            if attachment.ready { "yes" } else { "no" }.to_owned(),
        ]);
    }
    write!(text, "\nAttachments ({})\n{table}", attachments.len())
}

/// Bits per second, as annotations spell them.
fn rate(bits: Option<u64>) -> String {
    let Some(bits) = bits else { return "-".to_owned() };
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    let unit = units.into_iter().find(|(size, _)| bits > 0 && bits % size == 0);
    unit.map_or_else(|| bits.to_string(), |(size, name)| format!("{}{name}", bits / size))
}

/// Held addresses are those of the attachments: only the others say anything of their own.
fn leases(text: &mut String, leases: &[Lease]) -> fmt::Result {
    let others = leases.iter().filter(|lease| lease.state != fabric_api::LeaseState::Held);
    let mut table = Table::new(&["ADDRESS", "NETWORK", "STATE", "OWNER"]);
    let mut count = 0;
    for lease in others {
        count += 1;
        table.row([
            lease.ip.to_string(),
            lease.network.clone(),
            lease.state.to_string(),
            lease.owner.clone(),
        ]);
    }
    if count == 0 { Ok(()) } else { write!(text, "\nAddresses not in use ({count})\n{table}") }
}

fn paths(text: &mut String, paths: &[Path]) -> fmt::Result {
    if paths.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["NODE", "ADDRESS", "BYTES"]);
    for path in paths {
        let node = if path.node.is_empty() { "-" } else { &path.node };
        table.row([node.to_owned(), path.address.to_string(), path.mtu.to_string()]);
    }
    write!(text, "\nPaths that carry less than the interface ({})\n{table}", paths.len())
}

/// Seconds in the two largest units that say something.
struct Age(u64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours, minutes, seconds) =
            (self.0 / 86_400, self.0 / 3_600 % 24, self.0 / 60 % 60, self.0 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds} s"),
            (0, 0, _) => write!(f, "{minutes} min {seconds} s"),
            (0, _, _) => write!(f, "{hours} h {minutes} min"),
            _ => write!(f, "{days} d {hours} h"),
        }
    }
}

struct Switch<'a>(&'a Status);

impl fmt::Display for Switch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = &self.0.switch;
        let connection = match (switch.connected, switch.database_connected) {
            (true, true) => "connected",
            (true, false) => "connected, but not its database",
            (false, true) => "not connected, but its database is",
            (false, false) => "not connected",
        };
        write!(f, "{} {connection}", switch.bridge)?;
        if let Some(version) = &switch.ovs_version {
            write!(f, ", Open vSwitch {version}")?;
        }
        match &switch.datapath {
            Some(datapath) => write!(f, ", datapath {datapath}"),
            None => Ok(()),
        }
    }
}

struct World<'a>(&'a Status);

impl fmt::Display for World<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.world.by_kind();
        list(
            f,
            counts.iter().filter(|(_, number)| *number > 0).map(|(kind, number)| format!("{kind} {number}")),
        )
    }
}

struct Flows<'a>(&'a Status);

impl fmt::Display for Flows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows = &self.0.flows;
        let learned: u64 = flows.learned.iter().map(|table| table.flows).sum();
        write!(f, "{} static, {learned} learned", flows.r#static)?;
        if learned == 0 {
            return Ok(());
        }
        f.write_str(": ")?;
        list(f, flows.learned.iter().map(|table| format!("{} {}", table.table, table.flows)))
    }
}

fn tallies(text: &mut String, heading: &str, tallies: &[Tally]) -> fmt::Result {
    if tallies.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["COUNT", "REASON"]);
    for Tally { because, count } in tallies {
        table.row([count.to_string(), because.clone()]);
    }
    write!(text, "\n{heading}\n{table}")
}

struct Policy<'a>(&'a Status);

impl fmt::Display for Policy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = &self.0.policy;
        let settled = if policy.settled { "in the switch" } else { "on their way to the switch" };
        let edits = if policy.edits == 1 { "edit" } else { "edits" };
        write!(f, "{} {edits} taken, {settled}", policy.edits)
    }
}

struct Punts<'a>(&'a Status);

impl fmt::Display for Punts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(
            f,
            self.0.punts.iter().map(|punts| format!("{} {} {}", punts.table, punts.outcome, punts.packets)),
        )
    }
}

struct Drops<'a>(&'a Status);

impl fmt::Display for Drops<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = self.0.drops.iter().filter(|(_, packets)| **packets > 0);
        list(f, dropped.map(|(cause, packets)| format!("{cause} {packets}")))
    }
}

/// The items with commas between them, or `none`.
fn list(f: &mut fmt::Formatter<'_>, items: impl Iterator<Item = String>) -> fmt::Result {
    let items: Vec<_> = items.collect();
    f.write_str(if items.is_empty() { "none" } else { "" })?;
    f.write_str(&items.join(", "))
}
