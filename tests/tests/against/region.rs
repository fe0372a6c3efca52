//! Packets of a region.

use std::net::IpAddr;

use fabric_tests::oracle::random::{Dice, Landmarks};
use policy::{PortBlock, Question, Region, Traffic};

/// A region with what is worth trying in it.
pub struct Members<'l> {
    region: Region,
    landmarks: &'l Landmarks,
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
}

impl<'l> Members<'l> {
    /// The members of a region.
    pub fn of(region: Region, landmarks: &'l Landmarks) -> Members<'l> {
        let four = region.peer.network().is_ipv4();
        let within = |address: &&IpAddr| region.peer.contains(*address);
        let addresses = landmarks.addresses(four).iter().filter(within).copied();
        let addresses = addresses
            .chain([region.peer.network(), region.peer.network(), region.peer.broadcast()])
            .collect();
        let within = |port: &&u16| region.ports.contains(Some(**port));
        let bounds = region.ports.bounds().into_iter().flat_map(|(first, last)| [first, last]);
        let ports = landmarks.ports().iter().filter(within).copied().chain(bounds).collect();
        Members { region, landmarks, addresses, ports }
    }

    /// One of them, as a question of the same direction and subject.
    pub fn pick(&self, dice: &mut Dice, question: &Question) -> Question {
        Question { peer: self.address(dice), traffic: self.traffic(dice), ..*question }
    }

    fn address(&self, dice: &mut Dice) -> IpAddr {
        let known = dice.pick(&self.addresses).unwrap_or(self.region.peer.network());
        if !dice.percent(15) {
            return known;
        }
        let (first, last) = (number(self.region.peer.network()), number(self.region.peer.broadcast()));
        let hosts = first ^ last;
        let any = u128::from(dice.number()) << 64 | u128::from(dice.number());
        let bits = if dice.percent(50) { number(known) ^ 1 << dice.below(64) } else { any };
        address(known, first | bits & hosts)
    }

    fn traffic(&self, dice: &mut Dice) -> Traffic {
        let packet = self.landmarks.packet(dice);
        let protocol = self.region.protocol.unwrap_or(packet.protocol);
        let port = match self.region.ports {
            PortBlock::All => self.landmarks.packet_of(dice, protocol).port,
            PortBlock::Hidden => None,
            PortBlock::Block { base, mask } if dice.percent(20) => Some(base | dice.port() & !mask),
            PortBlock::Block { base, .. } => Some(dice.pick(&self.ports).unwrap_or(base)),
        };
        Traffic { protocol, port }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(four) => u128::from(u32::from(four)),
        IpAddr::V6(six) => u128::from(six),
    }
}

fn address(like: IpAddr, number: u128) -> IpAddr {
    let bytes = number.to_be_bytes();
    match (like, bytes) {
        (IpAddr::V4(_), [.., a, b, c, d]) => IpAddr::from([a, b, c, d]),
        (IpAddr::V6(_), bytes) => IpAddr::from(bytes),
    }
}
