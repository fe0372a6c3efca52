//! The thread that watches the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use fabric_api::Problem;
use policy::Kind;
use policy::manifest::text::{self, Document, Syntax};
use policy::manifest::{Source, admit};
use serde_json::Value;

use super::Listed;
use super::book::{Book, Changes, Contents, FileName, Found, Unread};
use super::file::{self, Fingerprint};
use super::watch::{Appearance, Listener, News, Watch};
use crate::intake::feed::{Ended, Feed};

/// What reports call this thread's part.
pub(super) const PART: &str = "manifests";
/// Between two looks for a folder that is away.
const RETRY: Duration = Duration::from_millis(500);
/// An editor's several steps are one change where they are no further apart than this.
const QUIET: Duration = Duration::from_millis(3);
/// Most of those pauses that a change may have.
const ROUNDS: u32 = 10;

/// The files of the folder that are manifests.
type Listing = BTreeMap<FileName, Fingerprint>;

/// Watches the folder of the manifests.
pub(super) struct Watcher {
    folder: PathBuf,
    bell: Listener<Infallible>,
    feed: Feed,
    listed: Option<Listed>,
    book: Book,
    fingerprints: Listing,
}

impl Watcher {
    pub(super) fn new(folder: PathBuf, bell: Listener<Infallible>, feed: Feed, listed: Listed) -> Self {
        Self { folder, bell, feed, listed: Some(listed), book: Book::default(), fingerprints: Listing::new() }
    }

    /// Watches until nobody listens any more.
    pub(super) fn run(mut self) -> Result<(), Ended> {
        loop {
            match self.begin() {
                Ok((watch, found)) => self.follow(watch, &found)?,
                Err(error) => {
                    self.report(Some(self.away(&error)));
                    self.bell.wait(RETRY);
                    self.bell.heard().ok_or(Ended)?;
                }
            }
        }
    }

