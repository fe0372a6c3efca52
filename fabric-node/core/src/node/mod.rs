//! The agent as a state machine: events in, commands out, time passed in.

mod io;

pub use io::*;
