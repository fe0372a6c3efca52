//! What a rule is about that is sent: protocols and destination ports.

use std::collections::BTreeSet;

use super::Match;
use crate::digest::Digest;
use crate::interval::Intervals;
use crate::name::Name;
use crate::object::{Pod, Protocol};

/// Protocols and destination ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Whatever is sent.
    Any,
    /// Those listed.
    Listed(Box<Listed>),
}

/// Ports by number, and by the name that the destination pod gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    tcp: Intervals<u16>,
    udp: Intervals<u16>,
    sctp: Intervals<u16>,
    /// The protocol is None where the name counts for every protocol.
    named: Vec<(Name, Option<Protocol>)>,
}

/// What is sent: one thing or many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Whatever there is.
    Everything,
    /// Every packet of a protocol that has no ports.
    Portless,
    /// Packets of a protocol to the ports from the first to the last. All ports stand for later fragments too.
    To(Protocol, u16, u16),
}

/// The end that names of ports are looked up at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination<'w> {
    /// A pod.
    Pod(&'w Pod),
    /// Nobody that has names for ports.
    NoPod,
    /// A pod that is not known.
    Unknown,
    /// Several, and pods may be among them.
    Several,
}

impl Ports {
    /// Those of the ranges, and those that the destination calls by one of the names.
    pub(crate) fn listed(ranges: &[(Protocol, u16, u16)], named: Vec<(Name, Option<Protocol>)>) -> Ports {
        let of = |protocol| {
            let ranges = ranges.iter().filter(move |(of, ..)| *of == protocol);
            Intervals::union(ranges.map(|(_, first, last)| (*first, *last)))
        };
        let [tcp, udp, sctp] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].map(of);
        Ports::Listed(Box::new(Listed { tcp, udp, sctp, named }))
    }

    /// The names, with their protocols.
    pub(crate) fn names(&self) -> &[(Name, Option<Protocol>)] {
        match self {
            Ports::Any => &[],
            Ports::Listed(listed) => &listed.named,
        }
    }

    /// Whether what is sent is some of them.
    pub(crate) fn at(&self, sent: Sent, destination: Destination<'_>) -> Match {
        let Ports::Listed(listed) = self else { return Match::Yes };
        let numbered = listed.numbered(sent);
        let named = listed.named.iter().filter(|(_, protocol)| sent.may_be(*protocol));
        match (numbered, destination) {
            (Match::Yes, _) | (_, Destination::NoPod) => numbered,
            (_, Destination::Pod(pod)) => {
                let own = named.flat_map(|(name, protocol)| numbers(pod, name, *protocol));
                own.fold(numbered, |so_far, (protocol, port)| so_far.or(sent.is(protocol, port)))
            }
            (_, Destination::Unknown) if sent == Sent::Everything && !listed.named.is_empty() => Match::Split,
            (_, Destination::Unknown) if named.count() > 0 => numbered.or(Match::Unknown),
            (_, Destination::Several) if !listed.named.is_empty() => Match::Split,
            (_, Destination::Unknown | Destination::Several) => numbered,
        }
    }

    /// Adds the ports of a protocol at which the answer may become another one.
    pub(crate) fn borders(
        &self,
        protocol: Protocol,
        destination: Destination<'_>,
        borders: &mut BTreeSet<u16>,
    ) {
        let Ports::Listed(listed) = self else { return };
        let own = listed.named_by(protocol, destination).into_iter().map(|port| (port, port));
        for (first, last) in listed.of(protocol).iter().chain(own) {
            borders.insert(first);
            borders.extend(last.checked_add(1));
        }
    }

    /// The lowest port of a protocol that is some of them.
    pub(crate) fn lowest(&self, protocol: Protocol, destination: Destination<'_>) -> Option<u16> {
        let Ports::Listed(listed) = self else { return Some(0) };
        let numbered = listed.of(protocol).iter().next().map(|(first, _)| first);
        numbered.into_iter().chain(listed.named_by(protocol, destination)).min()
    }

    /// What they are, whatever the order in which it was said.
    pub(crate) fn fingerprint(&self) -> u64 {
        let Ports::Listed(listed) = self else { return Digest::new().text("any").finish() };
        let mut digest = Digest::new();
        for (protocol, ports) in [&listed.tcp, &listed.udp, &listed.sctp].into_iter().enumerate() {
            for (first, last) in ports.iter() {
                digest = digest.number(u64::try_from(protocol).unwrap_or(0)).number(first).number(last);
            }
        }
        let named = listed.named.iter().map(|(name, protocol)| {
            Digest::new().text(name).number(protocol.map_or(0, Protocol::number)).finish()
        });
        digest.set(named.collect()).finish()
    }
}

impl Listed {
    /// The ports of a protocol that the destination calls by one of the names.
    fn named_by(&self, protocol: Protocol, destination: Destination<'_>) -> Vec<u16> {
        let Destination::Pod(pod) = destination else { return Vec::new() };
        let numbers = self.named.iter().flat_map(|(name, wanted)| numbers(pod, name, *wanted));
        numbers.filter(|(of, _)| *of == protocol).map(|(_, port)| port).collect()
    }

    fn of(&self, protocol: Protocol) -> &Intervals<u16> {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
            Protocol::Sctp => &self.sctp,
        }
    }

    fn numbered(&self, sent: Sent) -> Match {
        match sent {
            Sent::Everything => {
                let none = self.tcp.is_empty() && self.udp.is_empty() && self.sctp.is_empty();
                if none { Match::No } else { Match::Split }
            }
            Sent::Portless => Match::No,
            Sent::To(protocol, first, last) => self.of(protocol).share(first, last).into(),
        }
    }
}

/// The ports that a pod gives a name to.
pub(crate) fn numbers<'p>(
    pod: &'p Pod,
    name: &'p Name,
    protocol: Option<Protocol>,
) -> impl Iterator<Item = (Protocol, u16)> + 'p {
    let own = pod
        .ports
        .iter()
        .filter(move |port| port.name == *name && protocol.is_none_or(|protocol| protocol == port.protocol));
    own.map(|port| (port.protocol, port.port))
}

impl Sent {
    /// Whether some of it may be of the protocol.
    fn may_be(self, protocol: Option<Protocol>) -> bool {
        match self {
            Sent::Everything => true,
            Sent::Portless => false,
            Sent::To(own, ..) => protocol.is_none_or(|protocol| protocol == own),
        }
    }

    /// Whether it goes to one port.
    fn is(self, protocol: Protocol, port: u16) -> Match {
        match self {
            Sent::Everything => Match::Split,
            Sent::To(own, first, last) if own == protocol && first <= port && port <= last => {
                if first == last { Match::Yes } else { Match::Split }
            }
            Sent::Portless | Sent::To(..) => Match::No,
        }
    }
}

impl Match {
    /// Whether one or the other of two things matches.
    fn or(self, other: Match) -> Match {
        match (self, other) {
            (Match::Yes, _) | (_, Match::Yes) => Match::Yes,
            (Match::Split, _) | (_, Match::Split) => Match::Split,
            (Match::Unknown, _) | (_, Match::Unknown) => Match::Unknown,
            (Match::No, Match::No) => Match::No,
        }
    }
}
