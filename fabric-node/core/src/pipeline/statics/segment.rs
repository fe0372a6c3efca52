//! Static flows of the segments that pods of this node are in: the VLANs of physical networks.
//!
//! A segment is a wire, and the bridge is one of its switches: frames between a pod and the wire, or two pods of the
//! segment, keep their addresses and their time to live. What is to reach everybody goes by one flow that lists the
//! segment's ports: the switch copies without asking, and never back to where a frame came from. ARP, neighbour discovery
//! and queries for listeners reach every pod; other multicast, which nobody can be asked about for each of its
//! receivers, reaches the pods that nothing isolates. A frame for several whose packet is for one, or the reverse, is
//! dropped.
//!
//! Neighbour discovery is judged by nobody, so it must not become a way: what comes by the wire has the hop limit that no
//! router leaves (255, RFC 4861 §6.1.1), and what pods send stays on the link by its destination.
//!
//! From the wire only that passes which is for a pod of the segment, and what nobody here says of himself: no frame with
//! the hardware address of a pod, none that speaks for a pod's address in its own segment, none of an overlay pod or of
//! this node. A pod of another segment of this node does come by the wire with its own address: by the router. Of who
//! claims a pod's address in ARP or neighbour discovery the agent gets a copy, at most one in a while for each address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use openflow::{Action, Controller, Field, Flow, Mac, Match};
use policy::{Family, Network, World};

use super::super::fields::{
    clear_retry, destination, discovery, flags, from, go, host, ip, set, set_flags, source, to_wire, track,
};
use super::super::protocols::{
    ADVERTISEMENT, DISCOVERY_HOPS, ETH_ARP, LISTENER_HOPS, QUERY, REPORT, SOLICITATION, UDP,
};
use super::super::site::{LocalPod, Segment, Site};
use super::super::vocabulary::{
    ALL_MLD_ROUTERS, CLAIMED, CLAIMED_SECONDS, CLAIMS, COPY_LENGTH, Cause, DHCPV6_CLIENT, Kind, ON_SEGMENT,
    Origin, PROBE_METER, PROBE_SECONDS, PROBED, REG_FLAGS, REG_OUTPUT, REG_SEGMENT, REG_ZONE_IN,
    REG_ZONE_OUT, Table, octets, priority, stable_id,
};
use super::rates::size_received;
use super::{drop_for, flow, inside, of_node, own};

/// The bit of a hardware address that says: for several (IEEE 802).
const GROUP: Mac = Mac([1, 0, 0, 0, 0, 0]);

/// Flows of the segments of some pods, and of what comes by their wires.
pub fn segment_flows(site: &Site, world: &World, pods: &[&LocalPod]) -> Vec<Flow> {
    let mut segments: BTreeMap<u32, Vec<&LocalPod>> = BTreeMap::new();
    for pod in pods {
        if let Some(segment) = &pod.segment
            && let Some(number) = site.segment_number(segment)
        {
            segments.entry(number).or_default().push(pod);
        }
    }
    if segments.is_empty() {
        return Vec::new();
    }
    let mut flows = wire(site, world, pods);
    for (number, pods) in segments {
        flows.push(of_node(Table::Classify, priority::STATIC, arriving(number), arrives(number)));
        let everybody: Vec<u32> =
            pods.iter().filter(|pod| !pod.addresses.is_empty()).map(|pod| pod.port).collect();
        let cidrs = prefixes(site, world, number, &pods);
        let group = || Match::new().with(REG_SEGMENT, number).with_mask(Field::ETH_DST, GROUP, GROUP);
        for heard in [group().with(Field::ETH_TYPE, ETH_ARP), destination(group(), link_scope())] {
            flows.push(of_node(Table::Neighbour, priority::SEGMENT, heard, to_all(number, &everybody)));
        }
        flows.extend(on_link(number, &cidrs));
        let open: Vec<u32> = pods.iter().filter(|pod| hears_groups(pod, world)).map(|pod| pod.port).collect();
        for several in groups(&cidrs) {
            let matches = destination(group(), several);
            flows.push(of_node(Table::Route, priority::SEGMENT, matches, to_all(number, &open)));
        }
    }
    flows
}

