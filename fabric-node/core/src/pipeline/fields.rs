//! Short hands for matches and actions that many flows share.

use std::net::IpAddr;

use ipnet::IpNet;
use openflow::{Action, Ct, CtZone, Field, Match, Subfield};
use policy::Family;

use super::protocols::{ETH_IPV4, ETH_IPV6, ETH_VLAN, ICMPV6, SCTP, TCP, UDP};
use super::vocabulary::{
    MARK_BITS, MARKS, Origin, REG_DECISION, REG_FLAGS, REG_MARK, REG_SCRATCH, REG_ZONE_OUT, RETRY, Table,
    high_protocol, too_large,
};

/// Bytes before the IP header of a frame without a tag.
const ETHERNET_HEADER: u32 = 14;

/// `nw_frag` of packets that are no fragments.
pub const NO_FRAGMENT: u128 = 0;
/// `nw_frag` of first fragments.
pub const FIRST_FRAGMENT: u128 = 1;
/// `nw_frag` of later fragments.
pub const LATER_FRAGMENT: u128 = 3;
/// The bits of `nw_frag`.
pub const FRAGMENT_BITS: u128 = 3;

/// Whether packets of a protocol show ports.
#[must_use]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

/// Bits of `ct_state` (`ovs-fields(7)`).
pub mod state {
    /// `new`: the packet opens a conversation that is not committed yet.
    pub const NEW: u32 = 0x01;
    /// `rel`: an ICMP error about a conversation.
    pub const RELATED: u32 = 0x04;
    /// `rpl`: of the direction that did not open the conversation.
    pub const REPLY: u32 = 0x08;
    /// `inv`: of no conversation, and none can begin so.
    pub const INVALID: u32 = 0x10;
    /// `trk`: the packet was tracked.
    pub const TRACKED: u32 = 0x20;
}

/// Packets with these of the masked bits in `reg0`.
#[must_use]
pub fn flags(value: u32, mask: u32) -> Match {
    Match::new().with_mask(REG_FLAGS, value, mask)
}

/// Adds: packets of the direction that opens a conversation, and no errors about others.
#[must_use]
pub fn forward(matches: Match) -> Match {
    tracked(matches, 0, state::REPLY | state::RELATED)
}

/// Adds: packets of either direction, and no errors about others.
#[must_use]
pub fn either(matches: Match) -> Match {
    tracked(matches, 0, state::RELATED)
}

/// Adds: ICMP errors about conversations with this mark.
#[must_use]
pub fn errors(matches: Match, mark: u32) -> Match {
    tracked(matches, state::RELATED, state::RELATED).with_mask(Field::CT_MARK, mark, mark)
}

fn tracked(matches: Match, value: u32, mask: u32) -> Match {
    let (always, never) = (state::TRACKED, state::INVALID);
    matches.with_mask(Field::CT_STATE, value | always, mask | always | never)
}

/// Packets of an origin.
#[must_use]
pub fn from(origin: Origin) -> Match {
    flags(origin.bit(), origin.bit())
}

/// Ethernet type of a family.
#[must_use]
pub fn eth_type(family: Family) -> u16 {
    match family {
        Family::V4 => ETH_IPV4,
        Family::V6 => ETH_IPV6,
    }
}

/// Notes whether the protocol is a high one: see [`HIGH_PROTOCOL`](super::vocabulary::HIGH_PROTOCOL).
#[must_use]
pub fn note_protocol() -> Action {
    Action::Move { src: Subfield::bits(Field::CT_NW_PROTO, 7, 1), dst: high_protocol() }
}

/// Adds: IP packets of a family.
#[must_use]
pub fn ip(matches: Match, family: Family) -> Match {
    matches.with(Field::ETH_TYPE, eth_type(family))
}

/// Adds: neighbour discovery of this ICMPv6 type.
#[must_use]
pub fn discovery(matches: Match, icmp_type: u8) -> Match {
    ip(matches, Family::V6).with(Field::IP_PROTO, ICMPV6).with(Field::ICMPV6_TYPE, icmp_type)
}

/// Adds: IP packets whose source lies in the prefix.
#[must_use]
pub fn source(matches: Match, prefix: IpNet) -> Match {
    match prefix {
        IpNet::V4(p) => ip(matches, Family::V4).with_mask(Field::IPV4_SRC, p.network(), p.netmask()),
        IpNet::V6(p) => ip(matches, Family::V6).with_mask(Field::IPV6_SRC, p.network(), p.netmask()),
    }
}

