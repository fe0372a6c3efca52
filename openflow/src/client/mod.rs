//! A connection to a bridge's management socket that comes back by itself.
//!
//! [`Client::spawn`] starts one task that owns the socket and a [`Session`]; the handle only sends it commands. The task
//! reads, answers echo requests, hands events on and writes, all in one loop: what is written while one batch of
//! commands is handled goes out in one call. Every channel is bounded. A consumer that is slow is waited for, so that the
//! switch drops packet-ins itself, unless somebody waits for an answer: then the client reads on and drops them (their
//! senders retransmit). If other events pile up, the connection is dropped, and the consumer finds
//! [`ClientEvent::Disconnected`] and [`ClientEvent::Connected`] and reads the switch again.
//!
//! After a lost connection the task connects again, waiting 50 ms at first and 1 s at most, for ever.

mod connection;
mod delivery;
mod driver;
mod queued;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::flow::{FlowMod, FlowStats};
use crate::message::{
    AsyncConfig, AsyncKind, AsyncMasks, Body, Features, FlowRemoved, FlowRequest, GROUP_ALL, GroupDesc,
    GroupStats, METER_ALL, Message, MeterConfig, MeterStats, OfError, PacketIn, PortDesc, PortStatus, Reply,
    Request,
};
use crate::port;
use crate::session::{BundleError, Outgoing, RequestError, SendError, Session, SessionConfig};

/// Commands that may wait for the task.
const COMMANDS: usize = 1024;
/// Reasons for a packet-in that a flow asks for by itself. A packet whose time to live ends is none: any sender could
/// send as many as it likes, past every meter (OpenFlow 1.5 §7.4.1, OFPR_INVALID_TTL).
const PACKET_IN_REASONS: u32 = 0b11_1011;
/// All reasons of a kind of asynchronous message that OVS knows.
const ALL_REASONS: u32 = 0b11_1111;
/// Port status has three reasons.
const PORT_REASONS: u32 = 0b111;

/// What to connect to, and what to ask for there.
#[derive(Debug, Clone)]
pub struct Config {
    /// The socket: `BRIDGE.mgmt` in the run directory of Open vSwitch.
    pub path: PathBuf,
    /// Silence after which the switch is asked for life.
    pub probe: Duration,
    /// Unanswered questions for life after which it counts as dead.
    pub max_probes: u32,
    /// Bytes of a missed packet to be sent along.
    pub miss_send_len: u16,
    /// Whether this connection gets packet-ins, except for packets whose time to live ended.
    pub packet_ins: bool,
    /// Whether this connection hears of removed flows that ask for it.
    pub flow_removed: bool,
    /// Whether this connection hears of changes to ports.
    pub port_status: bool,
    /// Wait after the first failure to connect; it doubles with each further one.
    pub first_retry: Duration,
    /// Longest wait between attempts to connect.
    pub max_retry: Duration,
}

impl Config {
    /// Everything on: packet-ins, removed flows, port status; a probe every 5 s.
    pub fn new(path: impl Into<PathBuf>) -> Config {
        Config {
            path: path.into(),
            probe: Duration::from_secs(5),
            max_probes: 3,
            miss_send_len: u16::MAX,
            packet_ins: true,
            flow_removed: true,
            port_status: true,
            first_retry: Duration::from_millis(50),
            max_retry: Duration::from_secs(1),
        }
    }

    /// As [`Config::new`], without asynchronous messages: for statistics, or for flow-mods that must not wait behind
    /// packet-ins.
    pub fn quiet(path: impl Into<PathBuf>) -> Config {
        Config { packet_ins: false, flow_removed: false, port_status: false, ..Config::new(path) }
    }

    fn session(&self) -> SessionConfig {
        let reasons = |wanted: bool, mask: u32| if wanted { mask } else { 0 };
        let primary = AsyncMasks::default()
            .with(AsyncKind::PacketIn, reasons(self.packet_ins, PACKET_IN_REASONS))
            .with(AsyncKind::PortStatus, reasons(self.port_status, PORT_REASONS))
            .with(AsyncKind::FlowRemoved, reasons(self.flow_removed, ALL_REASONS));
        SessionConfig {
            probe: self.probe,
            max_probes: self.max_probes,
            miss_send_len: self.miss_send_len,
            asynchronous: Some(AsyncConfig { primary, ..AsyncConfig::default() }),
            ..SessionConfig::default()
        }
    }
}