/// Whether a pod hears what is for several, beside ARP and discovery. Who waits for his lease does not.
pub fn hears_groups(pod: &LocalPod, world: &World) -> bool {
    !pod.addresses.is_empty() && pod.addresses.iter().all(|address| world.is_open(*address))
}

/// The prefixes on a segment: of the Networks that are there, and of those that its pods' addresses are of, which may have
/// become of another kind.
fn prefixes(site: &Site, world: &World, number: u32, pods: &[&LocalPod]) -> Vec<IpNet> {
    let is_there = |network: &&Network| {
        let pods_are = || pods.iter().flat_map(|pod| &pod.addresses).any(|ip| network.contains(*ip));
        Segment::of(network).and_then(|segment| site.segment_number(&segment)) == Some(number) || pods_are()
    };
    world.networks().filter(is_there).flat_map(|network| network.cidrs.iter().copied()).collect()
}

/// Multicast that no router forwards (RFC 4291 §2.7).
fn link_scope() -> IpNet {
    policy::address::prefix(IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0)), 16)
}

/// What is for several: multicast, IPv4's broadcast with it, and the last addresses of the prefixes on the segment.
fn groups(cidrs: &[IpNet]) -> Vec<IpNet> {
    let v4 = policy::address::prefix(IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0)), 3);
    let v6 = policy::address::prefix(IpAddr::V6(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0)), 8);
    let own = cidrs.iter().filter(|cidr| cidr.addr().is_ipv4() && cidr.prefix_len() < 31);
    [v4, v6].into_iter().chain(own.map(|cidr| host(cidr.broadcast()))).collect()
}

/// Where pods' ARP and neighbour discovery that is for one goes: onto the wire, if it is for the link.
fn on_link(number: u32, cidrs: &[IpNet]) -> Vec<Flow> {
    let from_pod = || of(number, Origin::Pod);
    let link_local = policy::address::prefix(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10);
    let v6 = cidrs.iter().copied().filter(|cidr| cidr.addr().is_ipv6());
    std::iter::once(from_pod().with(Field::ETH_TYPE, ETH_ARP))
        .chain(v6.chain([link_local]).map(|prefix| destination(from_pod(), prefix)))
        .map(|matches| of_node(Table::Neighbour, priority::CAUSE, matches, out_by_wire(number)))
        .collect()
}

/// What comes by any wire, and what pods may not say on one.
fn wire(site: &Site, world: &World, pods: &[&LocalPod]) -> Vec<Flow> {
    let table = Table::Guard;
    let arrived = || from(Origin::Physical);
    let pod = Origin::Pod.bit() | ON_SEGMENT;
    let serves =
        ip(flags(pod, pod), Family::V6).with(Field::IP_PROTO, UDP).with(Field::UDP_DST, DHCPV6_CLIENT);
    let query = destination(discovery(arrived(), QUERY).with(Field::IP_TTL, LISTENER_HOPS), link_scope());
    let mut flows = vec![
        of_node(table, priority::CAUSE, arrived().with(Field::ETH_TYPE, ETH_ARP), vec![go(Table::Neighbour)]),
        of_node(table, priority::DISCOVERY, query, vec![go(Table::Neighbour)]),
        drop_for(Cause::DhcpServer, table, priority::FIRST, serves),
        drop_for(Cause::WireStray, table, priority::DEFAULT + 1, arrived()),
        drop_for(Cause::WireStray, Table::Neighbour, priority::DEFAULT, arrived()),
        drop_for(Cause::WireStray, Table::Route, priority::OFF_SEGMENT, arrived()),
        of_node(Table::Punt, priority::FIRST, flags(CLAIMS, CLAIMS), tell(CLAIMED)),
    ];
    for kind in [SOLICITATION, ADVERTISEMENT] {
        let matches = discovery(arrived(), kind).with(Field::IP_TTL, DISCOVERY_HOPS);
        flows.push(of_node(table, priority::DISCOVERY, matches, vec![go(Table::Neighbour)]));
    }
    let single = flags(ON_SEGMENT, ON_SEGMENT).with_mask(Field::ETH_DST, GROUP, GROUP);
    flows.push(drop_for(Cause::Multicast, Table::Route, priority::OFF_SEGMENT + 1, single));
    for several in groups(&[]) {
        let matches = destination(flags(pod, pod), several);
        flows.push(drop_for(Cause::Multicast, Table::Route, priority::OFF_SEGMENT, matches));
    }
    for family in Family::ALL {
        flows.push(of_node(table, priority::CAUSE, ip(arrived(), family), vec![go(Table::Route)]));
    }
    let own = site.addresses.iter().map(|address| host(*address));
    for alien in inside(world, pods).into_iter().chain(own) {
        let matches = source(arrived(), alien);
        flows.push(drop_for(Cause::SpoofedOnWire, table, priority::FIRST, matches));
    }
    flows
}

