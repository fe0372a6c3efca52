//! The one table of actions.
