//! The pure half of the agent.
//!
//! [`pipeline`] turns the world and the local ports into flows; [`node`] is the
//! agent as a state machine that is told what happened and asked what to do.
//! Neither knows a clock, a socket or a file: time is an argument, everything else
//! comes in as an [`node::Event`] and leaves as a [`node::Command`].

pub mod node;
pub mod pipeline;
