//! Pods whose address a DHCP server of their VLAN gives (RFC 2131): what passes between its client and such servers.
//!
//! Nobody judges and nobody tracks these frames, so they are few and exact: from the client's port to the servers', from
//! no address or the pod's own, onto the wire alone and below the meter of what the pod opens; and from the servers' port
//! to the client's, from the wire alone, to the pod's hardware address or to everybody. So a lease is renewed whatever
//! policies say, no pod hears another's client, and none is anybody's server ([`Cause::DhcpServer`] stands above all of
//! this). Before it has an address, nothing else passes to such a pod or from it.
//!
//! [`Cause::DhcpServer`]: super::super::vocabulary::Cause::DhcpServer

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use openflow::{Action, Field, Flow, Mac, Match};
use policy::{Family, World};

use super::super::fields::{host, ip, source};
use super::super::protocols::UDP;
use super::super::site::{LocalPod, Site};
use super::super::vocabulary::{DHCP_CLIENT, DHCP_SERVER, Origin, Table, meter_out, priority};
use super::segment::{hears_groups, of, out_by_wire, to_all};
use super::{of_node, own};

/// Who a frame for everybody is for.
const EVERYBODY: Mac = Mac([0xff; 6]);

/// What a pod and the DHCP servers of its segment say to each other.
pub fn lease_flows(pod: &LocalPod, number: u32) -> Vec<Flow> {
    if !pod.leases {
        return Vec::new();
    }
    let asks = udp(Match::new().with(Field::IN_PORT, pod.port), DHCP_CLIENT, DHCP_SERVER);
    let anew = source(asks.clone(), host(Ipv4Addr::UNSPECIFIED.into()))
        .with(Field::ETH_DST, EVERYBODY)
        .with(Field::IPV4_DST, Ipv4Addr::BROADCAST);
    let own_address = pod.addresses.iter().filter(|address| address.is_ipv4());
    let again = own_address.map(|address| source(asks.clone(), host(*address)));
    let say = |matches: Match| {
        let actions =
            std::iter::once(Action::Meter(meter_out(pod.zone))).chain(out_by_wire(number)).collect();
        own(pod, Table::Guard, priority::DISCOVERY, matches, actions)
    };
    let hand = vec![Action::Output { port: pod.port, max_len: 0 }];
    let answer = answers(number).with(Field::ETH_DST, pod.mac);
    std::iter::once(anew)
        .chain(again)
        .map(say)
        .chain([own(pod, Table::Route, priority::SEGMENT + 1, answer, hand)])
        .collect()
}

/// Answers that servers give to everybody, as clients may ask them to: to all who may wait for one, and to those who hear
/// what is for everybody.
pub fn answers_to_several(site: &Site, world: &World, pods: &[&LocalPod]) -> Vec<Flow> {
    let number = |pod: &LocalPod| pod.segment.as_ref().and_then(|segment| site.segment_number(segment));
    let segments: BTreeSet<u32> =
        pods.iter().filter(|pod| pod.leases).filter_map(|pod| number(pod)).collect();
    let flow = |segment: u32| {
        let hears =
            |pod: &&&LocalPod| number(pod) == Some(segment) && (pod.leases || hears_groups(pod, world));
        let ports: Vec<u32> = pods.iter().filter(hears).map(|pod| pod.port).collect();
        let matches =
            answers(segment).with(Field::ETH_DST, EVERYBODY).with(Field::IPV4_DST, Ipv4Addr::BROADCAST);
        of_node(Table::Route, priority::SEGMENT + 1, matches, to_all(segment, &ports))
    };
    segments.into_iter().map(flow).collect()
}

/// What servers on the wire of a segment say.
fn answers(number: u32) -> Match {
    udp(of(number, Origin::Physical), DHCP_SERVER, DHCP_CLIENT)
}

fn udp(matches: Match, from: u16, to: u16) -> Match {
    ip(matches, Family::V4).with(Field::IP_PROTO, UDP).with(Field::UDP_SRC, from).with(Field::UDP_DST, to)
}
