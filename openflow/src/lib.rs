//! OpenFlow 1.5 with the Nicira extensions, as Open vSwitch speaks it.
//!
//! Bytes become values and values become bytes: [`Match`], [`Action`], [`Flow`] and the messages
//! around them, each with `Display` and `FromStr` in `ovs-ofctl`'s spelling. OpenFlow 1.3 is
//! decoded as well, so every codec takes the protocol version ([`OF13`], [`OF15`]). What is not
//! known survives a round trip as raw bytes.

pub mod action;
#[cfg(feature = "client")]
pub mod client;
pub mod field;
pub mod flow;
pub mod matching;
pub mod message;
pub mod session;
pub mod table;
pub mod wire;

pub use action::{Action, Controller, Ct, CtZone, Nat, NatKind, port};
pub use field::{Field, Mac, Subfield, Value};
pub use flow::{Flow, FlowFlags, FlowKey, FlowMod, FlowModCommand, FlowStats};
pub use matching::Match;
pub use table::FlowTable;
pub use wire::{DecodeError, Reader, Writer};

/// The version byte of OpenFlow 1.3.
pub const OF13: u8 = 4;

/// The version byte of OpenFlow 1.5.
pub const OF15: u8 = 6;
