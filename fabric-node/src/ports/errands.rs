//! Commands on their way: queued, written in batches, awaited. Pure: time is an argument.
//!
//! ```text
//! Queued --batch--> Sent --answer--> Written --the switch has acted--> outcome
//!    ^                |                 |
//!    '--- refused, connection lost, no sign of the switch ---'
//! ```
//! All commands that are queued while a transaction is under way go out together in the
//! next one: what costs is the switch's reconfiguration, which it does once for all
//! that it finds changed. Commands for one port keep their order, except that a removal
//! does not wait until the switch has opened the port.
//!
//! To take a port away stops the userspace datapath for some ten milliseconds, in which
//! it opens none. So additions go first, and only [`REMOVALS`] removals at a time, until
//! the switch has acted on them: a container that starts waits for a few of those that
//! end, not for all.
//!
//! Every command may be written more than once: an addition brings a port that is there
//! to its form, a removal of a port that is not there is done. So an unknown outcome
//! needs no more than to look at the database again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fabric_core::node::{PortRow, PortSpec, PortsCommand, Task};
use ovsdb::txn::NextCfg;
use ovsdb::{Committed, Condition, Datum, Error, ErrorKind, Mutation, Transaction, Uuid};

use super::view::{Member, View};

/// Key prefix of `external_ids` that marks interfaces of containers.
const MARK: &str = "fabric.";

/// Commands that may wait; more are refused.
const QUEUE: usize = 4096;

/// Commands in one transaction.
const BATCH: usize = 256;

/// Removals in one transaction.
const REMOVALS: usize = 4;

/// Times that a command is tried anew after the database refused it.
const TRIES: u32 = 3;

/// Time after which the database is asked to have the switch act once more: a switch that meets another's change
/// while it reports drops its report.
const NUDGE: Duration = Duration::from_secs(1);

/// What a command came to.
pub type Verdict = (Task, Result<Option<PortRow>, String>);

/// The commands under way, in the order in which they came.
#[derive(Debug)]
pub struct Errands {
    patience: Duration,
    list: BTreeMap<u64, Errand>,
    next: u64,
    /// Of the transaction under way.
    next_cfg: Option<NextCfg>,
    /// What `cur_cfg` must reach, or else when to go on, before ports are removed again.
    hold: Option<(i64, Instant)>,
}

#[derive(Debug)]
struct Errand {
    task: Task,
    command: PortsCommand,
    deadline: Instant,
    stage: Stage,
    /// Whether the database has it.
    written: bool,
    /// Times that the database refused it.
    refused: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Queued,
    Sent {
        /// The port that is removed or changed; `None` when it is made.
        port: Option<Uuid>,
    },
    Written {
        port: Option<Uuid>,
        /// What `cur_cfg` must reach.
        next_cfg: i64,
        /// Whether the view has shown what was written.
        seen: bool,
        since: Instant,
    },
}

impl Errand {
    fn name(&self) -> &str {
        match &self.command {
            PortsCommand::Add(spec) => &spec.name,
            PortsCommand::Remove { name } => name,
        }
    }
}

/// What there is to do for a command.
enum Need {
    /// Nothing.
    Done(Result<Option<PortRow>, String>),
    /// These operations, on this port.
    Write(Option<Uuid>),
}

impl Errands {
    /// None. `patience` is the time that each may take.
    pub fn new(patience: Duration) -> Self {
        Self { patience, list: BTreeMap::new(), next: 0, next_cfg: None, hold: None }
    }

    /// Takes a command; the verdict comes at once when too many wait.
    pub fn push(&mut self, task: Task, command: PortsCommand, now: Instant) -> Option<Verdict> {
        if self.list.len() >= QUEUE {
            return Some((task, Err(format!("{QUEUE} changes of ports wait already; try again"))));
        }
        let (deadline, stage) = (now + self.patience, Stage::Queued);
        let errand = Errand { task, command, deadline, stage, written: false, refused: 0 };
        self.list.insert(self.next, errand);
        self.next += 1;
        None
    }

