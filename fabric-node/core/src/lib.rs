//! The pure half of the agent: pipeline and state machine.
