//! May this pod send or receive this: what policy says, as flows.
//!
//! A flow takes the packets of the verdict's region that begin or carry on a conversation in its own direction
//! (`-rpl-rel`): what answers, or is an error about something, belongs to a conversation that was judged before, and
//! must not be taken for one of its own. An allow at the sender's end notes what is to be committed, and Output
//! commits it, once the receiver's end has allowed it too where this node judges that.
//!
//! Some packets need a shape of their own:
//!
//! * Fragments show no ports to OpenFlow. Of a first fragment, connection tracking knows them; later ones are judged
//!   by what is allowed on any port ([`PortBlock::Hidden`]), and in IPv6 only connection tracking knows their protocol.
//! * SCTP has one connection a pair in the userspace connection tracking, with ports of 0: an answer is not told from
//!   a new association of the other direction. So every packet is judged as one of a new association, by flows for
//!   either direction, and what an association's answers need beyond that is a flow for its very ports
//!   ([`Part::Back`]). To learn of it, the agent is asked about each association ([`Part::There`]) at an end that would
//!   not let its answers pass anyway. What passes whatever the protocol must therefore not pass SCTP:
//!   [`HIGH_PROTOCOL`].
//! * ICMP errors about such a connection pass by a flow of the pod.

use ipnet::IpNet;
use openflow::{Action, Controller, Field, Flow, Match};
use policy::{Direction, Family, Judgement, PortBlock, Question, Region, Resident, Traffic, Verdict, World};

use super::super::fields::{
    FIRST_FRAGMENT, FRAGMENT_BITS, LATER_FRAGMENT, NO_FRAGMENT, clear_retry, commit, destination, either,
    errors, flags, forward, go, host, ip, set, set_flags, source,
};
use super::super::protocols::{SCTP, TCP, UDP};
use super::super::vocabulary::{
    COMMIT, COPY_LENGTH, DENIED, ENDED_IDLE_SECONDS, ENDED_UDP_SECONDS, HIGH_PROTOCOL, JUDGED, Kind,
    LOG_METER, Origin, PEER, REG_DECISION, REG_FLAGS, REG_MARK, REG_OUTPUT, REG_ZONE_IN, RETRY, SEEN, Table,
    octets, priority, stable_id,
};
use super::decision::{Decision, idling, momentary};
use super::{Context, Part, Pods};

/// What OVS calls the protocol of every later fragment in IPv6.
const IPV6_FRAGMENT: u8 = 44;
/// The lowest protocol number that [`HIGH_PROTOCOL`] is about.
const FIRST_HIGH: u8 = 128;

pub(super) fn egress<P: Pods>(
    zone: u16,
    question: &Question,
    part: Part,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let judged = Judged::new(Kind::Egress, question, part, context.world)?;
    let matches = judged.flags(Origin::Pod.bit(), Origin::Pod.bit() | PEER).with(Field::IN_PORT, pod.port);
    let matches = judged.within(matches, destination)?;
    // No association passes by what was committed, so nothing depends on its other end being asked first.
    let asks = if judged.is_sctp() { 0 } else { PEER };
    let actions = match part {
        Part::Back(_) => vec![clear_retry(), go(Table::Route)],
        _ => vec![
            set_flags(COMMIT | asks, RETRY | COMMIT | asks),
            set(REG_MARK, judged.mark()),
            set(REG_DECISION, judged.id),
            go(Table::Route),
        ],
    };
    Some(judged.decide(Table::Egress, matches, actions))
}

pub(super) fn ingress<P: Pods>(
    zone: u16,
    question: &Question,
    part: Part,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let judged = Judged::new(Kind::Ingress, question, part, context.world)?;
    let matches = judged.within(judged.flags(0, 0).with(REG_OUTPUT, pod.port), source)?;
    let actions = match part {
        Part::Back(_) => vec![clear_retry(), go(Table::Output)],
        _ => vec![clear_retry(), commit(REG_ZONE_IN, judged.mark(), judged.id), go(Table::Output)],
    };
    Some(judged.decide(Table::Ingress, matches, actions))
}

