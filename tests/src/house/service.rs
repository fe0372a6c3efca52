//! The unit file of the agent is one that systemd reads, and starts what the page about
//! installing puts in place.
//!
//! `systemd-analyze verify` would tell more, but is not on every machine that runs the
//! tests; so the form (systemd.syntax(7)) and the few directives that the file has are
//! held here.

use super::sources::Sources;
use super::violation::{HouseError, Violation};

/// The file.
pub const UNIT: &str = "deploy/fabric-node.service";
/// The page that says where things go.
const PAGE: &str = "docs/install.md";
/// The code that knows where the node file is.
const CONFIG: &str = "fabric-node/src/config.rs";
/// What the file may say (systemd.unit(5), systemd.service(5), systemd.exec(5)).
const DIRECTIVES: [(&str, &[&str]); 3] = [
    ("Unit", &["Description", "Wants", "After", "StartLimitIntervalSec"]),
    (
        "Service",
        &[
            "ExecStart",
            "Restart",
            "RestartSec",
            "RestartPreventExitStatus",
            "NoNewPrivileges",
            "OOMScoreAdjust",
        ],
    ),
    ("Install", &["WantedBy"]),
];

/// Reads the unit and compares it with the page and the code.
///
/// # Errors
/// [`HouseError::Io`] where one of the three is missing.
pub fn check(sources: &Sources) -> Result<Vec<Violation>, HouseError> {
    let (unit, page, config) = (sources.text(UNIT)?, sources.text(PAGE)?, sources.text(CONFIG)?);
    let mut found = form(unit);
    let starts = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap_or_default();
    let words: Vec<&str> = starts.split(' ').collect();
    let told = |what: String| Violation::new(UNIT, 0, what);
    match words[..] {
        [program, "run", "--config", file] => {
            let folder = program.strip_suffix("fabric-node").unwrap_or(program);
            if !page.contains(&format!(" {folder}\n")) {
                found.push(told(format!("starts {program}, but {PAGE} puts no program into {folder}")));
            }
            if !config.contains(&format!("{file:?}")) {
                found.push(told(format!("names the node file {file}, which {CONFIG} does not know")));
            }
        }
        _ => found.push(told(format!("ExecStart is {starts:?}: PROGRAM run --config FILE is wanted"))),
    }
    if !page.contains(UNIT) {
        found.push(told(format!("{PAGE} does not name it")));
    }
    Ok(found)
}

/// Whether every line is a comment, a section, or a directive that its section may have.
pub fn form(unit: &str) -> Vec<Violation> {
    let mut allowed: &[&str] = &[];
    let mut found = Vec::new();
    for (at, line) in unit.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let known = DIRECTIVES.iter().find(|(section, _)| *section == name);
            allowed = known.map_or(&[], |(_, directives)| directives);
            if known.is_none() {
                found.push(Violation::new(UNIT, at + 1, format!("there is no section {name}")));
            }
        } else if !line
            .split_once('=')
            .is_some_and(|(key, value)| allowed.contains(&key) && !value.is_empty())
        {
            found.push(Violation::new(UNIT, at + 1, format!("{line:?} is nothing that its section may say")));
        }
    }
    found
}
