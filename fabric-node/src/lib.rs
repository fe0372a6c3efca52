//! The Fabric agent: one per node.
//!
//! The rooms below do the input and output; what is to be done, and when, is decided
//! by [`fabric_core::node`]. They know only its events and commands, never each other;
//! the binary ties them together.

pub mod attach;
pub mod config;
pub mod connections;
pub mod host;
pub mod intake;
pub mod netlink;
pub mod news;
pub mod nft;
pub mod ports;
pub mod problems;
pub mod serve;
pub mod uplinks;
