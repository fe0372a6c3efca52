//! Frames made by hand, sent and captured on a device of a network namespace.
//!
//! What is sent carries a [`Mark`], so that it is known wherever it turns up, also inside
//! another packet.

pub mod build;
pub mod forgery;
mod mark;
pub mod segment;
mod tap;

pub use mark::{Mark, marks};
pub use tap::Tap;
