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
        let answer = too_big(&packet_in.packet, mtu, |sender| self.router_of(in_port, sender));
        if let Some(mut frame) = answer {
            self.readdress(&mut frame, in_port);
            let packet = PacketOut::new(frame, vec![Action::Output { port: in_port, max_len: 0 }]);
            self.command(Command::Switch(SwitchCommand::Send { packets: vec![packet] }));
        }
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
    /// the next hop on the bridge. Tunnels and physical networks get no answer from here.
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