/// Adds: IP packets whose destination lies in the prefix.
#[must_use]
pub fn destination(matches: Match, prefix: IpNet) -> Match {
    match prefix {
        IpNet::V4(p) => ip(matches, Family::V4).with_mask(Field::IPV4_DST, p.network(), p.netmask()),
        IpNet::V6(p) => ip(matches, Family::V6).with_mask(Field::IPV6_DST, p.network(), p.netmask()),
    }
}

/// The prefix that holds one address.
#[must_use]
pub fn host(address: IpAddr) -> IpNet {
    IpNet::from(address)
}

/// Sets bits of `reg0`.
#[must_use]
pub fn set_flags(value: u32, mask: u32) -> Action {
    Action::SetField { field: REG_FLAGS, value: value.into(), mask: Some(mask.into()) }
}

/// What every hit in a learned table does first.
#[must_use]
pub fn clear_retry() -> Action {
    set_flags(0, RETRY)
}

/// Sets a whole field.
#[must_use]
pub fn set(field: Field, value: impl Into<openflow::Value>) -> Action {
    Action::SetField { field, value: value.into(), mask: None }
}

/// Copies one whole field into another of the same width.
#[must_use]
pub fn copy(src: Field, dst: Field) -> Action {
    Action::Move { src: Subfield::whole(src), dst: Subfield::whole(dst) }
}

/// Puts the tag of a segment on a frame, if it has one.
#[must_use]
pub fn to_wire(segment_number: u32) -> Vec<Action> {
    let tag = segment_number & 0x1fff;
    if tag == 0 {
        return Vec::new();
    }
    // The present bit is part of OpenFlow's VLAN_VID (OpenFlow 1.5 §7.2.3.7).
    vec![Action::PushVlan(ETH_VLAN), set(Field::VLAN_VID, tag)]
}

/// Goes on in a table.
#[must_use]
pub fn go(table: Table) -> Action {
    Action::Resubmit { in_port: None, table: Some(table.id()), ct: false }
}

/// Tracks the packet in the zone that a register holds, undoing NAT, and goes on in a table.
#[must_use]
pub fn track(zone: Field, table: Table) -> Action {
    Action::Ct(Ct {
        zone: CtZone::Field(Subfield::bits(zone, 0, 16)),
        table: Some(table.id()),
        nat: Some(openflow::Nat::default()),
        ..Ct::default()
    })
}

/// Commits the conversation in the zone that a register holds, with a mark and as judged by this decision.
#[must_use]
pub fn commit(zone: Field, mark: u32, decision: u64) -> Action {
    let mark = Action::SetField { field: Field::CT_MARK, value: mark.into(), mask: Some(MARKS.into()) };
    let label = Action::SetField {
        field: Field::CT_LABEL,
        value: u128::from(decision).into(),
        mask: Some(u128::from(u64::MAX).into()),
    };
    commit_with(zone, vec![mark, label])
}

/// Commits the conversation in the sender's zone, with the mark and the decision that Egress noted.
#[must_use]
pub fn commit_noted() -> Action {
    let mark = Action::Move {
        src: Subfield::bits(REG_MARK, 0, MARK_BITS),
        dst: Subfield::bits(Field::CT_MARK, 0, MARK_BITS),
    };
    let label =
        Action::Move { src: Subfield::whole(REG_DECISION), dst: Subfield::bits(Field::CT_LABEL, 0, 64) };
    commit_with(REG_ZONE_OUT, vec![mark, label])
}

fn commit_with(zone: Field, exec: Vec<Action>) -> Action {
    let zone = CtZone::Field(Subfield::bits(zone, 0, 16));
    Action::Ct(Ct { commit: true, zone, exec, ..Ct::default() })
}

/// Notes whether an IP packet is larger than this, bytes, for the last table.
pub fn check_size(mtu: u32) -> [Action; 2] {
    let bytes = u16::try_from(mtu.saturating_add(ETHERNET_HEADER)).unwrap_or(u16::MAX);
    [set(REG_SCRATCH, mtu), Action::CheckPktLarger { dst: too_large(), bytes }]
}
