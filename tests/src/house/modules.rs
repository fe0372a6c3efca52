//! The modules of one crate, and which of them uses which: names are followed through
//! `use` and re-exports to the module that defines them.

use std::collections::{BTreeMap, BTreeSet};

use super::crates::Target;
use super::paths::{Import, Paths};
use super::sources::RustFile;

/// Re-exports followed before giving up: Rust itself refuses circles of them.
const DEPTH: usize = 24;

/// Path of a module inside its crate; empty for the root.
pub type ModulePath = Vec<String>;

/// A module with its file.
#[derive(Debug)]
pub struct Module {
    /// Its file, from the top of the repository.
    pub file: String,
    /// What it says.
    pub paths: Paths,
}

/// Where a name leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A module of this crate.
    Module(ModulePath),
    /// A crate, by its name in paths, with the rest of the path.
    Crate(String, Vec<String>),
}

/// A use of something in another module or crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Who uses.
    pub from: ModulePath,
    /// What is used.
    pub to: Place,
    /// Where.
    pub line: usize,
    /// Whether it is a re-export of something of its own: a signpost and no use.
    pub signpost: bool,
}

/// The modules of a crate.
#[derive(Debug)]
pub struct Tree {
    /// Package of the crate.
    pub package: String,
    /// Whether it is the package's library.
    pub library: bool,
    /// Its modules.
    pub modules: BTreeMap<ModulePath, Module>,
}

impl Tree {
    /// Follows `mod` declarations from the root file.
    pub fn of(target: &Target, files: &[RustFile]) -> Self {
        let by_path: BTreeMap<&str, &RustFile> =
            files.iter().map(|file| (file.path.as_str(), file)).collect();
        let mut modules = BTreeMap::new();
        let folder = target.root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let mut pending = vec![(ModulePath::new(), target.root.clone(), folder)];
        while let Some((path, file, folder)) = pending.pop() {
            let Some(source) = by_path.get(file.as_str()) else { continue };
            let paths = Paths::of(&source.syntax.items);
            for child in &paths.children {
                let inner = format!("{folder}/{child}");
                let candidates = [format!("{inner}.rs"), format!("{inner}/mod.rs")];
                if let Some(file) = candidates.into_iter().find(|file| by_path.contains_key(file.as_str())) {
                    let path = path.iter().chain([child]).cloned().collect();
                    pending.push((path, file, inner));
                }
            }
            modules.insert(path, Module { file, paths });
        }
        Self { package: target.package.clone(), library: target.library, modules }
    }

    /// All uses between modules and of other crates.
    pub fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        for (from, module) in &self.modules {
            let imports =
                module.paths.imports.iter().map(|import| (&import.path, import.line, import.public));
            let mentions = module.paths.mentions.iter().map(|(path, line)| (path, *line, false));
            for (path, line, public) in imports.chain(mentions) {
                let Some(to) = self.resolve(from, path, DEPTH) else { continue };
                if to == Place::Module(from.clone()) {
                    continue;
                }
                let below = matches!(&to, Place::Module(path) if path.starts_with(from));
                edges.insert(Edge { from: from.clone(), to, line, signpost: public && below });
            }
        }
        edges
    }

    /// Where a path written in a module leads; nowhere for names of the standard library,
    /// of other people's crates and of the function around it.
    pub fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Place> {
        let depth = depth.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => return self.descend(&[], rest, depth),
            "self" => return self.descend(from, rest, depth),
            "super" => {
                let (_, parent) = from.split_last()?;
                return match rest.first().map(String::as_str) {
                    Some("super") => self.resolve(parent, rest, depth),
                    _ => self.descend(parent, rest, depth),
                };
            }
            _ => {}
        }
        let module = self.modules.get(from)?;
        if module.paths.children.contains(first) {
            return self.descend(from, path, depth);
        }
        let named = |import: &&Import| import.name.as_ref() == Some(first) && import.path[..] != path[..1];
        if let Some(import) = module.paths.imports.iter().find(named) {
            let whole: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.resolve(from, &whole, depth);
        }
        if module.paths.items.contains(first) {
            return Some(Place::Module(from.to_vec()));
        }
        Some(Place::Crate(first.clone(), rest.to_vec()))
    }

    /// Follows a path downwards from a module.
    fn descend(&self, from: &[String], path: &[String], depth: usize) -> Option<Place> {
        let module = self.modules.get(from)?;
        let Some((first, rest)) = path.split_first() else { return Some(Place::Module(from.to_vec())) };
        if module.paths.children.contains(first) {
            let child: Vec<String> = from.iter().chain([first]).cloned().collect();
            return self.descend(&child, rest, depth);
        }
        if module.paths.items.contains(first) {
            return Some(Place::Module(from.to_vec()));
        }
        let imports = &module.paths.imports;
        if let Some(import) = imports.iter().find(|import| import.name.as_ref() == Some(first)) {
            let whole: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            return self.resolve(from, &whole, depth);
        }
        let globs = imports.iter().filter(|import| import.name.is_none());
        let through = globs.filter_map(|import| match self.resolve(from, &import.path, depth)? {
            Place::Module(target) => self.modules.get(&target)?.paths.items.contains(first).then_some(target),
            Place::Crate(..) => None,
        });
        Some(Place::Module(through.take(1).next().unwrap_or_else(|| from.to_vec())))
    }

    /// The name of a module in ARCHITECTURE.md: `fabric-core::node`.
    pub fn name(&self, module: &[String]) -> String {
        std::iter::once(&self.package).chain(module).map(String::as_str).collect::<Vec<_>>().join("::")
    }

    /// The file of a module.
    pub fn file(&self, module: &[String]) -> &str {
        self.modules.get(module).map_or("", |module| module.file.as_str())
    }
}
