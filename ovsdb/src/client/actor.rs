//! The task behind [`super::Client`]: connect, run a session until it breaks, say so, wait, again.

use super::inbox::Inbox;
use super::once::Onces;
use super::{Answer, ClientEvent, Command, Config};
use crate::error::Error;
use crate::rpc::Limits;
use crate::session::{Backoff, Event, Request, RequestId, Session, SessionConfig};
use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until, timeout};

/// Bytes that are read at once.
const READ: usize = 64 << 10;
/// Above this many bytes to be written, neither requests nor messages of the server are taken.
const UNWRITTEN: usize = 4 << 20;
/// A unix socket answers at once, unless the server's queue of connections is full.
const CONNECT: Duration = Duration::from_secs(5);

/// Runs until the last handle is gone.
pub(super) async fn run(
    config: Config,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<ClientEvent>,
) {
    let session = SessionConfig {
        database: config.database.clone(),
        monitor: config.monitor.clone(),
        probe: config.probe,
        limits: Limits::default(),
    };
    let mut actor = Actor {
        config,
        session,
        commands,
        events,
        inbox: Inbox::default(),
        waiting: BTreeMap::new(),
        once: Onces::new(),
        last_reason: None,
    };
    let mut backoff = Backoff::default();
    loop {
        let End::Lost(reason) = actor.connect_and_run(&mut backoff).await else { return };
        actor.lost(reason);
        let delay = backoff.next_delay();
        if actor.rest(delay).await.is_none() {
            return;
        }
    }
}

/// Why a connection is over.
enum End {
    /// It broke, or could not be made.
    Lost(Error),
    /// Nobody holds a handle any more.
    Stop,
}

struct Actor {
    config: Config,
    session: SessionConfig,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<ClientEvent>,
    inbox: Inbox,
    waiting: BTreeMap<RequestId, (Answer, bool)>,
    once: Onces,
    last_reason: Option<Error>,
}

/// What woke the task.
enum Wake {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Time,
    Command(Option<Command>),
    Delivered,
}

impl Actor {
    async fn connect_and_run(&mut self, backoff: &mut Backoff) -> End {
        let connected = match timeout(CONNECT, UnixStream::connect(&self.config.path)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        };
        match connected {
            Ok(stream) => self.converse(stream, backoff).await,
            Err(why) => End::Lost(Error::Connect { path: self.config.path.clone(), why: why.to_string() }),
        }
    }

    /// Runs one session on one connection.
    async fn converse(&mut self, mut stream: UnixStream, backoff: &mut Backoff) -> End {
        let mut session = match Session::new(self.session.clone(), Instant::now()) {
            Ok(session) => session,
            Err(error) => return End::Lost(error),
        };
        let (mut reader, mut writer) = stream.split();
        let mut chunk = vec![0_u8; READ];
        let mut output = Output::default();
        loop {
            self.take_events(&mut session, backoff);
            self.send_once(&mut session);
            while let Some(message) = session.poll_output() {
                output.push(message);
            }
            let room = output.len() < UNWRITTEN;
            let due = session.poll_timeout();
            let wake = tokio::select! {
                read = reader.read(&mut chunk), if room => Wake::Read(read),
                written = output.write(&mut writer) => Wake::Written(written),
                () = at(due) => Wake::Time,
                command = self.commands.recv(), if room => Wake::Command(command),
                () = deliver(&self.events, &mut self.inbox) => Wake::Delivered,
            };
            let step = match wake {
                Wake::Read(Ok(0)) => Err(session.handle_end()),
                Wake::Read(Ok(len)) => {
                    session.handle_bytes(Instant::now(), chunk.get(..len).unwrap_or_default())
                }
                Wake::Read(Err(why)) | Wake::Written(Err(why)) => Err(Error::Io(why.to_string())),
                Wake::Written(Ok(_)) | Wake::Delivered => Ok(()),
                Wake::Time => wait_is_over(&mut session, &reader, &mut chunk),
                Wake::Command(None) => return End::Stop,
                Wake::Command(Some(command)) => {
                    self.command(command, &mut session);
                    Ok(())
                }
            };
            if let Err(reason) = step {
                // What came before the failure has still happened.
                self.take_events(&mut session, backoff);
                return End::Lost(reason);
            }
        }
    }

