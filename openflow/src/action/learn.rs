//! `learn(...)`: a flow made of the fields of the packet at hand.

use crate::field::{Subfield, Value};

/// Arguments of `learn(...)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Learn {
    /// Seconds without a packet until the flow goes, 0 for never.
    pub idle_timeout: u16,
    /// Seconds until the flow goes, 0 for never.
    pub hard_timeout: u16,
    /// Priority of the flow.
    pub priority: u16,
    /// Cookie of the flow.
    pub cookie: u64,
    /// `send_flow_rem` of the flow.
    pub send_flow_rem: bool,
    /// The learned flows go with this one.
    pub delete_learned: bool,
    /// Table of the flow.
    pub table: u8,
    /// Idle timeout after FIN, 0 for unchanged.
    pub fin_idle_timeout: u16,
    /// Hard timeout after FIN, 0 for unchanged.
    pub fin_hard_timeout: u16,
    /// At most so many flows, 0 for any number.
    pub limit: u32,
    /// Bit that tells whether the flow could be learned.
    pub result_dst: Option<Subfield>,
    /// What the flow matches and does.
    pub specs: Vec<LearnSpec>,
}

/// One match or action of a learned flow, of `bits` bits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LearnSpec {
    /// How many bits.
    pub bits: u16,
    /// Where they come from.
    pub source: LearnSource,
    /// What becomes of them.
    pub target: LearnTarget,
}

/// Where the bits of a learned flow come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnSource {
    /// Given here.
    Immediate(Value),
    /// From a field of the packet.
    Field(Subfield),
}

/// What the bits of a learned flow become.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LearnTarget {
    /// The flow matches them in these bits.
    Match(Subfield),
    /// The flow loads them into these bits.
    Load(Subfield),
    /// The flow sends packets to the port of this number.
    Output,
}
