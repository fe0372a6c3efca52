//! The task of the room: follows the database, brings the bridge about, carries commands out.

use std::collections::VecDeque;
use std::future::pending;
use std::time::{Duration, Instant};

use fabric_core::node::{Event, Outcome, PortsCommand, PortsEvent, Task};
use ovsdb::txn::NextCfg;
use ovsdb::{Client, ClientEvent, Committed, Config, Error, Transaction};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use super::errands::{Errands, Verdict};
use super::own::{self, OwnPort};
use super::setup::{self, Surroundings};
use super::view::{self, News, View};
use super::{PortsConfig, SwitchFacts};
use crate::problems;

/// Time before a setup that failed, or that somebody undid, is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Time after which the switch is asked once more to act: one that meets another's change while it reports drops its
/// report.
const NUDGE: Duration = Duration::from_secs(1);

/// Time after which a switch that does not act is reported.
const SLOW: Duration = Duration::from_secs(3);

/// Events of the database that wait for the room.
const EVENTS: usize = 4;

/// Runs until the last handle is gone.
pub async fn run(
    config: PortsConfig,
    mut commands: mpsc::Receiver<(Task, PortsCommand)>,
    mut mtu: watch::Receiver<Option<u32>>,
    facts: watch::Sender<SwitchFacts>,
    events: mpsc::Sender<Event>,
) {
    let (changes, mut database) = mpsc::channel(EVENTS);
    let client = Client::spawn(Config::new(&config.database, view::tables()), changes);
    let (answers, mut inbox) = mpsc::channel(EVENTS);
    let mut room = Room::new(config, client, answers, facts);
    loop {
        let due = room.due();
        tokio::select! {
            event = database.recv() => match event {
                Some(event) => room.database(event),
                None => return,
            },
            answer = inbox.recv() => room.answer(answer),
            command = commands.recv() => match command {
                Some((task, command)) => room.command(task, command),
                None => return,
            },
            Ok(()) = mtu.changed() => room.resize(*mtu.borrow_and_update()),
            () = deliver(&events, &mut room.out) => {}
            () = sleep_until(due.into()) => {}
        }
        // What came meanwhile goes into the same transaction.
        while let Ok((task, command)) = commands.try_recv() {
            room.command(task, command);
        }
        room.work();
    }
}

/// Hands the next event to the node once there is room, so that the node may hand a command to the room meanwhile.
async fn deliver(events: &mpsc::Sender<Event>, out: &mut VecDeque<Event>) {
    if out.is_empty() {
        return pending().await;
    }
    match events.reserve().await {
        Ok(permit) => drop(out.pop_front().map(|event| permit.send(event))),
        Err(_) => out.clear(),
    }
}

/// What a request of the room's came to.
enum Answer {
    Schema(Result<String, Error>),
    Setup(Result<Committed, Error>, NextCfg),
    Errands(Result<Committed, Error>),
}

/// How far the switch is from what it should be.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// To be compared, at this time.
    Due(Instant),
    /// A request is under way.
    Asking,
    /// Written; the switch has yet to act.
    Waiting { next_cfg: i64, since: Instant },
    /// As it should be.
    Ready,
}

struct Room {
    config: PortsConfig,
    client: Client,
    answers: mpsc::Sender<(u64, Answer)>,
    /// Counts connections: answers to requests on an earlier one do not count.
    connection: u64,
    view: Option<View>,
    surroundings: Surroundings,
    stage: Stage,
    /// When the setup was last written on this connection.
    written: Option<Instant>,
    /// Since when the switch is asked to act and does not.
    idle: Option<Instant>,
    /// What stands in the way of the setup, and since when: right after a start it may pass by itself.
    obstacle: Option<(String, Instant)>,
    /// Whether the node was told that the ports are there.
    told_ready: bool,
    errands: Errands,
    facts: watch::Sender<SwitchFacts>,
    out: VecDeque<Event>,
}

impl Room {
    fn new(
        config: PortsConfig,
        client: Client,
        answers: mpsc::Sender<(u64, Answer)>,
        facts: watch::Sender<SwitchFacts>,
    ) -> Self {
        let errands = Errands::new(config.patience);
        Self {
            config,
            client,
            answers,
            connection: 0,
            view: None,
            surroundings: Surroundings::default(),
            stage: Stage::Due(Instant::now()),
            written: None,
            idle: None,
            obstacle: None,
            told_ready: false,
            errands,
            facts,
            out: VecDeque::new(),
        }
    }

