//! Random worlds, as manifests, and random packets that fit them.
//!
//! Everything follows from a seed. The alphabets are small, so that labels, names, addresses and ports
//! collide; every feature of the policies occurs, and what cannot be read occurs too. Packets keep to the
//! edges of what the world mentions: its addresses, the corners of its prefixes, the ports beside its ports.

mod base;
mod clusterwide;
mod dice;
mod namespaced;
mod packets;
mod pieces;
mod world;

pub use dice::Dice;
pub use packets::Landmarks;
pub use world::{World, another_object};
