//! A world from folders of manifests.
//!
//! Every `.yaml`, `.yml` and `.json` file of a folder and of those below is read, in the
//! order of their paths. Hidden ones are passed over, `.claims` excepted: there the store
//! `directory` keeps the claims of addresses. An object may be in one place only; the
//! first is in force. What cannot be read is a problem, and the rest goes on without it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use fabric_api::Problem;
use policy::manifest::text::{self, Document, Syntax};
use policy::manifest::{Source, admit};
use policy::{Edit, Kind, ObjectRef, World};
use serde_json::Value;

use crate::error::TraceError;

/// Where the store `directory` keeps claims.
const CLAIMS: &str = ".claims";

/// What folders hold.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The objects together.
    pub world: World,
    /// What could not be read, in the order of the files.
    pub problems: Vec<Problem>,
    /// How many manifests are of kinds that say nothing about a network, by kind.
    pub foreign: BTreeMap<String, usize>,
    /// Where each object is.
    places: BTreeMap<ObjectRef, String>,
}

impl Manifests {
    /// Reads folders, or single files.
    ///
    /// # Errors
    /// Where one is not there or holds no manifests. What is wrong with a file or an object is among the
    /// problems.
    pub fn read(paths: &[PathBuf]) -> Result<Manifests, TraceError> {
        let mut read = Manifests::default();
        for path in paths {
            let files = files(path)?;
            if files.is_empty() {
                return Err(TraceError::NoManifests(path.clone()));
            }
            files.iter().for_each(|file| read.file(file));
        }
        read.namespaces();
        Ok(read)
    }

    /// Where an object was read: `pods.yaml#2`.
    pub fn place(&self, object: &ObjectRef) -> Option<String> {
        self.places.get(object).cloned()
    }

    /// Reads one file.
    fn file(&mut self, file: &Path) {
        let shown = file.display().to_string();
        // Its name has one of the endings, or it was named by the user.
        let syntax = file.file_name().and_then(|name| Syntax::of(name.to_str()?)).unwrap_or(Syntax::Yaml);
        match fs::read(file).map(String::from_utf8) {
            Ok(Ok(content)) => {
                text::read(syntax, &content).into_iter().for_each(|document| self.document(&shown, document));
            }
            Ok(Err(error)) => {
                let message = format!("byte {}: not UTF-8", error.utf8_error().valid_up_to() + 1);
                self.problem(shown, String::new(), message);
            }
            Err(error) => self.problem(shown, String::new(), error.to_string()),
        }
    }

    fn document(&mut self, file: &str, document: Document) {
        let Document { number, item, content } = document;
        let source = Source::file(file, number);
        let value = match content {
            Ok(value) => value,
            Err(unreadable) => {
                return self.problem(source.to_string(), text::path(item, ""), unreadable.to_string());
            }
        };
        if let Some(kind) = foreign(&value) {
            *self.foreign.entry(kind).or_default() += 1;
            return;
        }
        let admission = admit(&source, value);
        self.problems.extend(admission.problems.into_iter().map(|problem| {
            let problem = Problem::from(problem);
            Problem { field: text::path(item, &problem.field), ..problem }
        }));
        let (Some(object), Some(reference)) = (admission.object, admission.reference) else { return };
        if let Some(place) = self.places.get(&reference) {
            let message =
                format!("the object is in {place} too, and that one is in force; remove one of them");
            let object = Some(reference.to_string());
            let source = source.to_string();
            return self.problems.push(Problem { source, object, field: text::path(item, ""), message });
        }
        self.places.insert(reference, source.to_string());
        self.world.apply(Edit::Put(object));
    }

    /// A pod of a namespace that is not known is denied everything: that is hard to see in an answer.
    fn namespaces(&mut self) {
        let known = |namespace: &str| self.world.namespace(namespace).is_some();
        let missing: BTreeSet<_> = self.world.pods().map(|pod| &pod.reference.namespace).collect();
        let missing = missing.into_iter().filter(|namespace| !known(namespace));
        self.problems.extend(missing.map(|namespace| Problem {
            source: "world".to_owned(),
            object: Some(format!("Namespace {namespace}")),
            field: String::new(),
            message: "pods are in it, and its manifest is missing: they are denied everything until it is there"
                .to_owned(),
        }));
    }

    fn problem(&mut self, source: String, field: String, message: String) {
        self.problems.push(Problem { source, object: None, field, message });
    }
}

/// The kind of a manifest that the fabric passes over; None where it is to be read, or reported. A kind that is
/// read, in a version that is not, is reported: it may be a policy that somebody counts on.
fn foreign(value: &Value) -> Option<String> {
    let text = |field| value.get(field).and_then(Value::as_str);
    let (_, kind) = (text("apiVersion")?, text("kind")?);
    let known = Kind::ALL.into_iter().any(|known| known.as_str() == kind);
    (!known).then(|| kind.to_owned())
}

/// The files to be read below a path, in the order of their paths.
fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let read = |path: &Path, source| TraceError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(|source| read(path, source))?.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        // Links may lead round in a circle.
        if !seen.insert(folder.canonicalize().map_err(|source| read(&folder, source))?) {
            continue;
        }
        for entry in fs::read_dir(&folder).map_err(|source| read(&folder, source))? {
            let path = entry.map_err(|source| read(&folder, source))?.path();
            match kind_of(&path) {
                Ok(Entry::Folder) => folders.push(path),
                Ok(Entry::Manifests) => found.push(path),
                Ok(Entry::Other) => {}
                Err(source) => return Err(read(&path, source)),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What to do with an entry of a folder.
enum Entry {
    Folder,
    Manifests,
    Other,
}

fn kind_of(path: &Path) -> io::Result<Entry> {
    // A name that is no UTF-8 has none of the endings, but its folder may be entered.
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    if name.starts_with('.') && name != CLAIMS {
        return Ok(Entry::Other);
    }
    match fs::metadata(path) {
        Ok(entry) if entry.is_dir() => Ok(Entry::Folder),
        Ok(entry) if entry.is_file() && Syntax::of(&name).is_some() => Ok(Entry::Manifests),
        Ok(_) => Ok(Entry::Other),
        // A link that leads nowhere, or a file that went since.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Entry::Other),
        Err(error) => Err(error),
    }
}
