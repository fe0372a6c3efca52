//! Waiting for a folder to change.
//!
//! [`Watch`] is one open folder, told apart from a later one of the same path.
//! [`Bell`] wakes the thread that waits for it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::statfs::statfs;

/// Between two comparisons of the listing, where inotify tells of every change: only to repair.
const REPAIR: Duration = Duration::from_secs(60);
/// Between two comparisons of the listing, where it does not; and between two looks whether the folder is at
/// its path, since inotify does not tell where a folder above it was moved.
const POLL: Duration = Duration::from_secs(1);

/// File systems that other machines write, by `f_type` of statfs(2) (`linux/magic.h` and the file systems'
/// sources): NFS, SMB1, CIFS, SMB2, 9P, Ceph, FUSE (virtiofs too), AFS, GFS2, OCFS2, Lustre.
const SHARED: [u64; 11] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x6573_5546,
    0x5346_414f,
    0x0116_1970,
    0x7461_636f,
    0x0bd0_0bd0,
];

/// What happened while a thread waited.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Something may have happened to the entries of these names, and to no others.
    Names(BTreeSet<OsString>),
    /// Something may have happened to any entry.
    Everything,
    /// The folder is no longer at its path.
    Away,
}

/// How the files of a folder come to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appearance {
    /// By link(2) or rename(2) of what was written elsewhere.
    Whole,
    /// In whatever way somebody likes: one that was made is read when its writer closes it.
    Written,
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Watch {
    path: PathBuf,
    appearance: Appearance,
    /// Device and inode: another folder of the same path is another folder.
    identity: (u64, u64),
    /// None where the system gives no inotify: then only comparisons find changes.
    inotify: Option<Inotify>,
    /// Why the system gives none.
    complaint: Option<String>,
    interval: Duration,
    compare_at: Instant,
}

impl Watch {
    /// Opens the folder at `path`. Everything that happens in it from here on is news.
    ///
    /// # Errors
    /// Where it is not there, or is no folder.
    pub(super) fn open(path: &Path, appearance: Appearance) -> io::Result<Self> {
        let identity = identity(path)?;
        let (inotify, complaint) = match listen(path) {
            Ok(inotify) => (Some(inotify), None),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => return Err(reachable(path)),
            Err(errno) => (None, Some(complaint(errno))),
        };
        let interval = if inotify.is_none() || is_shared(path) { POLL } else { REPAIR };
        let compare_at = Instant::now() + interval;
        Ok(Self { path: path.to_owned(), appearance, identity, inotify, complaint, interval, compare_at })
    }

    /// Why changes are found by comparison only, where the system gives no inotify.
    pub(super) fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }

    /// Waits until something happens in the folder, `bell` rings, or it is time to compare.
    pub(super) fn wait<T>(&mut self, bell: &Listener<T>) -> News {
        let left = self.compare_at.saturating_duration_since(Instant::now());
        if !left.is_zero() && wait(self.inotify.as_ref(), bell, left.min(POLL)) != Woken::Time {
            return self.drain();
        }
        if !self.is_at_its_path() {
            return News::Away;
        }
        if Instant::now() < self.compare_at {
            return self.drain();
        }
        self.compare_at = Instant::now() + self.interval;
        self.drain().and(News::Everything)
    }

    /// Adds what happens until nothing has happened for `quiet`, or for `rounds` times that.
    pub(super) fn settle<T>(&self, news: News, bell: &Listener<T>, quiet: Duration, rounds: u32) -> News {
        let end = Instant::now() + quiet * rounds;
        let mut news = news;
        while Instant::now() < end && wait(self.inotify.as_ref(), bell, quiet) == Woken::Folder {
            news = news.and(self.drain());
        }
        news
    }

    fn is_at_its_path(&self) -> bool {
        identity(&self.path).is_ok_and(|identity| identity == self.identity)
    }

    fn drain(&self) -> News {
        let mut news = News::Names(BTreeSet::new());
        let Some(inotify) = &self.inotify else {
            return news;
        };
        // Each read takes what fits its buffer; EAGAIN says that nothing is left.
        while let Ok(events) = inotify.read_events() {
            for event in events {
                news = news.and(self.understand(event.mask, event.name));
            }
        }
        news
    }

    fn understand(&self, mask: AddWatchFlags, name: Option<OsString>) -> News {
        let gone = AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_IGNORED
            | AddWatchFlags::IN_UNMOUNT;
        if mask.intersects(gone) {
            return News::Away;
        }
        match name {
            _ if mask.contains(AddWatchFlags::IN_Q_OVERFLOW) => News::Everything,
            // A volume of Kubernetes changes all its files by renaming this one link.
            Some(name) if name == "..data" => News::Everything,
            Some(name) if mask.contains(AddWatchFlags::IN_CREATE) && !self.appeared_whole(&name) => {
                News::Names(BTreeSet::new())
            }
            Some(name) => News::Names(BTreeSet::from([name])),
            None => News::Everything,
        }
    }

    /// Whether an entry that was just made needs no more writing: it is a link, symbolic or hard, to
    /// something written before. Nobody closes such a one after writing.
    fn appeared_whole(&self, name: &OsString) -> bool {
        self.appearance == Appearance::Whole
            || fs::symlink_metadata(self.path.join(name))
                .is_ok_and(|entry| !entry.is_file() || entry.nlink() > 1)
    }
}

