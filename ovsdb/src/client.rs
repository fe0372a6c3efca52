//! A client on tokio: one task holds the connection, follows the monitor, and connects again for ever.
//!
//! The task reads the socket whatever its owner does: events that nobody has taken are merged, so at most one copy of
//! what changed waits, and an owner may call [`Client::transact`] between two events without a deadlock.
//!
//! ```no_run
//! use ovsdb::client::{Client, ClientEvent, Config, Outcome};
//! use ovsdb::rows::{OpenVSwitch, Port, TypedRow};
//! use ovsdb::{Condition, Mutation, Replica, Transaction};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (sender, mut events) = tokio::sync::mpsc::channel(16);
//! let monitor = vec![OpenVSwitch::monitor(), Port::monitor()];
//! let client = Client::spawn(Config::new("/var/run/openvswitch/db.sock", monitor), sender);
//!
//! let mut txn = Transaction::new();
//! let interface = txn.insert("Interface", [("name", "pod1".into()), ("ofport_request", 40001.into())]);
//! let port = txn.insert("Port", [("name", "pod1".into()), ("interfaces", interface.into())]);
//! txn.require_row("Bridge", [Condition::eq("name", "br-fabric")]);
//! txn.mutate("Bridge", [Condition::eq("name", "br-fabric")], [Mutation::insert("ports", port)]);
//! let next_cfg = txn.bump_next_cfg();
//! let goal = match client.commit_once(txn, "fabric_ports").await? {
//!     Outcome::Committed(done) => done.next_cfg(next_cfg)?,
//!     Outcome::CommittedBefore => client.next_cfg().await?,
//! };
//!
//! let mut replica = Replica::default();
//! while let Some(event) = events.recv().await {
//!     match event {
//!         ClientEvent::Connected { snapshot } => replica = snapshot,
//!         ClientEvent::Update(changes) => changes.iter().for_each(|change| replica.follow(change)),
//!         ClientEvent::Disconnected { reason } => eprintln!("{reason}"),
//!     }
//!     let Some((_, root)) = OpenVSwitch::all(&replica).next() else { continue };
//!     if root?.cur_cfg >= goal {
//!         break; // ovs-vswitchd has acted.
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod actor;
mod inbox;
mod once;

use crate::error::Error;
use crate::monitor::{Replica, RowChange, TableColumns};
use crate::op::Operation;
use crate::outcome::OpResult;
use crate::schema::Schema;
use crate::session::{Reply, Request};
use crate::txn::{Committed, Transaction};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// What a client needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The server's unix socket, for example `/var/run/openvswitch/db.sock`.
    pub path: PathBuf,
    /// The database, `Open_vSwitch`.
    pub database: String,
    /// Tables and columns to follow; [`crate::rows::TypedRow::monitor`] names what a structure needs.
    pub monitor: Vec<TableColumns>,
    /// Silence of the server before an echo is sent, and again before it counts as dead; zero switches that off.
    pub probe: Duration,
}

impl Config {
    /// The `Open_vSwitch` database at a socket, with a probe of 5 s.
    pub fn new(path: impl Into<PathBuf>, monitor: Vec<TableColumns>) -> Self {
        let database = "Open_vSwitch".to_owned();
        Self { path: path.into(), database, monitor, probe: Duration::from_secs(5) }
    }
}

/// What a client tells its owner, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// A connection stands and the monitor runs. The rows are all there are: forget those of an earlier connection,
    /// or compare with [`Replica::changes_since`].
    Connected {
        /// The monitored tables; [`Replica::follow`] keeps them up to date.
        snapshot: Replica,
    },
    /// Rows changed. Changes that came faster than they were taken are merged, each row once.
    Update(Vec<RowChange>),
    /// The connection was lost, or could not be made. It comes once for each loss, and again when an attempt to
    /// connect fails for another reason than the one before.
    Disconnected {
        /// Why.
        reason: Error,
    },
}

