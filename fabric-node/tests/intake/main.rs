//! The intake room: the contract of every store, and what is particular to each.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod agent;
mod contract;
mod directory;
mod errands;
