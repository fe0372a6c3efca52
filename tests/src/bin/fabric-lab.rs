//! A cluster of switches on one machine.
fn main() {}
