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

/// A status as text, with everything that one can have.
const STATUS: &str = "fabric-node/src/serve/render/tests/sample.txt";

/// The metrics as text, each at least once.
const METRICS: &str = "fabric-node/src/serve/metrics/tests/sample.txt";
/// The page that lists them.
const API: &str = "docs/api.md";

/// The tables of the repository.
fn listings(status: &str) -> [Listing; 5] {
    let page = "docs/operating.md";
    let tables = Table::ALL.map(|table| format!("{} {table}", table.id()));
    let kinds = Kind::ALL.map(|kind| format!("{:02x} {}", kind as u8, kind.name()));
    let causes = Cause::ALL.map(|cause| format!("{} {}", cause as u8, cause.name()));
    let outcomes = PuntOutcome::ALL.map(|outcome| outcome.name().to_owned());
    [
        Listing { page, header: "| line |", words: parts(status) },
        Listing { page, header: "| table |", words: tables.into() },
        Listing { page, header: "| kind |", words: kinds.into() },
        Listing { page, header: "| cause |", words: causes.into() },
        Listing { page: API, header: "| outcome |", words: outcomes.into() },
    ]
}

/// Compares every listing with its page, and looks for lines that are too long.
///
/// # Errors
/// [`HouseError::Io`] where a page or a sample is missing.
pub fn check(sources: &Sources) -> Result<Vec<Violation>, HouseError> {
    let mut found = long_lines(sources);
    found.extend(metrics(sources.text(METRICS)?, sources.text(API)?));
    for listing in listings(sources.text(STATUS)?) {
        found.extend(compare(&listing, sources.text(listing.page)?));
    }
    Ok(found)
}

/// Metrics that a page does not name, and names of metrics that it has and the agent does not.
pub fn metrics(sample: &str, page: &str) -> Vec<Violation> {
    let types = sample.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let types: BTreeSet<&str> = types.collect();
    let quoted = page.split('`').skip(1).step_by(2).filter(|word| word.starts_with("fabric_"));
    let named: BTreeSet<&str> = quoted.collect();
    let missing = types.difference(&named).map(|name| format!("does not name the metric {name}"));
    let stray = named.difference(&types).map(|name| format!("names a metric {name} that there is not"));
    missing.chain(stray).map(|what| Violation::new(API, 0, what)).collect()
}

/// What a status as text consists of: its first line, lines with a name before two blanks, and below them headings
/// after an empty line, without their counts.
pub fn parts(status: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = status.lines().collect();
    let named = lines.iter().take_while(|line| !line.starts_with(char::is_uppercase));
    let named = named.filter_map(|line| line.split_once("  ").map(|(name, _)| name));
    let named = named.filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()));
    let headings =
        lines.windows(2).filter(|pair| pair[0].is_empty() && pair[1].starts_with(char::is_uppercase));
    let headings = headings.map(|pair| pair[1].split(" (").next().unwrap_or_default());
    named.chain(headings).chain(["the first"]).map(str::to_owned).collect()
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

/// Lines of pages above `WIDEST`; a row of a table cannot be broken, and is not meant.
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
