//! The thread that watches the claims.
//!
//! It alone tells the node of claims, its own agent's included, and tells what it finds
//! under a name at the moment of looking: whatever the order in which news of other
//! nodes and of this one arrive, the last thing told is what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fabric_api::Problem;
use policy::{Edit, Kind, Object, ObjectRef, claim_name};

use super::claim_file::{Broken, ClaimFolder, Reading, address_of};
use super::file::Fingerprint;
use super::watch::{Appearance, Listener, News, Watch};
use super::{Listed, Look};
use crate::intake::feed::{Ended, Feed};

/// What reports call this thread's part.
pub(super) const PART: &str = "claims";
/// Between two looks for a folder that is away.
const RETRY: Duration = Duration::from_millis(500);
/// Before the first look for a folder that has gone.
const PAUSE: Duration = Duration::from_millis(100);

/// The files of the folder that are claims.
type Listing = BTreeMap<IpAddr, Fingerprint>;

/// Watches the folder of the claims.
pub(super) struct Watcher {
    folder: Arc<ClaimFolder>,
    bell: Listener<Look>,
    feed: Feed,
    listed: Option<Listed>,
    known: BTreeMap<IpAddr, Known>,
    broken: BTreeMap<IpAddr, Broken>,
}

/// What was found under an address's name.
#[derive(Default)]
struct Known {
    /// Of the file last read.
    fingerprint: Fingerprint,
    /// Of the claim that the node was last told of.
    told: Option<u64>,
}

impl Watcher {
    pub(super) fn new(folder: Arc<ClaimFolder>, bell: Listener<Look>, feed: Feed, listed: Listed) -> Self {
        Self { folder, bell, feed, listed: Some(listed), known: BTreeMap::new(), broken: BTreeMap::new() }
    }

    /// Watches until nobody listens any more.
    pub(super) fn run(mut self) -> Result<(), Ended> {
        loop {
            match self.begin() {
                Ok((watch, found)) => {
                    self.follow(watch, &found)?;
                    // Who removes the whole store removes this folder first: it is not made again under their
                    // hands.
                    self.bell.wait(PAUSE);
                }
                Err(error) => {
                    self.report(Some(self.away(&error)));
                    self.bell.wait(RETRY);
                    let looks = self.bell.heard().ok_or(Ended)?;
                    self.look(BTreeSet::new(), looks)?;
                }
            }
        }
    }

    fn begin(&self) -> io::Result<(Watch, Listing)> {
        self.folder.prepare()?;
        let watch = Watch::open(self.folder.path(), Appearance::Whole)?;
        Ok((watch, self.list()?))
    }

    /// Follows an open folder until it is away.
    fn follow(&mut self, mut watch: Watch, found: &Listing) -> Result<(), Ended> {
        self.compare(found)?;
        loop {
            self.report(watch.complaint().map(|message| self.problem(message.to_owned())));
            if let Some(listed) = self.listed.take() {
                listed.one()?;
            }
            let news = watch.wait(&self.bell);
            let looks = self.bell.heard().ok_or(Ended)?;
            let names = match &news {
                News::Names(names) => names.iter().filter_map(address).collect(),
                News::Everything | News::Away => BTreeSet::new(),
            };
            self.look(names, looks)?;
            match news {
                News::Names(_) => {}
                News::Everything => match self.list() {
                    Ok(found) => self.compare(&found)?,
                    Err(_) => return Ok(()),
                },
                News::Away => return Ok(()),
            }
        }
    }

    /// Looks at these addresses and those asked for, tells the node what changed, and then says so to who
    /// asked.
    fn look(&mut self, mut addresses: BTreeSet<IpAddr>, looks: Vec<Look>) -> Result<(), Ended> {
        addresses.extend(looks.iter().map(|look| look.ip));
        let edits = addresses.into_iter().filter_map(|ip| self.examine(ip)).collect();
        self.feed.edits(edits)?;
        for look in looks {
            // Who asked may have gone.
            let _ = look.told.send(());
        }
        Ok(())
    }

    /// Compares the listing with what is known.
    fn compare(&mut self, found: &Listing) -> Result<(), Ended> {
        self.folder.sweep();
        let is_new = |ip: &IpAddr, file| self.known.get(ip).is_none_or(|known| known.fingerprint != file);
        let changed = found.iter().filter(|(ip, file)| is_new(ip, **file)).map(|(ip, _)| *ip);
        let gone = self.known.keys().filter(|ip| !found.contains_key(ip)).copied();
        let suspects: Vec<_> = changed.chain(gone).collect();
        let edits = suspects.into_iter().filter_map(|ip| self.examine(ip)).collect();
        self.feed.edits(edits)
    }

    fn list(&self) -> io::Result<Listing> {
        let mut found = Listing::new();
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            if let Some(ip) = address(&entry.file_name()) {
                // One that went since has no fingerprint, and is found absent when it is examined.
                found.insert(ip, Fingerprint::of(&entry.path()).unwrap_or_default());
            }
        }
        Ok(found)
    }

    /// Reads the claim of an address; the edit that tells the node of it, where it is not what it was.
    fn examine(&mut self, ip: IpAddr) -> Option<Edit> {
        self.broken.remove(&ip);
        match self.folder.read(ip) {
            Reading::Absent => {
                let told = self.known.remove(&ip)?.told;
                told.map(|_| Edit::Remove(ObjectRef::cluster(Kind::IpClaim, claim_name(ip))))
            }
            Reading::Broken(broken) => {
                self.broken.insert(ip, broken);
                self.known.entry(ip).or_default().fingerprint =
                    Fingerprint::of(&self.folder.file(ip)).unwrap_or_default();
                None
            }
            Reading::Claim(claim, fingerprint, digest) => {
                let told =
                    self.known.insert(ip, Known { fingerprint, told: Some(digest) }).and_then(|k| k.told);
                (told != Some(digest)).then_some(Edit::Put(Object::IpClaim(*claim)))
            }
        }
    }

    fn report(&self, of_folder: Option<Problem>) {
        let broken = self.broken.iter().map(|(ip, broken)| Problem {
            source: self.folder.file(*ip).display().to_string(),
            object: Some(ObjectRef::cluster(Kind::IpClaim, claim_name(*ip)).to_string()),
            field: broken.field.clone(),
            message: format!(
                "{}; {ip} counts as taken: remove the file if no container has the address",
                broken.message
            ),
        });
        self.feed.report(PART, of_folder.into_iter().chain(broken).collect());
    }

    fn problem(&self, message: String) -> Problem {
        let source = self.folder.path().display().to_string();
        Problem { source, object: None, field: String::new(), message }
    }

    fn away(&self, error: &io::Error) -> Problem {
        let advice = match error.kind() {
            ErrorKind::NotFound => "; it is made as soon as the folder above it is there",
            _ => "; the agent must be able to read and write it",
        };
        self.problem(format!("{error}{advice}; what is known of claims stays in force until then"))
    }
}

fn address(name: &OsString) -> Option<IpAddr> {
    name.to_str().and_then(address_of)
}
