//! One query to one flow.

use std::net::IpAddr;

use ipnet::IpNet;
use openflow::{Action, Field, Flow, FlowFlags, Match};
use policy::{Because, Family, Judgement, Location, Name, PortBlock, Question, Region, Verdict};

use super::super::fields::{
    clear_retry, commit, destination, from, go, host, ip, not_from, set, set_flags, source,
};
use super::super::site::TunnelPort;
use super::super::statics::to_host;
use super::super::vocabulary::{
    Cookie, Kind, Origin, REG_OUTPUT, REG_ZONE_IN, REG_ZONE_OUT, RETRY, TO_NODE, Table, VACANT_SECONDS,
    VERDICT_IDLE_SECONDS, octets, priority, stable_id,
};
use super::{Context, Part, Pods, Query};

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The flow that carries it out.
    pub flow: Flow,
    /// Whether packets of the region go on.
    pub allows: bool,
    /// Why, where a rule decided.
    pub because: Option<Because>,
    /// Why it would be denied if the policies in audit mode were enforced too, although it is allowed.
    pub audit: Option<Because>,
    /// The packets that the verdict is for, where a rule decided.
    pub region: Option<Region>,
}

impl Decision {
    /// A flow that no policy has a say in.
    fn plain(flow: Flow, allows: bool) -> Decision {
        Decision { flow, allows, because: None, audit: None, region: None }
    }
}

/// Answers a query; `None` where nothing can be said (the pod is gone, or the address
/// is delivered by static flows).
#[must_use]
pub fn decide<P: Pods>(query: &Query, context: &Context<'_, P>) -> Option<Decision> {
    match query {
        Query::TunnelSource { tunnel, source } => Some(tunnel_source(*tunnel, *source, context)),
        Query::Egress { zone, question, part: Part::Whole } => egress(*zone, question, context),
        Query::Ingress { zone, question, part: Part::Whole } => ingress(*zone, question, context),
        Query::Route { destination } => route(*destination, context),
        Query::Vacant { port, destination } => vacant(*port, *destination, context),
        Query::Egress { .. }
        | Query::Ingress { .. }
        | Query::Peer { .. }
        | Query::Gate { .. }
        | Query::Related { .. }
        | Query::Ended { .. } => None,
    }
}

/// The tunnel address of the node where an address lives, unless that is this node.
#[must_use]
pub fn tunnel_address<P>(address: IpAddr, context: &Context<'_, P>) -> Option<IpAddr> {
    let node = match context.world.locate(address) {
        Location::Pod { node, .. } | Location::Node(node) => node,
        Location::Vacant { .. } | Location::Outside => return None,
    };
    tunnel_to(&node, context)
}

/// The tunnel address of a node, unless that is this node.
pub(super) fn tunnel_to<P>(node: &Name, context: &Context<'_, P>) -> Option<IpAddr> {
    if *node == context.site.node {
        return None;
    }
    context.world.node(node)?.tunnel_address
}

fn tunnel_source<P>(tunnel: IpAddr, inner: IpAddr, context: &Context<'_, P>) -> Decision {
    let allows = tunnel_address(inner, context) == Some(tunnel);
    let outer = match tunnel {
        IpAddr::V4(v4) => from(Origin::Tunnel).with(Field::TUN_SRC, v4),
        IpAddr::V6(v6) => from(Origin::Tunnel).with(Field::TUN_IPV6_SRC, v6),
    };
    let id = stable_id(&[b"tunnel-source", &octets(tunnel), &octets(inner), &[u8::from(allows)]]);
    let mut flow = learned(Kind::TunnelSource, id, Table::Guard, source(outer, host(inner)));
    if allows {
        flow.actions = vec![clear_retry(), go(Table::Route)];
    } else {
        flow.hard_timeout = VACANT_SECONDS;
        flow.flags = FlowFlags::SEND_FLOW_REM;
    }
    Decision::plain(flow, allows)
}

fn egress<P: Pods>(zone: u16, question: &Question, context: &Context<'_, P>) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let judgement = context.world.judge(question);
    let family = Family::of(question.subject);
    let matches = from(Origin::Pod).with(Field::IN_PORT, pod.port);
    let matches = within(matches, &judgement.region, family, destination);
    Some(verdict(Kind::Egress, Table::Egress, Table::Route, REG_ZONE_OUT, matches, question, judgement))
}

fn ingress<P: Pods>(zone: u16, question: &Question, context: &Context<'_, P>) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let judgement = context.world.judge(question);
    let family = Family::of(question.subject);
    let matches = Match::new().with(REG_OUTPUT, pod.port);
    let matches = within(matches, &judgement.region, family, source);
    Some(verdict(Kind::Ingress, Table::Ingress, Table::Output, REG_ZONE_IN, matches, question, judgement))
}

/// The bit of `nw_frag` that later fragments have.
const LATER_FRAGMENT: u8 = 2;

/// Narrows a match to a region; `side` says which end of the packet the peer is.
fn within(matches: Match, region: &Region, family: Family, side: fn(Match, IpNet) -> Match) -> Match {
    let mut matches =
        if region.peer.prefix_len() == 0 { ip(matches, family) } else { side(matches, region.peer) };
    let Some(protocol) = region.protocol else { return matches };
    matches = matches.with(Field::IP_PROTO, protocol);
    let port = match protocol {
        6 => Field::TCP_DST,
        17 => Field::UDP_DST,
        132 => Field::SCTP_DST,
        _ => return matches,
    };
    match region.ports {
        PortBlock::All => matches,
        PortBlock::Block { base, mask } => matches.with_mask(port, base, mask),
        PortBlock::Hidden => matches.with_mask(Field::IP_FRAG, LATER_FRAGMENT, LATER_FRAGMENT),
    }
}

