//! What tests of pods in VLANs share: a lab with an office, who is where in it, conversations in all protocols, and what
//! passes on the trunks between the nodes and the office's switch.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

pub mod bed;
pub mod cell;
pub mod dhcp;
pub mod discovery;
pub mod trunk;

pub use bed::{Net, OfficeBed, Place};
pub use cell::{Cell, measure, table};
pub use trunk::{Frame, Trunks};
