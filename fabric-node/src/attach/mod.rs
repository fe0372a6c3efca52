//! Attaching containers: the socket that `fabric-cni` asks on, and the hands that make
//! the interfaces.
//!
//! A request on the socket becomes an event for the node, and the node's reply goes
//! back to whoever asked. What the node orders is done by threads that enter the
//! container's network namespace and end there; the outcome is an event again. Nothing
//! here waits for the node while the node may be waiting for it: replies and errands
//! are queued, and outcomes are delivered by tasks of their own.

mod desk;
mod ethtool;
mod hands;
mod netns;
mod server;
mod socket;
mod sysctl;
mod translate;
pub mod wire;

use std::path::PathBuf;

use fabric_core::node::{Event, Reply, RequestError, RequestId, Task, WireCommand};
use tokio::sync::mpsc;

pub use socket::SocketError;

/// What the room needs to know.
#[derive(Debug, Clone)]
pub struct AttachConfig {
    /// Where to listen; its folder is made where it is missing.
    pub socket: PathBuf,
}

/// Gives orders to the room. Clones speak to the same room.
#[derive(Debug, Clone)]
pub struct Handle {
    desk: desk::Desk,
    hands: hands::Hands,
}

/// Listens and starts the room's tasks, on the runtime of the caller. They end with the runtime.
pub fn start(config: AttachConfig, events: mpsc::Sender<Event>) -> Result<Handle, SocketError> {
    let listener = socket::listen(&config.socket)?;
    let desk = desk::Desk::start();
    let hands = hands::Hands::start(&events);
    tokio::spawn(server::serve(listener, desk.clone(), events));
    Ok(Handle { desk, hands })
}

impl Handle {
    /// Queues an errand; its outcome comes as [`Event::Done`] under `task`. Errands for one host's end are
    /// carried out in order.
    pub async fn wire(&self, task: Task, command: WireCommand) {
        self.hands.send(task, command).await;
    }

    /// Answers a request. One that nobody waits for any more is dropped.
    pub async fn reply(&self, id: RequestId, reply: Result<Reply, RequestError>) {
        self.desk.reply(id, reply).await;
    }
}