/// The other end of what a pod sends to another node or segment; it has no zone here, and nothing to commit.
pub(super) fn peer<P: Pods>(
    zone: u16,
    question: &Question,
    part: Part,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone).filter(|_| question.traffic.protocol != SCTP)?;
    let mut judged = Judged::new(Kind::Peer, question, part, context.world)?;
    // One address sends by this port, and one receives: the width of the region is of no use here.
    judged.region.peer = host(question.subject);
    let bits = Origin::Pod.bit() | PEER;
    let matches = judged.flags(bits, bits).with(Field::IN_PORT, pod.port);
    let matches = judged.within(matches, destination)?;
    Some(judged.decide(Table::Egress, matches, vec![set_flags(0, RETRY | PEER), go(Table::Route)]))
}

/// A verdict on its way to become a flow.
struct Judged<'a> {
    kind: Kind,
    question: &'a Question,
    part: Part,
    world: &'a World,
    judgement: Judgement,
    /// The packets of the flow.
    region: Region,
    /// In SCTP: the ports that the packets come from, or their answers.
    sources: PortBlock,
    /// The decision, in cookies and labels.
    id: u64,
}

impl<'a> Judged<'a> {
    /// `None` where there is nothing to be said of the answers of an association.
    fn new(kind: Kind, question: &'a Question, part: Part, world: &'a World) -> Option<Judged<'a>> {
        let judgement = world.judge(question);
        let allows = judgement.verdict == Verdict::Allow;
        let mut region = judgement.region;
        let protocol = question.traffic.protocol;
        if protocol >= FIRST_HIGH {
            region.protocol = Some(protocol);
        }
        let mut sources = PortBlock::All;
        match part {
            Part::There(from) if allows => match answers(question, from, world) {
                Some(open) => {
                    sources = open.ports;
                    if open.peer.prefix_len() > region.peer.prefix_len() {
                        region.peer = open.peer;
                    }
                }
                None => (region, sources) = exactly(question, from)?,
            },
            Part::Back(from) => {
                let needed = answers(question, from, world).is_none();
                if !needed || converse(question, world) == Verdict::Deny {
                    return None;
                }
                (region, sources) = exactly(question, from)?;
            }
            _ => {}
        }
        let id = identity(kind, question, part, (&region, sources), &judgement);
        Some(Judged { kind, question, part, world, judgement, region, sources, id })
    }

    fn is_sctp(&self) -> bool {
        self.region.protocol == Some(SCTP)
    }

    /// What the connection is marked with.
    fn mark(&self) -> u32 {
        if self.is_sctp() { SEEN } else { JUDGED }
    }

    /// Packets with these bits in `reg0`; what is for every protocol is for none that is high.
    fn flags(&self, value: u32, mask: u32) -> Match {
        let low = if self.region.protocol.is_none() { HIGH_PROTOCOL } else { 0 };
        flags(value, mask | low)
    }

    /// Narrows a match to the region; `side` says which end of the packet the peer is. `None` where the switch cannot
    /// tell such packets from others.
    fn within(&self, matches: Match, side: fn(Match, IpNet) -> Match) -> Option<Match> {
        let family = Family::of(self.question.subject);
        let Region { peer, protocol, ports } = self.region;
        let matches = if peer.prefix_len() == 0 { ip(matches, family) } else { side(matches, peer) };
        let matches = if self.is_sctp() { either(matches) } else { forward(matches) };
        let Some(protocol) = protocol else { return Some(matches) };
        let fragment = |kind: u128| matches.clone().with_mask(Field::IP_FRAG, kind, FRAGMENT_BITS);
        let whole = || fragment(NO_FRAGMENT).with(Field::IP_PROTO, protocol);
        let later_v6 = self.part == Part::Later && family == Family::V6;
        match (self.part, ports) {
            (Part::There(_), _) if (ports, self.sources) != (PortBlock::All, PortBlock::All) => {
                Some(at_port(Field::SCTP_DST, ports, at_port(Field::SCTP_SRC, self.sources, whole())))
            }
            (Part::Back(_), _) => {
                Some(at_port(Field::SCTP_SRC, ports, at_port(Field::SCTP_DST, self.sources, whole())))
            }
            (Part::Later, PortBlock::All | PortBlock::Hidden) if later_v6 || protocol == SCTP => {
                Some(fragment(LATER_FRAGMENT).with(Field::CT_NW_PROTO, protocol))
            }
            (Part::First, PortBlock::All) if family == Family::V6 || protocol == SCTP => {
                Some(fragment(FIRST_FRAGMENT).with(Field::CT_NW_PROTO, protocol))
            }
            (_, PortBlock::All) if (family, protocol) == (Family::V6, IPV6_FRAGMENT) => None,
            (_, PortBlock::All) if family == Family::V6 => {
                Some(fragment(NO_FRAGMENT).with(Field::IP_PROTO, protocol))
            }
            (_, PortBlock::All) => Some(matches.with(Field::IP_PROTO, protocol)),
            (Part::Later, PortBlock::Hidden) => {
                Some(fragment(LATER_FRAGMENT).with(Field::IP_PROTO, protocol))
            }
            // Connection tracking may know no ports of SCTP, and they would seem to be 0.
            (Part::First, PortBlock::Block { base, mask }) if protocol != SCTP => {
                let matches = fragment(FIRST_FRAGMENT).with(Field::CT_NW_PROTO, protocol);
                Some(matches.with_mask(Field::CT_TP_DST, base, mask))
            }
            (Part::Whole, PortBlock::Block { .. }) => {
                Some(at_port(destination_port(protocol)?, ports, whole()))
            }
            _ => None,
        }
    }

    /// The flow that lets the packets go on with these actions, or drops them.
    ///
    /// A flow for fragments alone lets only those go on that the agent has seen: connection tracking in userspace puts
    /// the fragments of a datagram together only where all of them have come the same way, and the flows of the first
    /// and of the others come and go apart.
    fn decide(self, table: Table, matches: Match, actions: Vec<Action>) -> Decision {
        let Judgement { verdict, because, audit, region } = self.judgement;
        let provisional = because.is_provisional();
        let new = if provisional { momentary } else { idling };
        let pieces = matches.get(Field::IP_FRAG).is_some_and(|(kind, _)| kind != NO_FRAGMENT);
        let matches = if pieces && verdict == Verdict::Allow { seen(matches) } else { matches };
        let mut flow = new(self.kind, self.id, table, matches);
        if matches!(self.part, Part::Back(_)) {
            flow.priority = priority::ANSWERS;
        }
        let allows = verdict == Verdict::Allow;
        if allows {
            flow.actions = actions;
        } else if !provisional && is_logged(self.question, self.world) {
            flow.actions = copy_of_denied();
        }
        Decision { flow, allows, because: Some(because), audit, region: Some(region) }
    }
}

