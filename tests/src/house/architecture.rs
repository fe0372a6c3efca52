//! What ARCHITECTURE.md promises, in a form that the rules can hold the code against.
//!
//! Two things are read: the table whose header begins with `| room |`, and the list of
//! limits, lines of the form `* limit NAME: ...`, whose names and values stand in
//! backticks.

use std::collections::BTreeMap;

use super::violation::HouseError;

/// A row of the table of rooms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    /// What it may use: crates (`policy`) and modules (`fabric-core::node`).
    pub uses: Vec<String>,
    /// Whether its IO column says `none`.
    pub pure: bool,
}

/// The promises.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Architecture {
    /// Rooms by their crate or `crate::module`.
    pub rooms: BTreeMap<String, Room>,
    /// Values of the limits by their names.
    pub limits: BTreeMap<String, Vec<String>>,
}

impl Architecture {
    /// Reads the text of ARCHITECTURE.md.
    ///
    /// # Errors
    /// [`HouseError::Architecture`] where the table is missing or a row has no room.
    pub fn parse(text: &str) -> Result<Self, HouseError> {
        let mut rows = text.lines().skip_while(|line| !line.starts_with("| room |"));
        let missing = || HouseError::Architecture("no table that begins with `| room |`".to_owned());
        let header = cells(rows.next().ok_or_else(missing)?);
        let column = |name: &str| {
            let at = header.iter().position(|cell| cell == name);
            at.ok_or_else(|| HouseError::Architecture(format!("the table of rooms has no column {name:?}")))
        };
        let (uses, io) = (column("may use")?, column("IO")?);
        let mut rooms = BTreeMap::new();
        for line in rows.skip(1).take_while(|line| line.starts_with('|')) {
            let row = cells(line);
            let cell = |at: usize| row.get(at).map_or("", String::as_str);
            let [name] = &quoted(cell(0))[..] else {
                return Err(HouseError::Architecture(format!("this row names no room in backticks: {line}")));
            };
            let room = Room { uses: quoted(cell(uses)), pure: cell(io) == "none" };
            rooms.insert(name.clone(), room);
        }
        let limits = text.lines().filter_map(|line| line.strip_prefix("* limit ")?.split_once(':'));
        let limits = limits.map(|(name, values)| (name.to_owned(), quoted(values))).collect();
        Ok(Self { rooms, limits })
    }

    /// The room of a module (`fabric-core::node::io` → `fabric-core::node`): the longest
    /// name in the table that begins its path.
    pub fn room_of(&self, module: &str) -> Option<(&str, &Room)> {
        let begins = |name: &str| {
            module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let found = self.rooms.iter().filter(|(name, _)| begins(name)).max_by_key(|(name, _)| name.len());
        found.map(|(name, room)| (name.as_str(), room))
    }

    /// The values of a limit.
    pub fn limit(&self, name: &str) -> &[String] {
        self.limits.get(name).map_or(&[], Vec::as_slice)
    }

    /// A limit that is one number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.limit(name).first()?.parse().ok()
    }
}

fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// What stands in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
