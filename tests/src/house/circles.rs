//! No circles of imports between the modules of a crate. A module may use what encloses
//! it: the files of `impl` blocks below a struct's module do.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{ModulePath, Place, Tree};
use super::violation::Violation;

type Graph = BTreeMap<ModulePath, BTreeMap<ModulePath, usize>>;

/// One violation for each circle, told at its first module.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let graph = graph(tree);
    let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        graph.keys().map(|module| (module, reachable(&graph, module))).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (module, far) in &reach {
        if !far.contains(module) || told.contains(module) {
            continue;
        }
        let circle: Vec<&ModulePath> = far
            .iter()
            .filter(|other| reach.get(*other).is_some_and(|back| back.contains(module)))
            .copied()
            .collect();
        told.extend(circle.iter().copied());
        let names: Vec<String> = circle.iter().map(|module| label(tree, module)).collect();
        let what = format!(
            "these modules import each other in a circle: {}{}",
            names.join(", "),
            inner(&graph, &circle, tree)
        );
        found.push(Violation::new(tree.file(module), 0, what));
    }
    found
}

fn graph(tree: &Tree) -> Graph {
    let mut graph = Graph::new();
    for edge in tree.edges().into_iter().filter(|edge| !edge.signpost) {
        if let Place::Module(to) = edge.to
            && !edge.from.starts_with(&to)
        {
            graph.entry(edge.from).or_default().entry(to).or_insert(edge.line);
        }
    }
    graph
}

fn reachable<'a>(graph: &'a Graph, from: &ModulePath) -> BTreeSet<&'a ModulePath> {
    let mut seen = BTreeSet::new();
    let mut pending: Vec<&ModulePath> = graph.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(module) = pending.pop() {
        if seen.insert(module) {
            pending.extend(graph.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    seen
}

/// The imports inside a circle, to see which one to turn.
fn inner(graph: &Graph, circle: &[&ModulePath], tree: &Tree) -> String {
    let mut text = String::new();
    for from in circle {
        let to = graph.get(*from).into_iter().flatten().filter(|(to, _)| circle.contains(to));
        for (to, line) in to {
            text +=
                &format!("\n    {}:{line}: {} uses {}", tree.file(from), label(tree, from), label(tree, to));
        }
    }
    text
}

fn label(tree: &Tree, module: &[String]) -> String {
    tree.name(module)
}