/// Adds: packets that were punted and have come back.
fn seen(matches: Match) -> Match {
    let (value, mask) = matches.get(REG_FLAGS).unwrap_or((0, 0));
    matches.with_mask(REG_FLAGS, value | u128::from(RETRY), mask | u128::from(RETRY))
}

/// Adds: packets with such a port.
fn at_port(field: Field, ports: PortBlock, matches: Match) -> Match {
    match ports {
        PortBlock::Block { base, mask } => matches.with_mask(field, base, mask),
        PortBlock::All | PortBlock::Hidden => matches,
    }
}

/// The packets of one association, from this port.
fn exactly(question: &Question, from: u16) -> Option<(Region, PortBlock)> {
    let Question { peer, traffic, .. } = *question;
    let ports = PortBlock::one(traffic.port?);
    let region = Region { peer: host(peer), protocol: Some(traffic.protocol), ports };
    Some((region, PortBlock::one(from)))
}

/// A stable hash of what a decision is: for whom, for which packets, and why.
fn identity(
    kind: Kind,
    question: &Question,
    part: Part,
    (region, sources): (&Region, PortBlock),
    judgement: &Judgement,
) -> u64 {
    let Region { peer, protocol, ports } = *region;
    let allows = u8::from(judgement.verdict == Verdict::Allow);
    let back = u8::from(matches!(part, Part::Back(_)));
    stable_id(&[
        kind.name().as_bytes(),
        &octets(question.subject),
        &octets(peer.addr()),
        &[peer.prefix_len(), u8::from(protocol.is_some()), protocol.unwrap_or(0), allows, back],
        &numbers(ports),
        &numbers(sources),
        &judgement.because.stable_hash().to_be_bytes(),
    ])
}

fn numbers(ports: PortBlock) -> [u8; 4] {
    let (base, mask) = match ports {
        PortBlock::All => (0, 0),
        PortBlock::Block { base, mask } => (base, mask),
        PortBlock::Hidden => (u16::MAX, 0),
    };
    let ([a, b], [c, d]) = (base.to_be_bytes(), mask.to_be_bytes());
    [a, b, c, d]
}

