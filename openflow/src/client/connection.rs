//! One connection: the loop that moves bytes between the socket and the session, and answers between the session and
//! the handles.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::delivery::{Delivery, Overflow};
use super::{Answer, ClientError, ClientEvent, Command, Shared};
use crate::message::{Body, Message, OfError, Reply};
use crate::session::{SendError, Session, SessionEvent, Token};

const READ_BUFFER: usize = 64 << 10;
/// Commands taken before what they wrote is sent.
const COMMANDS_AT_ONCE: usize = 64;
/// Bytes waiting to be written above which no further command is taken.
const OUTPUT_LIMIT: usize = 4 << 20;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nobody is left to use it.
    HandlesGone,
    /// It broke; the text says why.
    Lost(String),
}

/// Who waits for which answer.
#[derive(Debug)]
enum Waiter {
    Commit(Answer<()>),
    Batch(Answer<Vec<(usize, OfError)>>),
    Request(Answer<Reply>),
}

/// What woke the loop.
enum Wake {
    Socket,
    Command(Option<Command>),
    Tick,
    Delivered,
}

#[derive(Debug)]
pub(super) struct Connection<'a> {
    stream: UnixStream,
    session: Session,
    commands: &'a mut mpsc::Receiver<Command>,
    delivery: &'a mut Delivery,
    shared: &'a Shared,
    waiters: BTreeMap<Token, Waiter>,
    clock: Interval,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// Read even if the consumer is behind, once.
    overdue: bool,
    was_ready: bool,
}

