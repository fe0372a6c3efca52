//! The intake room: the contract of every store, and what is particular to each.

mod agent;
mod contract;
mod directory;
mod errands;
