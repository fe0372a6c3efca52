//! One connection to a switch, without the connection: bytes in, bytes and events out, time as an argument.
//!
//! ```text
//!            hello of the peer          features reply
//!  Greeting ------------------> Setup -----------------> Ready
//!      \                          |                        |
//!       `-- too old, refused -----+---- bad bytes, end, silence --> Closed
//! ```
//!
//! Methods named `handle_*` take what happened, `poll_*` give what is to be done; the others are commands, possible
//! while Ready. The hello goes out at once, an echo request is answered where it is read, and messages leave in the
//! order of the commands. A peer is dead once it was silent for a probe interval and as many echo requests as
//! [`SessionConfig::max_probes`] after that; any byte from it counts as life, so that a busy switch which is late with
//! echo replies but goes on talking is left alone.
//!
//! A session never recovers: after [`SessionEvent::Closed`] it is thrown away, and [`Backoff`] says how long to wait
//! before the next. Whatever was pending is answered with an error first.

mod backoff;
mod error;
mod outgoing;
mod pending;
mod receive;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::message::{
    ATOMIC, AsyncConfig, Body, BundleAdd, BundleControl, BundleStep, Features, Hello, MAX_LEN, Message,
    MultipartRequest, ORDERED, OfError, PacketInFormat, Reply, Request, SwitchConfig, VERSION_15,
};
use crate::wire::Writer;

pub use backoff::Backoff;
pub use error::{BundleError, RequestError, SendError, SessionError};
pub use outgoing::Outgoing;

use pending::{Book, Bundle, Pending, Stage};

/// Bundle flags of [`Session::commit`].
const BUNDLE_FLAGS: u16 = ATOMIC | ORDERED;

/// How a session is set up and watched.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// Silence after which an echo request is sent, and time for each answer.
    pub probe: Duration,
    /// Echo requests without any byte from the peer after which it counts as dead.
    pub max_probes: u32,
    /// Bytes of a missed packet to be sent; 0 turns packet-ins off on a bridge's management socket.
    pub miss_send_len: u16,
    /// Asynchronous messages to ask for; `None` leaves the switch's default.
    pub asynchronous: Option<AsyncConfig>,
    /// Largest multipart answer in bytes, over all its parts.
    pub reply_limit: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            probe: Duration::from_secs(5),
            max_probes: 3,
            miss_send_len: u16::MAX,
            asynchronous: None,
            reply_limit: 256 << 20,
        }
    }
}

/// Names one thing asked of a session; the event that answers it carries the same token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(u64);

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// The handshake is over; commands are possible.
    Ready(Features),
    /// A message that answers nothing: a packet-in, a removed flow, a changed port.
    Message(Box<Message>),
    /// The switch refused a message sent by [`Session::send`].
    Refused {
        /// Transaction id of the message.
        xid: u32,
        /// Why.
        error: OfError,
    },
    /// All messages of a batch are done.
    BatchDone {
        /// As [`Session::batch`] gave it.
        token: Token,
        /// What the switch refused: place in the batch, and why. `Err` if the connection ended before the end of the
        /// batch: what of it took effect is unknown.
        result: Result<Vec<(usize, OfError)>, SessionError>,
    },
    /// A bundle took effect.
    BundleCommitted {
        /// As [`Session::commit`] gave it.
        token: Token,
    },
    /// A bundle did not take effect, or may not have.
    BundleFailed {
        /// As [`Session::commit`] gave it.
        token: Token,
        /// Why.
        error: BundleError,
    },
    /// The whole answer to a multipart request.
    Reply {
        /// As [`Session::request`] gave it.
        token: Token,
        /// The answer.
        result: Result<Reply, RequestError>,
    },
    /// The session has ended; the last event.
    Closed(SessionError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Setup,
    Ready,
    Closed,
}

/// One connection to a switch.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    state: State,
    features: Option<Features>,
    /// The beginning of a message whose rest has not come.
    inbox: Vec<u8>,
    outbox: Writer,
    events: VecDeque<SessionEvent>,
    book: Book,
    next_xid: u32,
    next_token: u64,
    next_bundle: u32,
    last_heard: Instant,
    probes: u32,
}

impl Session {
    /// A session on a connection that was made at `now`; its hello is ready to be sent.
    pub fn new(config: SessionConfig, now: Instant) -> Session {
        let mut session = Session {
            config,
            state: State::Greeting,
            features: None,
            inbox: Vec::new(),
            outbox: Writer::new(),
            events: VecDeque::new(),
            book: Book::default(),
            next_xid: 1,
            next_token: 1,
            next_bundle: 1,
            last_heard: now,
            probes: 0,
        };
        session.put(Body::Hello(Hello::only(VERSION_15)));
        session
    }

    /// Bytes to be written, all there are.
    pub fn poll_output(&mut self) -> Option<Vec<u8>> {
        if self.outbox.is_empty() { None } else { Some(std::mem::take(&mut self.outbox).into_vec()) }
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// When to call [`Session::handle_timeout`] unless bytes come first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.state != State::Closed).then(|| self.last_heard + self.config.probe * (self.probes + 1))
    }