impl<'a> Connection<'a> {
    pub(super) fn new(
        stream: UnixStream,
        session: Session,
        probe: Duration,
        commands: &'a mut mpsc::Receiver<Command>,
        delivery: &'a mut Delivery,
        shared: &'a Shared,
    ) -> Connection<'a> {
        let mut clock = tokio::time::interval((probe / 4).max(Duration::from_millis(1)));
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Connection {
            stream,
            session,
            commands,
            delivery,
            shared,
            waiters: BTreeMap::new(),
            clock,
            input: vec![0; READ_BUFFER],
            output: Vec::new(),
            written: 0,
            overdue: false,
            was_ready: false,
        }
    }

    /// Whether the handshake succeeded.
    pub(super) fn was_ready(&self) -> bool {
        self.was_ready
    }

    pub(super) async fn run(&mut self) -> Ended {
        loop {
            if let Some(ended) = self.handle_events() {
                return ended;
            }
            self.write();
            match self.wake().await {
                Wake::Socket => self.read(),
                Wake::Delivered => {}
                Wake::Tick => {
                    self.overdue = true;
                    self.session.handle_timeout(Instant::now());
                }
                Wake::Command(None) => return Ended::HandlesGone,
                Wake::Command(Some(command)) => self.handle_commands(command),
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let backlog = self.output.len() - self.written;
        let open = self.session.is_ready() && backlog < OUTPUT_LIMIT;
        let interest = match (self.may_read(), backlog > 0) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        tokio::select! {
            // A failure shows itself again in the read that follows.
            _ = self.stream.ready(interest.unwrap_or(Interest::READABLE)), if interest.is_some() => Wake::Socket,
            command = self.commands.recv(), if open => Wake::Command(command),
            _ = self.clock.tick() => Wake::Tick,
            () = self.delivery.flush() => Wake::Delivered,
        }
    }

    /// A consumer that is behind slows the switch down, which then drops packet-ins itself; but whoever waits for an
    /// answer gets it, and signs of life are looked for now and then.
    fn may_read(&self) -> bool {
        !self.delivery.is_behind() || !self.waiters.is_empty() || self.overdue
    }

    fn read(&mut self) {
        if !self.may_read() {
            return;
        }
        self.overdue = false;
        match self.stream.try_read(&mut self.input) {
            Ok(0) => self.session.handle_end(),
            Ok(length) => {
                let bytes = self.input.get(..length).unwrap_or_default();
                self.session.handle_bytes(bytes, Instant::now());
            }
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.session.handle_end(),
        }
    }

    /// Writes as much as the socket takes. A broken one is left to the reader, which may still find the reason.
    fn write(&mut self) {
        if let Some(bytes) = self.session.poll_output() {
            if self.output.is_empty() {
                self.output = bytes;
            } else {
                self.output.extend_from_slice(&bytes);
            }
        }
        while let Some(rest) = self.output.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.try_write(rest) {
                Ok(length) => self.written += length,
                Err(error) if is_temporary(&error) => return,
                Err(_) => break,
            }
        }
        self.output.clear();
        self.written = 0;
    }

    fn handle_commands(&mut self, first: Command) {
        self.handle_command(first);
        for _ in 1..COMMANDS_AT_ONCE {
            let Ok(command) = self.commands.try_recv() else { return };
            self.handle_command(command);
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Send(outgoing) => {
                // Commands are taken while the session is ready only.
                let _ = self.session.send_encoded(outgoing);
            }
            Command::Commit(bodies, answer) => {
                let token = self.session.commit(bodies);
                self.wait(token, answer, Waiter::Commit);
            }
            Command::Batch(bodies, answer) => {
                let token = self.session.batch(bodies);
                self.wait(token, answer, Waiter::Batch);
            }
            Command::Request(request, answer) => {
                let token = self.session.request(request);
                self.wait(token, answer, Waiter::Request);
            }
        }
    }

    fn wait<T>(
        &mut self,
        token: Result<Token, SendError>,
        answer: Answer<T>,
        waiter: impl FnOnce(Answer<T>) -> Waiter,
    ) {
        match token {
            Ok(token) => {
                self.waiters.insert(token, waiter(answer));
            }
            // Whoever no longer waits does not need the answer.
            Err(error) => drop(answer.send(Err(error.into()))),
        }
    }

    fn handle_events(&mut self) -> Option<Ended> {
        while let Some(event) = self.session.poll_event() {
            let delivered = match event {
                SessionEvent::Ready(features) => {
                    self.was_ready = true;
                    self.shared.connected.store(true, Ordering::Relaxed);
                    self.delivery.push(ClientEvent::Connected(features))
                }
                SessionEvent::Message(message) => self.delivery.push(client_event(*message)),
                SessionEvent::Refused { xid, error } => self.delivery.push(ClientEvent::Error { xid, error }),
                SessionEvent::Closed(error) => return Some(Ended::Lost(error.to_string())),
                answer => {
                    self.answer(answer);
                    Ok(())
                }
            };
            if let Err(Overflow) = delivered {
                self.delivery.clear();
                return Some(Ended::Lost("events piled up: the consumer is too slow".to_owned()));
            }
        }
        None
    }

    fn answer(&mut self, event: SessionEvent) {
        let (token, outcome) = match event {
            SessionEvent::BundleCommitted { token } => (token, Outcome::Commit(Ok(()))),
            SessionEvent::BundleFailed { token, error } => (token, Outcome::Commit(Err(error.into()))),
            SessionEvent::BatchDone { token, result } => {
                (token, Outcome::Batch(result.map_err(|_| ClientError::UnknownOutcome)))
            }
            SessionEvent::Reply { token, result } => {
                (token, Outcome::Request(result.map_err(ClientError::from)))
            }
            _ => return,
        };
        match (self.waiters.remove(&token), outcome) {
            (Some(Waiter::Commit(answer)), Outcome::Commit(result)) => drop(answer.send(result)),
            (Some(Waiter::Batch(answer)), Outcome::Batch(result)) => drop(answer.send(result)),
            (Some(Waiter::Request(answer)), Outcome::Request(result)) => drop(answer.send(result)),
            _ => {}
        }
    }
}

enum Outcome {
    Commit(Result<(), ClientError>),
    Batch(Result<Vec<(usize, OfError)>, ClientError>),
    Request(Result<Reply, ClientError>),
}

fn client_event(message: Message) -> ClientEvent {
    match message.body {
        Body::PacketIn(packet_in) => ClientEvent::PacketIn(Box::new(packet_in)),
        Body::FlowRemoved(removed) => ClientEvent::FlowRemoved(Box::new(removed)),
        Body::PortStatus(status) => ClientEvent::PortStatus(Box::new(status)),
        body => ClientEvent::Other(Box::new(Message { body, ..message })),
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
