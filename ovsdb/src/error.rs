//! Everything that can go wrong between this crate and an ovsdb-server.

use crate::outcome::OperationError;
use crate::rpc::RpcError;
use std::path::PathBuf;
use std::time::Duration;

/// Why a session ended, or a request was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The socket cannot be opened.
    #[error("cannot connect to {}: {why}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// Reading from or writing to the socket failed.
    #[error("connection failed: {0}")]
    Io(String),
    /// The server closed the connection between two messages.
    #[error("the server closed the connection")]
    Closed,
    /// The server closed the connection within a message.
    #[error("the server closed the connection in the middle of a message")]
    ClosedInMessage,
    /// The server did not answer an echo.
    #[error("no answer to an echo for {} ms: the server is dead or stuck", .0.as_millis())]
    DeadPeer(Duration),
    /// The server sent something that is not OVSDB.
    #[error("the server sent what is not OVSDB: {0}")]
    Protocol(#[from] RpcError),
    /// A change in the monitor does not fit what the replica holds.
    #[error("the monitor and the replica disagree: {0}")]
    OutOfStep(String),
    /// The server ended the monitor, for example since the database was removed or converted.
    #[error("the server cancelled the monitor")]
    MonitorCancelled,
    /// The server has no such database.
    #[error("the server has no database {0}")]
    UnknownDatabase(String),
    /// The database has no such table. An older Open vSwitch may lack it.
    #[error("database {database} (schema {version}) has no table {table}")]
    UnknownTable {
        /// The database.
        database: String,
        /// Version of its schema.
        version: String,
        /// The table that was asked for.
        table: String,
    },
    /// The table has no such column. An older Open vSwitch may lack it.
    #[error("table {table} of database {database} (schema {version}) has no column {column}")]
    UnknownColumn {
        /// The database.
        database: String,
        /// Version of its schema.
        version: String,
        /// The table.
        table: String,
        /// The column that was asked for.
        column: String,
    },
    /// The server refused a request as a whole.
    #[error("the server refused {method}: {error}")]
    Refused {
        /// The request.
        method: &'static str,
        /// Why.
        error: Box<OperationError>,
    },
    /// A transaction failed and changed nothing.
    #[error("transaction failed: {0}")]
    Transaction(Box<OperationError>),
    /// A request holds a value that OVSDB cannot carry. Nothing was sent.
    #[error("the request cannot be written: {0}")]
    Encode(String),
    /// There is no connection. Nothing was sent, so trying again is safe.
    #[error("not connected to the server")]
    NotConnected,
    /// The connection broke before the answer: the transaction was carried out, or it was not.
    /// `Client::commit_once` resolves this by itself.
    #[error("the connection broke before the answer came, so the outcome of the transaction is unknown")]
    OutcomeUnknown,
    /// Another client has stolen the lock of this writer: two programs use one key.
    #[error("another client writes under the key {0}: only one may")]
    Superseded(String),
    /// The database has no root row, which ovs-vswitchd or `ovs-vsctl init` makes.
    #[error("table Open_vSwitch is empty: start ovs-vswitchd or run `ovs-vsctl init`")]
    NoRootRow,
    /// The task that holds the connection has ended.
    #[error("the client has stopped")]
    Stopped,
    /// A result was asked for that the transaction did not give.
    #[error("the transaction has no such result: {0}")]
    NoSuchResult(String),
}
