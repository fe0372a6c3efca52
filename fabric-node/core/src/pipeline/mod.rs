//! World and local ports to static flows; a punted packet to decisions and flows.
//!
//! A packet crosses the tables of [`vocabulary::Table`] in order. Tables that hold
//! learned flows end in a miss: the packet waits in the switch while the agent asks
//! [`learned`] for the flows that it needs, and then meets them in the same table.
//! Everything else is in [`statics`].

mod fields;
pub mod learned;
pub(crate) mod protocols;
pub mod site;
pub mod statics;
pub mod vocabulary;