/// Frames of a VLAN that pods are in lose its tag; those of others come to nobody.
fn arrives(number: u32) -> Vec<Action> {
    let untag = (number & 0xffff != 0).then_some(Action::PopVlan);
    let mut actions = vec![set(REG_FLAGS, Origin::Physical.bit() | ON_SEGMENT), set(REG_SEGMENT, number)];
    actions.extend(untag);
    actions.push(go(Table::Guard));
    actions
}

fn arriving(number: u32) -> Match {
    Match::new().with(Field::IN_PORT, number >> 16).with_mask(Field::VLAN_TCI, number & 0xffff, 0x1fffu16)
}

/// One copy for each of the ports, and one for the wire.
pub fn to_all(number: u32, ports: &[u32]) -> Vec<Action> {
    let mut actions: Vec<Action> =
        ports.iter().map(|port| Action::Output { port: *port, max_len: 0 }).collect();
    actions.extend(out_by_wire(number));
    actions
}

/// Flows that let the agent hear, for a moment, who on the wire speaks for an address or asks whether he may: copies of
/// such frames, with [`PROBED`]. They go on as they would without; so that they get here, what arrives is taken off the
/// wire also where no pod is on the segment yet.
#[must_use]
pub fn probe_flows(number: u32, address: IpAddr) -> Vec<Flow> {
    let arrived = || of(number, Origin::Physical);
    let arp = || arrived().with(Field::ETH_TYPE, ETH_ARP);
    let heard = match address {
        IpAddr::V4(v4) => [
            arp().with(Field::ARP_SPA, v4),
            arp().with(Field::ARP_SPA, Ipv4Addr::UNSPECIFIED).with(Field::ARP_TPA, v4),
        ],
        IpAddr::V6(v6) => [
            discovery(arrived(), ADVERTISEMENT)
                .with(Field::IP_TTL, DISCOVERY_HOPS)
                .with(Field::ND_TARGET, v6),
            discovery(arrived(), SOLICITATION)
                .with(Field::IP_TTL, DISCOVERY_HOPS)
                .with(Field::IPV6_SRC, Ipv6Addr::UNSPECIFIED)
                .with(Field::ND_TARGET, v6),
        ],
    };
    // Above its rate the meter ends what is inside only: the frame goes on.
    let tell = Action::Clone(tell(PROBED));
    let id = stable_id(&[b"probe", &number.to_be_bytes(), &octets(address)]);
    let first = stable_id(&[b"probe", &number.to_be_bytes()]);
    let below = priority::STATIC - 1;
    let arrives = Flow {
        hard_timeout: PROBE_SECONDS,
        ..flow(Kind::Probe, first, Table::Classify, below, arriving(number), arrives(number))
    };
    heard
        .into_iter()
        .map(|matches| Flow {
            hard_timeout: PROBE_SECONDS,
            ..flow(
                Kind::Probe,
                id,
                Table::Guard,
                priority::FIRST,
                matches,
                vec![tell.clone(), go(Table::Neighbour)],
            )
        })
        .chain([arrives])
        .collect()
}

/// Gives the agent the head of a frame that speaks for an address, below a meter.
fn tell(userdata: u8) -> Vec<Action> {
    let copy = Controller { max_len: COPY_LENGTH, userdata: vec![userdata], ..Controller::default() };
    vec![Action::Meter(PROBE_METER), Action::Controller(copy)]
}

