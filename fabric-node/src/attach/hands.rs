//! Carrying out the node's errands.
//!
//! Errands for one host's end go through one queue, so that a removal never overtakes
//! a creation; several queues work at once, since the kernel takes its time to remove
//! a device.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use fabric_core::node::{Event, Outcome, Task, WireCommand};
use tokio::sync::mpsc;

use super::netns::on_a_thread;
use super::wire;

/// Errands at work at once, at most.
const QUEUES: usize = 16;

/// Errands that may wait in one queue.
const DEPTH: usize = 256;

/// The way to the queues.
#[derive(Debug, Clone)]
pub struct Hands {
    queues: Arc<Vec<mpsc::Sender<(Task, WireCommand)>>>,
}

impl Hands {
    /// Starts the queues' tasks.
    pub fn start(events: &mpsc::Sender<Event>) -> Hands {
        let queue = |_| {
            let (give, take) = mpsc::channel(DEPTH);
            tokio::spawn(work(take, events.clone()));
            give
        };
        Hands { queues: Arc::new((0..QUEUES).map(queue).collect()) }
    }

    /// Queues an errand. Waits only where a queue is full, and then only for the kernel.
    pub async fn send(&self, task: Task, command: WireCommand) {
        let mut hasher = DefaultHasher::new();
        host_name(&command).hash(&mut hasher);
        let index = hasher.finish() % QUEUES as u64;
        if let Some(queue) = usize::try_from(index).ok().and_then(|index| self.queues.get(index)) {
            // The queues end with the runtime, and so does whoever waits for the outcome.
            let _ = queue.send((task, command)).await;
        }
    }
}

fn host_name(command: &WireCommand) -> &str {
    match command {
        WireCommand::Create(spec) | WireCommand::Address(spec) | WireCommand::Check(spec) => &spec.host_name,
        WireCommand::Remove { host_name } | WireCommand::Resize { host_name, .. } => host_name,
    }
}

async fn work(mut errands: mpsc::Receiver<(Task, WireCommand)>, events: mpsc::Sender<Event>) {
    while let Some((task, command)) = errands.recv().await {
        let result = on_a_thread(move || carry_out(&command).map_err(|error| error.to_string())).await;
        let events = events.clone();
        // Not awaited here: the node may be waiting for room in this queue.
        tokio::spawn(async move {
            let _ = events.send(Event::Done { task, outcome: Outcome::Wire(result) }).await;
        });
    }
}

fn carry_out(command: &WireCommand) -> Result<(), wire::WireError> {
    match command {
        WireCommand::Create(spec) => wire::create(spec),
        WireCommand::Address(spec) => wire::address(spec),
        WireCommand::Check(spec) => wire::check(spec),
        WireCommand::Remove { host_name } => wire::remove(host_name),
        WireCommand::Resize { netns, ifname, host_name, mtu } => wire::resize(netns, ifname, host_name, *mtu),
    }
}
