//! Claims as files: made whole or not at all, by whoever comes first.
//!
//! A claim is written aside under a name that no other process uses, synced, and
//! link(2)ed to its own name: link fails where the name exists, on local file systems
//! and on NFS, so exactly one of many succeeds. Whoever replaces a claim (rename(2) of a
//! finished file over it) or removes it looks first what is there, and holds a lock (flock(2), which
//! NFS carries to its server) meanwhile, so that nobody comes between. Making one needs no lock: it succeeds only
//! where nothing is there to be replaced.
//!
//! What is synced is the file and not the folder. After a crash of the machine a claim
//! may so be missing, but never half there; the pods that it stood for died with the
//! machine, and an agent makes the claims of the attachments that it finds again. A
//! release may be undone in the same way; the agent gives back again what no container
//! uses.
//!
//! A file that cannot be read counts as a claim: an address that somebody may hold is not
//! given away.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fabric_core::node::ClaimError;
use policy::manifest::{Source, admit};
use policy::{IpClaim, Object, claim_address, claim_name, to_manifest};

use super::file::{self, Fingerprint};

/// Unfinished files older than this were left by a crash: even a stalled disk has finished by then.
const LEFTOVER: Duration = Duration::from_secs(3_600);

/// How long others may hold the lock: they need it for some system calls only.
const LOCKED_FOR: Duration = Duration::from_secs(10);
/// Between two looks at a lock that is held.
const LOOK: Duration = Duration::from_millis(2);

/// The folder of the claims.
#[derive(Debug)]
pub(super) struct ClaimFolder {
    path: PathBuf,
    aside: PathBuf,
    lock: PathBuf,
    /// Begins the names of this process's unfinished files.
    prefix: String,
    count: AtomicU64,
}

/// A claim's file, read.
#[derive(Debug)]
pub(super) enum Reading {
    /// The claim, and what tells this file and this text from others.
    Claim(Box<IpClaim>, Fingerprint, u64),
    /// There is none.
    Absent,
    /// There is a file, but it cannot be read.
    Broken(Broken),
}

/// Why a claim's file is of no use: field and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub field: String,
    pub message: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

/// The address whose claim a file of this name is; None for other files.
pub(super) fn address_of(name: &str) -> Option<IpAddr> {
    claim_address(name.strip_suffix(".json")?)
}

impl ClaimFolder {
    /// The folder at `path`, used by the agent of `node`; nothing is touched.
    pub(super) fn new(path: PathBuf, node: &str) -> Self {
        // Nodes that share the folder may have equal process ids, and a process may have that of an earlier
        // one.
        let chance = RandomState::new().build_hasher().finish();
        let prefix = format!("{node}-{}-{chance:016x}", std::process::id());
        Self { aside: path.join(".tmp"), lock: path.join(".lock"), path, prefix, count: AtomicU64::new(0) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file of an address's claim.
    pub(super) fn file(&self, ip: IpAddr) -> PathBuf {
        self.path.join(format!("{}.json", claim_name(ip)))
    }

    /// Makes the folder where its parent is there.
    pub(super) fn prepare(&self) -> io::Result<()> {
        for folder in [&self.path, &self.aside] {
            match fs::create_dir(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what a crash left unfinished, of whichever node.
    pub(super) fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.aside) else { return };
        let now = SystemTime::now();
        for entry in entries.flatten() {
            let written = entry.metadata().and_then(|file| file.modified());
            let age = written.ok().and_then(|written| now.duration_since(written).ok());
            if age.is_some_and(|age| age > LEFTOVER) {
                // One that another node swept in the same moment is gone as well.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Reads the claim of an address.
    pub(super) fn read(&self, ip: IpAddr) -> Reading {
        let path = self.file(ip);
        let (bytes, fingerprint) = match file::read(&path) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => return Reading::Absent,
            Err(error) => {
                return Reading::Broken(Broken { field: String::new(), message: error.to_string() });
            }
        };
        match parse(&path, ip, &bytes) {
            Ok(claim) => Reading::Claim(claim, fingerprint, file::digest(&bytes)),
            Err(broken) => Reading::Broken(broken),
        }
    }

    /// Makes the claim of an address, unless there is one.
    pub(super) fn create(&self, claim: &IpClaim) -> Result<(), ClaimError> {
        // An address that is taken costs no write.
        if let Some(taken) = self.holder(claim) {
            return Err(taken);
        }
        let aside = self.write_aside(claim)?;
        let result = self.link(&aside, claim);
        // What cannot be removed is swept later.
        let _ = fs::remove_file(&aside);
        result
    }

    fn write_aside(&self, claim: &IpClaim) -> Result<PathBuf, ClaimError> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let aside = self.aside.join(format!("{}-{number}.json", self.prefix));
        let text = to_manifest(claim).to_string();
        let write = || {
            let mut file = self.open_aside(&aside)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&aside);
            store_error(&aside, &error)
        })?;
        Ok(aside)
    }

    fn open_aside(&self, aside: &Path) -> io::Result<File> {
        let open = || OpenOptions::new().write(true).create_new(true).open(aside);
        open().or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            self.prepare()?;
            open()
        })
    }

