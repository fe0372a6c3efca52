//! The connection to the database, and waiting until the switch has acted.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ovsdb::{Client, ClientEvent, Config, Replica, Transaction};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::view;

/// Time after which the switch is asked once more to act: one that meets another's change while it reports drops its
/// report.
const NUDGE: Duration = Duration::from_secs(1);

/// Time that the database has for its answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Events of the database that wait.
const EVENTS: usize = 4;

/// Why a transaction did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The database did not take it.
    #[error("the database of Open vSwitch does not take it: {0}")]
    Refused(String),
    /// The database has it, and the switch has not acted in time.
    #[error("ovs-vswitchd does not act on its database; is it running?")]
    Silent,
}

/// A client of the database with what it knows.
#[derive(Debug)]
pub struct Database {
    client: Client,
    events: mpsc::Receiver<ClientEvent>,
    replica: Option<Replica>,
    /// Why there is no connection.
    pub lost: Option<String>,
}

impl Database {
    /// Connects, and keeps doing so. Must be called within a tokio runtime.
    pub fn open(socket: &Path) -> Self {
        let (sender, events) = mpsc::channel(EVENTS);
        let client = Client::spawn(Config::new(socket, view::tables()), sender);
        Self { client, events, replica: None, lost: None }
    }

    /// What is known, while there is a connection.
    pub fn replica(&self) -> Option<&Replica> {
        self.replica.as_ref()
    }

    /// Takes the next event; whether it may concern what has one of these names. It can be dropped at any time.
    pub async fn event(&mut self, names: &BTreeSet<String>) -> bool {
        match self.events.recv().await {
            Some(event) => self.follow(event, names),
            None => std::future::pending().await,
        }
    }

    fn follow(&mut self, event: ClientEvent, names: &BTreeSet<String>) -> bool {
        match event {
            ClientEvent::Connected { snapshot } => {
                (self.replica, self.lost) = (Some(snapshot), None);
                true
            }
            ClientEvent::Update(changes) => {
                if let Some(replica) = &mut self.replica {
                    changes.iter().for_each(|change| replica.follow(change));
                }
                changes.iter().any(|change| view::concerns(change, names))
            }
            ClientEvent::Disconnected { reason } => {
                (self.replica, self.lost) = (None, Some(reason.to_string()));
                true
            }
        }
    }

    /// Waits for the connection.
    pub async fn connected(&mut self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.replica.is_none() {
            if timeout_at(end, self.event(&BTreeSet::new())).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Writes, and waits until the switch has acted.
    ///
    /// # Errors
    /// It was not written, or the switch did not act within `patience`.
    pub async fn commit(&mut self, txn: Transaction, patience: Duration) -> Result<(), CommitError> {
        let end = Instant::now() + patience;
        let mut goal = self.write(txn).await?;
        let mut nudge = Instant::now() + NUDGE;
        while self.replica.as_ref().is_none_or(|replica| view::cur_cfg(replica) < goal) {
            if timeout_at(nudge.min(end), self.event(&BTreeSet::new())).await.is_err() {
                if Instant::now() >= end {
                    return Err(CommitError::Silent);
                }
                goal = self.write(Transaction::new()).await.unwrap_or(goal);
                nudge = Instant::now() + NUDGE;
            }
        }
        Ok(())
    }

    /// Writes; the configuration that the switch has to reach.
    ///
    /// # Errors
    /// It was not written.
    pub async fn write(&mut self, mut txn: Transaction) -> Result<i64, CommitError> {
        let next_cfg = txn.bump_next_cfg();
        let refused = |error: ovsdb::Error| CommitError::Refused(error.to_string());
        match timeout(ANSWER, self.client.commit(&txn)).await {
            Ok(answer) => answer.and_then(|committed| committed.next_cfg(next_cfg)).map_err(refused),
            Err(_) => Err(CommitError::Refused("no answer; is ovsdb-server stuck?".to_owned())),
        }
    }

    /// Waits until `holds` of what the database says.
    pub async fn wait(&mut self, patience: Duration, holds: impl Fn(&Replica) -> bool) -> bool {
        let end = Instant::now() + patience;
        loop {
            if self.replica.as_ref().is_some_and(&holds) {
                return true;
            }
            if timeout_at(end, self.event(&BTreeSet::new())).await.is_err() {
                return false;
            }
        }
    }
}
