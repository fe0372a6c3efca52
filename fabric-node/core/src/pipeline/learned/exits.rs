//! Egress addresses: pods that leave the cluster by the node that holds the address of their namespace, and what comes back
//! to them.
//!
//! The pod's node decides by the pod's address and sends by a tunnel; the holder lets such packets out, which a tunnel
//! brings for no local address, and nobody else's. What the holder sends back has the source of a machine outside, so the
//! pod's node takes it for this pod alone and by this tunnel alone; and only as an answer, which connection tracking
//! knows ([`RETURNED`]).

use std::net::IpAddr;

use ipnet::IpNet;
use openflow::Action;
use policy::{Exit, Location, Network};

use super::super::fields::{clear_retry, destination, flags, from, go, host, set_flags, source};
use super::super::vocabulary::{
    EXIT, Kind, Origin, RETRY, RETURNED, Table, egress_mac, octets, priority, stable_id,
};
use super::decision::{Decision, lasting, momentary};
use super::ways::{by_host, from_tunnel, holds_loopback, to_peer, tunnel_to};
use super::{Context, Pods};

/// The way out of a pod's packets; a drop for a moment where there is none. `None` for who leaves as others do.
pub(super) fn exit<P: Pods>(
    pod: IpAddr,
    to: IpAddr,
    by_tunnel: bool,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let exit = context.world.exit(pod);
    if exit == Exit::OwnNode && !by_tunnel {
        return None;
    }
    let outside = context.world.network_of(pod).and_then(|network| outside(to, network, context));
    let (prefix, excepted) = outside.unwrap_or((host(to), false));
    let origin = match by_tunnel {
        true => from(Origin::Tunnel),
        false => flags(EXIT, EXIT | Origin::Tunnel.bit()),
    };
    let matches = destination(source(origin, host(pod)), prefix);
    let way = outside.and_then(|_| way(pod, exit, by_tunnel, excepted, context));
    let (kind, told) = match &way {
        Some((way, _)) => (1, way.as_slice()),
        None => (0, [].as_slice()),
    };
    let id = stable_id(&[
        b"exit",
        &octets(pod),
        &octets(prefix.addr()),
        &[prefix.prefix_len(), u8::from(by_tunnel), kind],
        told,
    ]);
    let Some((_, actions)) = way else {
        return Some(Decision::plain(momentary(Kind::Exit, id, Table::Route, matches), false));
    };
    let mut flow = lasting(Kind::Exit, id, Table::Route, matches);
    flow.actions = actions;
    Some(Decision::plain(flow, true))
}

/// What tells the way from others, and the actions.
fn way<P: Pods>(
    pod: IpAddr,
    exit: Exit<'_>,
    by_tunnel: bool,
    excepted: bool,
    context: &Context<'_, P>,
) -> Option<(Vec<u8>, Vec<Action>)> {
    let (address, holder) = match exit {
        Exit::Egress { address, holder } => (address, holder),
        Exit::OwnNode | Exit::Shut => return None,
    };
    let mac = context.site.local_mac;
    if excepted {
        // With its own address, as without an egress address: by its own node.
        return mac.filter(|_| !by_tunnel).map(|mac| by_host(None, mac, context));
    }
    if *holder == context.site.node {
        let router = egress_mac(address);
        return mac.map(|mac| by_host(Some(router), mac, context));
    }
    if by_tunnel {
        return None;
    }
    let tunnel = context.site.tunnel_for(context.world, pod)?;
    Some(to_peer(tunnel_to(holder, context)?, tunnel, true, context))
}

/// The way in of what comes back to a pod of this node; `None` for everything else.
pub(super) fn returned<P: Pods>(
    tunnel: IpAddr,
    outside_source: IpAddr,
    pod: IpAddr,
    context: &Context<'_, P>,
) -> Option<Decision> {
    context.pods.by_address(pod)?;
    let Exit::Egress { holder, .. } = context.world.exit(pod) else { return None };
    if tunnel_to(holder, context) != Some(tunnel) {
        return None;
    }
    let network = context.world.network_of(pod)?;
    let (prefix, _) = outside(outside_source, network, context).filter(|(_, excepted)| !excepted)?;
    let id = stable_id(&[
        b"return",
        &octets(tunnel),
        &octets(prefix.addr()),
        &[prefix.prefix_len()],
        &octets(pod),
    ]);
    let matches = destination(source(from_tunnel(tunnel), prefix), host(pod));
    let mut flow = lasting(Kind::Return, id, Table::Guard, matches);
    flow.priority = priority::RETURNED;
    flow.actions = vec![clear_retry(), set_flags(RETURNED, RETRY | RETURNED), go(Table::Route)];
    Some(Decision::plain(flow, true))
}

/// The widest prefix of the fixed set around an address outside the cluster for which all that counts is the same, and
/// whether the pods of a Network go there with their own address. `None` for what is no machine outside.
fn outside<P>(address: IpAddr, network: &Network, context: &Context<'_, P>) -> Option<(IpNet, bool)> {
    let excepted = network.snat_except.iter().any(|net| net.contains(&address));
    match context.world.locate(address) {
        Location::Outside if address.is_loopback() || address.is_multicast() => None,
        Location::Outside => {
            let alike = |prefix: &IpNet| match excepted {
                true => network.snat_except.iter().any(|net| net.contains(prefix)),
                false => !network.snat_except.iter().any(|net| net.contains(prefix) || prefix.contains(net)),
            };
            let prefix = policy::region::widest_prefix(address, |prefix| {
                context.world.is_outside(*prefix) && !holds_loopback(*prefix) && alike(prefix)
            });
            Some((prefix, excepted))
        }
        // Nobody's pod in a VLAN's prefix is a machine on it.
        Location::Vacant { .. } if !context.world.is_overlay(address) => Some((host(address), excepted)),
        Location::Vacant { .. } | Location::Pod { .. } | Location::Node(_) => None,
    }
}