    /// When there is something to do without a cause from outside.
    fn due(&self) -> Instant {
        let stage = match self.stage {
            Stage::Due(at) if self.view.is_some() => Some(at),
            Stage::Waiting { since, .. } => Some(since + NUDGE),
            _ => None,
        };
        let due = [stage, self.errands.next()].into_iter().flatten().min();
        due.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600))
    }

    fn command(&mut self, task: Task, command: PortsCommand) {
        let refused = self.errands.push(task, command, Instant::now());
        self.tell(refused);
    }

    /// The LOCAL interface is to have this MTU.
    fn resize(&mut self, mtu: Option<u32>) {
        self.surroundings.mtu = mtu;
        if matches!(self.stage, Stage::Ready | Stage::Due(_)) {
            self.stage = Stage::Due(Instant::now());
        }
    }

    fn database(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Connected { snapshot } => {
                self.connection += 1;
                let kernel_module = setup::kernel_module();
                self.surroundings = Surroundings { kernel_module, schema: None, mtu: self.surroundings.mtu };
                self.view = Some(View::new(&self.config.bridge, snapshot));
                (self.written, self.idle) = (None, None);
                self.stage = Stage::Due(Instant::now());
            }
            ClientEvent::Update(changes) => {
                let Some(view) = &mut self.view else { return };
                let news = view.follow(&changes);
                if self.told_ready {
                    self.out.extend(news.into_iter().map(|news| {
                        Event::Ports(match news {
                            News::Gone(name) => PortsEvent::Gone { name },
                            News::Changed(row) => PortsEvent::Changed(row),
                        })
                    }));
                }
                if matches!(self.stage, Stage::Ready | Stage::Due(_)) {
                    self.stage = Stage::Due(Instant::now());
                }
            }
            ClientEvent::Disconnected { reason } => {
                self.view = None;
                self.connection += 1;
                self.errands.disconnected();
                self.down();
                let database = self.config.database.display();
                self.report(vec![format!("database of Open vSwitch at {database}: {reason}")]);
            }
        }
    }

    fn answer(&mut self, answer: Option<(u64, Answer)>) {
        let Some((connection, answer)) = answer else { return };
        let now = Instant::now();
        match answer {
            Answer::Errands(result) => {
                let mut verdicts = Vec::new();
                self.errands.answered(result, now, &mut verdicts);
                self.tell(verdicts);
            }
            _ if connection != self.connection => {}
            Answer::Schema(Ok(version)) => {
                tracing::info!(
                    "the database does not say which Open vSwitch it belongs to; its schema is {version}"
                );
                self.surroundings.schema = Some(version);
                self.stage = Stage::Due(now);
            }
            Answer::Setup(Ok(committed), next_cfg) => match committed.next_cfg(next_cfg) {
                Ok(next_cfg) => self.stage = Stage::Waiting { next_cfg, since: now },
                Err(error) => self.failed(&error, now),
            },
            Answer::Schema(Err(error)) | Answer::Setup(Err(error), _) => self.failed(&error, now),
        }
    }

    fn failed(&mut self, error: &Error, now: Instant) {
        let bridge = &self.config.bridge;
        self.report(vec![format!("bridge {bridge}: the database refuses to set it up: {error}")]);
        self.stage = Stage::Due(now + AGAIN);
    }

    /// Does what is due.
    fn work(&mut self) {
        let now = Instant::now();
        let mut verdicts = Vec::new();
        self.errands.expire(now, &mut verdicts);
        if let Stage::Due(at) = self.stage
            && now >= at
        {
            self.set_up(now);
        }
        self.await_switch(now);
        if let Some(view) = self.view.as_ref().filter(|_| self.told_ready) {
            self.errands.look(view, now, &mut verdicts);
            if let Some(transaction) = self.errands.batch(view, now, &mut verdicts) {
                self.ask(|client| async move { Answer::Errands(client.commit(&transaction).await) });
            }
        }
        self.tell(verdicts);
    }

    /// Compares the switch with what it should be, and writes the difference. The first time on a connection it
    /// writes even if there is none, to learn whether the switch acts at all.
    fn set_up(&mut self, now: Instant) {
        let Some(view) = &self.view else { return };
        let root = view.root();
        let version = root.as_ref().and_then(|root| root.ovs_version.clone());
        if root.is_some() && version.is_none() && self.surroundings.schema.is_none() {
            self.stage = Stage::Asking;
            self.ask(|client| async move {
                Answer::Schema(client.get_schema("Open_vSwitch").await.map(|schema| schema.version))
            });
            return;
        }
        let bridge = view.bridge().is_some();
        let plan = setup::plan(&self.config, view, &self.surroundings);
        self.facts
            .send_if_modified(|facts| std::mem::replace(&mut facts.version, version.clone()) != version);
        match plan {
            Err(problem) => {
                self.down();
                self.stage = Stage::Due(now + AGAIN);
                self.obstructed(problem, now);
            }
            Ok(plan) => {
                self.obstacle = None;
                if !bridge {
                    self.down();
                }
                let datapath = Some(plan.datapath);
                self.facts.send_if_modified(|facts| {
                    std::mem::replace(&mut facts.datapath, datapath.clone()) != datapath
                });
                if plan.transaction.is_none() && self.told_ready {
                    self.stage = Stage::Ready;
                    self.report(self.port_problems());
                    return;
                }
                self.write_setup(plan.transaction.unwrap_or_default(), now);
            }
        }
    }

    fn obstructed(&mut self, problem: String, now: Instant) {
        match &self.obstacle {
            Some((known, since)) if *known == problem && now >= *since + AGAIN => self.report(vec![problem]),
            Some((known, _)) if *known == problem => {}
            _ => self.obstacle = Some((problem, now)),
        }
    }

    /// Writes the difference, but not all the time where somebody else writes the opposite.
    fn write_setup(&mut self, mut transaction: Transaction, now: Instant) {
        if let Some(written) = self.written
            && now < written + AGAIN
        {
            self.stage = Stage::Due(written + AGAIN);
            return;
        }
        (self.stage, self.written) = (Stage::Asking, Some(now));
        let next_cfg = transaction.bump_next_cfg();
        self.ask(|client| async move { Answer::Setup(client.commit(&transaction).await, next_cfg) });
    }

    fn await_switch(&mut self, now: Instant) {
        let Stage::Waiting { next_cfg, since } = self.stage else { return };
        let Some(view) = &self.view else { return };
        let acted = view.cur_cfg() >= next_cfg && view.bridge().is_some();
        // The hardware address follows a little later, and flows are made of it.
        if acted && (setup::has_address(&self.config, view) || now >= since + NUDGE) {
            self.idle = None;
            if !self.told_ready {
                self.told_ready = true;
                self.out.push_back(Event::Ports(PortsEvent::Ready(view.rows())));
            }
            // A change that came meanwhile is compared too.
            self.set_up(now);
        } else if now >= since + NUDGE {
            if now >= *self.idle.get_or_insert(since) + SLOW {
                self.report(vec!["ovs-vswitchd does not act on its database: is it running?".to_owned()]);
            }
            self.written = None;
            self.set_up(now);
        }
    }

    /// Ports of the node's own that the switch cannot open.
    fn port_problems(&self) -> Vec<String> {
        let Some(view) = &self.view else { return Vec::new() };
        let ports = own::wanted(&self.config).into_iter().filter(OwnPort::stands_alone);
        let own = ports.map(|port| port.name).chain([self.config.bridge.clone()]);
        let broken = own.filter_map(|name| view.member(&name)?.row.error.clone().map(|error| (name, error)));
        broken.map(|(name, error)| format!("port {name}: the switch cannot open it: {error}")).collect()
    }

    fn down(&mut self) {
        if std::mem::take(&mut self.told_ready) {
            self.out.push_back(Event::Ports(PortsEvent::Down));
        }
    }

    /// Sends a request beside the loop; its answer comes back in.
    fn ask<F: Future<Output = Answer> + Send + 'static>(&self, request: impl FnOnce(Client) -> F) {
        let (connection, answers) = (self.connection, self.answers.clone());
        let request = request(self.client.clone());
        tokio::spawn(async move {
            let answer = request.await;
            // Without a room there is nobody to tell.
            let _ = answers.send((connection, answer)).await;
        });
    }

    fn tell(&mut self, verdicts: impl IntoIterator<Item = Verdict>) {
        let done =
            verdicts.into_iter().map(|(task, result)| Event::Done { task, outcome: Outcome::Port(result) });
        self.out.extend(done);
    }

    fn report(&self, found: Vec<String>) {
        self.facts.send_if_modified(|facts| problems::replace(&mut facts.problems, found));
    }
}
