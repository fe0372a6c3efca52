//! The rules of the house: what ARCHITECTURE.md promises of the code, enforced.
//!
//! Rules are functions from sources to violations, so that each is tested on a source
//! that breaks it. [`check`] reads the workspace and applies them all.

pub mod architecture;
pub mod arrows;
pub mod circles;
pub mod crates;
pub mod links;
pub mod modules;
pub mod pages;
pub mod paths;
pub mod service;
pub mod shape;
pub mod sources;
mod violation;
pub mod vocabulary;
pub mod words;

use std::path::Path;

use architecture::Architecture;
use sources::Sources;
pub use violation::{HouseError, Violation};

/// Applies every rule to the workspace below `root`.
///
/// # Errors
/// Where something cannot be read; that is no violation but a broken check.
pub fn check(root: &Path) -> Result<Vec<Violation>, HouseError> {
    let sources = Sources::read(root)?;
    let architecture = Architecture::parse(sources.text("ARCHITECTURE.md")?)?;
    let workspace = crates::Workspace::read(root)?;
    let mut found = Vec::new();
    found.extend(crates::arrows(&workspace, &architecture));
    found.extend(crates::purity(&workspace, &architecture, root)?);
    found.extend(crates::lints(&workspace, &architecture, &sources));
    let rust = sources.rust()?;
    for target in &workspace.targets {
        let tree = modules::Tree::of(target, &rust);
        found.extend(arrows::check(&tree, &architecture));
        found.extend(circles::check(&tree));
    }
    found.extend(shape::check(&rust, &architecture));
    found.extend(vocabulary::check(&rust, &architecture));
    found.extend(words::check(&sources));
    found.extend(pages::check(&sources)?);
    found.extend(links::check(&sources));
    found.extend(service::check(&sources)?);
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests;
