//! A learned flow, found in the switch, back to the query that it answers.

use std::net::IpAddr;

use openflow::{Field, Flow, Match};
use policy::{Direction, Family, Question, Traffic};

use super::super::fields::{ETH_IPV4, ETH_IPV6};
use super::super::vocabulary::{Cookie, Kind, REG_OUTPUT};
use super::{Part, Pods, Query};

/// The query that a flow of an earlier run answered, with the first packet of its region
/// as the sample; `None` for flows that are not worth keeping or not the agent's.
#[must_use]
pub fn revive<P: Pods>(flow: &Flow, pods: &P) -> Option<Query> {
    let matches = &flow.matches;
    match Cookie(flow.cookie).kind()? {
        Kind::TunnelSource => {
            Some(Query::TunnelSource { tunnel: tunnel(matches)?, source: source(matches)? })
        }
        Kind::Egress => {
            let pod = pods.by_port(small(matches, Field::IN_PORT)?)?;
            let question = sample(matches, Direction::Egress, &pod.addresses, destination(matches)?)?;
            Some(Query::Egress { zone: pod.zone, question, part: Part::Whole })
        }
        Kind::Ingress => {
            let pod = pods.by_port(small(matches, REG_OUTPUT)?)?;
            let question = sample(matches, Direction::Ingress, &pod.addresses, source(matches)?)?;
            Some(Query::Ingress { zone: pod.zone, question, part: Part::Whole })
        }
        Kind::Route => Some(Query::Route { destination: destination(matches)? }),
        Kind::Peer | Kind::Gate | Kind::Related | Kind::Ended => None,
        Kind::Vacant | Kind::Node | Kind::Pod | Kind::Drop => None,
    }
}

fn sample(matches: &Match, direction: Direction, own: &[IpAddr], peer: IpAddr) -> Option<Question> {
    let subject = own.iter().copied().find(|a| Family::of(*a) == Family::of(peer))?;
    let protocol = small(matches, Field::IP_PROTO).and_then(|p| u8::try_from(p).ok());
    let port = [Field::TCP_DST, Field::UDP_DST, Field::SCTP_DST]
        .into_iter()
        .find_map(|field| matches.get(field))
        .and_then(|(value, _)| u16::try_from(value).ok());
    let traffic = Traffic { protocol: protocol.unwrap_or(6), port: port.or(Some(0)) };
    Some(Question { direction, subject, peer, traffic })
}

fn small(matches: &Match, field: Field) -> Option<u32> {
    u32::try_from(matches.exact(field)?).ok()
}

fn tunnel(matches: &Match) -> Option<IpAddr> {
    let v4 = small(matches, Field::TUN_SRC).map(|v| IpAddr::V4(v.into()));
    v4.or_else(|| matches.exact(Field::TUN_IPV6_SRC).map(|v| IpAddr::V6(v.into())))
}

/// First address of the source region.
fn source(matches: &Match) -> Option<IpAddr> {
    first(matches, Field::IPV4_SRC, Field::IPV6_SRC)
}

/// First address of the destination region.
fn destination(matches: &Match) -> Option<IpAddr> {
    first(matches, Field::IPV4_DST, Field::IPV6_DST)
}

fn first(matches: &Match, v4: Field, v6: Field) -> Option<IpAddr> {
    let eth_type = matches.exact(Field::ETH_TYPE)?;
    if eth_type == u128::from(ETH_IPV4) {
        let value = matches.get(v4).map_or(0, |(value, _)| value);
        u32::try_from(value).ok().map(|v| IpAddr::V4(v.into()))
    } else if eth_type == u128::from(ETH_IPV6) {
        Some(IpAddr::V6(matches.get(v6).map_or(0, |(value, _)| value).into()))
    } else {
        None
    }
}
