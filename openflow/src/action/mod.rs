//! What a flow does: actions and instructions in one list, as `ovs-ofctl` writes them.
//!
//! Instructions (`goto_table`, `write_metadata`, `meter`, ...) are actions here too; the codec
//! wraps the others into `apply_actions`. One table says of each kind its names and numbers, and
//! how it is read. What it does not know is kept as [`Action::Raw`].

mod argument;
mod canonical;
mod code;
mod codec;
mod ct;
mod decode;
mod encode;
mod layout;
mod learn;
mod names;
mod parse;
mod parse_args;
mod parse_one;
mod parts;
mod registry;
mod text;

pub use argument::ActionError;
pub use canonical::{canonical_actions, same_actions};
pub use codec::{decode_actions, decode_instructions, encode_instructions};
pub use ct::{Ct, CtZone, Nat, NatKind};
pub use encode::encode_actions;
pub use learn::{Learn, LearnSource, LearnSpec, LearnTarget};
pub use parse::{parse_actions, parse_actions_for};
pub use parts::{Bundle, Controller, Multipath, Sample, SampleDirection};
pub use text::write_actions;

use crate::field::{Field, Subfield, Value};

/// How deep actions may stand in actions; switches allow less.
const MAX_DEPTH: u8 = 16;

/// Reserved port numbers (OpenFlow 1.5.1 §7.2.1).
pub mod port {
    /// The port that the packet came in by.
    pub const IN_PORT: u32 = 0xffff_fff8;
    /// Through the flow tables (packet-out only).
    pub const TABLE: u32 = 0xffff_fff9;
    /// As a switch without OpenFlow forwards.
    pub const NORMAL: u32 = 0xffff_fffa;
    /// All ports that flooding is not disabled on.
    pub const FLOOD: u32 = 0xffff_fffb;
    /// All ports but the one it came in by.
    pub const ALL: u32 = 0xffff_fffc;
    /// The controller.
    pub const CONTROLLER: u32 = 0xffff_fffd;
    /// The bridge's own port.
    pub const LOCAL: u32 = 0xffff_fffe;
    /// No port, or any port in requests.
    pub const ANY: u32 = 0xffff_ffff;
}