fn verdict(
    kind: Kind,
    table: Table,
    next: Table,
    zone: Field,
    matches: Match,
    question: &Question,
    judgement: Judgement,
) -> Decision {
    let allows = judgement.verdict == Verdict::Allow;
    let Judgement { because, audit, region, .. } = judgement;
    let Region { peer, protocol, ports } = region;
    let (base, mask) = match ports {
        PortBlock::All => (0, 0),
        PortBlock::Block { base, mask } => (base, mask),
        PortBlock::Hidden => (u16::MAX, 0),
    };
    let id = stable_id(&[
        kind.name().as_bytes(),
        &octets(question.subject),
        &octets(peer.addr()),
        &[peer.prefix_len(), u8::from(protocol.is_some()), protocol.unwrap_or(0), u8::from(allows)],
        &base.to_be_bytes(),
        &mask.to_be_bytes(),
        &because.stable_hash().to_be_bytes(),
    ]);
    let mut flow = learned(kind, id, table, matches);
    flow.flags = FlowFlags::SEND_FLOW_REM;
    if because.is_provisional() {
        flow.hard_timeout = VACANT_SECONDS;
    } else {
        flow.idle_timeout = VERDICT_IDLE_SECONDS;
    }
    if allows {
        flow.actions = vec![clear_retry(), commit(zone, id), go(next)];
    }
    Decision { flow, allows, because: Some(because), audit, region: Some(region) }
}

fn route<P: Pods>(to: IpAddr, context: &Context<'_, P>) -> Option<Decision> {
    if context.pods.by_address(to).is_some() || context.site.addresses.contains(&to) {
        return None;
    }
    let (prefix, (way, actions)) = match context.world.locate(to) {
        Location::Pod { node, network, .. } => {
            let port = context.site.tunnel_of(context.world.network(&network)?)?;
            (host(to), to_peer(tunnel_to(&node, context)?, port, false))
        }
        Location::Node(node) => {
            let port = context.site.tunnel_for_nodes(context.world, to)?;
            (host(to), to_peer(tunnel_to(&node, context)?, port, true))
        }
        // The host's own loopback is nobody's way, whatever its kernel is told to do with such packets.
        Location::Outside if to.is_loopback() => return None,
        Location::Outside => {
            let mac = context.site.local_mac?;
            (outside(to, context), (mac.0.to_vec(), to_host(mac)))
        }
        Location::Vacant { .. } => return None,
    };
    let id = stable_id(&[b"route", &octets(prefix.addr()), &[prefix.prefix_len()], &way]);
    let matches = destination(not_from(Origin::Tunnel), prefix);
    let mut flow = learned(Kind::Route, id, Table::Route, matches);
    flow.actions = actions;
    Some(Decision::plain(flow, true))
}

/// What tells the way from others, and the actions.
fn to_peer(peer: IpAddr, tunnel: TunnelPort, to_node: bool) -> (Vec<u8>, Vec<Action>) {
    let mut way = octets(peer);
    way.extend(tunnel.vni.to_be_bytes());
    way.extend(tunnel.port.to_be_bytes());
    way.push(u8::from(to_node));
    let outer = match peer {
        IpAddr::V4(v4) => set(Field::TUN_DST, v4),
        IpAddr::V6(v6) => set(Field::TUN_IPV6_DST, v6),
    };
    let actions = vec![
        set_flags(if to_node { TO_NODE } else { 0 }, RETRY | TO_NODE),
        Action::DecTtl,
        outer,
        set(Field::TUN_ID, u64::from(tunnel.vni)),
        set(REG_OUTPUT, tunnel.port),
        go(Table::Output),
    ];
    (way, actions)
}

/// The widest prefix of the fixed set around an outside address that holds nothing of the cluster.
fn outside<P>(address: IpAddr, context: &Context<'_, P>) -> IpNet {
    let lengths: &[u8] = match address {
        IpAddr::V4(_) => &[0, 8, 16, 24],
        IpAddr::V6(_) => &[0, 32, 48, 64],
    };
    lengths
        .iter()
        .filter_map(|length| IpNet::new(address, *length).ok())
        .map(|prefix| prefix.trunc())
        .find(|prefix| context.world.is_outside(*prefix) && !holds_loopback(*prefix))
        .unwrap_or_else(|| host(address))
}

fn holds_loopback(prefix: IpNet) -> bool {
    prefix.contains(&IpAddr::from(std::net::Ipv4Addr::LOCALHOST))
        || prefix.contains(&IpAddr::from(std::net::Ipv6Addr::LOCALHOST))
}

fn vacant<P: Pods>(port: u32, to: IpAddr, context: &Context<'_, P>) -> Option<Decision> {
    let delivered = context.pods.by_address(to).is_some() || context.site.addresses.contains(&to);
    if delivered || route(to, context).is_some() {
        return None;
    }
    let id = stable_id(&[b"vacant", &port.to_be_bytes(), &octets(to)]);
    let matches = destination(Match::new().with(Field::IN_PORT, port), host(to));
    let mut flow = learned(Kind::Vacant, id, Table::Route, matches);
    flow.hard_timeout = VACANT_SECONDS;
    flow.flags = FlowFlags::SEND_FLOW_REM;
    Some(Decision::plain(flow, false))
}

fn learned(kind: Kind, id: u64, table: Table, matches: Match) -> Flow {
    Flow {
        table: table.id(),
        priority: priority::LEARNED,
        cookie: Cookie::new(kind, id).0,
        matches,
        ..Flow::default()
    }
}