impl News {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Away, _) | (_, Self::Away) => Self::Away,
            (Self::Everything, _) | (_, Self::Everything) => Self::Everything,
            (Self::Names(mut some), Self::Names(mut more)) => {
                some.append(&mut more);
                Self::Names(some)
            }
        }
    }

    /// Whether nothing at all happened.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Names(names) if names.is_empty())
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let folder = fs::metadata(path)?;
    if folder.is_dir() {
        Ok((folder.dev(), folder.ino()))
    } else {
        Err(io::Error::from(io::ErrorKind::NotADirectory))
    }
}

/// The error of reading a folder that inotify could not open.
fn reachable(path: &Path) -> io::Error {
    fs::read_dir(path).err().unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn listen(path: &Path) -> Result<Inotify, Errno> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let mask = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(path, mask)?;
    Ok(inotify)
}

fn complaint(errno: Errno) -> String {
    let what = match errno {
        Errno::EMFILE => "raise fs.inotify.max_user_instances",
        Errno::ENOSPC => "raise fs.inotify.max_user_watches",
        _ => "see inotify(7)",
    };
    format!(
        "the system gives no inotify ({errno}): {what}; until then changes are found within a second only"
    )
}

fn is_shared(path: &Path) -> bool {
    // The width and sign of the field differ between architectures; magic numbers have 32 bits.
    statfs(path).is_ok_and(|system| {
        let magic = u64::try_from(system.filesystem_type().0 & 0xffff_ffff);
        magic.is_ok_and(|magic| SHARED.contains(&magic))
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Woken {
    Folder,
    Bell,
    Time,
}

/// Waits for the folder, the bell, or the end of `most`.
fn wait<T>(inotify: Option<&Inotify>, bell: &Listener<T>, most: Duration) -> Woken {
    let mut sources = vec![PollFd::new(bell.bell.as_fd(), PollFlags::POLLIN)];
    sources.extend(inotify.map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)));
    let timeout = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
    match poll(&mut sources, timeout) {
        Ok(0) => Woken::Time,
        // An interrupted wait is looked at as if the folder had changed: nothing will be there.
        Err(_) => Woken::Folder,
        Ok(_) if sources.first().and_then(PollFd::any).unwrap_or(false) => Woken::Bell,
        Ok(_) => Woken::Folder,
    }
}

/// Wakes the thread that holds the [`Listener`], with a message; dropped, it tells it to end.
#[derive(Debug)]
pub(super) struct Bell<T> {
    // None only while the bell is dropped: the channel must be closed before the last ring.
    messages: Option<Sender<T>>,
    bell: Arc<EventFd>,
}

/// The other end of a [`Bell`].
#[derive(Debug)]
pub(super) struct Listener<T> {
    messages: Receiver<T>,
    bell: Arc<EventFd>,
}

/// A bell and who hears it.
///
/// # Errors
/// Where the process may open no more files.
pub(super) fn bell<T>() -> io::Result<(Bell<T>, Listener<T>)> {
    let bell = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((Bell { messages: Some(sender), bell: Arc::clone(&bell) }, Listener { messages: receiver, bell }))
}

impl<T> Bell<T> {
    /// Sends a message and wakes the listener. Where it is gone, so is the message.
    pub(super) fn ring(&self, message: T) {
        if let Some(messages) = &self.messages {
            let _ = messages.send(message);
        }
        self.wake();
    }

    fn wake(&self) {
        // It fails only where 2^64 - 2 rings were not heard; the listener is awake then.
        let _ = self.bell.write(1);
    }
}

impl<T> Drop for Bell<T> {
    fn drop(&mut self) {
        self.messages = None;
        self.wake();
    }
}

impl<T> Listener<T> {
    /// The messages that have come; None where there is nobody left to ring.
    pub(super) fn heard(&self) -> Option<Vec<T>> {
        // Empty where nobody rang: the counter says so by EAGAIN.
        let _ = self.bell.read();
        let mut messages = Vec::new();
        loop {
            match self.messages.try_recv() {
                Ok(message) => messages.push(message),
                Err(TryRecvError::Empty) => return Some(messages),
                Err(TryRecvError::Disconnected) if messages.is_empty() => return None,
                Err(TryRecvError::Disconnected) => return Some(messages),
            }
        }
    }

    /// Waits until the bell rings, `most` at the longest.
    pub(super) fn wait(&self, most: Duration) {
        wait(None, self, most);
    }
}

#[cfg(test)]
mod tests;
