//! Short hands for matches and actions that many flows share.

use std::net::IpAddr;

use ipnet::IpNet;
use openflow::{Action, Ct, CtZone, Field, Match, Subfield};
use policy::Family;

use super::vocabulary::{JUDGED, Origin, REG_FLAGS, RETRY, Table};

/// Ethernet type of IPv4.
pub const ETH_IPV4: u16 = 0x0800;
/// Ethernet type of ARP.
pub const ETH_ARP: u16 = 0x0806;
/// Ethernet type of IPv6.
pub const ETH_IPV6: u16 = 0x86dd;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
/// IP protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// ICMPv6 type of a neighbour solicitation (RFC 4861 §4.3).
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement (RFC 4861 §4.4).
pub const ADVERTISEMENT: u8 = 136;

/// Packets of an origin.
#[must_use]
pub fn from(origin: Origin) -> Match {
    Match::new().with_mask(REG_FLAGS, origin.bit(), origin.bit())
}

/// Packets of every origin but this one.
#[must_use]
pub fn not_from(origin: Origin) -> Match {
    Match::new().with_mask(REG_FLAGS, 0u32, origin.bit())
}

/// Ethernet type of a family.
#[must_use]
pub fn eth_type(family: Family) -> u16 {
    match family {
        Family::V4 => ETH_IPV4,
        Family::V6 => ETH_IPV6,
    }
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

/// Commits the conversation in the zone that a register holds, as judged by this decision.
#[must_use]
pub fn commit(zone: Field, decision: u64) -> Action {
    Action::Ct(Ct {
        commit: true,
        zone: CtZone::Field(Subfield::bits(zone, 0, 16)),
        exec: vec![
            Action::SetField { field: Field::CT_MARK, value: JUDGED.into(), mask: Some(JUDGED.into()) },
            Action::SetField {
                field: Field::CT_LABEL,
                value: u128::from(decision).into(),
                mask: Some(u128::from(u64::MAX).into()),
            },
        ],
        ..Ct::default()
    })
}
