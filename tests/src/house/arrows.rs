//! Arrows between modules: what a module of a room uses of ours must be in the row of
//! its room. Programs (`main.rs`) tie the rooms and are free to use them all.

use super::architecture::{Architecture, Room};
use super::modules::{Edge, Place, Tree};
use super::violation::Violation;

/// Holds the modules of a library against the table.
pub fn check(tree: &Tree, architecture: &Architecture) -> Vec<Violation> {
    if !tree.library {
        return Vec::new();
    }
    let edges = tree.edges();
    let uses = edges.iter().filter(|edge| !edge.signpost);
    uses.filter_map(|edge| judge(tree, architecture, edge)).collect()
}

fn judge(tree: &Tree, architecture: &Architecture, edge: &Edge) -> Option<Violation> {
    let (from, room) = architecture.room_of(&tree.name(&edge.from))?;
    let target = match &edge.to {
        Place::Module(path) => tree.name(path),
        Place::Crate(name, rest) => foreign(architecture, name, rest)?,
    };
    let to = architecture.room_of(&target).map_or(target.as_str(), |(to, _)| to);
    if to == from || allows(room, to) {
        return None;
    }
    let what = format!("{from} uses {to}: ARCHITECTURE.md has no such arrow");
    Some(Violation::new(tree.file(&edge.from), edge.line, what))
}

/// The name in the table of something in another crate of ours.
fn foreign(architecture: &Architecture, name: &str, rest: &[String]) -> Option<String> {
    let package = name.replace('_', "-");
    let ours = architecture.rooms.contains_key(&package);
    ours.then(|| std::iter::once(package).chain(rest.iter().cloned()).collect::<Vec<_>>().join("::"))
}

/// An arrow to a crate allows all of its modules.
fn allows(room: &Room, to: &str) -> bool {
    let package = to.split("::").next().unwrap_or(to);
    room.uses.iter().any(|used| used == to || used == package)
}
