//! The lab and helpers of the tests that cross crates.

pub mod lab;
