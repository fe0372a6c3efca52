//! What the pages list is what the code has: the tables of the documentation whose first
//! column are words of the code have a row for each of them, and no other row.
//!
//! A page is compared with the words themselves, so a word that comes breaks the test
//! until somebody says what it means to those who operate a node.

use std::collections::BTreeSet;

use fabric_core::node::PuntOutcome;
use fabric_core::pipeline::vocabulary::{Cause, Kind, Table};

use super::sources::Sources;
use super::violation::{HouseError, Violation};

/// Longest line of a page, characters: a difference between two longer ones shows nothing.
const WIDEST: usize = 200;

/// A table of a page, and what its first column has to hold.
pub struct Listing {
    /// The page.
    pub page: &'static str,
    /// What its table's first line begins with.
    pub header: &'static str,
    /// First cells, without backticks.
    pub words: BTreeSet<String>,
}

/// The tables of the repository.
fn listings() -> [Listing; 4] {
    let page = "docs/operating.md";
    let tables = Table::ALL.map(|table| format!("{} {table}", table.id()));
    let kinds = Kind::ALL.map(|kind| format!("{:02x} {}", kind as u8, kind.name()));
    let causes = Cause::ALL.map(|cause| format!("{} {}", cause as u8, cause.name()));
    let outcomes = PuntOutcome::ALL.map(|outcome| outcome.name().to_owned());
    [
        Listing { page, header: "| table |", words: tables.into() },
        Listing { page, header: "| kind |", words: kinds.into() },
        Listing { page, header: "| cause |", words: causes.into() },
        Listing { page: "docs/api.md", header: "| outcome |", words: outcomes.into() },
    ]
}

/// Compares every listing with its page, and looks for lines that are too long.
///
/// # Errors
/// [`HouseError::Io`] where a page is missing.
pub fn check(sources: &Sources) -> Result<Vec<Violation>, HouseError> {
    let mut found = long_lines(sources);
    for listing in listings() {
        found.extend(compare(&listing, sources.text(listing.page)?));
    }
    Ok(found)
}

/// Compares one listing with the text of its page.
pub fn compare(listing: &Listing, text: &str) -> Vec<Violation> {
    let Listing { page, header, words } = listing;
    let mut rows = text.lines().enumerate().skip_while(|(_, line)| !line.starts_with(header));
    let Some((at, _)) = rows.next() else {
        return vec![Violation::new(*page, 0, format!("has no table that begins with `{header}`"))];
    };
    let rows = rows.skip(1).take_while(|(_, line)| line.starts_with('|'));
    let rows: Vec<(usize, String)> = rows.map(|(at, line)| (at + 1, first_cell(line))).collect();
    let said: BTreeSet<&String> = rows.iter().map(|(_, word)| word).collect();
    let missing = words.iter().filter(|word| !said.contains(word));
    let missing = missing.map(|word| {
        Violation::new(*page, at + 1, format!("this table has no row for {word:?}, which the code has"))
    });
    let stray = rows.iter().filter(|(_, word)| !words.contains(word));
    let stray =
        stray.map(|(at, word)| Violation::new(*page, *at, format!("the code has nothing called {word:?}")));
    missing.chain(stray).collect()
}

/// Lines of pages above [`WIDEST`]; a row of a table cannot be broken, and is not meant.
pub fn long_lines(sources: &Sources) -> Vec<Violation> {
    let pages = sources.iter().filter(|(path, _)| path.ends_with(".md"));
    let lines =
        pages.flat_map(|(path, text)| text.lines().enumerate().map(move |(at, line)| (path, at + 1, line)));
    let long = lines.filter(|(_, _, line)| !line.starts_with('|') && line.chars().count() > WIDEST);
    long.map(|(path, at, line)| {
        let length = line.chars().count();
        Violation::new(path, at, format!("{length} characters: at most {WIDEST}; break it after a sentence"))
    })
    .collect()
}

fn first_cell(line: &str) -> String {
    let cell = line.trim_start_matches('|').split('|').next().unwrap_or_default();
    cell.trim().replace('`', "")
}
