//! The request as the environment carries it (CNI 1.1.0, section 2, "Parameters").

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use crate::args::Args;
use crate::error::{Code, Error};

/// What the runtime asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// Attach the container.
    Add,
    /// Detach it.
    Del,
    /// Compare the attachment with what ADD made.
    Check,
    /// Remove every attachment that the runtime does not know.
    Gc,
    /// Whether an ADD could be served.
    Status,
    /// Which versions are spoken.
    Version,
}

impl Command {
    /// As `CNI_COMMAND` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Command::Add => "ADD",
            Command::Del => "DEL",
            Command::Check => "CHECK",
            Command::Gc => "GC",
            Command::Status => "STATUS",
            Command::Version => "VERSION",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Command {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        use Command::{Add, Check, Del, Gc, Status, Version};
        [Add, Del, Check, Gc, Status, Version]
            .into_iter()
            .find(|command| command.as_str() == text)
            .ok_or_else(|| {
                let details =
                    format!("CNI_COMMAND is {text:?}, not one of ADD, DEL, CHECK, GC, STATUS, VERSION");
                Error::new(Code::ENVIRONMENT, details)
            })
    }
}

/// Which container, and which of its interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
    /// `CNI_NETNS`; DEL may come without.
    pub netns: Option<String>,
    /// `CNI_ARGS`.
    pub args: Args,
}

/// Reads `CNI_COMMAND`. `lookup` gives the value of a variable.
pub fn command(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Command, Error> {
    text(&lookup, "CNI_COMMAND")?.ok_or_else(|| missing("CNI_COMMAND"))?.parse()
}

/// Reads and checks the variables that ADD, DEL and CHECK carry. DEL does without
/// `CNI_NETNS` and is not stopped by arguments that it does not use.
pub fn target(command: Command, lookup: impl Fn(&str) -> Option<OsString>) -> Result<Target, Error> {
    let container_id = text(&lookup, "CNI_CONTAINERID")?.ok_or_else(|| missing("CNI_CONTAINERID"))?;
    check_container_id(&container_id)?;
    let ifname = text(&lookup, "CNI_IFNAME")?.ok_or_else(|| missing("CNI_IFNAME"))?;
    check_ifname(&ifname)?;
    let netns = text(&lookup, "CNI_NETNS")?;
    if command == Command::Del {
        return Ok(Target { container_id, ifname, netns, args: Args::default() });
    }
    if netns.is_none() {
        return Err(missing("CNI_NETNS"));
    }
    let args = text(&lookup, "CNI_ARGS")?.map(|text| text.parse()).transpose()?.unwrap_or_default();
    Ok(Target { container_id, ifname, netns, args })
}

/// Whether the text begins with a letter or digit and goes on with letters, digits,
/// `_`, `.` and `-`: the form of container ids and network names.
pub fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Checks a value of `CNI_CONTAINERID` (CNI 1.1.0, section 3, "Attachment Parameters").
pub fn check_container_id(id: &str) -> Result<(), Error> {
    if is_identifier(id) {
        return Ok(());
    }
    let rule = "it must begin with a letter or digit and go on with letters, digits, '_', '.' or '-'";
    Err(invalid("CNI_CONTAINERID", id, rule))
}

/// Checks a value of `CNI_IFNAME`: the kernel's own limits, see `dev_valid_name`.
pub fn check_ifname(name: &str) -> Result<(), Error> {
    let cause = if name.is_empty() {
        "it must not be empty"
    } else if name.len() > 15 {
        "it must have at most 15 bytes"
    } else if name == "." || name == ".." {
        "it must not be . or .."
    } else if name.chars().any(|c| c == '/' || c == ':' || c.is_whitespace()) {
        "it must not contain '/', ':' or white space"
    } else {
        return Ok(());
    };
    Err(invalid("CNI_IFNAME", name, cause))
}

/// The variable's text; empty counts as absent.
fn text(lookup: &impl Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<String>, Error> {
    match lookup(name).filter(|value| !value.is_empty()).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(value)) => Err(invalid(name, &value.to_string_lossy(), "it is not UTF-8")),
    }
}

fn missing(name: &str) -> Error {
    Error::new(Code::ENVIRONMENT, format!("{name} is not set"))
}

fn invalid(name: &str, value: &str, cause: &str) -> Error {
    Error::new(Code::ENVIRONMENT, format!("{name} is {value:?}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    const GOOD: [(&str, &str); 3] =
        [("CNI_CONTAINERID", "abc-1.x_y"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "/run/netns/x")];

    #[test]
    fn a_complete_request_is_read() {
        let target = target(Command::Add, lookup(&GOOD)).unwrap();
        assert_eq!(target.container_id, "abc-1.x_y");
        assert_eq!(target.netns.as_deref(), Some("/run/netns/x"));
    }

    #[test]
    fn a_missing_variable_is_named() {
        for absent in 0..GOOD.len() {
            let mut pairs = GOOD.to_vec();
            let (name, _) = pairs.remove(absent);
            let error = target(Command::Check, lookup(&pairs)).unwrap_err();
            assert_eq!(error.code, Code::ENVIRONMENT);
            assert!(error.details.contains(name), "{error}");
        }
        assert!(target(Command::Del, lookup(&GOOD[..2])).is_ok(), "DEL goes without CNI_NETNS");
    }

    #[test]
    fn an_invalid_variable_is_named() {
        for (name, value) in [
            ("CNI_CONTAINERID", "-abc"),
            ("CNI_CONTAINERID", "a/b"),
            ("CNI_IFNAME", "sixteen-bytes-it"),
            ("CNI_IFNAME", ".."),
            ("CNI_IFNAME", "eth 0"),
            ("CNI_IFNAME", "a:b"),
            ("CNI_ARGS", "nonsense"),
        ] {
            let mut pairs: Vec<_> = GOOD.iter().copied().filter(|(key, _)| *key != name).collect();
            pairs.push((name, value));
            let error = target(Command::Add, lookup(&pairs)).unwrap_err();
            assert_eq!(error.code, Code::ENVIRONMENT);
            assert!(error.details.contains(name) && error.details.contains(value), "{error}");
        }
    }
}
