//! The protocol without IO: bytes and time go in, bytes and events come out.
//!
//! * `handle_bytes`, `handle_end`, `handle_timeout`: what happened. An error means that the connection is of no more
//!   use: close it and make another session.
//! * `poll_output`, `poll_event`, `poll_timeout`: what to do. Poll after every `handle_*` and every request.
//!
//! A session begins with `get_schema`, since the rows of a monitor cannot be understood without it, checks the
//! monitored columns against it, and asks for `monitor_cond`; a server that does not know that is asked for
//! `monitor`. With the first rows it is in step ([`Event::Synced`]). Requests can be made at any time.
//!
//! Any byte proves that the peer lives. After `probe` of silence an echo is sent, and after another `probe` without a
//! byte the peer counts as dead.

mod backoff;
mod handshake;

pub use backoff::Backoff;

use crate::error::Error;
use crate::monitor::{Replica, RowChange, TableColumns, Version};
use crate::op::Operation;
use crate::outcome::{ErrorJson, ErrorKind, OpResult, Shape};
use crate::rpc::{self, Limits, Message, RpcError, Splitter};
use crate::schema::Schema;
use handshake::{MONITOR_ID, Phase};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// What a session needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// The database, `Open_vSwitch`.
    pub database: String,
    /// Tables and columns to keep a replica of.
    pub monitor: Vec<TableColumns>,
    /// Silence before an echo is sent, and again before the peer counts as dead; zero switches that off.
    pub probe: Duration,
    /// What one message of the peer may cost.
    pub limits: Limits,
}

/// Something that one can ask the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The names of the databases (RFC 7047 §4.1.1).
    ListDatabases,
    /// A database's schema (§4.1.2).
    GetSchema {
        /// Name of the database.
        database: String,
    },
    /// A transaction in the session's database (§4.1.3).
    Transact(Vec<Operation>),
    /// Takes a lock, away from whoever holds it (§4.1.8). It is held until another steals it or the session ends.
    Steal {
        /// Name of the lock.
        lock: String,
    },
    /// Gives up a lock, or the place in line for one that was stolen; until then it cannot be stolen back (§4.1.9).
    Unlock {
        /// Name of the lock.
        lock: String,
    },
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Names of databases.
    Databases(Vec<String>),
    /// A schema.
    Schema(Schema),
    /// The results of a transaction, one for each operation.
    Results(Vec<OpResult>),
    /// The lock is held.
    Locked,
    /// The lock is not held, nor waited for.
    Unlocked,
}

/// A request's number, unique within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(u64);

/// What a session has to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The monitor runs, and this is what it began with.
    Synced(Replica),
    /// Rows changed.
    Updated(Vec<RowChange>),
    /// A request was answered.
    Answered(RequestId, Result<Reply, Error>),
}

/// What the answer to a request will be read as.
#[derive(Debug)]
enum Pending {
    Databases,
    Schema { database: String },
    Results(Shape),
    Lock,
    Unlock,
    OwnSchema,
    Monitor(Version),
    Probe,
}

/// One connection's protocol state.
#[derive(Debug)]
pub struct Session {
    splitter: Splitter,
    core: Core,
}

/// The state behind the splitter, apart so that a message can be borrowed from the one while the other changes.
#[derive(Debug)]
struct Core {
    config: SessionConfig,
    phase: Phase,
    replica: Replica,
    next_id: u64,
    pending: BTreeMap<u64, Pending>,
    output: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    last_heard: Instant,
    probe_sent: Option<Instant>,
}

impl Session {
    /// A session on a connection that was just made.
    pub fn new(config: SessionConfig, now: Instant) -> Result<Self, Error> {
        let splitter = Splitter::new(config.limits);
        let mut core = Core {
            config,
            phase: Phase::Schema,
            replica: Replica::default(),
            next_id: 0,
            pending: BTreeMap::new(),
            output: VecDeque::new(),
            events: VecDeque::new(),
            last_heard: now,
            probe_sent: None,
        };
        core.send("get_schema", &[&core.config.database.clone()], Pending::OwnSchema)?;
        Ok(Self { splitter, core })
    }

