//! The files of the repository, read once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::violation::HouseError;

/// Folders that hold no source: build output and git's own.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// The text files of a repository by their path from its top. Files that are not UTF-8
/// (recorded packets) are left out.
#[derive(Debug, Default)]
pub struct Sources(BTreeMap<String, String>);

/// A Rust file with its syntax tree.
pub struct RustFile {
    /// Path from the top of the repository.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its syntax tree.
    pub syntax: syn::File,
}

impl Sources {
    /// Reads all files below `root`.
    ///
    /// # Errors
    /// [`HouseError::Io`].
    pub fn read(root: &Path) -> Result<Self, HouseError> {
        let mut files = BTreeMap::new();
        collect(root, "", &mut files)?;
        Ok(Self(files))
    }

    /// Sources from pairs of path and text, for tests.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect())
    }

    /// All files, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// [`HouseError::Io`] where it is not there.
    pub fn text(&self, path: &str) -> Result<&str, HouseError> {
        let absent = || HouseError::Io { path: path.to_owned(), source: std::io::ErrorKind::NotFound.into() };
        self.0.get(path).map(String::as_str).ok_or_else(absent)
    }

    /// The Rust files, parsed.
    ///
    /// # Errors
    /// [`HouseError::Parse`].
    pub fn rust(&self) -> Result<Vec<RustFile>, HouseError> {
        let files = self.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|e| e == "rs"));
        files
            .map(|(path, text)| {
                let syntax = syn::parse_file(text)
                    .map_err(|source| HouseError::Parse { path: path.to_owned(), source })?;
                Ok(RustFile { path: path.to_owned(), text: text.to_owned(), syntax })
            })
            .collect()
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> Result<(), HouseError> {
    let failed = |source| HouseError::Io { path: folder.display().to_string(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                collect(&entry.path(), &format!("{prefix}{name}/"), files)?;
            }
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.insert(format!("{prefix}{name}"), text);
        }
    }
    Ok(())
}
