//! The types of the agent's unix-socket interface.
