//! Static flows of the node itself.

use std::collections::BTreeSet;

use openflow::message::MeterMod;
use openflow::{Action, Field, Flow, Match, Subfield, port};
use policy::{Family, World};

use super::super::fields::{
    check_size, clear_retry, commit, commit_noted, copy, destination, discovery, flags, forward, from, go,
    host, ip, note_protocol, set, set_flags, source, state,
};
use super::super::protocols::{ADVERTISEMENT, ETH_ARP, SOLICITATION, UDP};
use super::super::site::{LocalPod, Site, Tunnel};
use super::super::vocabulary::{
    ANSWER, COMMIT, Cause, DHCP_CLIENT, GENEVE_PORT, GRE, HIGH_PROTOCOL, HOST_METER, JUDGED, LOG_METER,
    ON_SEGMENT, OVERSIZE_METER, Origin, PROBE_METER, REG_FLAGS, REG_OUTPUT, REG_SCRATCH, REG_ZONE_IN, RETRY,
    ROUTER_MAC, TO_NODE, TOO_LARGE, TUNNEL_METER, Table, VXLAN_PORT, priority,
};
use super::dhcp::answers_to_several;
use super::pod::{ask, punt_meter, tell_too_big};
use super::segment::segment_flows;
use super::{drop_for, inside, miss, of_node};

/// The id that stands in the `ct_label` of conversations that the node's own rules allow.
pub const OWN_NODE: u64 = 1;

/// Static flows of the node itself, those of the VLANs that its pods are in among them.
#[must_use]
pub fn node_flows<'a>(site: &Site, world: &World, pods: impl IntoIterator<Item = &'a LocalPod>) -> Vec<Flow> {
    let pods: Vec<&LocalPod> = pods.into_iter().collect();
    let mut flows = classify(site);
    flows.extend(segment_flows(site, world, &pods));
    flows.extend(answers_to_several(site, world, &pods));
    flows.extend(guard(world, &pods));
    flows.extend(neighbour());
    flows.extend(conversations());
    flows.extend(route(site));
    flows.extend(ingress(site));
    flows.extend(output(site));
    flows.push(miss(Table::Egress, 0, 0));
    flows.push(of_node(Table::Punt, priority::STATIC, from(Origin::Host), ask(HOST_METER)));
    flows.push(of_node(Table::Punt, priority::CAUSE, from(Origin::Tunnel), ask(TUNNEL_METER)));
    flows
}

/// The node's meters: `rate` punts a second.
#[must_use]
pub fn node_meters(rate: u32) -> Vec<MeterMod> {
    [HOST_METER, TUNNEL_METER, LOG_METER, OVERSIZE_METER, PROBE_METER]
        .into_iter()
        .flat_map(|id| punt_meter(id, rate))
        .collect()
}

fn classify(site: &Site) -> Vec<Flow> {
    let arrives = |in_port: u32, origin: Origin| {
        of_node(
            Table::Classify,
            priority::STATIC,
            Match::new().with(Field::IN_PORT, in_port),
            vec![set(REG_FLAGS, origin.bit()), go(Table::Guard)],
        )
    };
    let mut flows: Vec<Flow> = site.tunnels.values().map(|port| arrives(*port, Origin::Tunnel)).collect();
    flows.push(arrives(port::LOCAL, Origin::Host));
    flows.push(drop_for(Cause::UnknownPort, Table::Classify, priority::DEFAULT, Match::new()));
    flows
}

/// What is dropped for a cause, and who else passes; what pods may send stands with the pods.
fn guard(world: &World, pods: &[&LocalPod]) -> Vec<Flow> {
    let table = Table::Guard;
    let pod = || from(Origin::Pod);
    let tagged = pod().with_mask(Field::VLAN_TCI, 0x1000u16, 0x1000u16);
    let off_segment = || flags(0, ON_SEGMENT);
    let multicast_v4 = ip(off_segment(), Family::V4).with_mask(
        Field::IPV4_DST,
        std::net::Ipv4Addr::new(224, 0, 0, 0),
        std::net::Ipv4Addr::new(224, 0, 0, 0),
    );
    let multicast_v6 =
        ip(off_segment(), Family::V6).with_mask(Field::IPV6_DST, 0xff_u128 << 120, 0xff_u128 << 120);
    let dhcp = ip(pod(), Family::V4).with(Field::IP_PROTO, UDP).with(Field::UDP_DST, DHCP_CLIENT);
    let mut flows = vec![
        drop_for(Cause::VlanTag, table, priority::FIRST, tagged),
        drop_for(Cause::DhcpServer, table, priority::FIRST, dhcp),
        drop_for(Cause::SpoofedDiscovery, table, priority::FORGED_DISCOVERY, discovery(pod(), SOLICITATION)),
        drop_for(Cause::SpoofedDiscovery, table, priority::FORGED_DISCOVERY, discovery(pod(), ADVERTISEMENT)),
        drop_for(Cause::Multicast, table, priority::MULTICAST, multicast_v4),
        drop_for(Cause::Multicast, table, priority::MULTICAST, multicast_v6),
        drop_for(Cause::SpoofedArp, table, priority::CAUSE, pod().with(Field::ETH_TYPE, ETH_ARP)),
        drop_for(Cause::SpoofedIpv4, table, priority::CAUSE, ip(pod(), Family::V4)),
        drop_for(Cause::SpoofedIpv6, table, priority::CAUSE, ip(pod(), Family::V6)),
        drop_for(Cause::Protocol, table, priority::DEFAULT + 1, pod()),
        // The host's next hops are permanent neighbours of its, so it asks for none.
        of_node(table, priority::CAUSE, from(Origin::Host), vec![go(Table::Route)]),
        miss(table, Origin::Tunnel.bit(), Origin::Tunnel.bit()),
    ];
    for prefix in inside(world, pods) {
        let matches = source(from(Origin::Host), prefix);
        flows.push(drop_for(Cause::SpoofedByHost, table, priority::FIRST, matches));
    }
    flows
}

