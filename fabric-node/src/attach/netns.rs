//! Network namespaces of containers.
//!
//! A thread belongs to a namespace, so whatever happens inside one is done by a thread
//! of its own that enters it and ends there: no thread of the runtime ever leaves the
//! namespace of the agent.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use tokio::sync::oneshot;

/// A namespace cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// There is no such file.
    #[error(
        "there is no network namespace {0}: the container is gone, or the agent does not see the runtime's \
         mounts (mount /run/netns into it with propagation HostToContainer)"
    )]
    Missing(String),
    /// The file is something else.
    #[error(
        "{0} is no network namespace; if the runtime mounted one there, the agent does not see it (mount \
         /run/netns into it with propagation HostToContainer)"
    )]
    Other(String),
    /// It is the namespace of the node itself.
    #[error("{0} is the node's own network namespace: a container without one of its own has no CNI network")]
    Own(String),
    /// The system refused.
    #[error("network namespace {0}: {1}")]
    Refused(String, io::Error),
}

/// An open network namespace that is not the agent's own.
#[derive(Debug)]
pub struct Netns {
    path: String,
    file: File,
}

impl Netns {
    /// Opens the namespace. What the path leads to is looked at before it is entered.
    pub fn open(path: &str) -> Result<Netns, NetnsError> {
        let refused = |cause: io::Error| NetnsError::Refused(path.to_owned(), cause);
        let mut options = OpenOptions::new();
        // A path that leads to a FIFO must not block.
        options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let file = options.open(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => NetnsError::Missing(path.to_owned()),
            _ => refused(cause),
        })?;
        let system = fstatfs(&file).map_err(|cause| refused(cause.into()))?;
        if system.filesystem_type() != NSFS_MAGIC {
            return Err(NetnsError::Other(path.to_owned()));
        }
        let there = file.metadata().map_err(refused)?;
        let here = Path::new("/proc/thread-self/ns/net").metadata().map_err(refused)?;
        if (there.dev(), there.ino()) == (here.dev(), here.ino()) {
            return Err(NetnsError::Own(path.to_owned()));
        }
        Ok(Netns { path: path.to_owned(), file })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Moves the calling thread into the namespace, where it is to end.
    pub fn enter(&self) -> Result<(), NetnsError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|cause| match cause {
            nix::errno::Errno::EINVAL => NetnsError::Other(self.path.clone()),
            cause => NetnsError::Refused(self.path.clone(), cause.into()),
        })
    }
}

/// Runs `work` in a thread that ends with it, and may end in another namespace.
pub async fn on_a_thread<T, F>(work: F) -> Result<T, String>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, String> + Send + 'static,
{
    let (give, take) = oneshot::channel();
    let run = move || {
        // Whoever waited may be gone.
        let _ = give.send(work());
    };
    thread::Builder::new()
        .name("netns".to_owned())
        .spawn(run)
        .map_err(|cause| format!("cannot start a thread: {cause}"))?;
    take.await.unwrap_or_else(|_| Err("the thread in the container's namespace ended early".to_owned()))
}
