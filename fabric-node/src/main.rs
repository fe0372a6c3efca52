//! The Fabric agent.
fn main() {}
