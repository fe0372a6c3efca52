//! Whether a match says all that its fields need, as Open vSwitch asks before it accepts one (`ovs-fields(7)`).

use crate::field::{Field, Prereq};
use crate::matching::Match;

const CT_NEW: u128 = 1 << 0;
const CT_ESTABLISHED: u128 = 1 << 1;
const CT_RELATED: u128 = 1 << 2;
const CT_REPLY: u128 = 1 << 3;
const CT_INVALID: u128 = 1 << 4;
const CT_TRACKED: u128 = 1 << 5;
const CT_SNAT: u128 = 1 << 6;
const CT_DNAT: u128 = 1 << 7;
const VLAN_PRESENT: u128 = 1 << 12;

/// Whether every field of `matches` has what it needs.
pub(crate) fn hold(matches: &Match) -> bool {
    matches.iter().all(|(field, _, _)| holds(field.prereq(), matches))
}

fn holds(prereq: Prereq, matches: &Match) -> bool {
    let eth_type = |types: &[u128]| matches.exact(Field::ETH_TYPE).is_some_and(|t| types.contains(&t));
    let ip = || eth_type(&[0x0800, 0x86dd]);
    let protocol = |number: u128| matches.exact(Field::IP_PROTO) == Some(number);
    let icmpv6 = |kinds: &[u128]| {
        eth_type(&[0x86dd])
            && protocol(58)
            && matches.exact(Field::ICMPV6_TYPE).is_some_and(|kind| kinds.contains(&kind))
    };
    match prereq {
        Prereq::Any => true,
        Prereq::Vlan => matches.get(Field::VLAN_TCI).is_some_and(|(value, _)| value & VLAN_PRESENT != 0),
        Prereq::Mpls => eth_type(&[0x8847, 0x8848]),
        Prereq::Ipv4 => eth_type(&[0x0800]),
        Prereq::Ipv6 => eth_type(&[0x86dd]),
        Prereq::IpAny => ip(),
        Prereq::Arp => eth_type(&[0x0806, 0x8035]),
        Prereq::Tcp => ip() && protocol(6),
        Prereq::Udp => ip() && protocol(17),
        Prereq::Sctp => ip() && protocol(132),
        Prereq::Icmpv4 => eth_type(&[0x0800]) && protocol(1),
        Prereq::Icmpv6 => eth_type(&[0x86dd]) && protocol(58),
        Prereq::Nd => icmpv6(&[135, 136]),
        Prereq::NdSolicit => icmpv6(&[135]),
        Prereq::NdAdvert => icmpv6(&[136]),
        Prereq::Ct => ct_valid(matches),
        Prereq::Nsh => eth_type(&[0x894f]),
    }
}

/// A bit that only a valid connection has, or tracked and expressly not invalid.
fn ct_valid(matches: &Match) -> bool {
    let (value, mask) = matches.get(Field::CT_STATE).unwrap_or((0, 0));
    let valid = CT_NEW | CT_ESTABLISHED | CT_RELATED | CT_REPLY | CT_SNAT | CT_DNAT;
    value & valid != 0 || (value & CT_TRACKED != 0 && mask & CT_INVALID != 0 && value & CT_INVALID == 0)
}