/// What happens to a frame of the agent's own that is for a wire.
#[must_use]
pub fn out_by_wire(number: u32) -> Vec<Action> {
    let mut actions = to_wire(number);
    actions.push(Action::Output { port: number >> 16, max_len: 0 });
    actions
}

/// Flows of a pod on a segment, beside those that tell its port and its sources.
pub fn pod_on_segment(pod: &LocalPod, number: u32) -> Vec<Flow> {
    let mut flows = vec![forged(pod, number)];
    if pod.addresses.is_empty() {
        return flows;
    }
    for address in &pod.addresses {
        flows.extend(speaks(pod, *address));
        flows.extend(claimed(number, *address));
        flows.extend(bridged(pod, number, *address));
        flows.push(drop_for(
            Cause::SpoofedByHost,
            Table::Guard,
            priority::FIRST,
            source(from(Origin::Host), host(*address)),
        ));
    }
    if pod.addresses.iter().any(IpAddr::is_ipv6) {
        flows.extend(listens(pod));
    }
    flows.extend(asked(pod, number));
    flows
}

/// Packets of a segment, of an origin.
pub fn of(number: u32, origin: Origin) -> Match {
    from(origin).with(REG_SEGMENT, number)
}

fn forged(pod: &LocalPod, number: u32) -> Flow {
    let matches = Match::new().with(Field::IN_PORT, number >> 16).with(Field::ETH_SRC, pod.mac);
    drop_for(Cause::SpoofedOnWire, Table::Classify, priority::FIRST, matches)
}

/// What a pod says of its own address: it claims it, asks others for theirs, and looks whether somebody else has it.
fn speaks(pod: &LocalPod, address: IpAddr) -> Vec<Flow> {
    let by_port = || Match::new().with(Field::IN_PORT, pod.port);
    let say =
        |matches: Match| own(pod, Table::Guard, priority::DISCOVERY, matches, vec![go(Table::Neighbour)]);
    match address {
        IpAddr::V4(v4) => {
            let arp = || by_port().with(Field::ETH_TYPE, ETH_ARP).with(Field::ARP_SHA, pod.mac);
            let probe = arp().with(Field::ARP_SPA, Ipv4Addr::UNSPECIFIED).with(Field::ARP_TPA, v4);
            vec![say(arp().with(Field::ARP_SPA, v4)), say(probe)]
        }
        IpAddr::V6(v6) => {
            let looks = discovery(by_port(), SOLICITATION)
                .with(Field::IPV6_SRC, Ipv6Addr::UNSPECIFIED)
                .with(Field::ND_TARGET, v6);
            // An answer to a solicitation that was sent to the pod alone needs no link-layer address (RFC 4861 §4.4).
            let answers = [pod.mac, Mac([0; 6])].map(|mac| {
                let answer = discovery(by_port(), ADVERTISEMENT).with(Field::IPV6_SRC, v6);
                say(answer.with(Field::ND_TARGET, v6).with(Field::ND_TLL, mac))
            });
            let looks = Flow { priority: priority::DISCOVERY + 1, ..say(looks) };
            std::iter::once(looks).chain(answers).collect()
        }
    }
}

/// Its reports of what it listens to, without which a switch in between may keep solicitations back.
fn listens(pod: &LocalPod) -> [Flow; 2] {
    let (group, frame) = ALL_MLD_ROUTERS;
    [pod.link_local(), Ipv6Addr::UNSPECIFIED].map(|address| {
        let matches = discovery(Match::new().with(Field::IN_PORT, pod.port), REPORT)
            .with(Field::ETH_DST, frame)
            .with(Field::IPV6_SRC, address)
            .with(Field::IPV6_DST, group);
        own(pod, Table::Guard, priority::DISCOVERY, matches, vec![go(Table::Neighbour)])
    })
}

