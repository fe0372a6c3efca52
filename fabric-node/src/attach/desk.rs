//! Who waits for which reply.
//!
//! One task owns the book of those who wait; it never waits for anything but its own
//! inbox, so neither the node nor a client can hold it up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabric_core::node::{Reply, RequestError, RequestId};
use tokio::sync::{mpsc, oneshot};

/// What the node says to a request.
pub type Verdict = Result<Reply, RequestError>;

/// Notes that may be on their way to the desk.
const INBOX: usize = 256;

#[derive(Debug)]
enum Note {
    Waits(RequestId, oneshot::Sender<Verdict>),
    Left(RequestId),
    Reply(RequestId, Verdict),
}

/// The way to the desk.
#[derive(Debug, Clone)]
pub struct Desk {
    inbox: mpsc::Sender<Note>,
    next: Arc<AtomicU64>,
}

/// One who waits; leaves the book when dropped.
#[derive(Debug)]
pub struct Waiting {
    /// The number of the request.
    pub id: RequestId,
    reply: oneshot::Receiver<Verdict>,
    inbox: mpsc::Sender<Note>,
}

impl Desk {
    /// Starts the task.
    pub fn start() -> Desk {
        let (inbox, notes) = mpsc::channel(INBOX);
        tokio::spawn(keep(notes));
        Desk { inbox, next: Arc::new(AtomicU64::new(1)) }
    }

    /// Takes a number for a request, under which the reply will come.
    pub async fn take_number(&self) -> Waiting {
        let id = RequestId(self.next.fetch_add(1, Ordering::Relaxed));
        let (give, reply) = oneshot::channel();
        // A desk that is gone drops `give`, and waiting ends.
        let _ = self.inbox.send(Note::Waits(id, give)).await;
        Waiting { id, reply, inbox: self.inbox.clone() }
    }

    /// Hands a reply to whoever waits for it.
    pub async fn reply(&self, id: RequestId, verdict: Verdict) {
        let _ = self.inbox.send(Note::Reply(id, verdict)).await;
    }
}

impl Waiting {
    /// The reply; `None` when the agent ends.
    pub async fn reply(&mut self) -> Option<Verdict> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A full inbox only delays the clearing of the book to the reply.
        let _ = self.inbox.try_send(Note::Left(self.id));
    }
}

async fn keep(mut notes: mpsc::Receiver<Note>) {
    let mut book = BTreeMap::new();
    while let Some(note) = notes.recv().await {
        match note {
            Note::Waits(id, give) => {
                book.insert(id, give);
            }
            Note::Left(id) => {
                book.remove(&id);
            }
            Note::Reply(id, verdict) => match book.remove(&id) {
                Some(give) => drop(give.send(verdict)),
                None => tracing::debug!(request = id.0, "nobody waits for this reply"),
            },
        }
    }
}
