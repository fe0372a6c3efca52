//! What a pod may try: frames that claim to be from somebody else, or that play a part no
//! pod has. Each names the cause under which the switch must count it.

mod ether;
mod four;
mod six;
mod tunnel;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fabric_core::pipeline::vocabulary::{Cause, ROUTER_MAC};

use super::Mark;
use super::build;

/// One end as frames show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Hardware address.
    pub mac: [u8; 6],
    /// IPv4 address.
    pub v4: Ipv4Addr,
    /// IPv6 address.
    pub v6: Ipv6Addr,
}

/// Who is there.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// The pod that sends.
    pub own: End,
    /// A pod of the same node.
    pub near: End,
    /// A pod of another node.
    pub far: End,
    /// The node of the pod.
    pub node: End,
    /// The node of the far pod.
    pub other_node: End,
    /// A host that is no part of the cluster.
    pub outside: End,
}

/// A frame that must get nowhere.
#[derive(Debug, Clone)]
pub struct Forgery {
    /// What it tries.
    pub name: String,
    /// The frame; its mark is the place in the list.
    pub frame: Vec<u8>,
    /// Under what it is counted; nothing where more than one is right, or where it is not the switch that drops it.
    pub cause: Option<Cause>,
}

/// Hardware address of the router that pods send to.
pub const ROUTER: [u8; 6] = ROUTER_MAC.0;
/// An address of the pods' Network that nobody has.
const NOBODY_V4: Ipv4Addr = Ipv4Addr::new(10, 244, 255, 250);
/// The same for IPv6.
const NOBODY_V6: Ipv6Addr = Ipv6Addr::new(0xfd44, 0, 0, 0, 0, 0, 0, 0xfafa);
/// A hardware address that nobody has.
const NOBODY_MAC: [u8; 6] = [0x0e, 0, 0, 0xfa, 0xfa, 0xfa];

/// Every forgery that this scene has.
#[must_use]
pub fn forgeries(scene: &Scene) -> Vec<Forgery> {
    let mut list = List { scene: *scene, forgeries: Vec::new() };
    ether::add(&mut list);
    four::add(&mut list);
    six::add(&mut list);
    tunnel::add(&mut list);
    list.forgeries
}

struct List {
    scene: Scene,
    forgeries: Vec<Forgery>,
}

impl List {
    fn mark(&self) -> [u8; 16] {
        Mark(u32::try_from(self.forgeries.len()).unwrap_or(u32::MAX)).bytes()
    }

    fn frame(&mut self, name: &str, cause: impl Into<Option<Cause>>, frame: Vec<u8>) {
        self.forgeries.push(Forgery { name: name.to_owned(), frame, cause: cause.into() });
    }

    /// A packet in a frame of the pod's own to its router.
    fn packet(&mut self, name: &str, cause: impl Into<Option<Cause>>, (ethertype, packet): (u16, Vec<u8>)) {
        let frame = build::ethernet(ROUTER, self.scene.own.mac, ethertype, &packet);
        self.frame(name, cause, frame);
    }

    /// A marked UDP datagram.
    fn datagram(&self, from: IpAddr, to: IpAddr) -> (u16, Vec<u8>) {
        build::udp((from, 4000), (to, 4001), &self.mark())
    }
}