    /// Whether a transaction is under way.
    pub fn is_busy(&self) -> bool {
        self.next_cfg.is_some()
    }

    /// The next transaction, and what needs none.
    pub fn batch(&mut self, view: &View, now: Instant, verdicts: &mut Vec<Verdict>) -> Option<Transaction> {
        let (bridge, _) = view.bridge().filter(|_| !self.is_busy())?;
        if self.hold.is_some_and(|(next_cfg, until)| view.cur_cfg() >= next_cfg || now >= until) {
            self.hold = None;
        }
        let mut txn = Transaction::new();
        let mut done = Vec::new();
        let mut sent = 0;
        for at in self.candidates(view) {
            let Some(errand) = self.list.get_mut(&at) else { continue };
            match need(&errand.command, bridge, view, &mut txn) {
                Need::Done(result) => done.push((at, result)),
                Need::Write(port) => {
                    errand.stage = Stage::Sent { port };
                    sent += 1;
                }
            }
        }
        self.finish(done, verdicts);
        if sent == 0 {
            return None;
        }
        txn.require_row("Bridge", [Condition::eq("_uuid", bridge)]);
        self.next_cfg = Some(txn.bump_next_cfg());
        Some(txn)
    }

    /// The commands for the next transaction, additions first. One that the database refused goes alone, so that it
    /// spoils nobody else's.
    fn candidates(&self, view: &View) -> Vec<u64> {
        let queued = self.list.iter().filter(|(at, errand)| {
            errand.stage == Stage::Queued && !self.unsettled(**at, errand.name(), view)
        });
        let queued: Vec<(u64, &Errand)> = queued.map(|(at, errand)| (*at, errand)).collect();
        if let Some((at, _)) = queued.iter().find(|(_, errand)| errand.refused > 0) {
            return vec![*at];
        }
        let adds = |errand: &Errand| matches!(errand.command, PortsCommand::Add(_));
        let (additions, removals): (Vec<_>, Vec<_>) =
            queued.into_iter().partition(|(_, errand)| adds(errand));
        // One that needs no transaction is not held back.
        let idle = |errand: &Errand| view.member(errand.name()).is_none();
        let (idle, removals): (Vec<_>, Vec<_>) = removals.into_iter().partition(|(_, errand)| idle(errand));
        let removals = removals.into_iter().take(if self.hold.is_some() { 0 } else { REMOVALS });
        additions.into_iter().take(BATCH).chain(idle).chain(removals).map(|(at, _)| at).collect()
    }

    /// What became of the transaction of the last [`Errands::batch`].
    pub fn answered(&mut self, answer: Result<Committed, Error>, now: Instant, verdicts: &mut Vec<Verdict>) {
        let Some(next_cfg) = self.next_cfg.take() else { return };
        let number = answer.and_then(|committed| committed.next_cfg(next_cfg));
        let sent = self.list.iter_mut().filter(|(_, errand)| matches!(errand.stage, Stage::Sent { .. }));
        let sent: Vec<(u64, &mut Errand)> = sent.map(|(at, errand)| (*at, errand)).collect();
        let alone = sent.len() == 1;
        let mut done = Vec::new();
        for (at, errand) in sent {
            let Stage::Sent { port } = errand.stage else { continue };
            match &number {
                Ok(next_cfg) => {
                    errand.written = true;
                    if matches!(errand.command, PortsCommand::Remove { .. }) {
                        self.hold = Some((*next_cfg, now + NUDGE));
                    }
                    errand.stage = Stage::Written { port, next_cfg: *next_cfg, seen: false, since: now };
                }
                Err(Error::Transaction(error)) => {
                    errand.stage = Stage::Queued;
                    errand.refused += 1;
                    if alone && (errand.refused > TRIES || error.kind != ErrorKind::ConstraintViolation) {
                        done.push((at, Err(format!("port {}: {error}", errand.name()))));
                    }
                }
                Err(error @ (Error::Encode(_) | Error::NoSuchResult(_) | Error::NoRootRow)) => {
                    done.push((at, Err(format!("port {}: {error}", errand.name()))));
                }
                Err(_) => errand.stage = Stage::Queued,
            }
        }
        self.finish(done, verdicts);
    }