    /// Takes bytes from the peer.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Error> {
        self.core.last_heard = now;
        self.core.probe_sent = None;
        self.splitter.push(bytes);
        while let Some(message) = self.splitter.next_message()? {
            self.core.handle_message(message)?;
        }
        Ok(())
    }

    /// The peer closed the connection; says how.
    pub fn handle_end(&mut self) -> Error {
        if self.splitter.in_message() { Error::ClosedInMessage } else { Error::Closed }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), Error> {
        let core = &mut self.core;
        let Some(due) = core.timeout() else { return Ok(()) };
        if now < due {
            return Ok(());
        }
        if core.probe_sent.is_some() {
            return Err(Error::DeadPeer(core.config.probe));
        }
        core.probe_sent = Some(now);
        core.send("echo", &[(); 0], Pending::Probe)?;
        Ok(())
    }

    /// The next message to be written.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        self.core.output.pop_front()
    }

    /// The next thing that the session has to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.timeout()
    }

    /// True once the monitor runs.
    pub fn is_synced(&self) -> bool {
        self.core.phase == Phase::Synced
    }

    /// The replica as of the last message.
    pub fn replica(&self) -> &Replica {
        &self.core.replica
    }

    /// Asks the server. Fails when the request cannot be written as JSON, and then nothing is sent.
    pub fn request(&mut self, request: Request) -> Result<RequestId, Error> {
        let core = &mut self.core;
        let id = match request {
            Request::ListDatabases => core.send("list_dbs", &[(); 0], Pending::Databases),
            Request::GetSchema { database } => {
                core.send("get_schema", &[&database.clone()], Pending::Schema { database })
            }
            Request::Transact(operations) => {
                let shape = Shape::of(&operations);
                let params = Params { database: &core.config.database.clone(), operations: &operations };
                core.send("transact", &params, Pending::Results(shape))
            }
            Request::Steal { lock } => core.send("steal", &[lock], Pending::Lock),
            Request::Unlock { lock } => core.send("unlock", &[lock], Pending::Unlock),
        };
        id.map(RequestId)
    }
}

/// The parameters of a transact: the database, then the operations, in one array.
struct Params<'a> {
    database: &'a str,
    operations: &'a [Operation],
}

impl serde::Serialize for Params<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut seq = serializer.serialize_seq(Some(self.operations.len() + 1))?;
        seq.serialize_element(self.database)?;
        for operation in self.operations {
            seq.serialize_element(operation)?;
        }
        seq.end()
    }
}

impl Core {
    fn timeout(&self) -> Option<Instant> {
        if self.config.probe.is_zero() {
            return None;
        }
        self.probe_sent.unwrap_or(self.last_heard).checked_add(self.config.probe)
    }

    fn send<P: serde::Serialize>(
        &mut self,
        method: &str,
        params: &P,
        pending: Pending,
    ) -> Result<u64, Error> {
        let id = self.next_id;
        let text = rpc::request(id, method, params).map_err(|why| Error::Encode(why.to_string()))?;
        self.next_id += 1;
        self.output.push_back(text);
        self.pending.insert(id, pending);
        Ok(id)
    }

    fn handle_message(&mut self, text: &[u8]) -> Result<(), Error> {
        match Message::parse(text)? {
            Message::Request { id, method, params } if method == "echo" => {
                self.output.push_back(rpc::reply(id, params));
                Ok(())
            }
            Message::Request { id, .. } => {
                self.output.push_back(rpc::unknown_method(id));
                Ok(())
            }
            Message::Notification { method, params } => self.handle_notification(&method, params),
            Message::Reply { id, result } => self.handle_reply(id, result),
        }
    }