/// The packets that this end lets pass as of new associations of the other direction, the answers to what is sent from
/// this port among them; `None` where it does not.
fn answers(question: &Question, from: u16, world: &World) -> Option<Region> {
    let direction = match question.direction {
        Direction::Egress => Direction::Ingress,
        Direction::Ingress => Direction::Egress,
    };
    let traffic = Traffic { port: Some(from), ..question.traffic };
    let judgement = world.judge(&Question { direction, traffic, ..*question });
    let open = judgement.verdict == Verdict::Allow && !judgement.because.is_provisional();
    open.then_some(judgement.region)
}

/// The verdict of both ends of the conversation of a question.
fn converse(question: &Question, world: &World) -> Verdict {
    let Question { direction, subject, peer, traffic } = *question;
    let (from, to) = match direction {
        Direction::Egress => (subject, peer),
        Direction::Ingress => (peer, subject),
    };
    world.converse(from, to, traffic).verdict()
}

/// The field of the destination port of a protocol that has ports.
fn destination_port(protocol: u8) -> Option<Field> {
    match protocol {
        TCP => Some(Field::TCP_DST),
        UDP => Some(Field::UDP_DST),
        SCTP => Some(Field::SCTP_DST),
        _ => None,
    }
}

/// Whether the subject's namespace asks for a log of what is denied.
fn is_logged(question: &Question, world: &World) -> bool {
    matches!(world.resident(question.subject), Resident::Pod(_, namespace) if namespace.log_denied)
}

/// The agent gets the head of the packet, as far as the log's meter goes, and the packet ends here.
fn copy_of_denied() -> Vec<Action> {
    let copy = Controller { max_len: COPY_LENGTH, userdata: vec![DENIED], ..Controller::default() };
    vec![Action::Meter(LOG_METER), Action::Controller(copy)]
}

/// ICMP errors about associations of SCTP; about other conversations they pass with these.
pub(super) fn related<P: Pods>(
    zone: u16,
    direction: Direction,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let (table, next, matches) = match direction {
        Direction::Egress => {
            let matches = flags(Origin::Pod.bit(), Origin::Pod.bit() | PEER).with(Field::IN_PORT, pod.port);
            (Table::Egress, Table::Route, matches)
        }
        Direction::Ingress => (Table::Ingress, Table::Output, Match::new().with(REG_OUTPUT, pod.port)),
    };
    let id = stable_id(&[b"related", table.name().as_bytes(), &pod.port.to_be_bytes()]);
    let mut flow = idling(Kind::Related, id, table, errors(matches, SEEN));
    flow.actions = vec![clear_retry(), go(next)];
    Some(Decision::plain(flow, true))
}

/// Drops what the receiver of a conversation that was cut still sends: connection tracking would take it for a
/// conversation that the receiver opens.
pub(super) fn ended<P: Pods>(
    zone: u16,
    question: &Question,
    source_port: u16,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let Question { direction, subject, peer, traffic } = *question;
    let (from_port, to_port) = match traffic.protocol {
        TCP => (Field::TCP_SRC, Field::TCP_DST),
        UDP => (Field::UDP_SRC, Field::UDP_DST),
        _ => return None,
    };
    let opened_to = traffic.port?;
    if converse(question, context.world) == Verdict::Allow {
        return None;
    }
    let (table, matches) = match direction {
        Direction::Egress => (Table::Ingress, source(Match::new().with(REG_OUTPUT, pod.port), host(peer))),
        Direction::Ingress => {
            (Table::Egress, destination(Match::new().with(Field::IN_PORT, pod.port), host(peer)))
        }
    };
    let matches = matches.with(Field::IP_PROTO, traffic.protocol);
    let matches = matches.with(from_port, opened_to).with(to_port, source_port);
    let id = stable_id(&[
        b"ended",
        table.name().as_bytes(),
        &octets(subject),
        &octets(peer),
        &[traffic.protocol],
        &opened_to.to_be_bytes(),
        &source_port.to_be_bytes(),
    ]);
    let idle_timeout = if traffic.protocol == TCP { ENDED_IDLE_SECONDS } else { ENDED_UDP_SECONDS };
    let flow = Flow { priority: priority::ENDED, idle_timeout, ..idling(Kind::Ended, id, table, matches) };
    Some(Decision::plain(flow, false))
}
