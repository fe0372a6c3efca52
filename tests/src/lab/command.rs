//! Running other programs, with errors that show the command line.

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};

use super::error::LabError;

/// Programs of Debian that the lab and its agents call, with their packages.
const TOOLS: [(&str, &str); 8] = [
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("nft", "nftables"),
    ("ovsdb-tool", "openvswitch-common"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-common"),
];

/// Checks that every program that the lab needs is installed.
///
/// # Errors
/// [`LabError::MissingTool`] names the first one that is not, and its package.
pub fn require_tools() -> Result<(), LabError> {
    for (tool, package) in TOOLS {
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()));
        if !found {
            return Err(LabError::MissingTool { tool, package });
        }
    }
    Ok(())
}

/// A command from words: `command(["ip", "netns", "add", name])`.
pub fn command<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut words = words.into_iter();
    let mut command = words.next().map_or_else(|| Command::new("true"), Command::new);
    command.args(words);
    command
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// [`LabError::Command`] with its standard error where it could not start or failed.
pub fn run(command: &mut Command) -> Result<String, LabError> {
    checked(command, &[])
}

/// As [`run`], with text for its standard input.
///
/// # Errors
/// As [`run`].
pub fn run_with_input(command: &mut Command, input: &str) -> Result<String, LabError> {
    checked(command, input.as_bytes())
}

fn checked(command: &mut Command, input: &[u8]) -> Result<String, LabError> {
    let output = output(command, input)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failure(command, &output))
}

/// The error of a command that ended badly.
pub fn failure(command: &Command, output: &Output) -> LabError {
    let said = String::from_utf8_lossy(&output.stderr);
    LabError::Command { command: line(command), reason: format!("{}: {}", output.status, said.trim()) }
}

/// Runs a command to its end, whatever that is.
///
/// # Errors
/// [`LabError::Command`] where it could not start or be waited for.
pub fn output(command: &mut Command, input: &[u8]) -> Result<Output, LabError> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading its input says why by its exit status.
        let _ = stdin.write_all(input);
    }
    child.wait_with_output().map_err(|e| broken(command, &e))
}

/// Starts a command.
///
/// # Errors
/// [`LabError::Command`] where that is not possible.
pub fn spawn(command: &mut Command) -> Result<Child, LabError> {
    command.spawn().map_err(|e| broken(command, &e))
}

fn broken(command: &Command, error: &std::io::Error) -> LabError {
    LabError::Command { command: line(command), reason: error.to_string() }
}

/// The command line, for people.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_command_and_its_words() {
        let error = run(&mut command(["sh", "-c", "echo broken >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh -c echo broken >&2; exit 3: exit status: 3: broken");
    }

    #[test]
    fn input_arrives_and_output_returns() {
        assert_eq!(run_with_input(&mut command(["cat"]), "word").unwrap(), "word");
    }
}
