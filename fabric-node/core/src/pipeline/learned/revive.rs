//! A learned flow, found in the switch, back to the query that it answers.

use std::net::IpAddr;

use openflow::{Field, Flow, Match};
use policy::{Direction, Family, Question, Traffic};

use super::super::fields::{FIRST_FRAGMENT, LATER_FRAGMENT, has_ports};
use super::super::protocols::{ETH_IPV4, ETH_IPV6, SCTP, TCP, UDP};
use super::super::site::LocalPod;
use super::super::vocabulary::{Cookie, EXIT, Kind, REG_FLAGS, REG_OUTPUT, REG_SEGMENT, Table, priority};
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
            let pod = sender(matches, pods)?;
            let (question, part) = sample(flow, Direction::Egress, own(pod, destination(matches)?)?)?;
            Some(Query::Egress { zone: pod.zone, question, part })
        }
        Kind::Ingress => {
            let pod = receiver(matches, pods)?;
            let (question, part) = sample(flow, Direction::Ingress, own(pod, source(matches)?)?)?;
            Some(Query::Ingress { zone: pod.zone, question, part })
        }
        Kind::Peer => {
            let pod = sender(matches, pods)?;
            let subject = destination(matches)?;
            let (peer, _) = own(pod, subject)?;
            let (question, part) = sample(flow, Direction::Ingress, (subject, peer))?;
            Some(Query::Peer { zone: pod.zone, question, part })
        }
        Kind::Route => {
            let destination = destination(matches)?;
            Some(match small(matches, REG_SEGMENT) {
                Some(segment) => Query::Wire { segment, destination },
                None => Query::Route { destination },
            })
        }
        Kind::Exit => {
            let by_tunnel = matches.get(REG_FLAGS).is_some_and(|(bits, _)| bits & u128::from(EXIT) == 0);
            Some(Query::Exit { source: source(matches)?, destination: destination(matches)?, by_tunnel })
        }
        Kind::Return => Some(Query::Return {
            tunnel: tunnel(matches)?,
            source: source(matches)?,
            pod: destination(matches)?,
        }),
        Kind::Gate => Some(Query::Gate { destination: destination(matches)? }),
        Kind::Related => match flow.table {
            table if table == Table::Egress.id() => {
                Some(Query::Related { zone: sender(matches, pods)?.zone, direction: Direction::Egress })
            }
            _ => Some(Query::Related { zone: receiver(matches, pods)?.zone, direction: Direction::Ingress }),
        },
        Kind::Ended => ended(flow, pods),
        Kind::Vacant | Kind::Probe | Kind::Node | Kind::Pod | Kind::Drop => None,
    }
}

fn sender<'p, P: Pods>(matches: &Match, pods: &'p P) -> Option<&'p LocalPod> {
    pods.by_port(small(matches, Field::IN_PORT)?)
}

fn receiver<'p, P: Pods>(matches: &Match, pods: &'p P) -> Option<&'p LocalPod> {
    pods.by_port(small(matches, REG_OUTPUT)?)
}

/// The pod's own address of the family of the other end, and the other end.
fn own(pod: &LocalPod, other: IpAddr) -> Option<(IpAddr, IpAddr)> {
    let own = pod.addresses.iter().copied().find(|a| Family::of(*a) == Family::of(other))?;
    Some((own, other))
}

/// The first conversation of the region of a verdict at this end, and which of its packets the flow is about.
fn sample(flow: &Flow, direction: Direction, (subject, peer): (IpAddr, IpAddr)) -> Option<(Question, Part)> {
    let value = |field: Field| flow.matches.get(field).map(|(value, _)| value);
    let port = |field: Field| value(field).and_then(|port| u16::try_from(port).ok());
    let protocol = value(Field::IP_PROTO).or_else(|| value(Field::CT_NW_PROTO));
    let protocol = protocol.map_or(Some(TCP), |protocol| u8::try_from(protocol).ok())?;
    let any = has_ports(protocol).then_some(0);
    let shown = [Field::TCP_DST, Field::UDP_DST, Field::SCTP_DST].into_iter().find_map(port).or(any);
    let back = match direction {
        Direction::Egress => Direction::Ingress,
        Direction::Ingress => Direction::Egress,
    };
    let from = port(Field::SCTP_SRC);
    let (direction, part, port) = match value(Field::IP_FRAG) {
        _ if flow.priority == priority::ANSWERS => (back, Part::Back(port(Field::SCTP_DST)?), from),
        Some(FIRST_FRAGMENT) => (direction, Part::First, port(Field::CT_TP_DST)),
        Some(LATER_FRAGMENT) => (direction, Part::Later, None),
        _ if protocol == SCTP => (direction, Part::There(from.unwrap_or(0)), shown),
        _ => (direction, Part::Whole, shown),
    };
    Some((Question { direction, subject, peer, traffic: Traffic { protocol, port } }, part))
}

/// The conversation whose late packets a flow drops.
fn ended<P: Pods>(flow: &Flow, pods: &P) -> Option<Query> {
    let matches = &flow.matches;
    let port = |field: Field| small(matches, field).and_then(|port| u16::try_from(port).ok());
    let (pod, peer, direction) = match flow.table {
        table if table == Table::Egress.id() => {
            (sender(matches, pods)?, destination(matches)?, Direction::Ingress)
        }
        _ => (receiver(matches, pods)?, source(matches)?, Direction::Egress),
    };
    let (subject, peer) = own(pod, peer)?;
    let (protocol, from, to) = match small(matches, Field::IP_PROTO).and_then(|p| u8::try_from(p).ok())? {
        UDP => (UDP, Field::UDP_SRC, Field::UDP_DST),
        protocol => (protocol, Field::TCP_SRC, Field::TCP_DST),
    };
    let traffic = Traffic { protocol, port: Some(port(from)?) };
    let question = Question { direction, subject, peer, traffic };
    Some(Query::Ended { zone: pod.zone, question, source_port: port(to)? })
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
