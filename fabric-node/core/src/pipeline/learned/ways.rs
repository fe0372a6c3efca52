//! Where to: ways to addresses of other nodes and outside, who is behind a tunnel, and where there is no way.

use std::net::IpAddr;

use ipnet::IpNet;
use openflow::{Action, Field, Mac, Match};
use policy::{Location, Name, Resident};

use super::super::fields::{
    check_size, clear_retry, destination, flags, from, go, host, set, set_flags, source, to_wire,
};
use super::super::site::TunnelPort;
use super::super::statics::to_host_from;
use super::super::vocabulary::{
    EXIT, Kind, ON_SEGMENT, Origin, PEER, REG_OUTPUT, REG_SEGMENT, RETRY, ROUTER_MAC, TO_NODE, Table, octets,
    stable_id,
};
use super::decision::{Decision, lasting, momentary};
use super::{Context, Pods};

/// The tunnel address of the node where an address lives, unless that is this node.
pub(super) fn tunnel_address<P>(address: IpAddr, context: &Context<'_, P>) -> Option<IpAddr> {
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

/// What a tunnel brings from a node.
pub(super) fn from_tunnel(tunnel: IpAddr) -> Match {
    match tunnel {
        IpAddr::V4(v4) => from(Origin::Tunnel).with(Field::TUN_SRC, v4),
        IpAddr::V6(v6) => from(Origin::Tunnel).with(Field::TUN_IPV6_SRC, v6),
    }
}

pub(super) fn tunnel_source<P>(tunnel: IpAddr, inner: IpAddr, context: &Context<'_, P>) -> Decision {
    let allows = tunnel_address(inner, context) == Some(tunnel);
    let id = stable_id(&[b"tunnel-source", &octets(tunnel), &octets(inner), &[u8::from(allows)]]);
    let matches = source(from_tunnel(tunnel), host(inner));
    if !allows {
        return Decision::plain(momentary(Kind::TunnelSource, id, Table::Guard, matches), false);
    }
    let mut flow = lasting(Kind::TunnelSource, id, Table::Guard, matches);
    flow.actions = vec![clear_retry(), go(Table::Route)];
    Decision::plain(flow, true)
}

pub(super) fn route<P: Pods>(to: IpAddr, context: &Context<'_, P>) -> Option<Decision> {
    if is_here(to, context) {
        return None;
    }
    let (prefix, (way, actions)) = match context.world.locate(to) {
        Location::Pod { node, .. } => {
            let port = context.site.tunnel_for(context.world, to)?;
            (host(to), to_peer(tunnel_to(&node, context)?, port, false, context))
        }
        Location::Node(node) => {
            let port = context.site.tunnel_for(context.world, to)?;
            (host(to), to_peer(tunnel_to(&node, context)?, port, true, context))
        }
        // The host's own loopback is nobody's way, whatever its kernel is told to do with such packets.
        Location::Outside if to.is_loopback() => return None,
        Location::Outside => {
            let mac = context.site.local_mac?;
            (outside(to, context), by_host(None, mac, context))
        }
        Location::Vacant { .. } if context.world.is_overlay(to) => return None,
        // Nobody's pod in a VLAN's prefix is a machine on it.
        Location::Vacant { .. } => {
            let mac = context.site.local_mac?;
            (host(to), by_host(None, mac, context))
        }
    };
    // To a receiver that has a say in it there is no way for packets that it was not asked about.
    let asked = if is_judged_beyond(to, context) { PEER } else { 0 };
    let id =
        stable_id(&[b"route", &octets(prefix.addr()), &[prefix.prefix_len()], &way, &asked.to_be_bytes()]);
    // From a segment the fabric is the way to overlays only.
    let off_segment = if context.world.is_overlay(to) { 0 } else { ON_SEGMENT };
    // Who has an egress address does not leave here as others do.
    let leaves = matches!(context.world.locate(to), Location::Outside | Location::Vacant { .. });
    let exit = if leaves { EXIT } else { 0 };
    let matches = destination(flags(0, Origin::Tunnel.bit() | asked | off_segment | exit), prefix);
    let mut flow = lasting(Kind::Route, id, Table::Route, matches);
    flow.actions = actions;
    Some(Decision::plain(flow, true))
}

/// For pods of a segment: by its wire, as the frame is. Everything lies there but this node and the overlays.
pub(super) fn wire<P: Pods>(segment: u32, to: IpAddr, context: &Context<'_, P>) -> Option<Decision> {
    let here = context.site.addresses.contains(&to) || context.world.is_overlay(to);
    if here || to.is_multicast() || to.is_loopback() || !context.site.has_uplink_of(segment) {
        return None;
    }
    let (prefix, node) = match context.world.locate(to) {
        Location::Outside => (outside(to, context), 0),
        Location::Node(_) => (host(to), TO_NODE),
        Location::Pod { .. } | Location::Vacant { .. } => (host(to), 0),
    };
    let asked = if is_judged_beyond(to, context) { PEER } else { 0 };
    let id = stable_id(&[
        b"wire",
        &segment.to_be_bytes(),
        &octets(prefix.addr()),
        &[prefix.prefix_len()],
        &asked.to_be_bytes(),
        &[u8::from(node != 0)],
    ]);
    let from_pod = flags(Origin::Pod.bit(), Origin::Pod.bit() | asked).with(REG_SEGMENT, segment);
    let mut flow = lasting(Kind::Route, id, Table::Route, destination(from_pod, prefix));
    flow.actions = vec![set_flags(node, RETRY | TO_NODE)];
    flow.actions.extend(to_wire(segment));
    flow.actions.extend([set(REG_OUTPUT, segment >> 16), go(Table::Output)]);
    Some(Decision::plain(flow, true))
}

/// Sends new conversations to a guarded receiver that a tunnel or a wire leads to back to Egress, which asks for the other end.
pub(super) fn gate<P: Pods>(to: IpAddr, context: &Context<'_, P>) -> Option<Decision> {
    if !is_judged_beyond(to, context) {
        return None;
    }
    let id = stable_id(&[b"gate", &octets(to)]);
    let matches = destination(flags(PEER, PEER), host(to));
    let mut flow = lasting(Kind::Gate, id, Table::Route, matches);
    flow.actions = vec![clear_retry(), go(Table::Egress)];
    Some(Decision::plain(flow, true))
}

/// Whether the address is a pod's that a tunnel or a wire leads to, and about which policies say who may reach it, or may
/// say so: of a pod that is not known yet nobody can tell. A wire leads to pods of this node as well, from other segments.
pub(super) fn is_judged_beyond<P: Pods>(address: IpAddr, context: &Context<'_, P>) -> bool {
    let world = context.world;
    let here = context.pods.by_address(address).is_some_and(|pod| pod.segment.is_none())
        || context.site.addresses.contains(&address);
    !here
        && matches!(world.locate(address), Location::Pod { .. })
        && (world.is_guarded(address) || matches!(world.resident(address), Resident::Unknown))
}

fn is_here<P: Pods>(address: IpAddr, context: &Context<'_, P>) -> bool {
    context.pods.by_address(address).is_some() || context.site.addresses.contains(&address)
}

/// The way by the host, from the hardware address of a router other than the usual: what tells it from others, and the
/// actions.
pub(super) fn by_host<P>(router: Option<Mac>, mac: Mac, context: &Context<'_, P>) -> (Vec<u8>, Vec<Action>) {
    let mut way: Vec<u8> = router.into_iter().chain([mac]).flat_map(|mac| mac.0).collect();
    way.extend(context.site.limit_of_host().map(u32::to_be_bytes).into_iter().flatten());
    (way, to_host_from(context.site, router.unwrap_or(ROUTER_MAC), mac))
}

/// What tells the way from others, and the actions.
pub(super) fn to_peer<P>(
    peer: IpAddr,
    tunnel: TunnelPort,
    to_node: bool,
    context: &Context<'_, P>,
) -> (Vec<u8>, Vec<Action>) {
    let mut way = octets(peer);
    way.extend(tunnel.vni.to_be_bytes());
    way.extend(tunnel.port.to_be_bytes());
    way.push(u8::from(to_node));
    let outer = match peer {
        IpAddr::V4(v4) => set(Field::TUN_DST, v4),
        IpAddr::V6(v6) => set(Field::TUN_IPV6_DST, v6),
    };
    let mut actions = vec![
        set_flags(if to_node { TO_NODE } else { 0 }, RETRY | TO_NODE),
        Action::DecTtl,
        outer,
        set(Field::TUN_ID, u64::from(tunnel.vni)),
        set(REG_OUTPUT, tunnel.port),
    ];
    if let Some(limit) = context.site.limit(tunnel.kind, peer) {
        way.extend(limit.to_be_bytes());
        actions.extend(check_size(limit));
    }
    actions.push(go(Table::Output));
    (way, actions)
}

/// The widest prefix of the fixed set around an outside address that holds nothing of the cluster.
fn outside<P>(address: IpAddr, context: &Context<'_, P>) -> IpNet {
    policy::region::widest_prefix(address, |prefix| {
        context.world.is_outside(*prefix) && !holds_loopback(*prefix)
    })
}

pub(super) fn holds_loopback(prefix: IpNet) -> bool {
    prefix.contains(&IpAddr::from(std::net::Ipv4Addr::LOCALHOST))
        || prefix.contains(&IpAddr::from(std::net::Ipv6Addr::LOCALHOST))
}

pub(super) fn vacant<P: Pods>(port: u32, to: IpAddr, context: &Context<'_, P>) -> Option<Decision> {
    if is_here(to, context) || route(to, context).is_some() {
        return None;
    }
    let id = stable_id(&[b"vacant", &port.to_be_bytes(), &octets(to)]);
    let matches = destination(Match::new().with(Field::IN_PORT, port), host(to));
    Some(Decision::plain(momentary(Kind::Vacant, id, Table::Route, matches), false))
}