/// One action or instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Sends the packet out of `port`; `max_len` bytes of it if the port is the controller.
    Output {
        /// The port.
        port: u32,
        /// Bytes for the controller (65,535: all).
        max_len: u16,
    },
    /// Sends the packet, cut to `max_len` bytes: `output(port=2,max_len=100)`.
    OutputTrunc {
        /// The port.
        port: u32,
        /// Bytes that remain.
        max_len: u32,
    },
    /// Sends the packet out of the port whose number is in `src`.
    OutputReg {
        /// Where the port number is.
        src: Subfield,
        /// Bytes for the controller.
        max_len: u16,
    },
    /// Sends the packet to the controller, with options.
    Controller(Controller),
    /// Hands the packet to a group.
    Group(u32),
    /// Passes the packet through a meter: an instruction in OpenFlow 1.3, an action in 1.5.
    Meter(u32),
    /// Chooses the queue for later outputs.
    SetQueue(u32),
    /// Back to the queue that the packet came with.
    PopQueue,
    /// Adds a VLAN tag of this Ethertype (0x8100 or 0x88a8).
    PushVlan(u16),
    /// Removes the outermost VLAN tag: `strip_vlan`.
    PopVlan,
    /// Adds an MPLS label of this Ethertype.
    PushMpls(u16),
    /// Removes the outermost MPLS label; what remains is of this Ethertype.
    PopMpls(u16),
    /// MPLS TTL less one.
    DecMplsTtl,
    /// IP TTL less one; a packet without any left goes to the controller.
    DecTtl,
    /// As [`Action::DecTtl`], but a packet without TTL goes to these controllers.
    DecTtlIds(Vec<u16>),
    /// `mod_nw_ttl`: sets the IP TTL.
    SetNwTtl(u8),
    /// Sets a field, or those bits of it that `mask` has.
    SetField {
        /// The field.
        field: Field,
        /// The bits to set it to.
        value: Value,
        /// Which bits; `None` for all.
        mask: Option<Value>,
    },
    /// Sets a run of bits. OpenFlow 1.5 says it as a masked `set_field`.
    Load {
        /// The bits.
        dst: Subfield,
        /// Their value, right-aligned.
        value: u64,
    },
    /// Copies a run of bits to another of the same length.
    Move {
        /// From.
        src: Subfield,
        /// To.
        dst: Subfield,
    },
    /// Saves bits on the packet's stack.
    Push(Subfield),
    /// Takes bits from the packet's stack.
    Pop(Subfield),
    /// Looks the packet up again.
    Resubmit {
        /// The port that the look-up pretends; `None` for the packet's own.
        in_port: Option<u16>,
        /// The table; `None` for this one.
        table: Option<u8>,
        /// With source and destination as the connection's original direction has them.
        ct: bool,
    },
    /// Connection tracking.
    Ct(Ct),
    /// Forgets the connection-tracking state of the packet.
    CtClear,
    /// Adds a flow made of this packet's fields.
    Learn(Box<Learn>),
    /// Chooses among links by a hash of the packet.
    Multipath(Multipath),
    /// Chooses among ports by a hash of the packet and their liveness.
    Bundle(Bundle),
    /// Takes part in a conjunctive match.
    Conjunction {
        /// The `conj_id` that all clauses share.
        id: u32,
        /// Which clause this flow fulfils, from 1.
        clause: u8,
        /// How many there are.
        n_clauses: u8,
    },
    /// Shortens the flow's timeouts once a TCP FIN or RST was seen; seconds, 0 for unchanged.
    FinTimeout {
        /// Idle timeout afterwards.
        idle: u16,
        /// Hard timeout afterwards.
        hard: u16,
    },
    /// Samples packets for IPFIX.
    Sample(Sample),
    /// Sets the bit `dst` if the packet is larger than `bytes`.
    CheckPktLarger {
        /// One bit.
        dst: Subfield,
        /// Size in bytes, Ethernet header included.
        bytes: u16,
    },
    /// A remark that the switch keeps.
    Note(Vec<u8>),
    /// Ends the processing of this flow's actions and of all resubmits around it.
    Exit,
    /// Runs actions on a copy.
    Clone(Vec<Action>),
    /// Sets the metadata bits of `mask`.
    WriteMetadata {
        /// The bits.
        value: u64,
        /// Which bits.
        mask: u64,
    },
    /// Goes on in a later table.
    GotoTable(u8),
    /// Empties the action set.
    ClearActions,
    /// Puts actions into the action set, which runs at the end of the pipeline.
    WriteActions(Vec<Action>),
    /// An action or instruction that is not known here, as it came.
    Raw(RawAction),
}

/// Bytes of an action or instruction that is not known here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RawAction {
    /// Whether the bytes are an instruction instead of an action.
    pub instruction: bool,
    /// Type, length and all that follows.
    pub bytes: Vec<u8>,
}

impl Action {
    /// Sends the packet out of `port`.
    #[must_use]
    pub fn output(port: u32) -> Self {
        Action::Output { port, max_len: if port == port::CONTROLLER { u16::MAX } else { 0 } }
    }

    /// Sets the whole of `field`.
    #[must_use]
    pub fn set(field: Field, value: impl Into<Value>) -> Self {
        Action::SetField { field, value: value.into(), mask: None }
    }

    /// Sets the bits of `field` that `mask` has.
    #[must_use]
    pub fn set_masked(field: Field, value: impl Into<Value>, mask: impl Into<Value>) -> Self {
        Action::SetField { field, value: value.into(), mask: Some(mask.into()) }
    }

    /// Looks the packet up in `table`; 255 is the table at hand.
    #[must_use]
    pub fn resubmit(table: u8) -> Self {
        Action::Resubmit { in_port: None, table: Some(table).filter(|table| *table != 0xff), ct: false }
    }
}

#[cfg(test)]
mod tests;
