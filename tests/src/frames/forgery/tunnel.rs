//! Tunnels made by hand: a frame between pods inside a datagram of the pod's own.

use std::net::IpAddr;

use fabric_core::pipeline::vocabulary::{Cause, VXLAN_PORT};

use super::super::build::{self, IPV4, UDP, ethernet, fragment, ipv4, ipv6, udp_datagram, vxlan};
use super::{List, ROUTER};

/// The fabric's own identifier in the lab.
const VNI: u32 = 77;

pub(super) fn add(list: &mut List) {
    let scene = list.scene;
    for (inner_from, inner_to) in
        [(scene.near, scene.far), (scene.far, scene.near), (scene.other_node, scene.near)]
    {
        for end in [scene.node, scene.other_node, scene.outside] {
            let (inner4, inner6) = ((inner_from.v4, inner_to.v4), (inner_from.v6, inner_to.v6));
            let families: [(IpAddr, IpAddr); 2] =
                [(inner4.0.into(), inner4.1.into()), (inner6.0.into(), inner6.1.into())];
            for (from, to) in families {
                whole(list, (scene.own.v4.into(), end.v4.into()), (from, to));
                whole(list, (scene.own.v6.into(), end.v6.into()), (from, to));
            }
        }
    }
    in_fragments(list);
}

/// The inside of a tunnel's packet, with the mark.
fn inside(list: &List, (from, to): (IpAddr, IpAddr)) -> Vec<u8> {
    let (ethertype, packet) = build::udp((from, 4000), (to, 4001), &list.mark());
    vxlan(VNI, &ethernet(ROUTER, ROUTER, ethertype, &packet))
}

fn whole(list: &mut List, (from, to): (IpAddr, IpAddr), inner: (IpAddr, IpAddr)) {
    let packet = build::udp((from, 50_000), (to, VXLAN_PORT), &inside(list, inner));
    list.packet(&format!("VXLAN to {to} with {} to {}", inner.0, inner.1), Cause::TunnelPort, packet);
}

/// The switch sees no ports in fragments; conntrack does.
fn in_fragments(list: &mut List) {
    let (own, node, near, far) = (list.scene.own, list.scene.other_node, list.scene.near, list.scene.far);
    let inner = inside(list, (near.v4.into(), far.v4.into()));
    let datagram =
        udp_datagram((own.v4.into(), 50_001), (node.v4.into(), VXLAN_PORT), &[inner, vec![0; 64]].concat());
    let at = datagram.len() / 8 * 8 - 32;
    let eighths = u16::try_from(at / 8).unwrap_or_default();
    let first = ipv4(own.v4, node.v4, UDP, 0x2000, &datagram[..at]);
    let later = ipv4(own.v4, node.v4, UDP, eighths, &datagram[at..]);
    list.packet("VXLAN in fragments, IPv4, first", None, (IPV4, first));
    list.packet("VXLAN in fragments, IPv4, later", None, (IPV4, later));
    let inner = inside(list, (near.v6.into(), far.v6.into()));
    let datagram =
        udp_datagram((own.v6.into(), 50_001), (node.v6.into(), VXLAN_PORT), &[inner, vec![0; 64]].concat());
    let at = datagram.len() / 8 * 8 - 32;
    let eighths = u16::try_from(at / 8).unwrap_or_default();
    let first = ipv6(own.v6, node.v6, 44, 64, &fragment(UDP, 0, true, &datagram[..at]));
    let later = ipv6(own.v6, node.v6, 44, 64, &fragment(UDP, eighths, false, &datagram[at..]));
    list.packet("VXLAN in fragments, IPv6, first", None, (build::IPV6, first));
    list.packet("VXLAN in fragments, IPv6, later", None, (build::IPV6, later));
}