    /// The connection is lost: what was written is looked at again after the next one.
    pub fn disconnected(&mut self) {
        for errand in self.list.values_mut() {
            if let Stage::Written { .. } = errand.stage {
                errand.stage = Stage::Queued;
            }
        }
    }

    /// The database changed.
    pub fn look(&mut self, view: &View, now: Instant, verdicts: &mut Vec<Verdict>) {
        let cur_cfg = view.cur_cfg();
        let mut done = Vec::new();
        for (at, errand) in &mut self.list {
            let Stage::Written { port, next_cfg, seen, since } = errand.stage else { continue };
            let acted = cur_cfg >= next_cfg;
            let member = view.member(errand.name());
            let result = match &errand.command {
                PortsCommand::Remove { .. } => removed(port, member),
                PortsCommand::Add(spec) => added(spec, port, member, acted, seen),
            };
            if let Some(result) = result {
                done.push((*at, result));
            } else if now >= since + NUDGE {
                errand.stage = Stage::Queued;
            } else if member.is_some() {
                errand.stage = Stage::Written { port, next_cfg, seen: true, since };
            }
        }
        self.finish(done, verdicts);
    }

    /// Time has passed.
    pub fn expire(&mut self, now: Instant, verdicts: &mut Vec<Verdict>) {
        let patience = self.patience.as_millis();
        let late = self.list.iter().filter(|(_, errand)| now >= errand.deadline);
        let late = late.map(|(at, errand)| {
            let name = errand.name();
            let why = match errand.stage {
                _ if errand.written => "ovs-vswitchd has not acted; is it running?",
                Stage::Sent { .. } => "the database of Open vSwitch does not answer; is ovsdb-server stuck?",
                _ => "the database of Open vSwitch is not ready; are its services running?",
            };
            (*at, Err(format!("port {name}: not done within {patience} ms: {why}")))
        });
        let late = late.collect();
        self.finish(late, verdicts);
    }

    /// When [`Errands::expire`] or [`Errands::look`] has something to do without a cause from outside.
    pub fn next(&self) -> Option<Instant> {
        let due = |errand: &Errand| match errand.stage {
            Stage::Written { since, .. } => errand.deadline.min(since + NUDGE),
            _ => errand.deadline,
        };
        let queued = || self.list.values().any(|errand| errand.stage == Stage::Queued);
        let held = self.hold.map(|(_, until)| until).filter(|_| queued());
        self.list.values().map(due).chain(held).min()
    }

    /// Whether an earlier command for the port is not through as far as this one must wait for it.
    fn unsettled(&self, at: u64, name: &str, view: &View) -> bool {
        self.list.range(..at).any(|(_, errand)| {
            errand.name() == name
                && match (errand.stage, &errand.command) {
                    (Stage::Queued | Stage::Sent { .. }, _) => true,
                    (Stage::Written { .. }, PortsCommand::Add(_)) => view.member(name).is_none(),
                    (Stage::Written { port, .. }, PortsCommand::Remove { .. }) => {
                        view.member(name).map(|member| member.port) == port
                    }
                }
        })
    }

    fn finish(&mut self, done: Vec<(u64, Result<Option<PortRow>, String>)>, verdicts: &mut Vec<Verdict>) {
        for (at, result) in done {
            verdicts.extend(self.list.remove(&at).map(|errand| (errand.task, result)));
        }
    }
}

