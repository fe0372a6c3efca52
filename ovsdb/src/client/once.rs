//! Transactions that take effect once, in line: see [`crate::txn`] for why that works.

use super::Outcome;
use crate::error::Error;
use crate::session::{Reply, Request, RequestId, Session};
use crate::txn::{Failure, Transaction};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use tokio::sync::oneshot;

/// One that waits, or is under way.
struct Waiting {
    transaction: Transaction,
    key: String,
    answer: oneshot::Sender<Result<Outcome, Error>>,
    /// True when it was sent on a connection that broke.
    sent_before: bool,
}

/// What is under way on the connection.
enum Sent {
    Steal(RequestId),
    Transaction(RequestId),
}

/// At most one under way, the others in line behind it.
pub(super) struct Onces {
    /// Tells this task's tokens from all others'.
    name: u64,
    count: u64,
    line: VecDeque<Waiting>,
    sent: Option<Sent>,
    /// Keys whose locks this connection has stolen.
    locks: BTreeSet<String>,
    /// Keys whose locks were stolen from this connection.
    stolen: BTreeSet<String>,
}

impl Onces {
    pub(super) fn new() -> Self {
        // A RandomState is seeded from the system's randomness.
        let name = RandomState::new().hash_one(std::process::id());
        Self {
            name,
            count: 0,
            line: VecDeque::new(),
            sent: None,
            locks: BTreeSet::new(),
            stolen: BTreeSet::new(),
        }
    }

    pub(super) fn queue(
        &mut self,
        transaction: Transaction,
        key: String,
        answer: oneshot::Sender<Result<Outcome, Error>>,
    ) {
        self.count += 1;
        let token = format!("{:016x}.{}", self.name, self.count);
        let transaction = transaction.once(&key, &token);
        self.line.push_back(Waiting { transaction, key, answer, sent_before: false });
    }

    /// Sends what the first in line needs next, unless something is under way. Those whose callers have gone are left
    /// out.
    pub(super) fn send(&mut self, session: &mut Session) {
        while self.sent.is_none() {
            let Some(first) = self.line.front() else { return };
            if first.answer.is_closed() {
                self.line.pop_front();
                continue;
            }
            let lock = || first.key.clone();
            let sent = if self.locks.contains(&first.key) {
                session.request(Request::Transact(first.transaction.operations())).map(Sent::Transaction)
            } else if self.stolen.remove(&first.key) {
                let unlocked = session.request(Request::Unlock { lock: lock() });
                unlocked.and_then(|_| session.request(Request::Steal { lock: lock() })).map(Sent::Steal)
            } else {
                session.request(Request::Steal { lock: lock() }).map(Sent::Steal)
            };
            match sent {
                Ok(sent) => self.sent = Some(sent),
                Err(error) => self.finish(Err(error)),
            }
        }
    }

    /// Takes an answer that belongs to no other request.
    pub(super) fn answered(&mut self, id: RequestId, result: Result<Reply, Error>) {
        let Some(first) = self.line.front() else { return };
        match (self.sent.take(), result) {
            (Some(Sent::Steal(sent)), Ok(_)) if sent == id => drop(self.locks.insert(first.key.clone())),
            (Some(Sent::Steal(sent)), Err(error)) if sent == id => self.finish(Err(error)),
            (Some(Sent::Transaction(sent)), result) if sent == id => {
                let outcome = first.outcome(result);
                if matches!(outcome, Err(Error::Superseded(_))) {
                    self.locks.remove(&first.key);
                    self.stolen.insert(first.key.clone());
                    if first.sent_before {
                        // An earlier copy may have taken effect: only another try can tell.
                        return;
                    }
                }
                self.finish(outcome);
            }
            (sent, _) => self.sent = sent,
        }
    }

    fn finish(&mut self, outcome: Result<Outcome, Error>) {
        if let Some(first) = self.line.pop_front() {
            first.answer.send(outcome).ok();
        }
    }

    /// The connection is gone, and the locks with it.
    pub(super) fn lost(&mut self) {
        self.locks.clear();
        self.stolen.clear();
        if let (Some(Sent::Transaction(_)), Some(first)) = (self.sent.take(), self.line.front_mut()) {
            first.sent_before = true;
        }
    }
}

impl Waiting {
    fn outcome(&self, result: Result<Reply, Error>) -> Result<Outcome, Error> {
        let error = match result {
            Ok(Reply::Results(results)) => {
                return Ok(Outcome::Committed(self.transaction.committed(results)));
            }
            Ok(other) => return Err(super::unexpected(&other)),
            Err(error) => error,
        };
        match self.transaction.failed(error.clone()) {
            Failure::TookEffectBefore if self.sent_before => Ok(Outcome::CommittedBefore),
            Failure::TookEffectBefore => Err(error),
            Failure::Failed(error) => Err(error),
        }
    }
}
