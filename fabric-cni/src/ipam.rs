//! Addresses from another plugin: the delegated IPAM plugin (CNI 1.1.0, section 4).
//!
//! The plugin that `ipam.type` names is looked for in the folders of `CNI_PATH` and run with the environment and
//! the configuration of the request, as they came. What it gives is claimed and configured by the agent.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fabric_cni::env::Command;
use fabric_cni::result::Success;
use fabric_cni::{Code, Error};

/// How long the plugin may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest answer that is read, bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// Between two looks whether a plugin that has closed its output has ended.
const LOOK: Duration = Duration::from_millis(1);

/// The plugin that gives the addresses.
#[derive(Debug)]
pub struct Delegate {
    kind: String,
    program: PathBuf,
    configuration: Vec<u8>,
}

impl Delegate {
    /// Finds the plugin. `configuration` is what came on standard input.
    pub fn find(
        kind: &str,
        lookup: &dyn Fn(&str) -> Option<OsString>,
        configuration: &[u8],
    ) -> Result<Delegate, Error> {
        if kind.contains('/') || kind.starts_with('.') {
            let details = format!("ipam.type is {kind:?}: the name of a program in CNI_PATH is wanted");
            return Err(Error::new(Code::CONFIG, details));
        }
        let path = lookup("CNI_PATH").filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            let details = format!("CNI_PATH is not set, where the plugin {kind} of ipam.type is to be found");
            Error::new(Code::ENVIRONMENT, details)
        })?;
        let program =
            std::env::split_paths(&path).map(|folder| folder.join(kind)).find(|file| file.is_file());
        let program = program.ok_or_else(|| {
            let place = path.to_string_lossy();
            let details =
                format!("ipam.type: there is no plugin {kind} in {place}: install it, or remove `ipam`");
            Error::new(Code::CONFIG, details)
        })?;
        Ok(Delegate { kind: kind.to_owned(), program, configuration: configuration.to_vec() })
    }

    /// Its name.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether it asks for addresses on the container's interface, and gives them back there: the daemon of `dhcp` does.
    pub fn needs_interface(&self) -> bool {
        self.kind == "dhcp"
    }

    /// Asks for addresses. A failed try may have taken some all the same.
    pub fn add(&self) -> Result<Success, Error> {
        self.run(Command::Add).and_then(|answer| self.read(&answer))
    }

    /// Gives the addresses of this request back after something else failed.
    pub fn undo(&self) {
        if let Err(error) = self.run(Command::Del) {
            eprintln!("fabric-cni: after a failed ADD: {error}");
        }
    }

    fn read(&self, answer: &[u8]) -> Result<Success, Error> {
        let success: Success = serde_json::from_slice(answer)
            .map_err(|cause| self.fault(Code::DECODE, &format!("its result cannot be read: {cause}")))?;
        match success.ips.is_empty() {
            false => Ok(success),
            true => Err(self.fault(Code::NO_ADDRESS, "its result has no address")),
        }
    }

    /// Runs the plugin; its output, or the error that it printed.
    pub fn run(&self, command: Command) -> Result<Vec<u8>, Error> {
        let failed = |cause: std::io::Error| self.fault(Code::IO, &cause.to_string());
        let mut child = Process::new(&self.program)
            .env("CNI_COMMAND", command.as_str())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let output = self.converse(&mut child);
        let status = match output {
            Ok(_) => ended(&mut child),
            Err(_) => None,
        };
        if status.is_none() {
            // One that has ended meanwhile cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
        let output = output?;
        match status {
            Some(status) if status.success() => Ok(output),
            Some(status) => Err(self.said(&output, status)),
            None => Err(self.too_slow()),
        }
    }

    /// Gives it the configuration and takes its output. The threads end with the plugin.
    fn converse(&self, child: &mut Child) -> Result<Vec<u8>, Error> {
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let configuration = self.configuration.clone();
        let write = move || {
            // One that does not want its input ends early.
            stdin.map(|mut stdin| stdin.write_all(&configuration).is_ok())
        };
        let (give, take) = mpsc::channel();
        let read = move || {
            let mut output = Vec::new();
            let outcome = stdout.map(|stdout| stdout.take(MAX_ANSWER).read_to_end(&mut output));
            // Nobody waits any more where it took too long.
            let _ = give.send(outcome.unwrap_or(Ok(0)).map(|_| output));
        };
        let failed = |cause: std::io::Error| self.fault(Code::IO, &cause.to_string());
        thread::Builder::new().spawn(write).map_err(failed)?;
        thread::Builder::new().spawn(read).map_err(failed)?;
        take.recv_timeout(LIMIT).map_err(|_| self.too_slow())?.map_err(failed)
    }

    fn too_slow(&self) -> Error {
        self.fault(Code::TRY_AGAIN, &format!("it did not end within {} s", LIMIT.as_secs()))
    }

    /// Its own error, or what can be told of its end.
    fn said(&self, output: &[u8], status: ExitStatus) -> Error {
        match serde_json::from_slice::<Error>(output) {
            Ok(error) => {
                let separator = if error.details.is_empty() { "" } else { ": " };
                let details = format!("ipam plugin {}: {}{separator}{}", self.kind, error.msg, error.details);
                Error { details, ..error }
            }
            Err(_) => {
                let text = String::from_utf8_lossy(output);
                self.fault(Code::FAILED, &format!("{status}, and it printed {:?}", text.trim()))
            }
        }
    }

    fn fault(&self, code: Code, cause: &str) -> Error {
        Error::new(code, format!("ipam plugin {} ({}): {cause}", self.kind, self.program.display()))
    }
}

/// How a plugin ended that has closed its output.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK),
            Ok(None) | Err(_) => return None,
        }
    }
}
