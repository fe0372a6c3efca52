//! Arrows between crates, as their Cargo.toml files have them, and the purity of those
//! that promise it: a workspace build unifies features, so each is asked for alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::architecture::Architecture;
use super::sources::Sources;
use super::violation::{HouseError, Violation};

/// Crates that do input or output, or bring a runtime for it.
const IMPURE: [&str; 12] = [
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "axum",
    "kube",
    "rtnetlink",
    "netlink-sys",
    "nix",
    "rustix",
    "async-io",
    "libc",
];
/// What a pure crate's clippy.toml has to ban, by the beginning of the path.
const BANNED: [&str; 5] =
    ["std::time::Instant::now", "std::time::SystemTime::now", "std::fs::", "std::env::var", "std::net::"];

/// A crate root to scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Package that it belongs to.
    pub package: String,
    /// Whether it is the package's library.
    pub library: bool,
    /// Its root file, from the top of the repository.
    pub root: String,
}

/// What cargo says of the workspace.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Packages with those of ours that they depend on, for whatever purpose.
    pub uses: BTreeMap<String, Vec<String>>,
    /// Folder of each package, from the top of the repository.
    pub folders: BTreeMap<String, String>,
    /// Libraries and programs.
    pub targets: Vec<Target>,
}

impl Workspace {
    /// Asks `cargo metadata`.
    ///
    /// # Errors
    /// [`HouseError::Cargo`].
    pub fn read(root: &Path) -> Result<Self, HouseError> {
        let text = cargo(root, &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
        let metadata: Value = serde_json::from_str(&text).map_err(|e| HouseError::Cargo(e.to_string()))?;
        let top = metadata["workspace_root"].as_str().unwrap_or_default().to_owned() + "/";
        Ok(Self::from_metadata(&metadata, &top))
    }

    fn from_metadata(metadata: &Value, top: &str) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let below = |value: &Value| text(value).trim_start_matches(top).to_owned();
        let packages = list(&metadata["packages"]);
        let ours: Vec<String> = packages.iter().map(|package| text(&package["name"])).collect();
        let mut workspace = Self::default();
        for package in &packages {
            let name = text(&package["name"]);
            let dependencies = list(&package["dependencies"]);
            let uses = dependencies.iter().map(|dependency| text(&dependency["name"]));
            workspace.uses.insert(name.clone(), uses.filter(|used| ours.contains(used)).collect());
            let manifest = below(&package["manifest_path"]);
            workspace.folders.insert(name.clone(), manifest.trim_end_matches("/Cargo.toml").to_owned());
            for target in list(&package["targets"]) {
                let kinds: Vec<String> = list(&target["kind"]).iter().map(text).collect();
                let library = kinds.iter().any(|kind| kind == "lib");
                if library || kinds.iter().any(|kind| kind == "bin") {
                    let root = below(&target["src_path"]);
                    workspace.targets.push(Target { package: name.clone(), library, root });
                }
            }
        }
        workspace
    }
}

/// Every package is a room, and uses only what its row allows.
pub fn arrows(workspace: &Workspace, architecture: &Architecture) -> Vec<Violation> {
    let mut found = Vec::new();
    for (package, uses) in &workspace.uses {
        let file = format!("{}/Cargo.toml", workspace.folders.get(package).map_or("", String::as_str));
        let Some(room) = architecture.rooms.get(package) else {
            found.push(Violation::new(file, 0, format!("{package} has no row in ARCHITECTURE.md")));
            continue;
        };
        // A package depends on itself where its tests want other features.
        let stray = uses.iter().filter(|used| *used != package && !room.uses.contains(used));
        found.extend(stray.map(|used| {
            Violation::new(
                &file,
                0,
                format!("{package} depends on {used}: ARCHITECTURE.md has no such arrow"),
            )
        }));
    }
    let gone =
        architecture.rooms.keys().filter(|room| !room.contains("::") && !workspace.uses.contains_key(*room));
    found.extend(gone.map(|room| Violation::new("ARCHITECTURE.md", 0, format!("there is no crate {room}"))));
    found
}

/// A crate whose row says `none` for IO depends on nothing that does any.
///
/// # Errors
/// [`HouseError::Cargo`].
pub fn purity(
    workspace: &Workspace,
    architecture: &Architecture,
    root: &Path,
) -> Result<Vec<Violation>, HouseError> {
    let mut found = Vec::new();
    for package in pure(workspace, architecture) {
        let words =
            ["tree", "-p", package, "-e", "normal", "--prefix", "none", "--format", "{p}", "--offline"];
        found.extend(impure_lines(package, &cargo(root, &words)?));
    }
    Ok(found)
}

fn pure<'a>(workspace: &'a Workspace, architecture: &Architecture) -> Vec<&'a str> {
    let is_pure = |package: &&String| architecture.rooms.get(*package).is_some_and(|room| room.pure);
    workspace.uses.keys().filter(is_pure).map(String::as_str).collect()
}

/// Judges the lines of `cargo tree`.
pub fn impure_lines(package: &str, tree: &str) -> Vec<Violation> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let impure = names.filter(|name| IMPURE.contains(name));
    impure
        .map(|name| {
            Violation::new("ARCHITECTURE.md", 0, format!("{package} promises no IO, and depends on {name}"))
        })
        .collect()
}

/// A pure crate's clippy.toml bans clocks, files, environment and sockets.
pub fn lints(workspace: &Workspace, architecture: &Architecture, sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in pure(workspace, architecture) {
        let file = format!("{}/clippy.toml", workspace.folders.get(package).map_or("", String::as_str));
        let text = sources.text(&file).unwrap_or_default();
        let missing = BANNED.iter().filter(|banned| !text.contains(*banned));
        found.extend(missing.map(|banned| {
            Violation::new(
                &file,
                0,
                format!("{package} promises no IO: disallowed-methods must name {banned}..."),
            )
        }));
    }
    found
}

fn cargo(root: &Path, words: &[&str]) -> Result<String, HouseError> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let line = format!("cargo {}", words.join(" "));
    let output = Command::new(program).args(words).current_dir(root).output();
    let output = output.map_err(|e| HouseError::Cargo(format!("{line}: {e}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(HouseError::Cargo(format!("{line}: {}", String::from_utf8_lossy(&output.stderr))))
}
