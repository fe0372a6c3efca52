//! Links between pages lead somewhere: the file is there, and the page that is linked to
//! has the heading.

use std::collections::BTreeSet;

use super::sources::Sources;
use super::violation::Violation;

/// Looks at every link of a page that is not one to another site.
pub fn check(sources: &Sources) -> Vec<Violation> {
    let files: BTreeSet<&str> = sources.iter().map(|(path, _)| path).collect();
    let pages = sources.iter().filter(|(path, _)| path.ends_with(".md"));
    let links = pages.flat_map(|(page, text)| {
        let lines = text.lines().enumerate();
        lines.flat_map(move |(at, line)| targets(line).map(move |target| (page, at + 1, target)))
    });
    let here = links.filter(|(_, _, target)| !target.contains("://"));
    here.filter_map(|(page, at, target)| {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { page.to_owned() } else { beside(page, file) };
        let folder = format!("{file}/");
        let exists = files.contains(file.as_str()) || files.iter().any(|path| path.starts_with(&folder));
        let leads = heading.is_empty()
            || sources.text(&file).is_ok_and(|text| headings(text).any(|found| found == heading));
        let what = match (exists, leads) {
            (true, true) => return None,
            (false, _) => format!("links to {file}, which is not there"),
            (true, false) => format!("links to the heading #{heading}, which {file} does not have"),
        };
        Some(Violation::new(page, at, what))
    })
    .collect()
}

/// `](TARGET)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The path from the top of the repository of a file that a page names from where it is.
fn beside(page: &str, file: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Names of headings as sites for Markdown make them: small letters, hyphens for blanks, other marks left out.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let kept = line.trim_start_matches('#').trim().chars().filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            c if c.is_alphanumeric() || c == '_' => Some(c),
            _ => None,
        });
        kept.flat_map(char::to_lowercase).collect()
    })
}