/// Something that happened, in the order in which it came over the connection.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// Connected and set up; what the switch holds from before is unknown.
    Connected(Features),
    /// The connection is gone, or an attempt to connect failed; the client tries again.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// A packet for the controller.
    PacketIn(Box<PacketIn>),
    /// A flow is gone.
    FlowRemoved(Box<FlowRemoved>),
    /// A port changed.
    PortStatus(Box<PortStatus>),
    /// The switch refused a message of [`Client::send`] or [`Client::try_send`].
    Error {
        /// Transaction id of the message.
        xid: u32,
        /// Why.
        error: OfError,
    },
    /// Any other message.
    Other(Box<Message>),
}

/// Why a command of a client failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// There is no connection; nothing was sent.
    #[error("the switch is not connected")]
    NotConnected,
    /// The connection ended before the answer: whether the switch acted is unknown. Read the switch to know.
    #[error("the connection to the switch ended before the answer: the outcome is unknown")]
    UnknownOutcome,
    /// The client's queue is full ([`Client::try_send`] only).
    #[error("too many commands wait for the switch")]
    Full,
    /// The switch refused; a bundle that is refused changes nothing.
    #[error("the switch refused: {0}")]
    Refused(OfError),
    /// A message has no wire form because it is longer than 65,535 bytes.
    #[error("a message of {0} bytes is longer than the 65,535 that OpenFlow allows")]
    TooLong(usize),
    /// The answer is not one to the question, or too large.
    #[error("the switch's answer: {0}")]
    BadAnswer(RequestError),
}

impl From<SendError> for ClientError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotReady => ClientError::NotConnected,
            SendError::TooLong { length } => ClientError::TooLong(length),
        }
    }
}

impl From<BundleError> for ClientError {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Refused(error) => ClientError::Refused(error),
            BundleError::NotCommitted => ClientError::NotConnected,
            BundleError::UnknownOutcome => ClientError::UnknownOutcome,
        }
    }
}

impl From<RequestError> for ClientError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(error) => ClientError::Refused(error),
            RequestError::Lost => ClientError::NotConnected,
            other => ClientError::BadAnswer(other),
        }
    }
}

type Answer<T> = oneshot::Sender<Result<T, ClientError>>;

/// What the handle asks of the task.
#[derive(Debug)]
enum Command {
    Send(Outgoing),
    Commit(Vec<Body>, Answer<()>),
    Batch(Vec<Body>, Answer<Vec<(usize, OfError)>>),
    Request(Request, Answer<Reply>),
}

/// What handle and task share: numbers to look at, no state.
#[derive(Debug, Default)]
struct Shared {
    connected: AtomicBool,
    dropped: AtomicU64,
}

/// A handle to one connection; clones share it. The connection ends with the last of them.
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

impl Client {
    /// Starts the task, which connects at once; must be called within a tokio runtime.
    pub fn spawn(config: Config, events: mpsc::Sender<ClientEvent>) -> Client {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let shared = Arc::new(Shared::default());
        tokio::spawn(driver::run(config, receiver, events, Arc::clone(&shared)));
        Client { commands, shared }
    }

    /// Whether the connection is set up.
    pub fn is_connected(&self) -> bool {
        self.shared.connected.load(Ordering::Relaxed)
    }

    /// Packet-ins that were dropped because the consumer of events was slow, since the start.
    pub fn dropped_packet_ins(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Applies flow-mods in one atomic, ordered bundle; returns once the switch has committed it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] and [`ClientError::NotConnected`]: nothing changed. [`ClientError::UnknownOutcome`]:
    /// read the switch.
    pub async fn commit(&self, flow_mods: Vec<FlowMod>) -> Result<(), ClientError> {
        self.commit_messages(flow_mods.into_iter().map(Body::FlowMod).collect()).await
    }

    /// As [`Client::commit`], for flow-mods, group-mods and packet-outs.
    ///
    /// # Errors
    /// As [`Client::commit`].
    pub async fn commit_messages(&self, bodies: Vec<Body>) -> Result<(), ClientError> {
        self.ask(|answer| Command::Commit(bodies, answer)).await
    }

