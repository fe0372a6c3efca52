//! What can be asked about a cluster.

use std::net::IpAddr;

use super::cluster::Cluster;
use super::end;
use super::words::{Answer, Direction, End, Packet, Pair, Who};

impl Cluster {
    /// Whether both ends let a conversation be opened. The port is the destination's; None where the protocol
    /// has none, and for later fragments.
    pub fn verdict(&self, from: IpAddr, to: IpAddr, protocol: u8, port: Option<u16>) -> Answer {
        let has_rules = |who| matches!(who, Who::Pod { .. } | Who::Container { .. } | Who::Unknown);
        if has_rules(self.who(from)) && self.end(Direction::Egress, from, to, protocol, port) == Answer::Deny
        {
            return Answer::Deny;
        }
        if has_rules(self.who(to)) && self.end(Direction::Ingress, to, from, protocol, port) == Answer::Deny {
            return Answer::Deny;
        }
        Answer::Allow
    }

    /// What one end says.
    pub fn end(
        &self,
        direction: Direction,
        subject: IpAddr,
        peer: IpAddr,
        protocol: u8,
        port: Option<u16>,
    ) -> Answer {
        self.ask(direction, subject, peer, Packet { protocol, port }, false)
    }

    /// What one end would say if the policies that are only watched (`fabric.io/mode: audit`) were enforced.
    pub fn end_with_audit(
        &self,
        direction: Direction,
        subject: IpAddr,
        peer: IpAddr,
        protocol: u8,
        port: Option<u16>,
    ) -> Answer {
        self.ask(direction, subject, peer, Packet { protocol, port }, true)
    }

    fn ask(
        &self,
        direction: Direction,
        subject_address: IpAddr,
        peer_address: IpAddr,
        packet: Packet,
        with_audit: bool,
    ) -> Answer {
        let (subject, peer) = (self.who(subject_address), self.who(peer_address));
        let end = End { direction, subject, subject_address, peer, peer_address, packet, with_audit };
        end::answer(self, &end)
    }

    /// The truth table of all pods with addresses against all others, address by address of one family.
    pub fn allowed_matrix(&self, protocol: u8, port: Option<u16>) -> Vec<Pair> {
        let pods = self.pods();
        let mut pairs = Vec::new();
        for (from, from_address) in &pods {
            for (to, to_address) in &pods {
                if from_address.is_ipv4() == to_address.is_ipv4() {
                    let answer = self.verdict(*from_address, *to_address, protocol, port);
                    let (from, to) = (from.clone(), to.clone());
                    let (from_address, to_address) = (*from_address, *to_address);
                    pairs.push(Pair { from, from_address, to, to_address, answer });
                }
            }
        }
        pairs
    }
}
