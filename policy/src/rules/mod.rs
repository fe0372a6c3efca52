//! Policies in the form in which they are judged by.
//!
//! A NetworkPolicy and a ClusterNetworkPolicy become the same thing: a [`Policy`] of one [`Stage`], with rules
//! that accept, deny or pass. What cannot be read has been decided here: a rule of a NetworkPolicy, or an
//! Accept, matches nothing; another rule of a ClusterNetworkPolicy denies everything, before what can be read.
//! Whether a rule matches is asked of its [`Peers`] and its [`Ports`], for one packet or for many at once: then
//! the answer may be that some match and some do not.

mod compile;
mod peers;
mod ports;
mod program;

pub(crate) use compile::{admin_peers, admin_ports, peers_of, ports_of};
pub(crate) use peers::{Around, Identity, Peers, PodPeer, Scope};
pub(crate) use ports::{Destination, Ports, Sent, numbers};
pub(crate) use program::{Ending, Program, Side};

use crate::explanation::Stage;
use crate::interval::Share;
use crate::label::Labels;
use crate::name::{Name, ObjectRef};
use crate::object::{Action, Namespace};
use crate::question::Direction;
use crate::selector::Selector;

/// Whether something matches the packets that are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// None of them.
    No,
    /// All of them.
    Yes,
    /// Some do and some do not, or it is not known that it is otherwise.
    Split,
    /// It depends on who the peer is, and that is not known.
    Unknown,
}

impl Match {
    /// Whether two things match at the same time.
    pub(crate) fn and(self, other: Match) -> Match {
        match (self, other) {
            (Match::No, _) | (_, Match::No) => Match::No,
            (Match::Split, _) | (_, Match::Split) => Match::Split,
            (Match::Unknown, _) | (_, Match::Unknown) => Match::Unknown,
            (Match::Yes, Match::Yes) => Match::Yes,
        }
    }
}

impl From<Share> for Match {
    fn from(share: Share) -> Match {
        match share {
            Share::None => Match::No,
            Share::Part => Match::Split,
            Share::All => Match::Yes,
        }
    }
}

impl From<bool> for Match {
    fn from(matches: bool) -> Match {
        if matches { Match::Yes } else { Match::No }
    }
}

/// A policy.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// The object it is made of.
    pub(crate) reference: ObjectRef,
    /// When it is judged.
    pub(crate) stage: Stage,
    /// Its place within the stage: lower first, those without one before all others. Of the same place the name
    /// decides.
    pub(crate) priority: Option<u16>,
    /// Whether its verdicts are not enforced.
    pub(crate) audit: bool,
    /// The pods it is about.
    pub(crate) subject: Subject,
    /// What it says about ingress; None where it says nothing.
    pub(crate) ingress: Option<Rules>,
    /// What it says about egress.
    pub(crate) egress: Option<Rules>,
}

/// The pods that a policy is about.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// Pods of one namespace.
    Own(Name, Selector),
    /// Pods of the namespaces selected.
    Selected(Selector, Selector),
}

impl Subject {
    /// Whether a pod of a namespace is one of them.
    pub(crate) fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        match self {
            Subject::Own(own, pods) => *own == namespace.name && pods.matches(labels),
            Subject::Selected(namespaces, pods) => {
                namespaces.matches(&namespace.labels) && pods.matches(labels)
            }
        }
    }

    /// Whether pods with such labels are among them in some namespace.
    pub(crate) fn may_select(&self, labels: &Labels) -> bool {
        let (Subject::Own(_, pods) | Subject::Selected(_, pods)) = self;
        pods.matches(labels)
    }
}

/// The rules of a direction, in the order in which they are tried: those of a ClusterNetworkPolicy as written, those
/// of a NetworkPolicy by fingerprint, so that the order in the manifest makes no difference.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// The rules.
    pub(crate) each: Box<[Rule]>,
    /// What they say and how they count.
    pub(crate) fingerprint: u64,
}

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Its place in the manifest, from 1.
    pub(crate) number: u16,
    /// Its name, where it has one.
    pub(crate) name: Option<Name>,
    /// What happens to what it matches.
    pub(crate) action: Action,
    /// Whether it is not as the manifest says, since that cannot be read.
    pub(crate) unreadable: bool,
    /// The other ends it is about.
    pub(crate) peers: Peers,
    /// What it is about that is sent.
    pub(crate) ports: Ports,
    /// What it says, whatever the order in which it says it.
    pub(crate) fingerprint: u64,
}

impl Rules {
    /// The rule with that place in the manifest, where it can match anything.
    pub(crate) fn numbered(&self, number: u16) -> Option<&Rule> {
        self.each.iter().find(|rule| rule.number == number)
    }
}

impl Policy {
    /// What it says about a direction.
    pub(crate) fn rules(&self, direction: Direction) -> Option<&Rules> {
        match direction {
            Direction::Ingress => self.ingress.as_ref(),
            Direction::Egress => self.egress.as_ref(),
        }
    }

    /// Where it stands among those that are tried one after the other.
    pub(crate) fn place(&self) -> impl Ord + '_ {
        (self.stage, self.priority, &self.reference.name)
    }
}

#[cfg(test)]
mod tests;