/// In the overlay the switch answers a pod for every address with the router's hardware address.
fn neighbour() -> Vec<Flow> {
    let table = Table::Neighbour;
    let request = flags(0, ON_SEGMENT).with(Field::ETH_TYPE, ETH_ARP).with(Field::ARP_OP, 1u16);
    let reply = Action::Output { port: port::IN_PORT, max_len: 0 };
    let answer_flag = discovery(Match::new().with_mask(REG_FLAGS, ANSWER, ANSWER), ADVERTISEMENT);
    vec![
        of_node(
            table,
            priority::STATIC,
            request,
            vec![
                copy(Field::ETH_SRC, Field::ETH_DST),
                set(Field::ETH_SRC, ROUTER_MAC),
                set(Field::ARP_OP, 2u16),
                copy(Field::ARP_SHA, Field::ARP_THA),
                copy(Field::ARP_SPA, REG_SCRATCH),
                copy(Field::ARP_TPA, Field::ARP_SPA),
                copy(REG_SCRATCH, Field::ARP_TPA),
                set(Field::ARP_SHA, ROUTER_MAC),
                reply.clone(),
            ],
        ),
        // The option becomes a target address only after the type has changed (RFC 4861 §4.6.1), hence two steps.
        of_node(
            table,
            priority::STATIC,
            discovery(flags(0, ANSWER | ON_SEGMENT), SOLICITATION),
            vec![
                copy(Field::ETH_SRC, Field::ETH_DST),
                set(Field::ETH_SRC, ROUTER_MAC),
                copy(Field::IPV6_SRC, Field::IPV6_DST),
                copy(Field::ND_TARGET, Field::IPV6_SRC),
                set(Field::ICMPV6_TYPE, ADVERTISEMENT),
                set_flags(ANSWER, ANSWER),
                go(table),
            ],
        ),
        of_node(
            table,
            priority::STATIC,
            answer_flag,
            vec![
                set(Field::ND_RESERVED, 0xe000_0000u32),
                set(Field::ND_OPTIONS_TYPE, 2u8),
                set(Field::ND_TLL, ROUTER_MAC),
                reply,
            ],
        ),
    ]
}

/// What was judged before passes, on the way out and in.
fn conversations() -> Vec<Flow> {
    let (tracked, invalid) = (state::TRACKED, state::INVALID);
    let mut flows = Vec::new();
    for (table, judged, rest) in
        [(Table::StateOut, Table::Route, Table::Egress), (Table::StateIn, Table::Output, Table::Ingress)]
    {
        let known = Match::new().with_mask(Field::CT_STATE, tracked, tracked | state::NEW | invalid);
        let known = known.with_mask(Field::CT_MARK, JUDGED, JUDGED);
        flows.push(of_node(table, priority::STATIC, known, vec![go(judged)]));
        let bad = Match::new().with_mask(Field::CT_STATE, invalid | tracked, invalid | tracked);
        flows.push(drop_for(Cause::Invalid, table, priority::CAUSE, bad));
        let valid = Match::new().with_mask(Field::CT_STATE, tracked, tracked | invalid);
        flows.push(of_node(table, priority::DEFAULT, valid, vec![note_protocol(), go(rest)]));
    }
    flows
}

