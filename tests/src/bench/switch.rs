//! A switch that is played: the OpenFlow socket of a bridge, without a bridge behind it.
//!
//! It greets, takes what it is sent, answers barriers, bundles and questions, and keeps
//! the flow changes as bytes. So an agent can be measured without `ovs-vswitchd`, which
//! would be slower than what is measured.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openflow::message::{
    Body, BundleStep, Features, Hello, MORE, Message, MultipartReply, Reply, Request, VERSION_15,
};
use openflow::{Flow, FlowKey, FlowMod, FlowModCommand, FlowStats};

use super::frames::{
    BARRIER_REQUEST, BUNDLE_ADD, BUNDLE_CONTROL, ECHO_REQUEST, FEATURES_REQUEST, FLOW_MOD, Frames, METER_MOD,
    MULTIPART_REQUEST, encode, is_resume, kind, xid,
};
use super::player::{Heard, Played, play};

/// How often a connection looks whether there is something to play.
const LOOK: Duration = Duration::from_millis(5);
/// Flows in one part of the answer to a dump: few enough for 64 KiB.
const PART: usize = 150;

/// Packet-ins to play, and where the result goes.
struct Job {
    packets: Arc<Vec<Vec<u8>>>,
    rounds: usize,
    result: Sender<io::Result<Played>>,
}

/// What the connections share.
#[derive(Default)]
struct State {
    job: Option<Job>,
    /// Flow changes, as they came.
    changes: Vec<Vec<u8>>,
    /// Parts of the answer to a dump.
    dump: Vec<Vec<FlowStats>>,
    /// When the flows were last asked for.
    asked: Option<Instant>,
    /// When the first change after that came.
    answered: Option<Instant>,
}

/// The switch. Its threads end with the process or when the agent closes its connections.
#[derive(Clone)]
pub struct Switch {
    state: Arc<Mutex<State>>,
}

/// What a compare came to.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// From the agent's question to the first message of its answer.
    pub took: Duration,
    /// Flow changes that it sent.
    pub changes: usize,
}

