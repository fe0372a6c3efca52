//! The attach room on real namespaces. Needs root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[path = "attach/room.rs"]
mod room;
#[path = "attach/server.rs"]
mod server;
#[path = "attach/space.rs"]
mod space;
#[path = "attach/wire.rs"]
mod wire;