    /// Time has passed: asks a silent peer for life, or gives it up.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        if self.probes >= self.config.max_probes {
            let seconds = now.saturating_duration_since(self.last_heard).as_secs();
            self.close(SessionError::Silent { seconds, probes: self.probes });
            return;
        }
        self.probes += 1;
        if self.state != State::Greeting {
            self.put(Body::EchoRequest(Vec::new()));
        }
    }

    /// Whether commands are possible.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Sends one message; only a refusal is ever heard of it.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send(&mut self, body: Body) -> Result<u32, SendError> {
        self.ready()?;
        let start = self.outbox.len();
        let xid = self.put(body);
        self.check_length(start)?;
        Ok(xid)
    }

    /// Sends messages and a barrier behind them; [`SessionEvent::BatchDone`] tells when all are done and what was
    /// refused. Groups, meters and conntrack flushes go this way.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn batch(&mut self, bodies: Vec<Body>) -> Result<Token, SendError> {
        self.ready()?;
        let start = self.outbox.len();
        let first = self.reserve(bodies.len() + 1);
        let mut xid = first;
        for body in bodies {
            let message = self.outbox.len();
            self.put_at(xid, body);
            self.check_length(message).inspect_err(|_| self.outbox.truncate(start))?;
            xid += 1;
        }
        self.put_at(xid, Body::BarrierRequest);
        let token = self.token();
        self.book.add(first, xid, Pending::Batch { token, errors: Vec::new() });
        Ok(token)
    }

    /// [`SessionEvent::BatchDone`] tells when all that was sent before is done.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn barrier(&mut self) -> Result<Token, SendError> {
        self.batch(Vec::new())
    }

    /// Applies messages in one atomic, ordered bundle: flow-mods, group-mods and packet-outs (no meter-mods).
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn commit(&mut self, bodies: impl IntoIterator<Item = Body>) -> Result<Token, SendError> {
        self.ready()?;
        let bodies: Vec<Body> = bodies.into_iter().collect();
        let start = self.outbox.len();
        let id = self.next_bundle;
        self.next_bundle = self.next_bundle.wrapping_add(1);
        // Open, the messages, close; the last id is for the commit or the discard.
        let first = self.reserve(bodies.len() + 3);
        let control = |step| Body::BundleControl(BundleControl { id, step, flags: BUNDLE_FLAGS });
        self.put_at(first, control(BundleStep::OpenRequest));
        let mut xid = first + 1;
        for body in bodies {
            let at = self.outbox.len();
            let message = Box::new(Message { version: VERSION_15, xid, body });
            self.put_at(
                xid,
                Body::BundleAdd(BundleAdd { id, flags: BUNDLE_FLAGS, message, properties: Vec::new() }),
            );
            self.check_length(at).inspect_err(|_| self.outbox.truncate(start))?;
            xid += 1;
        }
        self.put_at(xid, control(BundleStep::CloseRequest));
        let token = self.token();
        let bundle = Bundle { token, id, error: None, stage: Stage::Filling };
        self.book.add(first, xid + 1, Pending::Bundle(bundle));
        Ok(token)
    }

    /// Asks a question; [`SessionEvent::Reply`] brings the whole answer.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn request(&mut self, request: Request) -> Result<Token, SendError> {
        let xid = self.send(Body::MultipartRequest(MultipartRequest::from(request)))?;
        let token = self.token();
        self.book.add(xid, xid, Pending::Request { token, reply: None, bytes: 0 });
        Ok(token)
    }

    fn ready(&self) -> Result<(), SendError> {
        if self.is_ready() { Ok(()) } else { Err(SendError::NotReady) }
    }

    /// Takes back what was written from `start` on if it is too long for a message.
    fn check_length(&mut self, start: usize) -> Result<(), SendError> {
        let length = self.outbox.len() - start;
        if length > MAX_LEN {
            self.outbox.truncate(start);
            return Err(SendError::TooLong { length });
        }
        Ok(())
    }

    fn put(&mut self, body: Body) -> u32 {
        let xid = self.reserve(1);
        self.put_at(xid, body);
        xid
    }

    fn put_at(&mut self, xid: u32, body: Body) {
        Message { version: VERSION_15, xid, body }.encode_to(&mut self.outbox);
    }

    /// A run of `count` transaction ids, never 0, never across the end of the numbers.
    fn reserve(&mut self, count: usize) -> u32 {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let first = if self.next_xid.checked_add(count).is_some() { self.next_xid } else { 1 };
        self.next_xid = first.saturating_add(count);
        first
    }

    fn token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    fn begin_setup(&mut self) {
        self.state = State::Setup;
        let config = SwitchConfig { flags: 0, miss_send_len: self.config.miss_send_len };
        self.set_up("the switch configuration", Body::SetConfig(config));
        self.set_up(
            "packet-ins in the format of NXT_PACKET_IN2",
            Body::SetPacketInFormat(PacketInFormat::Nxt2),
        );
        if let Some(asynchronous) = self.config.asynchronous {
            self.set_up("the asynchronous configuration", Body::SetAsync(asynchronous));
        }
        self.set_up("the features request", Body::FeaturesRequest);
    }

    fn set_up(&mut self, what: &'static str, body: Body) {
        let xid = self.put(body);
        self.book.add(xid, xid, Pending::Setup { what });
    }

    /// Ends the session: answers all that is pending, then tells why.
    fn close(&mut self, error: SessionError) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        for pending in self.book.drain() {
            self.events.extend(match pending {
                Pending::Setup { .. } => None,
                Pending::Batch { token, .. } => {
                    Some(SessionEvent::BatchDone { token, result: Err(error.clone()) })
                }
                Pending::Bundle(bundle) => {
                    let error = match (bundle.error, bundle.stage) {
                        (Some(error), _) => BundleError::Refused(error),
                        (None, Stage::Filling) => BundleError::NotCommitted,
                        (None, Stage::Committing) => BundleError::UnknownOutcome,
                    };
                    Some(SessionEvent::BundleFailed { token: bundle.token, error })
                }
                Pending::Request { token, .. } => {
                    Some(SessionEvent::Reply { token, result: Err(RequestError::Lost) })
                }
            });
        }
        self.events.push_back(SessionEvent::Closed(error));
    }
}
