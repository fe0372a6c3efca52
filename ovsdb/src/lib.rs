//! OVSDB (RFC 7047) as Open vSwitch speaks it: values, operations, transactions, monitors, a session without IO,
//! and behind feature `client` a client on tokio.
//!
//! [`Session`] is the protocol: bytes and time go in, bytes and events come out. On every connection it reads the
//! schema, checks that the tables and columns to be monitored exist, starts a fresh monitor and keeps a
//! [`Replica`] of it. [`Transaction`] builds what `Client::commit` sends. [`rows`] has the tables of the
//! `Open_vSwitch` database that Fabric uses as structures.
//!
//! ```
//! use ovsdb::{Condition, Mutation, Transaction};
//!
//! let mut txn = Transaction::new();
//! let interface = txn.insert("Interface", [("name", "pod1".into()), ("type", "internal".into())]);
//! let port = txn.insert("Port", [("name", "pod1".into()), ("interfaces", interface.into())]);
//! txn.require_row("Bridge", [Condition::eq("name", "br-fabric")]);
//! txn.mutate("Bridge", [Condition::eq("name", "br-fabric")], [Mutation::insert("ports", port)]);
//! let next_cfg = txn.bump_next_cfg();
//! # let _ = next_cfg;
//! ```

#[cfg(feature = "client")]
pub mod client;
mod error;
pub mod monitor;
pub mod op;
pub mod outcome;
pub mod rows;
pub mod rpc;
pub mod schema;
pub mod session;
pub mod txn;
pub mod value;

#[cfg(feature = "client")]
pub use client::{Client, ClientEvent, Config};
pub use error::Error;
pub use monitor::{Replica, Row, RowChange, TableColumns};
pub use op::{Columns, Comparison, Condition, Mutation, Mutator, Operation, Until};
pub use outcome::{ErrorKind, OpResult, OperationError};
pub use schema::Schema;
pub use session::Session;
pub use txn::{Committed, Transaction};
pub use value::{Atom, Datum, Uuid};