/// The node's own addresses; local pods stand with the pods, everything else is learned.
fn route(site: &Site) -> Vec<Flow> {
    let mut flows = vec![
        miss(Table::Route, 0, 0),
        drop_for(Cause::TunnelStray, Table::Route, priority::CAUSE, from(Origin::Tunnel)),
    ];
    if !site.egress.is_empty() {
        // What tunnels bring may leave here under an egress address.
        let from_tunnel = Origin::Tunnel.bit();
        flows.push(Flow { priority: priority::ASK, ..miss(Table::Route, from_tunnel, from_tunnel) });
    }
    if let Some(mac) = site.local_mac {
        for address in &site.addresses {
            flows.push(of_node(
                Table::Route,
                priority::STATIC,
                destination(Match::new(), host(*address)),
                to_host(site, mac),
            ));
        }
    }
    flows
}

/// Actions that hand a packet to the node itself, which is its end or forwards it.
pub fn to_host(site: &Site, local_mac: openflow::Mac) -> Vec<Action> {
    to_host_from(site, ROUTER_MAC, local_mac)
}

/// The same, from a hardware address that tells the node what to do with it.
pub fn to_host_from(site: &Site, router: openflow::Mac, local_mac: openflow::Mac) -> Vec<Action> {
    let mut actions = vec![
        set_flags(TO_NODE, RETRY | TO_NODE),
        set(Field::ETH_SRC, router),
        set(Field::ETH_DST, local_mac),
        Action::DecTtl,
        set(REG_OUTPUT, port::LOCAL),
    ];
    actions.extend(site.limit_of_host().into_iter().flat_map(check_size));
    actions.push(go(Table::Output));
    actions
}

/// A pod's own node always reaches it: kubelet probes.
fn ingress(site: &Site) -> Vec<Flow> {
    let mut flows = vec![miss(Table::Ingress, 0, 0)];
    for address in &site.addresses {
        flows.push(of_node(
            Table::Ingress,
            priority::STATIC,
            forward(source(flags(Origin::Host.bit(), Origin::Host.bit() | HIGH_PROTOCOL), host(*address))),
            vec![clear_retry(), commit(REG_ZONE_IN, JUDGED, OWN_NODE), go(Table::Output)],
        ));
    }
    flows
}

/// Sends, and commits first in the sender's zone what every end has allowed.
///
/// A pod must not build a tunnel of its own to a node: its packets would seem to come from the fabric. Neither to a
/// place outside, which may be another address of a node and sees the packet come from this node. Connection tracking
/// knows the ports of a first fragment too, which the packet does not show.
fn output(site: &Site) -> Vec<Flow> {
    let (tracked, invalid, reply) = (state::TRACKED, state::INVALID, state::REPLY);
    let opens = |protocol: u8| {
        flags(Origin::Pod.bit() | TO_NODE, Origin::Pod.bit() | TO_NODE)
            .with_mask(Field::CT_STATE, tracked, tracked | invalid | reply)
            .with(Field::CT_NW_PROTO, protocol)
    };
    let tunnels = site.tunnels.keys().chain(&[Tunnel::Vxlan]).collect::<BTreeSet<_>>();
    let tunnels = tunnels.into_iter().map(|kind| match kind {
        Tunnel::Vxlan => opens(UDP).with(Field::CT_TP_DST, VXLAN_PORT),
        Tunnel::Geneve => opens(UDP).with(Field::CT_TP_DST, GENEVE_PORT),
        Tunnel::Gre => opens(GRE),
    });
    let send = Action::OutputReg { src: Subfield::bits(REG_OUTPUT, 0, 16), max_len: 0xffff };
    let mut flows: Vec<Flow> =
        tunnels.map(|tunnel| drop_for(Cause::TunnelPort, Table::Output, priority::FIRST, tunnel)).collect();
    flows.push(of_node(Table::Output, priority::DEFAULT, Match::new(), vec![send.clone()]));
    flows.extend(oversize(site));
    for family in Family::ALL {
        let noted = ip(flags(COMMIT, COMMIT), family);
        let actions = vec![set_flags(0, COMMIT), commit_noted(), send.clone()];
        flows.push(of_node(Table::Output, priority::STATIC, noted, actions));
    }
    flows
}

/// Packets that their way does not take: their head goes to the agent, which tells the sender. What the host sends counts
/// against the host, and the rest against what tunnels and wires bring; pods have flows of their own.
fn oversize(site: &Site) -> Vec<Flow> {
    if !site.overfills {
        return Vec::new();
    }
    let too_large = flags(TOO_LARGE, TOO_LARGE);
    let by_host = too_large.clone().with(Field::IN_PORT, port::LOCAL);
    [(priority::FIRST + 2, by_host, HOST_METER), (priority::FIRST + 1, too_large, OVERSIZE_METER)]
        .map(|(priority, matches, meter)| of_node(Table::Output, priority, matches, tell_too_big(meter)))
        .into()
}