/// How a transaction that may take effect once ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, with these results.
    Committed(Committed),
    /// It took effect, but the connection broke before the results came. The next snapshot shows what it did, and
    /// [`Client::next_cfg`] what to wait for.
    CommittedBefore,
}

/// A handle of the task that holds the connection. The task ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
}

/// What a handle asks of the task.
#[derive(Debug)]
enum Command {
    Request { request: Request, answer: Answer },
    Once { transaction: Transaction, key: String, answer: oneshot::Sender<Result<Outcome, Error>> },
}

type Answer = oneshot::Sender<Result<Reply, Error>>;

/// Requests that wait for the task at most; more make their callers wait.
const QUEUE: usize = 64;

impl Client {
    /// Starts the task. Must be called within a tokio runtime. When `events` has no receiver any more, events are
    /// dropped and requests go on.
    pub fn spawn(config: Config, events: mpsc::Sender<ClientEvent>) -> Self {
        let (commands, inbox) = mpsc::channel(QUEUE);
        tokio::spawn(actor::run(config, inbox, events));
        Self { commands }
    }

    /// Sends a transaction once. [`Error::Transaction`] says that it failed and changed nothing,
    /// [`Error::NotConnected`] that it was not sent, [`Error::OutcomeUnknown`] that the connection broke after it was.
    pub async fn transact(&self, operations: Vec<Operation>) -> Result<Vec<OpResult>, Error> {
        match self.ask(Request::Transact(operations)).await? {
            Reply::Results(results) => Ok(results),
            other => Err(unexpected(&other)),
        }
    }

    /// As [`Self::transact`], for a transaction of which the results are wanted by their handles.
    pub async fn commit(&self, transaction: &Transaction) -> Result<Committed, Error> {
        let results = self.transact(transaction.operations()).await;
        results.map(|results| transaction.committed(results))
    }

    /// Carries a transaction out exactly once, over as many connections as it takes: see [`crate::txn`]. `key` names
    /// this writer, in `Open_vSwitch.external_ids` and as a lock; no other client may use it, and of two that do, the
    /// later one takes over ([`Error::Superseded`]). Such transactions go one after the other.
    ///
    /// It waits while the server is away. Dropping the future gives up waiting: a transaction that was sent may then
    /// have taken effect, one that was not never will.
    pub async fn commit_once(&self, transaction: Transaction, key: &str) -> Result<Outcome, Error> {
        let (answer, outcome) = oneshot::channel();
        let command = Command::Once { transaction, key: key.to_owned(), answer };
        self.commands.send(command).await.map_err(|_| Error::Stopped)?;
        outcome.await.map_err(|_| Error::Stopped)?
    }

    /// What `Open_vSwitch.next_cfg` is: at least the number of every transaction that took effect before. For use
    /// after [`Outcome::CommittedBefore`], when events of the time before may still wait to be taken.
    pub async fn next_cfg(&self) -> Result<i64, Error> {
        let mut txn = Transaction::new();
        let next_cfg = txn.read_next_cfg();
        self.commit(&txn).await?.next_cfg(next_cfg)
    }

    /// The schema of a database.
    pub async fn get_schema(&self, database: &str) -> Result<Schema, Error> {
        match self.ask(Request::GetSchema { database: database.to_owned() }).await? {
            Reply::Schema(schema) => Ok(schema),
            other => Err(unexpected(&other)),
        }
    }

    /// The names of the server's databases.
    pub async fn list_databases(&self) -> Result<Vec<String>, Error> {
        match self.ask(Request::ListDatabases).await? {
            Reply::Databases(names) => Ok(names),
            other => Err(unexpected(&other)),
        }
    }

    async fn ask(&self, request: Request) -> Result<Reply, Error> {
        let (answer, reply) = oneshot::channel();
        self.commands.send(Command::Request { request, answer }).await.map_err(|_| Error::Stopped)?;
        reply.await.map_err(|_| Error::Stopped)?
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::NoSuchResult(format!("the answer is of another kind: {reply:?}"))
}