    fn begin(&self) -> io::Result<(Watch, Listing)> {
        let watch = Watch::open(&self.folder, Appearance::Written)?;
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
            match self.news(&mut watch)? {
                News::Names(names) => self.update(names.iter().filter_map(|name| name.to_str()).collect())?,
                News::Everything => match self.list() {
                    Ok(found) => self.compare(&found)?,
                    Err(_) => return Ok(()),
                },
                News::Away => return Ok(()),
            }
        }
    }

    /// Waits until something has happened.
    fn news(&self, watch: &mut Watch) -> Result<News, Ended> {
        loop {
            let news = watch.wait(&self.bell);
            self.bell.heard().ok_or(Ended)?;
            if !news.is_nothing() {
                return Ok(watch.settle(news, &self.bell, QUIET, ROUNDS));
            }
        }
    }

    /// Reads all files that are not as they were read, and forgets those that are gone.
    fn compare(&mut self, found: &Listing) -> Result<(), Ended> {
        let changed = found.iter().filter(|(name, file)| self.fingerprints.get(*name) != Some(file));
        let changed: BTreeSet<_> = changed.map(|(name, _)| FileName::clone(name)).collect();
        let gone = self.book.files().filter(|name| !found.contains_key(*name)).cloned();
        let suspects: BTreeSet<_> = changed.into_iter().chain(gone).collect();
        if self.listed.is_none() {
            return self.examine(suspects);
        }
        // Nothing is decided before the first list is complete: it need not be one change, and would be a
        // large one.
        suspects.into_iter().try_for_each(|name| self.examine(BTreeSet::from([name])))
    }

    fn list(&self) -> io::Result<Listing> {
        let mut found = Listing::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().filter(|name| Syntax::of(name).is_some()) {
                // One that went since has no fingerprint, and is found absent when it is examined.
                found.insert(FileName::from(name), Fingerprint::of(&entry.path()).unwrap_or_default());
            }
        }
        Ok(found)
    }

    /// Reads these files, where they are manifests.
    fn update(&mut self, names: BTreeSet<&str>) -> Result<(), Ended> {
        let names = names.into_iter().filter(|name| Syntax::of(name).is_some());
        self.examine(names.map(FileName::from).collect())
    }

    /// Reads these files, and those whose objects are in force by that, and tells the node what changed.
    fn examine(&mut self, mut names: BTreeSet<FileName>) -> Result<(), Ended> {
        let mut changes = Changes::default();
        while let Some(name) = names.pop_first() {
            names.extend(self.examine_one(&name, &mut changes));
        }
        self.feed.edits(changes.into_edits())
    }

    fn examine_one(&mut self, name: &FileName, changes: &mut Changes) -> BTreeSet<FileName> {
        let path = self.folder.join(&**name);
        match file::read(&path) {
            Ok((bytes, fingerprint)) => {
                self.fingerprints.insert(FileName::clone(name), fingerprint);
                match std::str::from_utf8(&bytes) {
                    Ok(text) => self.book.apply(name, contents(name, text), changes),
                    Err(error) => {
                        let message = format!("byte {}: not UTF-8", error.valid_up_to() + 1);
                        self.unreadable(name, &message)
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.fingerprints.remove(name);
                self.book.remove(name, changes)
            }
            Err(error) => {
                // Without a fingerprint it is tried again at the next comparison.
                self.fingerprints.remove(name);
                self.unreadable(name, &error.to_string())
            }
        }
    }

    fn unreadable(&mut self, name: &FileName, message: &str) -> BTreeSet<FileName> {
        let message = format!("{message}; what was read from the file before stays in force");
        let problem = Problem { source: name.to_string(), object: None, field: String::new(), message };
        self.book.unreadable(name, problem);
        BTreeSet::new()
    }

    fn report(&self, of_folder: Option<Problem>) {
        self.feed.report(PART, of_folder.into_iter().chain(self.book.problems()).collect());
    }

    fn problem(&self, message: String) -> Problem {
        Problem { source: self.folder.display().to_string(), object: None, field: String::new(), message }
    }

    fn away(&self, error: &io::Error) -> Problem {
        let advice = match error.kind() {
            ErrorKind::NotFound => "make the folder, or correct store.directory in the node file",
            ErrorKind::NotADirectory => "store.directory in the node file must name a folder",
            _ => "the agent must be able to read it",
        };
        self.problem(format!("{error}: {advice}; what was read before stays in force until then"))
    }
}

/// Takes a file's text through the gate.
fn contents(name: &FileName, text: &str) -> Contents {
    let mut contents = Contents::default();
    let Some(syntax) = Syntax::of(name) else { return contents };
    for document in text::read(syntax, text) {
        admit_document(name, document, &mut contents);
    }
    contents
}

fn admit_document(name: &FileName, document: Document, contents: &mut Contents) {
    let Document { number, item, content } = document;
    let source = Source::file(FileName::clone(name), number);
    let value = match content {
        Ok(value) => value,
        Err(unreadable) => {
            let message = format!("{unreadable}; what was read from there before stays in force");
            contents.unread.push(Unread::Anything);
            contents.problems.push(Problem {
                source: source.to_string(),
                object: None,
                field: text::path(item, ""),
                message,
            });
            return;
        }
    };
    if is_claim(&value) {
        let message = "the store makes the claims itself, in .claims; to keep an address from being given away, \
                       list it in the Network's spec.exclude";
        let (source, message) = (source.to_string(), message.to_owned());
        contents.problems.push(Problem { source, object: None, field: text::path(item, ""), message });
        return;
    }
    let unread = identity(&value);
    let digest = file::digest(&value);
    let admission = admit(&source, value);
    match (admission.object, admission.reference) {
        (Some(object), _) => contents.objects.push(Found { object, digest, place: source.to_string() }),
        (None, Some(reference)) => contents.unread.push(Unread::Object(reference)),
        (None, None) => contents.unread.extend(unread),
    }
    contents.problems.extend(admission.problems.into_iter().map(|problem| Problem {
        source: problem.source.to_string(),
        object: problem.object.map(|object| object.to_string()),
        field: text::path(item, &problem.field),
        message: problem.message,
    }));
}

fn is_claim(value: &Value) -> bool {
    value.get("kind").and_then(Value::as_str) == Some(Kind::IpClaim.as_str())
}

/// Which objects a manifest that the gate cannot name may have been.
fn identity(value: &Value) -> Option<Unread> {
    let text = |value: &Value, field| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    match text(metadata, "name") {
        Some(name) => Some(Unread::Named { namespace: text(metadata, "namespace"), name }),
        // Of a kind that the fabric does not read, and unnamed (`generateName`): nothing of ours.
        None if text(value, "apiVersion").is_some() && text(value, "kind").is_some() => None,
        None => Some(Unread::Anything),
    }
}
