//! The unix socket that people and tools ask.
