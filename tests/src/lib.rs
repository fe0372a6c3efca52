//! The lab, the benchmarks, the demo, the rules of the house, the oracle of policies, and helpers of the tests
//! that cross crates.

pub mod bench;
pub mod demo;
pub mod frames;
pub mod house;
pub mod lab;
pub mod office;
pub mod oracle;
pub mod passage;
pub mod probe;
pub mod random;
pub mod traffic;
pub mod trial;