    fn handle_notification(&mut self, method: &str, params: &RawValue) -> Result<(), Error> {
        let version = match method {
            "update" => Version::Whole,
            "update2" => Version::Difference,
            "monitor_canceled" => return Err(Error::MonitorCancelled),
            // A lock that was stolen fails the transactions that assert it; what is not known can be passed over.
            _ => return Ok(()),
        };
        let read = serde_json::from_str::<(&RawValue, &RawValue)>(params.get());
        let (monitor, update) =
            read.map_err(|why| RpcError::malformed(format!("{method} parameters"), &why))?;
        if !matches!(serde_json::from_str::<String>(monitor.get()).as_deref(), Ok(MONITOR_ID)) {
            return Err(Error::OutOfStep(format!(
                "{method} for monitor {}, which is not ours",
                monitor.get()
            )));
        }
        if self.phase != Phase::Synced {
            return Err(Error::OutOfStep(format!("{method} came before the first rows")));
        }
        let changes = self.replica.apply(version, update)?;
        if !changes.is_empty() {
            self.events.push_back(Event::Updated(changes));
        }
        Ok(())
    }

    fn handle_reply(&mut self, id: &RawValue, result: Result<&RawValue, &RawValue>) -> Result<(), Error> {
        let number = id.get().parse::<u64>().ok();
        let Some((id, pending)) = number.and_then(|id| Some((id, self.pending.remove(&id)?))) else {
            let id = id.get().chars().take(64).collect();
            return Err(RpcError::UnknownReply(id).into());
        };
        let id = RequestId(id);
        let answer = match pending {
            Pending::Probe => return Ok(()),
            Pending::OwnSchema => return self.handle_schema(result),
            Pending::Monitor(version) => return self.handle_monitor(version, result),
            Pending::Databases => read_reply("list_dbs", result)?.map(Reply::Databases),
            Pending::Schema { database } => match read_reply("get_schema", result)? {
                Err(error) => Err(unknown_database(error, &database)),
                Ok(schema) => Ok(Reply::Schema(schema)),
            },
            Pending::Lock => read_reply::<IgnoredAny>("steal", result)?.map(|_| Reply::Locked),
            Pending::Unlock => read_reply::<IgnoredAny>("unlock", result)?.map(|_| Reply::Unlocked),
            Pending::Results(shape) => match result {
                Err(error) => Err(refused("transact", read_error("transact", error)?)),
                Ok(text) => match shape.read(text)? {
                    Err(error) => Err(Error::Transaction(Box::new(error))),
                    Ok(results) => Ok(Reply::Results(results)),
                },
            },
        };
        self.events.push_back(Event::Answered(id, answer));
        Ok(())
    }
}

/// Reads a reply; the inner error is the server's refusal, the outer one says that the reply cannot be read.
fn read_reply<T: serde::de::DeserializeOwned>(
    method: &'static str,
    result: Result<&RawValue, &RawValue>,
) -> Result<Result<T, Error>, Error> {
    match result {
        Err(error) => Ok(Err(refused(method, read_error(method, error)?))),
        Ok(text) => match serde_json::from_str(text.get()) {
            Ok(value) => Ok(Ok(value)),
            Err(why) => Err(RpcError::malformed(format!("result of {method}"), &why).into()),
        },
    }
}

fn read_error(method: &'static str, error: &RawValue) -> Result<ErrorJson, RpcError> {
    serde_json::from_str(error.get()).map_err(|why| RpcError::malformed(format!("error of {method}"), &why))
}

/// The server's refusal of a request as a whole.
fn refused(method: &'static str, error: ErrorJson) -> Error {
    Error::Refused { method, error: Box::new(error.explain()) }
}

/// Names the database when that is what the server does not know.
fn unknown_database(error: Error, database: &str) -> Error {
    match error {
        Error::Refused { error, .. } if error.kind == ErrorKind::UnknownDatabase => {
            Error::UnknownDatabase(database.to_owned())
        }
        other => other,
    }
}

#[cfg(test)]
pub(crate) mod tests;
