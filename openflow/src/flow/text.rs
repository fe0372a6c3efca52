//! Flows in `ovs-ofctl`'s spelling.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{DEFAULT_PRIORITY, Flow, FlowFlags, FlowKey, FlowMod, FlowModCommand, FlowStats, KeyValues};
use crate::action::{ActionError, parse_actions_for, port, write_actions};
use crate::field::{parse_number, port_text};
use crate::matching::{Match, MatchError, MatchParser};

/// Text that is not a flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// An action.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// The match.
    #[error(transparent)]
    Match(#[from] MatchError),
    /// No `actions=`.
    #[error("the flow lacks `actions=`: say `actions=drop` for none")]
    NoActions,
    /// A number that does not fit.
    #[error("`{value}` is not a number for {key}")]
    BadNumber {
        /// What it should be a number for.
        key: String,
        /// The text given.
        value: String,
    },
}

/// Flags and the words for them.
const FLAGS: [(FlowFlags, &str); 5] = [
    (FlowFlags::SEND_FLOW_REM, "send_flow_rem"),
    (FlowFlags::CHECK_OVERLAP, "check_overlap"),
    (FlowFlags::RESET_COUNTS, "reset_counts"),
    (FlowFlags::NO_PKT_COUNTS, "no_packet_counts"),
    (FlowFlags::NO_BYT_COUNTS, "no_byte_counts"),
];

impl fmt::Display for FlowFlags {
    /// The words for the flags, each with a blank after it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = FLAGS.iter().filter(|(flag, _)| self.contains(*flag));
        set.into_iter().try_for_each(|(_, word)| write!(f, "{word} "))
    }
}

/// Writes priority (unless it is the default) and match, as one list.
fn write_rule(f: &mut dyn fmt::Write, priority: u16, matches: &Match) -> fmt::Result {
    match (priority == DEFAULT_PRIORITY, matches.is_empty()) {
        (true, _) => write!(f, "{matches}"),
        (false, true) => write!(f, "priority={priority}"),
        (false, false) => write!(f, "priority={priority},{matches}"),
    }
}

/// Writes timeouts, flags, rule and actions, as dumps end.
fn write_tail(f: &mut fmt::Formatter<'_>, flow: &Flow, extra: &str) -> fmt::Result {
    if flow.idle_timeout != 0 {
        write!(f, "idle_timeout={}, ", flow.idle_timeout)?;
    }
    if flow.hard_timeout != 0 {
        write!(f, "hard_timeout={}, ", flow.hard_timeout)?;
    }
    write!(f, "{}{extra}", flow.flags)?;
    write_rule(f, flow.priority, &flow.matches)?;
    if flow.priority != DEFAULT_PRIORITY || !flow.matches.is_empty() {
        f.write_str(" ")?;
    }
    f.write_str("actions=")?;
    write_actions(f, &flow.actions)
}

impl fmt::Display for Flow {
    /// As `ovs-ofctl --no-stats dump-flows`: `cookie=0x1, table=3, priority=77,ip actions=drop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cookie != 0 {
            write!(f, "cookie={:#x}, ", self.cookie)?;
        }
        if self.table != 0 {
            write!(f, "table={}, ", self.table)?;
        }
        write_tail(f, self, "")
    }
}

impl fmt::Display for FlowKey {
    /// As the flow, without what is not part of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table={}", self.table)?;
        let rule = self.priority != DEFAULT_PRIORITY || !self.matches.is_empty();
        f.write_str(if rule { ", " } else { "" })?;
        write_rule(f, self.priority, &self.matches)
    }
}

/// Seconds with three decimals, or as many as are needed beyond, or none, as OVS prints durations.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        match nanos {
            0 => write!(f, "{seconds}s"),
            n if n % 1_000_000 == 0 => write!(f, "{seconds}.{:03}s", n / 1_000_000),
            n => write!(f, "{seconds}.{}s", format!("{n:09}").trim_end_matches('0')),
        }
    }
}

impl fmt::Display for FlowStats {
    /// As `ovs-ofctl dump-flows` writes it, without the leading blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cookie={:#x}, duration={}, ", self.flow.cookie, Seconds(self.duration))?;
        write!(f, "table={}, n_packets={}, n_bytes={}, ", self.flow.table, self.packets, self.bytes)?;
        let mut extra = String::new();
        if self.importance != 0 {
            extra += &format!("importance={}, ", self.importance);
        }
        if let Some(age) = self.idle_age {
            extra += &format!("idle_age={age}, ");
        }
        if let Some(age) = self.hard_age.filter(|age| u64::from(*age) != self.duration.as_secs()) {
            extra += &format!("hard_age={age}, ");
        }
        write_tail(f, &self.flow, &extra)
    }
}

