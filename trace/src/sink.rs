//! Standard output: answers go out as they come, and nobody is troubled when the reader has seen enough.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stdout, Write};

use crate::error::TraceError;

/// Standard output. Once its reader has gone (`| head`), what is written is dropped.
pub struct Sink {
    out: BufWriter<Stdout>,
    open: bool,
}

impl Sink {
    /// This process's standard output.
    pub fn stdout() -> Sink {
        Sink { out: BufWriter::with_capacity(1 << 16, io::stdout()), open: true }
    }

    /// Whether somebody still reads.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Writes a value as JSON over several lines.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn json(&mut self, value: &impl serde::Serialize) -> Result<(), TraceError> {
        let written = serde_json::to_writer_pretty(&mut *self, value).map_err(io::Error::from);
        written.and_then(|()| self.write_all(b"\n")).and_then(|()| self.flush()).map_err(TraceError::Write)
    }

    fn forgive<T>(&mut self, done: io::Result<T>, instead: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.open = false;
                Ok(instead)
            }
            done => done,
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.open {
            return Ok(bytes.len());
        }
        let written = self.out.write(bytes);
        self.forgive(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.open {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.forgive(flushed, ())
    }
}

/// How texts for people are coloured: on a terminal only, and not where NO_COLOR is set (no-color.org).
#[derive(Debug, Clone, Copy)]
pub struct Paint(bool);

impl Paint {
    /// As suits standard output.
    pub fn stdout() -> Paint {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Paint(io::stdout().is_terminal() && !plain)
    }

    /// What is allowed, or as expected.
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// What is denied, or not as expected.
    pub fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// What stands out.
    pub fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What is of less interest.
    pub fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
