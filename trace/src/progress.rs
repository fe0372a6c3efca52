//! How far a long answer is, on a terminal that shows nothing else.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter than this, nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two signs of life.
const PACE: Duration = Duration::from_millis(200);

/// Shows how many of a number of steps are done: on standard error where that is a terminal and standard output
/// is none, or the two would mix.
pub struct Progress {
    all: u64,
    done: u64,
    shown: Option<Instant>,
    begun: Instant,
    wanted: bool,
}

impl Progress {
    /// Begins.
    pub fn new(all: u64) -> Progress {
        let wanted = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Progress { all, done: 0, shown: None, begun: Instant::now(), wanted }
    }

    /// A step is done.
    pub fn step(&mut self) {
        self.done += 1;
        let due = match self.shown {
            None => self.begun.elapsed() >= PATIENCE,
            Some(last) => last.elapsed() >= PACE,
        };
        if self.wanted && due {
            self.shown = Some(Instant::now());
            // A terminal that does not take it misses nothing.
            let _ = write!(io::stderr(), "\r{} of {} rows ", self.done, self.all);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
