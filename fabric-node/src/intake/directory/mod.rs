//! The store that is a folder: manifests in it, and claims in `.claims` below it.
//!
//! ```text
//! DIR/*.yaml *.yml *.json    manifests; hidden files and folders below are not read
//! DIR/.claims/0a000005.json  the claim of 10.0.0.5: an IPClaim, named by its address in hexadecimal
//! DIR/.claims/.tmp/          claims being written
//! DIR/.claims/.lock          held by whoever replaces or removes a claim
//! ```
//!
//! Several nodes may share the folder. Each of the two folders has a thread of its own, which
//! waits for inotify, so that a large manifest never holds up a claim, and neither holds
//! up the node. Where the folder lies on a file system that others can write without
//! inotify seeing it (NFS, SMB, FUSE, 9P, Ceph), its listing is compared every second.
//!
//! A folder that is away (not yet there, removed, unmounted) is a problem and is looked for
//! again and again; what was read stays in force until it is back, and then whatever it lacks
//! goes.

mod book;
mod claim_file;
mod claims;
mod file;
mod manifests;
mod watch;

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fabric_api::Problem;
use fabric_core::node::{ClaimError, Event};
use policy::IpClaim;
use tokio::sync::{mpsc, oneshot};

use self::claim_file::ClaimFolder;
use self::watch::{Bell, bell};
use super::feed::{Ended, Feed};
use super::{Handle, Store};

/// Which folder, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// The folder of the manifests.
    pub directory: PathBuf,
    /// Name of this node: it tells its unfinished files in a shared folder apart.
    pub node: String,
}

/// Starts the room on a folder, within a tokio runtime. It ends when the handle is dropped.
///
/// # Errors
/// Where the process may open no more files or start no more threads. A folder that is away is no error, but
/// a problem of the handle.
pub fn start(config: &DirectoryConfig, events: mpsc::Sender<Event>) -> io::Result<Handle> {
    super::start(events, |feed| Directory::open(config, feed))
}

/// The store that is a folder.
#[derive(Debug)]
pub struct Directory {
    claims: Arc<ClaimFolder>,
    claims_bell: Bell<Look>,
    /// Nothing is asked of this thread but that it ends with the store.
    _manifests_bell: Bell<Infallible>,
}

/// "Look at this claim, and say when the node has been told."
#[derive(Debug)]
struct Look {
    ip: IpAddr,
    told: oneshot::Sender<()>,
}

impl Directory {
    /// Opens the store in the folder of `config`, and watches it for `feed` until it is dropped.
    ///
    /// # Errors
    /// Where the process may open no more files or start no more threads.
    pub fn open(config: &DirectoryConfig, feed: Feed) -> io::Result<Self> {
        let claims = Arc::new(ClaimFolder::new(config.directory.join(".claims"), &config.node));
        let (manifests_bell, manifests_listener) = bell()?;
        let (claims_bell, claims_listener) = bell()?;
        let listed = Listed { feed: feed.clone(), missing: Arc::new(AtomicUsize::new(2)) };
        let of_threads = feed.clone();
        let manifests = manifests::Watcher::new(
            config.directory.clone(),
            manifests_listener,
            feed.clone(),
            listed.clone(),
        );
        let claims_watcher = claims::Watcher::new(Arc::clone(&claims), claims_listener, feed, listed);
        spawn(manifests::PART, of_threads.clone(), move || manifests.run())?;
        spawn(claims::PART, of_threads, move || claims_watcher.run())?;
        Ok(Self { claims, claims_bell, _manifests_bell: manifests_bell })
    }

    /// Runs `work` on the claims folder where it may block, then has the watching thread look at the address.
    async fn with_claims(
        &self,
        ip: IpAddr,
        work: impl FnOnce(&ClaimFolder) -> Result<(), ClaimError> + Send + 'static,
    ) -> Result<(), ClaimError> {
        let folder = Arc::clone(&self.claims);
        let result = tokio::task::spawn_blocking(move || work(&folder)).await.unwrap_or_else(|error| {
            Err(ClaimError::Store(format!("the errand for {ip} ended early ({error})")))
        });
        if result.is_ok() {
            let (told, heard) = oneshot::channel();
            self.claims_bell.ring(Look { ip, told });
            // The thread is gone only where the agent ends.
            let _ = heard.await;
        }
        result
    }
}

impl Store for Directory {
    async fn create(&self, claim: IpClaim) -> Result<(), ClaimError> {
        self.with_claims(claim.ip, move |folder| folder.create(&claim)).await
    }

    async fn release(&self, ip: IpAddr, owner: String) -> Result<(), ClaimError> {
        self.with_claims(ip, move |folder| folder.release(ip, &owner)).await
    }

    async fn exchange(&self, from: IpClaim, to: Option<IpClaim>) -> Result<(), ClaimError> {
        self.with_claims(from.ip, move |folder| folder.exchange(&from, to.as_ref())).await
    }
}

/// Starts a thread that watches until the agent ends. One that fails in a way that it should not have is a
/// problem.
fn spawn(
    name: &'static str,
    feed: Feed,
    work: impl FnOnce() -> Result<(), Ended> + Send + 'static,
) -> io::Result<()> {
    let watching = move || {
        // One that returns has nobody left who listens.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            let message =
                "the thread that watches them failed, which is a bug of the agent; restart the agent";
            let (source, message) = (name.to_owned(), message.to_owned());
            feed.report(name, vec![Problem { source, object: None, field: String::new(), message }]);
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(watching).map(drop)
}

/// Counts the first lists of the two folders; the last one completes the world.
#[derive(Debug, Clone)]
struct Listed {
    feed: Feed,
    missing: Arc<AtomicUsize>,
}

impl Listed {
    /// The first list of one folder was told.
    fn one(&self) -> Result<(), Ended> {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 { self.feed.listed() } else { Ok(()) }
    }
}
