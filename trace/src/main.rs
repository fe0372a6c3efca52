//! `fabric-trace`.
fn main() {}