    /// Sends messages in order; refusals come as [`ClientEvent::Error`].
    ///
    /// # Errors
    /// [`ClientError::NotConnected`], [`ClientError::TooLong`]: nothing was sent.
    pub async fn send(&self, bodies: Vec<Body>) -> Result<(), ClientError> {
        if !self.is_connected() {
            return Err(ClientError::NotConnected);
        }
        self.commands
            .send(Command::Send(Outgoing::encode(bodies)?))
            .await
            .map_err(|_| ClientError::NotConnected)
    }

    /// As [`Client::send`], without ever waiting: for resumes and the flow-mods before them.
    ///
    /// # Errors
    /// [`ClientError::NotConnected`], [`ClientError::Full`], [`ClientError::TooLong`]: nothing was sent.
    pub fn try_send(&self, bodies: Vec<Body>) -> Result<(), ClientError> {
        if !self.is_connected() {
            return Err(ClientError::NotConnected);
        }
        self.commands.try_send(Command::Send(Outgoing::encode(bodies)?)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ClientError::Full,
            mpsc::error::TrySendError::Closed(_) => ClientError::NotConnected,
        })
    }

    /// Sends messages and waits until the switch is done with all of them: for meters, groups, conntrack flushes.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the first refusal; the other messages may have taken effect.
    pub async fn apply(&self, bodies: Vec<Body>) -> Result<(), ClientError> {
        let refused = self.ask(|answer| Command::Batch(bodies, answer)).await?;
        match refused.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(ClientError::Refused(error)),
        }
    }

    /// Waits until the switch is done with all that was sent before.
    ///
    /// # Errors
    /// [`ClientError`] if the connection ends first.
    pub async fn barrier(&self) -> Result<(), ClientError> {
        self.apply(Vec::new()).await
    }

    /// Asks a question and waits for the whole answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn request(&self, request: Request) -> Result<Reply, ClientError> {
        self.ask(|answer| Command::Request(request, answer)).await
    }

    /// The flows that `request` asks for (by default all), with what they counted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn dump_flows(&self, request: FlowRequest) -> Result<Vec<FlowStats>, ClientError> {
        match self.request(Request::Flow(request)).await? {
            Reply::Flow(flows) => Ok(flows),
            _ => Err(ClientError::BadAnswer(RequestError::Mixed)),
        }
    }

    /// All ports.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn port_desc(&self) -> Result<Vec<PortDesc>, ClientError> {
        match self.request(Request::PortDesc(port::ANY)).await? {
            Reply::PortDesc(ports) => Ok(ports),
            _ => Err(ClientError::BadAnswer(RequestError::Mixed)),
        }
    }

    /// All groups.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn group_desc(&self) -> Result<Vec<GroupDesc>, ClientError> {
        match self.request(Request::GroupDesc(GROUP_ALL)).await? {
            Reply::GroupDesc(groups) => Ok(groups),
            _ => Err(ClientError::BadAnswer(RequestError::Mixed)),
        }
    }

    /// What all groups counted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn group_stats(&self) -> Result<Vec<GroupStats>, ClientError> {
        match self.request(Request::Group(GROUP_ALL)).await? {
            Reply::Group(groups) => Ok(groups),
            _ => Err(ClientError::BadAnswer(RequestError::Mixed)),
        }
    }

    /// All meters.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn meter_config(&self) -> Result<Vec<MeterConfig>, ClientError> {
        match self.request(Request::MeterConfig(METER_ALL)).await? {
            Reply::MeterConfig(meters) => Ok(meters),
            _ => Err(ClientError::BadAnswer(RequestError::Mixed)),
        }
    }

    /// What all meters counted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn meter_stats(&self) -> Result<Vec<MeterStats>, ClientError> {
        match self.request(Request::Meter(METER_ALL)).await? {
            Reply::Meter(meters) => Ok(meters),
            _ => Err(ClientError::BadAnswer(RequestError::Mixed)),
        }
    }

    /// Removes all tracked connections of `zone`; returns once that is done.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn ct_flush_zone(&self, zone: u16) -> Result<(), ClientError> {
        self.apply(vec![Body::CtFlushZone(zone)]).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Answer<T>) -> Command) -> Result<T, ClientError> {
        let (answer, result) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| ClientError::NotConnected)?;
        result.await.map_err(|_| ClientError::UnknownOutcome)?
    }
}
