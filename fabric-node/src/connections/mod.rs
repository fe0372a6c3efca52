//! The connections that the switch tracks: reading them, and ending single ones.
//!
//! OpenFlow can do neither before Open vSwitch 3.1, so the room speaks to `ovs-vswitchd`'s
//! control socket, `ovs-vswitchd.PID.ctl` in the folder where its pid file is
//! (ovs-vswitchd(8), "RUNTIME MANAGEMENT COMMANDS"): the commands of `ovs-appctl dpctl/...`,
//! for either datapath, as JSON-RPC (`control`). The daemon answers such commands in its
//! main thread, so the room asks one thing at a time and no more often than the node does.
//!
//! Work is done in a thread that may block, in the order in which it came; only waiting for
//! the switch to settle is done beside it. A socket that is
//! not there, or does not answer, fails the command at hand and nothing else: the outcome
//! says so, and [`Handle::problem`] until a later command succeeds.

mod control;
#[cfg(test)]
mod daemon;
mod settle;
mod text;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use fabric_core::node::{Connection, Event, Outcome, SwitchCommand, Task};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

pub use text::{Listing, read};

/// Commands that may wait for the room; the node has one under way at a time.
const QUEUE: usize = 8;

/// Settings of the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionsConfig {
    /// Folder of `ovs-vswitchd.pid` and of the control socket.
    pub run_dir: PathBuf,
    /// Longest that the daemon may take for one answer.
    pub patience: Duration,
}

impl ConnectionsConfig {
    /// The daemon that has its files in this folder.
    #[must_use]
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        Self { run_dir: run_dir.into(), patience: Duration::from_secs(5) }
    }
}

/// What the room knows beside the outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Facts {
    problem: Option<String>,
    unreadable: u64,
}

/// Speaks to the room, which ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Handle {
    commands: mpsc::Sender<SwitchCommand>,
    facts: watch::Receiver<Facts>,
}

impl Handle {
    /// Has a command carried out: [`SwitchCommand::ReadConnections`], [`SwitchCommand::EndConnections`],
    /// [`SwitchCommand::LimitConnections`] or [`SwitchCommand::Settle`]; the outcome comes back as [`Event::Done`]. Others are not for this room and are
    /// passed over.
    pub async fn send(&self, command: SwitchCommand) {
        // The room ends after the last handle only, so there is always somebody who takes the command.
        let _ = self.commands.send(command).await;
    }

    /// What stands in the way at the moment; says what, where and what to do.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.facts.borrow().problem.clone()
    }

    /// Lines about connections that could not be read, since the start.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.facts.borrow().unreadable
    }
}

/// Starts the room in a thread of its own.
#[must_use]
pub fn start(config: ConnectionsConfig, events: mpsc::Sender<Event>) -> Handle {
    let (commands, inbox) = mpsc::channel(QUEUE);
    let (sender, facts) = watch::channel(Facts::default());
    let room = Room { config, facts: sender };
    // Not one of the runtime's threads: those are waited for at the end, whatever a daemon does.
    std::thread::spawn(move || room.run(inbox, &events));
    Handle { commands, facts }
}

struct Room {
    config: ConnectionsConfig,
    facts: watch::Sender<Facts>,
}

impl Room {
    fn run(&self, mut inbox: mpsc::Receiver<SwitchCommand>, events: &mpsc::Sender<Event>) {
        while let Some(command) = inbox.blocking_recv() {
            if let SwitchCommand::Settle { task } = command {
                self.settle(task, events.clone());
                continue;
            }
            let Some((task, outcome)) = self.carry_out(command) else { continue };
            if events.blocking_send(Event::Done { task, outcome }).is_err() {
                return;
            }
        }
    }

    /// Waits beside the room: connections can be read meanwhile.
    fn settle(&self, task: Task, events: mpsc::Sender<Event>) {
        let mut control = control::Control::new(&self.config.run_dir, self.config.patience);
        std::thread::spawn(move || {
            settle::settle(&mut control);
            // Without a node there is nobody to tell.
            let _ = events.blocking_send(Event::Done { task, outcome: Outcome::Committed(Ok(())) });
        });
    }

    fn carry_out(&self, command: SwitchCommand) -> Option<(Task, Outcome)> {
        let mut control = control::Control::new(&self.config.run_dir, self.config.patience);
        match command {
            SwitchCommand::ReadConnections { task, zones } => {
                // Of one zone the daemon lists less; more than one it cannot be asked for.
                let only = zones.first().filter(|_| zones.len() == 1).map(|zone| format!("zone={zone}"));
                let listing = control.call("dpctl/dump-conntrack", only.as_slice());
                let listing = listing.map(|text| read(&text, &zones));
                self.note(listing.as_ref().err());
                let connections = listing.map(|listing| self.counted(listing));
                Some((task, Outcome::Connections(connections.map_err(|error| error.to_string()))))
            }
            SwitchCommand::LimitConnections { task, zones, most } => {
                let limited = limit(&mut control, &zones, most);
                self.note(limited.as_ref().err());
                Some((task, Outcome::Committed(limited.map_err(|error| error.to_string()))))
            }
            SwitchCommand::EndConnections { task, connections } => {
                let ended = end(&mut control, &connections);
                self.note(ended.as_ref().err());
                Some((task, Outcome::Committed(ended.map_err(|error| error.to_string()))))
            }
            _ => None,
        }
    }

    fn counted(&self, listing: Listing) -> Vec<Connection> {
        if let Some(line) = &listing.example {
            warn!(lines = listing.unreadable, example = %line, "the switch lists connections in words that are not known; they are passed over");
            self.facts.send_modify(|facts| facts.unreadable += listing.unreadable);
        }
        listing.connections
    }

    fn note(&self, error: Option<&control::ControlError>) {
        let problem = error.map(ToString::to_string);
        self.facts.send_if_modified(|facts| {
            if facts.problem == problem {
                return false;
            }
            match &problem {
                Some(problem) => warn!("{problem}"),
                None => info!("the control socket of ovs-vswitchd answers again"),
            }
            facts.problem = problem;
            true
        });
    }
}

/// Ends connections; the first failure is told, after all were tried.
fn end(control: &mut control::Control, connections: &[Connection]) -> Result<(), control::ControlError> {
    let requests = connections.iter().map(|connection| {
        let zone = format!("zone={}", connection.zone);
        vec![zone, text::tuple(&connection.original)]
    });
    let answers = control.calls("dpctl/flush-conntrack", requests.collect())?;
    let gone = |error: &control::ControlError| error.to_string().contains("No such file or directory");
    match answers.into_iter().filter_map(Result::err).find(|error| !gone(error)) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Limits of so many zones are set by one command.
const LIMITS: usize = 256;

/// Limits what is tracked in some zones.
fn limit(
    control: &mut control::Control,
    zones: &BTreeSet<u16>,
    most: u32,
) -> Result<(), control::ControlError> {
    let zones: Vec<String> = zones.iter().map(|zone| format!("zone={zone},limit={most}")).collect();
    for some in zones.chunks(LIMITS) {
        control.call("dpctl/ct-set-limits", some)?;
    }
    Ok(())
}
