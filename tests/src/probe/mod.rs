//! What the tests of isolation share: a lab whose manifests an independent oracle reads as
//! well, questions asked with real packets, and witnesses of what arrives.
//!
//! Every helper panics where the lab fails, as an assertion does: a test has no better
//! use for the error.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

pub mod ask;
pub mod attack;
pub mod bed;
pub mod history;
pub mod object;
pub mod packet;
pub mod place;
pub mod shower;
pub mod station;
pub mod stream;
pub mod talk;
pub mod village;
pub mod witness;

pub use ask::{Finding, Question, ask, serve};
pub use bed::Bed;
pub use packet::Packet;
pub use place::Place;
pub use shower::Shower;
pub use station::{Outcome, Station};
pub use talk::Talk;
pub use witness::{Sighting, Witness};
