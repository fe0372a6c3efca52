//! What an agent sees of a store.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use fabric_core::node::{ClaimCommand, ClaimError, Event, Outcome, Task};
use fabric_node::intake::Handle;
use policy::{Edit, IpClaim, Kind, Object, ObjectRef, PodIdent, claim_name};
use tokio::sync::mpsc;

/// Longest that anything may take; what takes so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running store, and the world as its events make it.
pub struct Agent {
    pub handle: Handle,
    events: mpsc::Receiver<Event>,
    pub world: BTreeMap<ObjectRef, Object>,
    pub synced: bool,
    outcomes: BTreeMap<Task, Result<(), ClaimError>>,
    /// Number of `Event::World` so far.
    pub batches: usize,
    tasks: u64,
}

impl Agent {
    /// Opens a store.
    pub fn start(open: impl FnOnce(mpsc::Sender<Event>) -> Handle) -> Self {
        Self::with_queue(1_024, open)
    }

    /// Opens a store whose events wait where more than `queue` of them are not taken.
    pub fn with_queue(queue: usize, open: impl FnOnce(mpsc::Sender<Event>) -> Handle) -> Self {
        let (sender, events) = mpsc::channel(queue);
        Self {
            handle: open(sender),
            events,
            world: BTreeMap::new(),
            synced: false,
            outcomes: BTreeMap::new(),
            batches: 0,
            tasks: 0,
        }
    }

    /// Takes events until `done`; `what` names it for the report of a failure.
    pub async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !done(self) {
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some(event)) => self.take(event),
                Ok(None) => panic!("the store ended before: {what}"),
                Err(_) => panic!("never: {what}; world {:?}; problems {:#?}", self.names(), self.problems()),
            }
        }
    }

    pub async fn until_synced(&mut self) {
        self.until("the first list is complete", |agent| agent.synced).await;
    }

    /// Takes events until the problems, as text, are as wished.
    pub async fn until_problems(&mut self, what: &str, done: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let problems = self.problems();
            if done(&problems) {
                return problems;
            }
            assert!(tokio::time::Instant::now() < deadline, "never: {what}; problems {problems:#?}");
            self.idle(Duration::from_millis(5)).await;
        }
    }

    /// Takes events for a while.
    pub async fn idle(&mut self, time: Duration) {
        let deadline = tokio::time::Instant::now() + time;
        while let Ok(Some(event)) = tokio::time::timeout_at(deadline, self.events.recv()).await {
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::World(edits) => {
                assert!(!edits.is_empty(), "an event says something");
                self.batches += 1;
                edits.into_iter().for_each(|edit| self.edit(edit));
            }
            Event::WorldSynced => {
                assert!(!self.synced, "the first list is complete once");
                self.synced = true;
            }
            Event::Done { task, outcome: Outcome::Claim(result) } => {
                let before = self.outcomes.insert(task, result);
                assert!(before.is_none(), "{task:?} has two outcomes");
            }
            other => panic!("not an event of this room: {other:?}"),
        }
    }

    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Put(object) => {
                self.world.insert(object.reference(), object);
            }
            Edit::Remove(reference) => {
                let before = self.world.remove(&reference);
                assert!(before.is_some(), "{reference} goes, but was not there");
            }
        }
    }

    /// Sends a command and forgets it; [`Agent::outcome`] waits for what becomes of it.
    pub async fn send(&mut self, command: ClaimCommand) -> Task {
        self.tasks += 1;
        let task = Task(self.tasks);
        self.handle.send(task, command).await;
        task
    }

    pub async fn outcome(&mut self, task: Task) -> Result<(), ClaimError> {
        self.until(&format!("{task:?} has an outcome"), |agent| agent.outcomes.contains_key(&task)).await;
        self.outcomes[&task].clone()
    }

    pub fn create(&mut self, claim: &IpClaim) -> impl Future<Output = Result<(), ClaimError>> {
        let command = ClaimCommand::Create(claim.clone());
        async move {
            let task = self.send(command).await;
            self.outcome(task).await
        }
    }

    pub async fn run(&mut self, command: ClaimCommand) -> Result<(), ClaimError> {
        let task = self.send(command).await;
        self.outcome(task).await
    }

    pub async fn release(&mut self, claim: &IpClaim, owner: &str) -> Result<(), ClaimError> {
        let task = self.send(ClaimCommand::Release { ip: claim.ip, owner: owner.to_owned() }).await;
        self.outcome(task).await
    }

    /// The claim of the address as the world has it.
    pub fn claim(&self, ip: &str) -> Option<&IpClaim> {
        let name = claim_name(ip.parse().expect("an address"));
        match self.world.get(&ObjectRef::cluster(Kind::IpClaim, name))? {
            Object::IpClaim(claim) => Some(claim),
            other => panic!("not a claim: {other:?}"),
        }
    }

    /// The objects of the world but the claims, as text.
    pub fn names(&self) -> Vec<String> {
        self.world
            .keys()
            .filter(|reference| reference.kind != Kind::IpClaim)
            .map(ToString::to_string)
            .collect()
    }

    pub fn problems(&self) -> Vec<String> {
        self.handle.problems().iter().map(ToString::to_string).collect()
    }
}

/// A claim of `ip` for `owner` by `node`.
pub fn claim(ip: &str, node: &str, owner: &str) -> IpClaim {
    IpClaim {
        ip: ip.parse().expect("an address"),
        network: "pods".into(),
        mac: [0x0a, 0x58, 0x0a, 0, 0, 5],
        node: node.into(),
        pod: Some(PodIdent { namespace: "default".into(), name: "a".into(), uid: "u-1".into() }),
        owner: owner.to_owned(),
        retain: false,
        since: None,
    }
}

/// A namespace's manifest with one label.
pub fn namespace(name: &str, label: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels: {{ team: {label} }}\n")
}
