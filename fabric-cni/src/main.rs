//! What the container runtime runs.
fn main() {}