/// What from the wire would speak for the pod's address. It stands above what is heard while the address is probed. The
/// agent is told of what claims the address in ARP or neighbour discovery: somebody else may have taken it.
fn claimed(number: u32, address: IpAddr) -> Vec<Flow> {
    let drop = |priority, matches| drop_for(Cause::SpoofedOnWire, Table::Guard, priority, matches);
    let spoofs = drop(priority::FIRST + 1, source(of(number, Origin::Physical), host(address)));
    let claims = claims(of(number, Origin::Physical), address).into_iter().map(|matches| Flow {
        actions: vec![set_flags(CLAIMS, CLAIMS), go(Table::Punt)],
        ..drop(priority::FIRST + 2, matches)
    });
    std::iter::once(spoofs).chain(claims).collect()
}

/// Adds: ARP and neighbour discovery whose sender says that the address is his.
fn claims(matches: Match, address: IpAddr) -> Vec<Match> {
    match address {
        IpAddr::V4(v4) => vec![matches.with(Field::ETH_TYPE, ETH_ARP).with(Field::ARP_SPA, v4)],
        IpAddr::V6(v6) => vec![
            discovery(matches.clone(), ADVERTISEMENT).with(Field::ND_TARGET, v6),
            discovery(matches, SOLICITATION).with(Field::IPV6_SRC, v6),
        ],
    }
}

/// Flows that keep from the agent, for a while, who claims the address of a pod of the segment: it has just been told.
#[must_use]
pub fn quiet_flows(number: u32, address: IpAddr) -> Vec<Flow> {
    let id = stable_id(&[b"claims", &number.to_be_bytes(), &octets(address)]);
    let quiet = |matches| Flow {
        hard_timeout: CLAIMED_SECONDS,
        ..flow(Kind::Probe, id, Table::Punt, priority::FIRST + 1, matches, vec![])
    };
    claims(flags(CLAIMS, CLAIMS).with(REG_SEGMENT, number), address).into_iter().map(quiet).collect()
}

/// To the pod's hardware and network address, as it is. A pod of the segment may mean its router (the two may be of
/// several Networks in one VLAN), and needs none.
fn bridged(pod: &LocalPod, number: u32, address: IpAddr) -> [Flow; 2] {
    let deliver = |rewrite: Option<Action>| {
        let mut actions = vec![clear_retry()];
        actions.extend(rewrite);
        actions.extend([set(REG_OUTPUT, pod.port), set(REG_ZONE_IN, u32::from(pod.zone))]);
        actions.extend(size_received(pod));
        actions.push(track(REG_ZONE_IN, Table::StateIn));
        actions
    };
    let to_pod = Match::new().with(REG_SEGMENT, number).with(Field::ETH_DST, pod.mac);
    let by_router = destination(of(number, Origin::Pod), host(address));
    [
        own(pod, Table::Route, priority::SEGMENT, destination(to_pod, host(address)), deliver(None)),
        own(pod, Table::Route, priority::OFF_SEGMENT, by_router, deliver(Some(set(Field::ETH_DST, pod.mac)))),
    ]
}

/// ARP and neighbour discovery for the pod alone: what is sent to it, and what the wire asks about its addresses.
fn asked(pod: &LocalPod, number: u32) -> Vec<Flow> {
    let hand = || vec![Action::Output { port: pod.port, max_len: 0 }];
    let sent = Match::new().with(REG_SEGMENT, number).with(Field::ETH_DST, pod.mac);
    let mut flows = vec![own(pod, Table::Neighbour, priority::SEGMENT, sent, hand())];
    for address in &pod.addresses {
        let question = match address {
            IpAddr::V4(v4) => of(number, Origin::Physical)
                .with(Field::ETH_TYPE, ETH_ARP)
                .with(Field::ARP_OP, 1u16)
                .with(Field::ARP_TPA, *v4),
            IpAddr::V6(v6) => {
                discovery(of(number, Origin::Physical), SOLICITATION).with(Field::ND_TARGET, *v6)
            }
        };
        flows.push(own(pod, Table::Neighbour, priority::SEGMENT + 1, question, hand()));
    }
    flows
}

/// What a pod on a segment is told apart by, beside its origin and zone.
pub fn marks(pod: &LocalPod, number: u32) -> Vec<Action> {
    vec![
        set(REG_FLAGS, Origin::Pod.bit() | ON_SEGMENT),
        set(REG_ZONE_OUT, u32::from(pod.zone)),
        set(REG_SEGMENT, number),
    ]
}
