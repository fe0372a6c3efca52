//! The control socket of `ovs-vswitchd`: JSON-RPC 1.0, one object behind the other without separators.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

#[cfg(test)]
mod tests;

/// The largest answer that is taken, bytes: some two million connections.
const MOST: u64 = 512 << 20;
/// Requests that are sent before their answers are read: as many as the daemon takes from one client before it turns
/// to everything else that it has to do.
const PIPELINE: usize = 10;
/// Clients that the room is at once where much is asked for: it takes that much of each.
const CLIENTS: usize = 8;

/// Why a command of the daemon was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Its pid cannot be read.
    #[error("{}: {source}; the connections of pods cannot be read: set ovs.runDir to the folder where ovs-vswitchd has its pid file", path.display())]
    Pid {
        /// The pid file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The socket does not take a connection, or the conversation broke.
    #[error("{}: {source}; the connections of pods cannot be read: is ovs-vswitchd running, and may the agent open its control socket?", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The daemon took the command and said nothing.
    #[error("{}: ovs-vswitchd did not answer {command} within {} s: look at what it does (ovs-appctl coverage/show, its log)", path.display(), patience.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// The command.
        command: String,
        /// How long it was given.
        patience: Duration,
    },
    /// The daemon said no.
    #[error("ovs-vswitchd refuses {command}: {message}")]
    Refused {
        /// The command.
        command: String,
        /// What it said.
        message: String,
    },
}

/// A daemon, with connections to it once something was asked.
pub struct Control {
    run_dir: PathBuf,
    patience: Duration,
    clients: Vec<Client>,
}

/// One connection to the daemon.
struct Client {
    path: PathBuf,
    stream: BufReader<io::Take<UnixStream>>,
    patience: Duration,
}

#[derive(Deserialize)]
struct Reply {
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

impl Control {
    /// The daemon that has its files in a folder.
    pub fn new(run_dir: &Path, patience: Duration) -> Self {
        Self { run_dir: run_dir.to_owned(), patience, clients: Vec::new() }
    }

    /// Has one command carried out; what it prints.
    pub fn call(&mut self, command: &str, parameters: &[String]) -> Result<String, ControlError> {
        let mut answers = self.calls(command, vec![parameters.to_vec()])?;
        answers.pop().unwrap_or_else(|| Ok(String::new()))
    }

    /// Has one command carried out with each of these lists of parameters, in any order; the answers are in theirs.
    pub fn calls(
        &mut self,
        command: &str,
        parameters: Vec<Vec<String>>,
    ) -> Result<Vec<Result<String, ControlError>>, ControlError> {
        let mut answers = Vec::with_capacity(parameters.len());
        for turn in parameters.chunks(PIPELINE * CLIENTS) {
            let result = self.turn(command, turn, &mut answers);
            if result.is_err() {
                self.clients.clear();
            }
            result?;
        }
        Ok(answers)
    }

    fn turn(
        &mut self,
        command: &str,
        turn: &[Vec<String>],
        answers: &mut Vec<Result<String, ControlError>>,
    ) -> Result<(), ControlError> {
        let batches = turn.chunks(PIPELINE);
        while self.clients.len() < batches.len() {
            self.clients.push(Client::open(&self.run_dir, self.patience)?);
        }
        for (client, batch) in self.clients.iter_mut().zip(batches.clone()) {
            client.ask(command, batch)?;
        }
        for (client, batch) in self.clients.iter_mut().zip(batches) {
            client.answers(command, batch.len(), answers)?;
        }
        Ok(())
    }
}

impl Client {
    fn open(run_dir: &Path, patience: Duration) -> Result<Self, ControlError> {
        let pid_file = run_dir.join("ovs-vswitchd.pid");
        let pid = std::fs::read_to_string(&pid_file)
            .and_then(|text| {
                let pid: u32 = text.trim().parse().map_err(io::Error::other)?;
                Ok(pid)
            })
            .map_err(|source| ControlError::Pid { path: pid_file, source })?;
        let path = run_dir.join(format!("ovs-vswitchd.{pid}.ctl"));
        let stream = UnixStream::connect(&path).and_then(|stream| {
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Ok(stream)
        });
        match stream {
            Ok(stream) => Ok(Self { path, stream: BufReader::new(stream.take(MOST)), patience }),
            Err(source) => Err(ControlError::Socket { path, source }),
        }
    }

    fn ask(&mut self, command: &str, batch: &[Vec<String>]) -> Result<(), ControlError> {
        let requests: String = batch
            .iter()
            .enumerate()
            .map(|(id, parameters)| json!({"id": id, "method": command, "params": parameters}).to_string())
            .collect();
        let written = self.stream.get_mut().get_mut().write_all(requests.as_bytes());
        written.map_err(|source| self.failed(command, source))
    }

    fn answers(
        &mut self,
        command: &str,
        count: usize,
        answers: &mut Vec<Result<String, ControlError>>,
    ) -> Result<(), ControlError> {
        self.stream.get_mut().set_limit(MOST);
        for _ in 0..count {
            let mut deserializer = serde_json::Deserializer::from_reader(&mut self.stream);
            let reply = Reply::deserialize(&mut deserializer);
            let reply = reply.map_err(|error| self.failed(command, error.into()))?;
            answers.push(match reply.error {
                Some(message) => Err(ControlError::Refused {
                    command: command.to_owned(),
                    message: message.trim_end().to_owned(),
                }),
                None => Ok(reply.result.unwrap_or_default()),
            });
        }
        Ok(())
    }

    fn failed(&self, command: &str, source: io::Error) -> ControlError {
        let path = self.path.clone();
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ControlError::Silent { path, command: command.to_owned(), patience: self.patience }
            }
            _ => ControlError::Socket { path, source },
        }
    }
}
