//! Words that no file of the repository holds: paths of somebody's machine, and notes
//! of work that is not done.

use super::sources::Sources;
use super::violation::Violation;

/// The words, written so that this file does not hold them.
const FORBIDDEN: [&str; 7] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("language ", "model"),
];

/// Looks for the words in every text file, Cargo.lock and recorded data apart.
pub fn check(sources: &Sources) -> Vec<Violation> {
    let files = sources.iter().filter(|(path, _)| *path != "Cargo.lock" && !path.ends_with(".jsonl"));
    let lines =
        files.flat_map(|(path, text)| text.lines().enumerate().map(move |(at, line)| (path, at + 1, line)));
    lines
        .flat_map(|(path, at, line)| {
            let words = FORBIDDEN.iter().filter(move |word| line.contains(**word));
            words
                .map(move |word| Violation::new(path, at, format!("{word:?} has no place in the repository")))
        })
        .collect()
}
