//! Packets that are too big for the way that they would take.
//!
//! Open vSwitch makes no ICMP: it gives such a packet to the agent and drops it, and the agent tells its sender what
//! fits (RFC 1191 §4, RFC 8201 §4), as the router would that the packet was sent to.

use std::net::IpAddr;

use openflow::message::{PacketIn, PacketOut};
use openflow::{Action, Field, port};
use policy::Family;

use super::frames::too_big;
use super::{Command, Node, SwitchCommand};
use crate::pipeline::learned::Pods;
use crate::pipeline::vocabulary::{HOST_NEXT_HOP_V4, HOST_NEXT_HOP_V6, REG_SCRATCH, ROUTER_MAC};

impl Node {
    /// Tells the sender of a packet that it is too big. The packet-in has the port that it came from, and in `reg4` how
    /// many bytes of IP fit.
    pub(super) fn tell_too_big(&mut self, packet_in: &PacketIn) {
        let small = |field: Field| packet_in.metadata.exact(field).and_then(|v| u32::try_from(v).ok());
        let (Some(in_port), Some(mtu)) = (small(Field::IN_PORT), small(REG_SCRATCH)) else { return };
        if self.site.tunnels.values().any(|port| *port == in_port) {
            return self.tell_by_tunnel(packet_in, in_port, mtu);
        }
        let answer = too_big(&packet_in.packet, mtu, |ends| self.router_of(in_port, ends.source));
        if let Some(mut frame) = answer {
            self.readdress(&mut frame, in_port);
            self.send(frame, vec![Action::Output { port: in_port, max_len: 0 }]);
        }
    }

    /// A tunnel brought the packet, and a pod here or this node takes less than the tunnel: the answer goes back by it.
    /// To the sender's node it must come from an address of this node; where that has none of the family, the packet's
    /// receiver refuses by itself.
    fn tell_by_tunnel(&mut self, packet_in: &PacketIn, tunnel: u32, mtu: u32) {
        let own =
            |like: IpAddr| self.site.addresses.iter().copied().find(|a| Family::of(*a) == Family::of(like));
        let answer = too_big(&packet_in.packet, mtu, |ends| own(ends.source).or(Some(ends.destination)));
        let outer = [(Field::TUN_SRC, Field::TUN_DST), (Field::TUN_IPV6_SRC, Field::TUN_IPV6_DST)];
        let back = outer.into_iter().find_map(|(source, destination)| {
            let peer = packet_in.metadata.exact(source).filter(|peer| *peer != 0)?;
            Some(Action::set(destination, peer))
        });
        let id = packet_in.metadata.exact(Field::TUN_ID);
        if let (Some(frame), Some(back), Some(id)) = (answer, back, id) {
            let actions =
                vec![back, Action::set(Field::TUN_ID, id), Action::Output { port: tunnel, max_len: 0 }];
            self.send(frame, actions);
        }
    }

    fn send(&mut self, frame: Vec<u8>, actions: Vec<Action>) {
        let packet = PacketOut::new(frame, actions);
        self.command(Command::Switch(SwitchCommand::Send { packets: vec![packet] }));
    }

    /// A packet to a pod of this node has its hardware addresses already: its answer would go to the router itself.
    fn readdress(&self, frame: &mut [u8], in_port: u32) {
        let pod = self.book.by_port(in_port).map(|pod| pod.mac);
        let sender = pod.or(self.site.local_mac.filter(|_| in_port == port::LOCAL));
        let (Some((to, rest)), Some(sender)) = (frame.split_first_chunk_mut(), sender) else { return };
        if let Some(from) = rest.first_chunk_mut().filter(|_| *to == ROUTER_MAC.0) {
            (*to, *from) = (sender.0, ROUTER_MAC.0);
        }
    }

    /// The address under which a sender knows its router: the gateway of its Network, or else the node; to the node it is
    /// the next hop on the bridge. Physical networks get no answer: everybody on a wire takes what it carries.
    fn router_of(&self, in_port: u32, sender: IpAddr) -> Option<IpAddr> {
        let family = Family::of(sender);
        if in_port == port::LOCAL {
            return Some(match family {
                Family::V4 => HOST_NEXT_HOP_V4.into(),
                Family::V6 => HOST_NEXT_HOP_V6.into(),
            });
        }
        let pod = self.book.by_port(in_port).filter(|pod| pod.addresses.contains(&sender))?;
        let attachment = self.book.of_zone(pod.zone).and_then(|key| self.book.get(key))?;
        let mut known = attachment.gateways.iter().chain(&self.site.addresses);
        known.find(|address| Family::of(**address) == family).copied()
    }
}
