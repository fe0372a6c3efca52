//! Static flows of one local pod.

use std::net::IpAddr;

use openflow::message::{BURST, Band, BandKind, MeterCommand, MeterConfig, MeterMod, PKTPS};
use openflow::{Action, Controller, Field, Flow, Match};
use policy::Family;

use super::super::fields::{
    check_size, clear_retry, destination, discovery, flags, go, host, set, set_flags, source, track,
};
use super::super::protocols::{ETH_ARP, SOLICITATION};
use super::super::site::{LocalPod, Site};
use super::super::vocabulary::{
    Cause, EXIT, MARKS, ON_SEGMENT, OVERSIZE, OVERSIZE_LENGTH, Origin, PUNTED, REG_FLAGS, REG_OUTPUT,
    REG_ZONE_IN, REG_ZONE_OUT, RETURNED, ROUTER_MAC, RateMeters, TOO_LARGE, Table, meter_in, meter_out,
    meter_oversize, priority, rate_in, rate_out,
};
use super::dhcp::lease_flows;
use super::rates::{count_received, counts_sent, rate_meters, size_received, size_sent};
use super::segment::{marks as segment_marks, pod_on_segment};
use super::{drop_for, own};

/// Static flows of one local pod.
///
/// A pod on a segment whose uplink has no port is cut off: nothing could tell its frames from another segment's.
#[must_use]
pub fn pod_flows(site: &Site, pod: &LocalPod) -> Vec<Flow> {
    let mut flows = Vec::new();
    match &pod.segment {
        None => {
            flows.extend(classify(pod, marks(pod)));
            flows.extend(guard(pod));
            flows.extend(pod.addresses.iter().flat_map(|address| answered(pod, *address)));
        }
        Some(segment) => {
            let Some(number) = site.segment_number(segment) else { return Vec::new() };
            flows.extend(classify(pod, segment_marks(pod, number)));
            flows.extend(guard(pod));
            flows.extend(pod_on_segment(pod, number));
            flows.extend(lease_flows(pod, number));
        }
    }
    flows.extend(pod.addresses.iter().map(|address| deliver(site, pod, *address)));
    flows.extend(uninvited(pod));
    flows.extend(count_received(pod));
    flows.extend(punt(pod));
    flows.extend(oversize(site, pod));
    flows
}

/// Meters of one local pod: `rate` punts a second each, and what it may send and receive.
#[must_use]
pub fn pod_meters(pod: &LocalPod, rate: u32) -> Vec<MeterMod> {
    punt_meters(pod.zone).into_iter().flat_map(|id| punt_meter(id, rate)).chain(rate_meters(pod)).collect()
}

fn by_port(pod: &LocalPod) -> Match {
    Match::new().with(Field::IN_PORT, pod.port)
}

fn marks(pod: &LocalPod) -> Vec<Action> {
    vec![set(REG_FLAGS, Origin::Pod.bit()), set(REG_ZONE_OUT, u32::from(pod.zone))]
}

fn classify(pod: &LocalPod, mut actions: Vec<Action>) -> Vec<Flow> {
    actions.extend(size_sent(pod));
    actions.push(go(Table::Guard));
    let own_mac = by_port(pod).with(Field::ETH_SRC, pod.mac);
    vec![
        own(pod, Table::Classify, priority::STATIC, own_mac, actions),
        drop_for(Cause::SpoofedMac, Table::Classify, priority::CAUSE, by_port(pod)),
    ]
}

/// What the pod may send; everything else meets the causes of the node's flows.
fn guard(pod: &LocalPod) -> Vec<Flow> {
    let mut flows = Vec::new();
    let mut any_v6 = false;
    for address in &pod.addresses {
        for (counted, count) in counts_sent(pod) {
            let matches = source(counted.with(Field::IN_PORT, pod.port), host(*address));
            let exits = pod.exits.contains(&Family::of(*address)).then(|| set_flags(EXIT, EXIT));
            let actions =
                count.into_iter().chain(exits).chain([track(REG_ZONE_OUT, Table::StateOut)]).collect();
            flows.push(own(pod, Table::Guard, priority::STATIC, matches, actions));
        }
        any_v6 |= address.is_ipv6();
    }
    if any_v6 {
        flows.extend(guard_discovery(pod));
    }
    flows
}

/// In the overlay the switch answers for every address but the pod's own: nobody else may have that.
fn answered(pod: &LocalPod, address: IpAddr) -> Vec<Flow> {
    let IpAddr::V4(v4) = address else { return Vec::new() };
    let arp =
        by_port(pod).with(Field::ETH_TYPE, ETH_ARP).with(Field::ARP_SHA, pod.mac).with(Field::ARP_SPA, v4);
    let own_address = arp.clone().with(Field::ARP_TPA, v4);
    vec![
        own(pod, Table::Guard, priority::DISCOVERY, own_address, vec![]),
        own(pod, Table::Guard, priority::STATIC, arp, vec![go(Table::Neighbour)]),
    ]
}

/// A solicitation shows the pod's own hardware address and one of its own sources.
fn guard_discovery(pod: &LocalPod) -> Vec<Flow> {
    let solicits = || discovery(by_port(pod), SOLICITATION);
    let sources = pod.addresses.iter().copied().filter(|a| Family::of(*a) == Family::V6);
    let mut flows: Vec<Flow> = sources
        .chain([IpAddr::V6(pod.link_local())])
        .map(|address| {
            let matches = source(solicits().with(Field::ND_SLL, pod.mac), host(address));
            own(pod, Table::Guard, priority::DISCOVERY, matches, vec![go(Table::Neighbour)])
        })
        .collect();
    let unspecified = solicits().with(Field::IPV6_SRC, std::net::Ipv6Addr::UNSPECIFIED);
    flows.push(drop_for(Cause::DuplicateDetection, Table::Guard, priority::DISCOVERY, unspecified));
    flows
}