/// Looks what a command needs, and writes it.
fn need(command: &PortsCommand, bridge: Uuid, view: &View, txn: &mut Transaction) -> Need {
    let name = match command {
        PortsCommand::Add(spec) => &spec.name,
        PortsCommand::Remove { name } => name,
    };
    let member = view.member(name);
    if let Some(member) = member
        && !member.row.external_ids.keys().any(|key| key.starts_with(MARK))
    {
        return Need::Done(Err(format!(
            "port {name} is on the bridge, but not Fabric's (its external_ids have no {MARK}*); remove it"
        )));
    }
    match (command, member) {
        (PortsCommand::Remove { .. }, None) => Need::Done(Ok(None)),
        (PortsCommand::Remove { .. }, Some(member)) => {
            let this = [Condition::eq("_uuid", bridge)];
            txn.mutate("Bridge", this, [Mutation::delete("ports", Datum::scalar(member.port))]);
            Need::Write(Some(member.port))
        }
        (PortsCommand::Add(spec), Some(member)) => {
            mend(txn, spec, member);
            Need::Write(Some(member.port))
        }
        (PortsCommand::Add(spec), None) => match view.elsewhere(name) {
            Some(other) => Need::Done(Err(format!("port {name} is on bridge {other}; remove it there"))),
            None => {
                make(txn, spec, bridge);
                Need::Write(None)
            }
        },
    }
}

fn make(txn: &mut Transaction, spec: &PortSpec, bridge: Uuid) {
    let name = spec.name.as_str();
    let interface = txn.insert(
        "Interface",
        [
            ("name", name.into()),
            ("ofport_request", spec.ofport_request.into()),
            ("external_ids", spec.external_ids.clone().into()),
        ],
    );
    let port = txn.insert("Port", [("name", name.into()), ("interfaces", interface.into())]);
    txn.mutate("Bridge", [Condition::eq("_uuid", bridge)], [Mutation::insert("ports", port)]);
}

/// Writes what differs; keys of others stay.
fn mend(txn: &mut Transaction, spec: &PortSpec, member: &Member) {
    let this = || [Condition::eq("_uuid", member.interface)];
    if !member.row.kind.is_empty() || member.ofport_request != Some(i64::from(spec.ofport_request)) {
        txn.update(
            "Interface",
            this(),
            [("type", Datum::from("")), ("ofport_request", spec.ofport_request.into())],
        );
    }
    let ours = |key: &&String| key.starts_with(MARK);
    let stale: Datum = member
        .row
        .external_ids
        .keys()
        .filter(ours)
        .filter(|key| !spec.external_ids.contains_key(*key))
        .map(String::as_str)
        .collect();
    if !stale.is_empty() {
        txn.mutate("Interface", this(), [Mutation::delete("external_ids", stale)]);
    }
    if !holds(&member.row, spec) {
        txn.set_keys("Interface", this(), "external_ids", spec.external_ids.iter());
    }
}

fn holds(row: &PortRow, spec: &PortSpec) -> bool {
    spec.external_ids.iter().all(|(key, value)| row.external_ids.get(key) == Some(value))
}

fn removed(port: Option<Uuid>, member: Option<&Member>) -> Option<Result<Option<PortRow>, String>> {
    (member.map(|member| member.port) != port).then_some(Ok(None))
}

/// A port that is made has a number or an error only after the switch has acted. One that was there has those of
/// before until then.
fn added(
    spec: &PortSpec,
    port: Option<Uuid>,
    member: Option<&Member>,
    acted: bool,
    seen: bool,
) -> Option<Result<Option<PortRow>, String>> {
    let name = &spec.name;
    let Some(member) = member else {
        return seen.then(|| Err(format!("port {name} was removed before the switch had opened it")));
    };
    let row = &member.row;
    if !holds(row, spec) || (port.is_some() && !acted) {
        return None;
    }
    match (&row.ofport, &row.error) {
        (Some(_), _) => Some(Ok(Some(row.clone()))),
        (None, Some(error)) => Some(Err(format!("port {name}: the switch cannot open it: {error}"))),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
