//! The lab, the demo, the rules of the house, and helpers of the tests that cross crates.

pub mod demo;
pub mod house;
pub mod lab;
pub mod trial;