/// The last hop, static: established traffic to a local pod never needs the agent. From one segment to another the way
/// is that of the company's router. Others here may send packets that the pod's device would drop without a word.
fn deliver(site: &Site, pod: &LocalPod, address: IpAddr) -> Flow {
    let arrived = if pod.segment.is_some() { flags(0, ON_SEGMENT) } else { Match::new() };
    own(
        pod,
        Table::Route,
        priority::STATIC,
        destination(arrived, host(address)),
        vec![
            clear_retry(),
            set(Field::ETH_SRC, ROUTER_MAC),
            set(Field::ETH_DST, pod.mac),
            Action::DecTtl,
            set(REG_OUTPUT, pod.port),
            set(REG_ZONE_IN, u32::from(pod.zone)),
        ]
        .into_iter()
        .chain(site.limit_of(pod).into_iter().flat_map(check_size))
        .chain(size_received(pod))
        .chain([track(REG_ZONE_IN, Table::StateIn)])
        .collect(),
    )
}

/// By the node of its egress address nobody opens a conversation with the pod.
fn uninvited(pod: &LocalPod) -> Option<Flow> {
    let matches = flags(RETURNED, RETURNED).with(REG_OUTPUT, pod.port).with_mask(Field::CT_MARK, 0u32, MARKS);
    let drop = drop_for(Cause::Uninvited, Table::Ingress, priority::FIRST, matches);
    (!pod.exits.is_empty()).then_some(drop)
}

/// What the pod opens is charged to it, and so is what tunnels and wires bring to it.
fn punt(pod: &LocalPod) -> Vec<Flow> {
    let mut flows = vec![own(pod, Table::Punt, priority::STATIC, by_port(pod), ask(meter_out(pod.zone)))];
    for address in &pod.addresses {
        let own_side = Origin::Pod.bit() | Origin::Host.bit();
        let inbound = destination(flags(0, own_side), host(*address));
        flows.push(own(pod, Table::Punt, priority::STATIC, inbound, ask(meter_in(pod.zone))));
    }
    flows
}

/// What of the pod's is larger than its way takes is charged to it alone.
fn oversize(site: &Site, pod: &LocalPod) -> Option<Flow> {
    let too_large = flags(TOO_LARGE, TOO_LARGE).with(Field::IN_PORT, pod.port);
    let tell = || tell_too_big(meter_oversize(pod.zone));
    site.overfills.then(|| own(pod, Table::Output, priority::FIRST + 2, too_large, tell()))
}

fn punt_meters(zone: u16) -> [u32; 3] {
    [meter_out(zone), meter_in(zone), meter_oversize(zone)]
}

/// Asks the agent, below a meter; the packet waits in the switch.
pub fn ask(meter: u32) -> Vec<Action> {
    vec![
        Action::Meter(meter),
        Action::Controller(Controller {
            max_len: 0xffff,
            userdata: vec![PUNTED],
            pause: true,
            ..Controller::default()
        }),
    ]
}

/// Gives the head of a packet to the agent, below a meter; the packet itself is dropped.
pub fn tell_too_big(meter: u32) -> Vec<Action> {
    let head = Controller { max_len: OVERSIZE_LENGTH, userdata: vec![OVERSIZE], ..Controller::default() };
    vec![Action::Meter(meter), Action::Controller(head)]
}

/// A meter for punts: `rate` packets a second, as many at once. One that exists already gets this rate.
pub fn punt_meter(id: u32, rate: u32) -> [MeterMod; 2] {
    let bands = vec![Band { kind: BandKind::Drop, rate, burst: rate }];
    let meter = MeterConfig { id, flags: PKTPS | BURST, bands };
    [MeterCommand::Add, MeterCommand::Modify].map(|command| MeterMod { command, meter: meter.clone() })
}

/// Removes the meters of the pod of a zone, after the flows that use them.
#[must_use]
pub fn forget_meters_of(zone: u16) -> Vec<MeterMod> {
    let punts = punt_meters(zone).map(forget_meter);
    punts.into_iter().chain(forget_rate(rate_out(zone))).chain(forget_rate(rate_in(zone))).collect()
}

/// Removes the meters of rates that a pod had and has not any more, after the flows that used them.
#[must_use]
pub fn forget_rates(before: &LocalPod, after: &LocalPod) -> Vec<MeterMod> {
    let lost = |had: Option<u64>, has: Option<u64>| had.is_some() && has.is_none();
    let out = lost(before.rates.out, after.rates.out).then(|| rate_out(before.zone));
    let into = lost(before.rates.into, after.rates.into).then(|| rate_in(before.zone));
    out.into_iter().chain(into).flat_map(forget_rate).collect()
}

fn forget_rate(meters: RateMeters) -> [MeterMod; 2] {
    [meters.all, meters.large].map(forget_meter)
}

fn forget_meter(id: u32) -> MeterMod {
    MeterMod { command: MeterCommand::Delete, meter: MeterConfig { id, flags: 0, bands: Vec::new() } }
}
