//! The commands for the store: one after the other for an address, side by side for different ones.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use fabric_core::node::{ClaimCommand, ClaimError, Event, Outcome, Task};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Store;

/// Errands that run at once; commands wait in their channel where there are more.
const AT_ONCE: usize = 64;

type Errand = (Task, ClaimCommand);

/// Runs commands until their channel closes, and then those that have begun.
pub(super) async fn run<S: Store>(
    store: Arc<S>,
    mut commands: mpsc::Receiver<Errand>,
    events: mpsc::Sender<Event>,
) {
    // An address is a key while an errand for it runs; its value are those that wait for that one.
    let mut waiting: BTreeMap<IpAddr, VecDeque<Errand>> = BTreeMap::new();
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            Some(errand) = commands.recv(), if running.len() < AT_ONCE => {
                match waiting.entry(address(&errand.1)) {
                    Entry::Occupied(mut busy) => busy.get_mut().push_back(errand),
                    Entry::Vacant(free) => {
                        free.insert(VecDeque::new());
                        running.spawn(execute(Arc::clone(&store), errand, events.clone()));
                    }
                }
            }
            Some(Ok(ip)) = running.join_next() => {
                match waiting.get_mut(&ip).and_then(VecDeque::pop_front) {
                    Some(errand) => {
                        running.spawn(execute(Arc::clone(&store), errand, events.clone()));
                    }
                    None => {
                        waiting.remove(&ip);
                    }
                }
            }
            else => return,
        }
    }
}

fn address(command: &ClaimCommand) -> IpAddr {
    match command {
        ClaimCommand::Create(claim) => claim.ip,
        ClaimCommand::Release { ip, .. } => *ip,
        ClaimCommand::Exchange { from, .. } => from.ip,
    }
}

/// Runs one errand and tells its outcome, also where the store failed in a way that it should not have.
async fn execute<S: Store>(store: Arc<S>, (task, command): Errand, events: mpsc::Sender<Event>) -> IpAddr {
    let ip = address(&command);
    let errand = tokio::spawn(async move {
        match command {
            ClaimCommand::Create(claim) => store.create(claim).await,
            ClaimCommand::Release { ip, owner } => store.release(ip, owner).await,
            ClaimCommand::Exchange { from, to } => store.exchange(*from, to.map(|claim| *claim)).await,
        }
    });
    let result = errand.await.unwrap_or_else(|error| {
        Err(ClaimError::Store(format!(
            "the errand for {ip} ended early ({error}); this is a bug of the agent"
        )))
    });
    // Nobody listens any more where the agent ends.
    let _ = events.send(Event::Done { task, outcome: Outcome::Claim(result) }).await;
    ip
}
