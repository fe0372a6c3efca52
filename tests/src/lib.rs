//! The lab, the rules of the house, and helpers of the tests that cross crates.

pub mod house;
pub mod lab;