impl fmt::Display for FlowMod {
    /// As `ovs-ofctl ofp-print` writes it after the name of the message:
    /// `ADD table:3 priority=77,ip cookie:0x1 actions=drop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = &self.flow;
        f.write_str(match self.command {
            FlowModCommand::Add => "ADD ",
            FlowModCommand::Modify => "MOD ",
            FlowModCommand::ModifyStrict => "MOD_STRICT ",
            FlowModCommand::Delete => "DEL ",
            FlowModCommand::DeleteStrict => "DEL_STRICT ",
        })?;
        if flow.table != 0 {
            write!(f, "table:{} ", flow.table)?;
        }
        write_rule(f, flow.priority, &flow.matches)?;
        if flow.priority != DEFAULT_PRIORITY || !flow.matches.is_empty() {
            f.write_str(" ")?;
        }
        match (self.command, self.cookie_mask) {
            (FlowModCommand::Add, _) if matches!(flow.cookie, 0 | u64::MAX) => {}
            (FlowModCommand::Add, _) => write!(f, "cookie:{:#x} ", flow.cookie)?,
            (_, 0) => {}
            (_, mask) => write!(f, "cookie:{:#x}/{mask:#x} ", flow.cookie)?,
        }
        let number = |f: &mut fmt::Formatter<'_>, name: &str, value: u16| match value {
            0 => Ok(()),
            value => write!(f, "{name}:{value} "),
        };
        number(f, "idle", flow.idle_timeout)?;
        number(f, "hard", flow.hard_timeout)?;
        number(f, "importance", self.importance)?;
        if self.buffer_id != FlowMod::NO_BUFFER {
            write!(f, "buf:{:#x} ", self.buffer_id)?;
        }
        if self.out_port != port::ANY {
            write!(f, "out_port:{} ", port_text(self.out_port))?;
        }
        write!(f, "{}actions=", flow.flags)?;
        write_actions(f, &flow.actions)
    }
}

impl FromStr for Flow {
    type Err = FlowError;

    /// What `ovs-ofctl add-flow` takes, and what `dump-flows` prints (its counters are ignored).
    /// Tables are numbers.
    fn from_str(s: &str) -> Result<Self, FlowError> {
        let (head, actions) = split_actions(s).ok_or(FlowError::NoActions)?;
        let mut flow = Flow::default();
        let mut matches = MatchParser::default();
        for (key, value) in KeyValues::new(head) {
            match key {
                "table" => flow.table = number(key, value)?,
                "priority" => flow.priority = number(key, value)?,
                "cookie" => flow.cookie = number(key, value)?,
                "idle_timeout" => flow.idle_timeout = number(key, value)?,
                "hard_timeout" => flow.hard_timeout = number(key, value)?,
                "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" | "importance" => {}
                _ => match FLAGS.iter().find(|(_, word)| *word == key) {
                    Some((flag, _)) => flow.flags = flow.flags | *flag,
                    None => matches.add(key, value)?,
                },
            }
        }
        flow.matches = matches.finish()?;
        flow.actions = parse_actions_for(actions, &flow.matches)?;
        Ok(flow)
    }
}

/// Splits at `actions=` or `action=`, where it starts a word.
fn split_actions(s: &str) -> Option<(&str, &str)> {
    let starts_word = |at: usize| s.get(..at).is_some_and(|h| h.is_empty() || h.ends_with([',', ' ', '\t']));
    let (at, word) = ["actions=", "action="]
        .iter()
        .filter_map(|word| s.match_indices(word).find(|(at, _)| starts_word(*at)))
        .min_by_key(|(at, _)| *at)?;
    Some((s.get(..at)?, s.get(at + word.len()..)?))
}

fn number<T: TryFrom<u128>>(key: &str, value: &str) -> Result<T, FlowError> {
    let parsed = parse_number(value).and_then(|n| T::try_from(n).ok());
    parsed.ok_or_else(|| FlowError::BadNumber { key: key.to_owned(), value: value.to_owned() })
}
