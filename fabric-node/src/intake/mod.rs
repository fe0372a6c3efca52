//! Manifests to edits of the world, and the store for claims.
//!
//! A [`Store`] is where the cluster's objects and the claims of addresses are kept. The
//! room watches it and tells the node of every change, in order: one
//! [`Event::World`] is one change of the store, to be applied as a whole before anything
//! is decided by it, and [`Event::WorldSynced`] follows the first full list. What is
//! there but cannot be read is a [`Problem`]: it is kept as long as it lasts, logged
//! once, and disturbs nothing else.
//!
//! Claims go through [`Handle::send`]. Commands for one address run in the order in which
//! they came, those for different addresses side by side. The edit that a command causes
//! is told before its outcome, so the node never holds an address that its world lacks.
//!
//! Every store keeps the same contract; `tests/intake/contract.rs` runs it against each.

pub mod directory;
mod errands;
mod feed;

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use fabric_api::Problem;
use fabric_core::node::{ClaimCommand, ClaimError, Event, Task};
use policy::IpClaim;
use tokio::sync::mpsc;

use feed::Problems;
pub use feed::{Ended, Feed};

/// Commands that wait for an errand to begin; a sender waits where there are more.
const QUEUE: usize = 1_024;

/// Where the cluster's objects and the claims of addresses are kept.
///
/// A store watches from when it is opened with a [`Feed`] until it is dropped: all objects and claims go to
/// the feed, then [`Feed::listed`], then every change. A store that is away is a problem for as long as it
/// is; what is known stays known.
pub trait Store: Send + Sync + 'static {
    /// Creates the claim, and has told the feed of it when it returns.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] where the address has a claim, whoever made it; [`ClaimError::Store`] where the
    /// store cannot tell or cannot write. A failed create leaves no claim behind.
    fn create(&self, claim: IpClaim) -> impl Future<Output = Result<(), ClaimError>> + Send;

    /// Removes the claim of the address where its owner is `owner`, and has told the feed of it when it
    /// returns. Where there is none, or another's, there is nothing to do.
    ///
    /// # Errors
    /// [`ClaimError::Store`] where the store cannot tell or cannot remove it.
    fn release(&self, ip: IpAddr, owner: String) -> impl Future<Output = Result<(), ClaimError>> + Send;

    /// Replaces the claim of an address, or removes it where `to` is None, if it is exactly `from`; an address without
    /// a claim counts as well. Has told the feed of it when it returns. Nobody comes between the look and the change.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] where the claim is another; [`ClaimError::Store`] where the store cannot tell or cannot
    /// write. A failed exchange leaves the claim as it is.
    fn exchange(
        &self,
        from: IpClaim,
        to: Option<IpClaim>,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send;
}

/// Starts the room, within a tokio runtime, on the store that `open` opens. It ends when the handle is
/// dropped.
///
/// # Errors
/// Those of `open`.
pub fn start<S: Store, E>(
    events: mpsc::Sender<Event>,
    open: impl FnOnce(Feed) -> Result<S, E>,
) -> Result<Handle, E> {
    let (feed, problems) = Feed::new(events.clone());
    let store = Arc::new(open(feed)?);
    let (sender, commands) = mpsc::channel(QUEUE);
    tokio::spawn(errands::run(store, commands, events));
    Ok(Handle { commands: sender, problems })
}

/// The way to a running store.
#[derive(Debug)]
pub struct Handle {
    commands: mpsc::Sender<(Task, ClaimCommand)>,
    problems: Problems,
}

impl Handle {
    /// Queues a command; [`Event::Done`] brings its outcome under the same number, exactly once.
    pub async fn send(&self, task: Task, command: ClaimCommand) {
        // The errands end after this handle only, so there is always somebody who takes the command.
        let _ = self.commands.send((task, command)).await;
    }

    /// What cannot be read or reached, in the order of its sources.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        self.problems.current()
    }
}