    /// Gives the finished file the claim's name.
    fn link(&self, aside: &Path, claim: &IpClaim) -> Result<(), ClaimError> {
        let path = self.file(claim.ip);
        // A holder that gives the address back between the two steps makes room for another try.
        for _ in 0..8 {
            match fs::hard_link(aside, &path) {
                Ok(()) => return Ok(()),
                // Over NFS the answer to a link that was made can get lost, and the repeated call then fails.
                Err(_) if fs::metadata(aside).is_ok_and(|file| file.nlink() == 2) => return Ok(()),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(store_error(&path, &error));
                }
                Err(_) => {
                    if let Some(taken) = self.holder(claim) {
                        return Err(taken);
                    }
                }
            }
        }
        Err(ClaimError::Store(format!("{} comes and goes; try again", path.display())))
    }

    /// Who has the address that `wanted` asks for.
    fn holder(&self, wanted: &IpClaim) -> Option<ClaimError> {
        match self.read(wanted.ip) {
            Reading::Absent => None,
            Reading::Claim(holder, ..) => Some(ClaimError::Taken(holder)),
            Reading::Broken(_) => Some(ClaimError::Taken(Box::new(self.unreadable_holder(wanted)))),
        }
    }

    /// Stands for the holder whose claim cannot be read: its owner names the file.
    fn unreadable_holder(&self, wanted: &IpClaim) -> IpClaim {
        IpClaim {
            ip: wanted.ip,
            network: wanted.network.clone(),
            mac: Default::default(),
            node: "".into(),
            pod: None,
            owner: format!(
                "the unreadable file {} (remove it if no container has the address)",
                self.file(wanted.ip).display()
            ),
            retain: false,
            since: None,
        }
    }

    /// Removes the claim of an address where `owner` holds it.
    pub(super) fn release(&self, ip: IpAddr, owner: &str) -> Result<(), ClaimError> {
        let _lock = self.locked()?;
        match self.read(ip) {
            Reading::Claim(claim, ..) if claim.owner == owner => self.remove(ip),
            Reading::Claim(..) | Reading::Absent => Ok(()),
            Reading::Broken(broken) => Err(self.unusable(ip, &broken)),
        }
    }

    /// Replaces or removes the claim of an address where it is `from`, or where there is none.
    pub(super) fn exchange(&self, from: &IpClaim, to: Option<&IpClaim>) -> Result<(), ClaimError> {
        // Written before others have to wait.
        let aside = to.map(|claim| self.write_aside(claim)).transpose()?;
        let result = self.exchange_locked(from, aside.as_deref());
        if let Some(aside) = &aside {
            // Gone where it was renamed; what cannot be removed is swept later.
            let _ = fs::remove_file(aside);
        }
        result
    }

    fn exchange_locked(&self, from: &IpClaim, aside: Option<&Path>) -> Result<(), ClaimError> {
        let _lock = self.locked()?;
        let path = self.file(from.ip);
        match (self.read(from.ip), aside) {
            (Reading::Claim(claim, ..), _) if *claim != *from => Err(ClaimError::Taken(claim)),
            (Reading::Claim(..), Some(aside)) => {
                fs::rename(aside, &path).map_err(|error| store_error(&path, &error))
            }
            (Reading::Claim(..), None) => self.remove(from.ip),
            // Whoever makes a claim at this moment needs no lock for it.
            (Reading::Absent, Some(aside)) => self.link(aside, from),
            (Reading::Absent, None) => Ok(()),
            (Reading::Broken(broken), _) => Err(self.unusable(from.ip, &broken)),
        }
    }

    fn remove(&self, ip: IpAddr) -> Result<(), ClaimError> {
        let path = self.file(ip);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(store_error(&path, &error)),
            _ => Ok(()),
        }
    }

    fn unusable(&self, ip: IpAddr, broken: &Broken) -> ClaimError {
        let path = self.file(ip);
        ClaimError::Store(format!("{}: {broken}; remove it if no container has the address", path.display()))
    }

    /// Waits for the lock; it is given back when the file is dropped, or when the process ends, however that does.
    fn locked(&self) -> Result<File, ClaimError> {
        let open = || OpenOptions::new().write(true).create(true).truncate(false).open(&self.lock);
        let opened = open().or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            self.prepare()?;
            open()
        });
        let file = opened.map_err(|error| store_error(&self.lock, &error))?;
        let deadline = Instant::now() + LOCKED_FOR;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    let seconds = LOCKED_FOR.as_secs();
                    let held = format!("{} was held by another agent for {seconds} s", self.lock.display());
                    return Err(ClaimError::Store(held));
                }
                Err(TryLockError::Error(error)) => return Err(store_error(&self.lock, &error)),
            }
        }
    }
}

fn store_error(path: &Path, error: &io::Error) -> ClaimError {
    ClaimError::Store(format!("{}: {error}", path.display()))
}

fn parse(path: &Path, ip: IpAddr, bytes: &[u8]) -> Result<Box<IpClaim>, Broken> {
    let whole = |message: String| Broken { field: String::new(), message };
    let value = serde_json::from_slice(bytes).map_err(|error| whole(format!("no JSON: {error}")))?;
    let admission = admit(&Source::file(path.display().to_string(), 1), value);
    match (admission.object, admission.problems.into_iter().next()) {
        (_, Some(problem)) => Err(Broken { field: problem.field, message: problem.message }),
        (Some(Object::IpClaim(claim)), None) if claim.ip == ip => Ok(Box::new(claim)),
        (Some(Object::IpClaim(claim)), None) => {
            Err(whole(format!("the file's name is that of {ip}, but the claim inside is of {}", claim.ip)))
        }
        (_, None) => Err(whole("an IPClaim is wanted here".to_owned())),
    }
}
