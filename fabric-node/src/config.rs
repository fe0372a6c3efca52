//! The node file.