impl Switch {
    /// Listens on a socket.
    ///
    /// # Errors
    /// Where that is not possible.
    pub fn listen(socket: &Path) -> io::Result<Switch> {
        let listener = UnixListener::bind(socket)?;
        let switch = Switch { state: Arc::default() };
        let shared = switch.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut line = Line { stream, shared: shared.clone(), carries_flows: false };
                // The agent goes and comes; a connection that ends is none of the switch's business.
                std::thread::spawn(move || line.serve());
            }
        });
        Ok(switch)
    }

    /// Plays packet-ins on the connection that carries flows.
    ///
    /// # Errors
    /// Where the agent goes away meanwhile.
    pub fn play(&self, packets: Vec<Vec<u8>>, rounds: usize) -> io::Result<Played> {
        let (result, played): (_, Receiver<io::Result<Played>>) = mpsc::channel();
        self.state().job = Some(Job { packets: Arc::new(packets), rounds, result });
        played.recv().map_err(|_| io::Error::from(ErrorKind::UnexpectedEof))?
    }

    /// Makes the flows that were sent so far what a dump shows; returns how many there are.
    pub fn remember(&self) -> usize {
        let changes = std::mem::take(&mut self.state().changes);
        let mut flows: BTreeMap<FlowKey, Flow> = BTreeMap::new();
        for change in changes.iter().filter_map(|bytes| flow_mod(bytes)) {
            match change.command {
                FlowModCommand::Add => drop(flows.insert(change.flow.key(), change.flow)),
                _ => drop(flows.remove(&change.flow.key())),
            }
        }
        let count = flows.len();
        let stats = flows.into_values().map(|flow| FlowStats { flow, ..FlowStats::default() });
        let stats: Vec<FlowStats> = stats.collect();
        let mut state = self.state();
        state.dump = stats.chunks(PART).map(<[FlowStats]>::to_vec).collect();
        (state.asked, state.answered) = (None, None);
        count
    }

    /// The compare since [`Switch::remember`], once it is over.
    pub fn compared(&self) -> Option<Compared> {
        let state = self.state();
        let took = state.answered?.duration_since(state.asked?);
        Some(Compared { took, changes: state.changes.len() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flow-mod, alone or in a bundle.
fn flow_mod(bytes: &[u8]) -> Option<FlowMod> {
    match Message::decode(bytes).ok()?.body {
        Body::FlowMod(change) => Some(change),
        Body::BundleAdd(add) => match add.message.body {
            Body::FlowMod(change) => Some(change),
            _ => None,
        },
        _ => None,
    }
}

/// One connection.
struct Line {
    stream: UnixStream,
    shared: Switch,
    /// Whether meters and bundles come over it: then packet-ins go out on it.
    carries_flows: bool,
}

impl Line {
    fn serve(&mut self) -> io::Result<()> {
        self.stream.write_all(&encode(VERSION_15, 0, Body::Hello(Hello::only(VERSION_15))))?;
        let mut frames = Frames::new();
        loop {
            self.stream.set_read_timeout(Some(LOOK))?;
            match frames.fill(&mut self.stream) {
                Ok(false) => return Ok(()),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                self.take(frame, &mut out);
            }
            self.stream.write_all(&out)?;
            let job = if self.carries_flows { self.shared.state().job.take() } else { None };
            if let Some(Job { packets, rounds, result }) = job {
                let played = self.play(&mut frames, &packets, rounds);
                // Whoever asked may be gone.
                let _ = result.send(played);
            }
        }
    }

    fn play(&mut self, frames: &mut Frames, packets: &[Vec<u8>], rounds: usize) -> io::Result<Played> {
        let mut changes = Vec::new();
        let mut stream = self.stream.try_clone()?;
        let played = play(&mut stream, frames, packets, rounds, |frame, out| {
            if is_resume(frame) {
                return Heard::Answer;
            }
            match kind(frame) {
                FLOW_MOD => changes.push(frame.to_vec()),
                _ => self.take(frame, out),
            }
            Heard::Other
        });
        self.shared.state().changes.extend(changes);
        played
    }

    /// Takes one message, and adds the answer to what goes out.
    fn take(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        let mut answer = |body| out.extend(encode(VERSION_15, xid(frame), body));
        match kind(frame) {
            FEATURES_REQUEST => {
                answer(Body::FeaturesReply(Features {
                    datapath_id: 1,
                    n_tables: 254,
                    ..Features::default()
                }));
            }
            BARRIER_REQUEST => answer(Body::BarrierReply),
            FLOW_MOD | BUNDLE_ADD => self.shared.state().changes.push(frame.to_vec()),
            METER_MOD => self.change_begins(),
            ECHO_REQUEST | BUNDLE_CONTROL | MULTIPART_REQUEST => match Message::decode(frame).map(|m| m.body)
            {
                Ok(Body::EchoRequest(data)) => answer(Body::EchoReply(data)),
                Ok(Body::BundleControl(mut control)) => {
                    self.change_begins();
                    control.step = match control.step {
                        BundleStep::OpenRequest => BundleStep::OpenReply,
                        BundleStep::CloseRequest => BundleStep::CloseReply,
                        BundleStep::CommitRequest => BundleStep::CommitReply,
                        other => other,
                    };
                    answer(Body::BundleControl(control));
                }
                Ok(Body::MultipartRequest(request)) if matches!(request.body, Request::Flow(_)) => {
                    self.dump(frame, out);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn change_begins(&mut self) {
        self.carries_flows = true;
        let mut state = self.shared.state();
        if state.asked.is_some() && state.answered.is_none() {
            state.answered = Some(Instant::now());
        }
    }

    fn dump(&self, frame: &[u8], out: &mut Vec<u8>) {
        let mut state = self.shared.state();
        for part in &state.dump {
            let reply = MultipartReply { flags: MORE, body: Reply::Flow(part.clone()) };
            out.extend(encode(VERSION_15, xid(frame), Body::MultipartReply(reply)));
        }
        let last = MultipartReply { flags: 0, body: Reply::Flow(Vec::new()) };
        out.extend(encode(VERSION_15, xid(frame), Body::MultipartReply(last)));
        state.asked = state.asked.or_else(|| Some(Instant::now()));
    }
}