    fn command(&mut self, command: Command, session: &mut Session) {
        match command {
            Command::Once { transaction, key, answer } => self.once.queue(transaction, key, answer),
            Command::Request { answer, .. } if !session.is_synced() => {
                answer.send(Err(Error::NotConnected)).ok();
            }
            Command::Request { request, answer } => {
                let changes = matches!(request, Request::Transact(_));
                match session.request(request) {
                    Ok(id) => drop(self.waiting.insert(id, (answer, changes))),
                    Err(error) => drop(answer.send(Err(error))),
                }
            }
        }
    }

    fn take_events(&mut self, session: &mut Session, backoff: &mut Backoff) {
        while let Some(event) = session.poll_event() {
            match event {
                Event::Synced(snapshot) => {
                    backoff.reset();
                    self.last_reason = None;
                    self.inbox.connected(snapshot);
                }
                Event::Updated(changes) => self.inbox.changed(changes),
                Event::Answered(id, result) => match self.waiting.remove(&id) {
                    Some((answer, _)) => drop(answer.send(result)),
                    None => self.once.answered(id, result),
                },
            }
        }
    }

    fn send_once(&mut self, session: &mut Session) {
        if session.is_synced() {
            self.once.send(session);
        }
    }

    /// Tells everybody who waits that the connection is gone.
    fn lost(&mut self, reason: Error) {
        for (_, (answer, changes)) in std::mem::take(&mut self.waiting) {
            let error = if changes { Error::OutcomeUnknown } else { reason.clone() };
            answer.send(Err(error)).ok();
        }
        self.once.lost();
        if self.last_reason.as_ref() != Some(&reason) {
            self.last_reason = Some(reason.clone());
            self.inbox.lost(reason);
        }
    }

    /// Waits without a connection; `None` when nobody holds a handle any more.
    async fn rest(&mut self, delay: Duration) -> Option<()> {
        let over = sleep(delay);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Some(()),
                () = deliver(&self.events, &mut self.inbox) => {}
                command = self.commands.recv() => match command? {
                    Command::Once { transaction, key, answer } => self.once.queue(transaction, key, answer),
                    Command::Request { answer, .. } => drop(answer.send(Err(Error::NotConnected))),
                }
            }
        }
    }
}

/// Time has passed; but bytes that came meanwhile, while this process did not run, count first.
fn wait_is_over(session: &mut Session, reader: &ReadHalf<'_>, chunk: &mut [u8]) -> Result<(), Error> {
    if let Ok(len @ 1..) = reader.try_read(chunk) {
        session.handle_bytes(Instant::now(), chunk.get(..len).unwrap_or_default())?;
    }
    session.handle_timeout(Instant::now())
}

/// Sleeps until then, or for ever.
async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => pending().await,
    }
}

/// Hands the next event to the owner once there is room. An owner who does not listen any more misses all of them.
async fn deliver(events: &mpsc::Sender<ClientEvent>, inbox: &mut Inbox) {
    if inbox.is_empty() {
        return pending().await;
    }
    match events.reserve().await {
        Ok(permit) => drop(inbox.pop().map(|event| permit.send(event))),
        Err(_) => inbox.clear(),
    }
}

/// Bytes to be written.
#[derive(Default)]
struct Output {
    messages: VecDeque<Vec<u8>>,
    written: usize,
    len: usize,
}

impl Output {
    fn push(&mut self, message: Vec<u8>) {
        self.len += message.len();
        self.messages.push_back(message);
    }

    fn len(&self) -> usize {
        self.len
    }

    /// Writes some of the first message; waits for ever when there is none.
    async fn write(&mut self, writer: &mut WriteHalf<'_>) -> io::Result<usize> {
        let Some(message) = self.messages.front() else { return pending().await };
        let written = writer.write(message.get(self.written..).unwrap_or_default()).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written += written;
        self.len = self.len.saturating_sub(written);
        if self.written >= message.len() {
            self.messages.pop_front();
            self.written = 0;
        }
        Ok(written)
    }
}
