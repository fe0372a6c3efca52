//! Asking the agent, with a deadline for everything.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::protocol::{Answer, MAX_LINE, Request, decode_answer, encode_request};

/// How long a connection may take to be accepted.
pub const CONNECT: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Nobody listens on the socket, or nobody accepts in time.
    Away {
        /// The socket.
        socket: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// No answer within this time: whether the request was carried out is unknown.
    Silent(Duration),
    /// The connection ended before the answer: whether the request was carried out is unknown.
    Broken(std::io::Error),
    /// What came is no answer.
    Garbled(Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Away { socket, cause } => {
                write!(f, "the Fabric agent is not there: {}: {cause}", socket.display())
            }
            Failure::Silent(time) => {
                write!(f, "the Fabric agent gave no answer within {} s", time.as_secs_f32())
            }
            Failure::Broken(cause) => {
                write!(f, "the Fabric agent ended the connection before its answer: {cause}")
            }
            Failure::Garbled(error) => {
                write!(f, "the Fabric agent's answer makes no sense: {}", error.details)
            }
        }
    }
}

/// Sends the request to the agent at `socket` and waits for its answer, no longer than `limit` in all.
pub fn ask(socket: &Path, request: Request, limit: Duration) -> Result<Answer, Failure> {
    let deadline = Instant::now() + limit;
    let line = encode_request(request).map_err(Failure::Garbled)?;
    let mut stream = connect(socket, limit.min(CONNECT))?;
    let failed = |cause: std::io::Error| match cause.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Silent(limit),
        _ => Failure::Broken(cause),
    };
    stream.set_write_timeout(Some(left(deadline))).map_err(Failure::Broken)?;
    stream.write_all(&line).map_err(failed)?;
    let answer = read_line(&mut stream, deadline).map_err(failed)?;
    decode_answer(&answer).map_err(Failure::Garbled)
}

/// A unix socket whose listener does not accept blocks `connect` for ever: hence the thread.
fn connect(socket: &Path, limit: Duration) -> Result<UnixStream, Failure> {
    let away = |cause| Failure::Away { socket: socket.to_owned(), cause };
    let (give, take) = mpsc::channel();
    let path = socket.to_owned();
    thread::Builder::new().spawn(move || give.send(UnixStream::connect(path))).map_err(away)?;
    match take.recv_timeout(limit) {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(cause)) => Err(away(cause)),
        Err(_) => {
            let text = format!("connection not accepted within {} s", limit.as_secs_f32());
            Err(away(std::io::Error::new(ErrorKind::TimedOut, text)))
        }
    }
}

/// Everything up to the newline, without it.
fn read_line(stream: &mut UnixStream, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut chunk = [0_u8; 4096];
    loop {
        stream.set_read_timeout(Some(left(deadline)))?;
        let count = match stream.read(&mut chunk) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        let fresh = chunk.get(..count).unwrap_or_default();
        match fresh.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                line.extend_from_slice(fresh.get(..end).unwrap_or_default());
                return Ok(line);
            }
            None => line.extend_from_slice(fresh),
        }
        if line.len() > MAX_LINE {
            return Err(std::io::Error::new(ErrorKind::InvalidData, format!("more than {MAX_LINE} bytes")));
        }
    }
}

/// Time until the deadline, and at least what a socket takes for a time: zero would mean no limit.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
