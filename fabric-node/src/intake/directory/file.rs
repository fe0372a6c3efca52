//! Reading a file that somebody else writes.

use std::fs::{self, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Largest file that is read, bytes: the objects of some 100,000 pods, as the API server prints them.
const LARGEST: u64 = 512 << 20;

/// Tells a file that was read from one that has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fingerprint {
    inode: u64,
    size: u64,
    /// Time of the last write: seconds and nanoseconds.
    written: (i64, i64),
}

impl Fingerprint {
    /// Of the file at `path`, links followed.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file| Self::from(&file))
    }
}

impl From<&Metadata> for Fingerprint {
    fn from(file: &Metadata) -> Self {
        Self { inode: file.ino(), size: file.size(), written: (file.mtime(), file.mtime_nsec()) }
    }
}

/// Reads a file, with its fingerprint from before the reading: a later write shows in a later one.
///
/// # Errors
/// Where it is not there, no regular file (a pipe would hold the reader for ever), larger than what is
/// sensible, or not to be read.
pub(super) fn read(path: &Path) -> io::Result<(Vec<u8>, Fingerprint)> {
    let mut file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    if metadata.size() > LARGEST {
        let message = format!("larger than {} MiB; divide it", LARGEST >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((bytes, Fingerprint::from(&metadata)))
}

/// Sixty-four bits that are the same for the same content, within one process.
pub(super) fn digest(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
