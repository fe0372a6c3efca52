//! May this pod send or receive this: what policy says, as flows.
//!
//! A flow takes the packets of the verdict's region that begin or carry on a conversation in its own direction
//! (`-rpl-rel`): what answers, or is an error about something, belongs to a conversation that was judged before, and
//! must not be taken for one of its own. An allow at the sender's end notes what is to be committed, and Output
//! commits it, once the receiver's end has allowed it too where this node judges that.
//!
//! Three kinds of packets need a shape of their own:
//!
//! * Fragments show no ports to OpenFlow. Of a first fragment, connection tracking knows them; later ones are judged
//!   by what is allowed on any port ([`PortBlock::Hidden`]), and in IPv6 only connection tracking knows their protocol.
//! * SCTP has one connection a pair in the userspace connection tracking, with ports of 0. Where ports matter the
//!   connection is marked *seen*, not *judged*: each packet is judged, answers by the port that they come from.
//! * ICMP errors about such a connection pass by a flow of the pod.

use ipnet::IpNet;
use openflow::{Action, Controller, Field, Flow, Match};
use policy::{Direction, Family, Judgement, PortBlock, Question, Region, Resident, Verdict, World};

use super::super::fields::{
    FIRST_FRAGMENT, FRAGMENT_BITS, LATER_FRAGMENT, NO_FRAGMENT, SCTP, TCP, UDP, answers, clear_retry, commit,
    destination, errors, flags, forward, go, host, ip, set, set_flags, source,
};
use super::super::vocabulary::{
    COMMIT, COPY_LENGTH, DENIED, ENDED_IDLE_SECONDS, JUDGED, Kind, LOG_METER, Origin, PEER, REG_DECISION,
    REG_MARK, REG_OUTPUT, REG_ZONE_IN, RETRY, SEEN, Table, octets, priority, stable_id,
};
use super::decision::{Decision, idling, momentary};
use super::{Context, Part, Pods};

/// What OVS calls the protocol of every later fragment in IPv6.
const IPV6_FRAGMENT: u8 = 44;

pub(super) fn egress<P: Pods>(
    zone: u16,
    question: &Question,
    part: Part,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone)?;
    let judged = Judged::new(Kind::Egress, question, part, context.world);
    let matches = flags(Origin::Pod.bit(), Origin::Pod.bit() | PEER).with(Field::IN_PORT, pod.port);
    let matches = judged.within(matches, destination)?;
    let actions = match part {
        Part::Back => vec![clear_retry(), go(Table::Route)],
        Part::Whole | Part::First | Part::Later => vec![
            set_flags(COMMIT | PEER, RETRY | COMMIT | PEER),
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
    let judged = Judged::new(Kind::Ingress, question, part, context.world);
    let matches = judged.within(Match::new().with(REG_OUTPUT, pod.port), source)?;
    let actions = match part {
        Part::Back => vec![clear_retry(), go(Table::Output)],
        Part::Whole | Part::First | Part::Later => {
            vec![clear_retry(), commit(REG_ZONE_IN, judged.mark(), judged.id), go(Table::Output)]
        }
    };
    Some(judged.decide(Table::Ingress, matches, actions))
}

/// The other end of what a pod sends to another node; it has no zone here, and nothing to commit.
pub(super) fn peer<P: Pods>(
    zone: u16,
    question: &Question,
    part: Part,
    context: &Context<'_, P>,
) -> Option<Decision> {
    let pod = context.pods.by_zone(zone).filter(|_| part != Part::Back)?;
    let mut judged = Judged::new(Kind::Peer, question, part, context.world);
    // One address sends by this port, and one receives: the width of the region is of no use here.
    judged.region.peer = host(question.subject);
    let bits = Origin::Pod.bit() | PEER;
    let matches = judged.within(flags(bits, bits).with(Field::IN_PORT, pod.port), destination)?;
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
    /// The decision, in cookies and labels.
    id: u64,
}

impl<'a> Judged<'a> {
    fn new(kind: Kind, question: &'a Question, part: Part, world: &'a World) -> Judged<'a> {
        let judgement = world.judge(question);
        let region = judgement.region;
        let (base, mask) = match region.ports {
            PortBlock::All => (0, 0),
            PortBlock::Block { base, mask } => (base, mask),
            PortBlock::Hidden => (u16::MAX, 0),
        };
        let protocol = region.protocol;
        let shape = match part {
            Part::Whole | Part::First | Part::Later => 0,
            Part::Back => 1,
        };
        let allows = u8::from(judgement.verdict == Verdict::Allow);
        let id = stable_id(&[
            kind.name().as_bytes(),
            &octets(question.subject),
            &octets(region.peer.addr()),
            &[region.peer.prefix_len(), u8::from(protocol.is_some()), protocol.unwrap_or(0), allows, shape],
            &base.to_be_bytes(),
            &mask.to_be_bytes(),
            &judgement.because.stable_hash().to_be_bytes(),
        ]);
        Judged { kind, question, part, world, judgement, region, id }
    }

    /// What the connection is marked with.
    fn mark(&self) -> u32 {
        let by_packet = self.region.protocol == Some(SCTP) && self.region.ports != PortBlock::All;
        if by_packet { SEEN } else { JUDGED }
    }

    /// Narrows a match to the region; `side` says which end of the packet the peer is. `None` where the switch cannot
    /// tell such packets from others.
    fn within(&self, matches: Match, side: fn(Match, IpNet) -> Match) -> Option<Match> {
        let family = Family::of(self.question.subject);
        let Region { peer, protocol, ports } = self.region;
        let matches = if peer.prefix_len() == 0 { ip(matches, family) } else { side(matches, peer) };
        if self.part == Part::Back {
            let matches = answers(matches, SEEN).with(Field::IP_PROTO, SCTP);
            return Some(match ports {
                PortBlock::Block { base, mask } => matches.with_mask(Field::SCTP_SRC, base, mask),
                PortBlock::All | PortBlock::Hidden => matches,
            });
        }
        let matches = forward(matches);
        let Some(protocol) = protocol else { return Some(matches) };
        let fragment = |kind: u128| matches.clone().with_mask(Field::IP_FRAG, kind, FRAGMENT_BITS);
        match (self.part, ports) {
            (Part::Later, PortBlock::All | PortBlock::Hidden) if family == Family::V6 => {
                Some(fragment(LATER_FRAGMENT).with(Field::CT_NW_PROTO, protocol))
            }
            (_, PortBlock::All) if (family, protocol) == (Family::V6, IPV6_FRAGMENT) => None,
            (_, PortBlock::All) => Some(matches.with(Field::IP_PROTO, protocol)),
            (Part::Later, PortBlock::Hidden) => {
                Some(fragment(LATER_FRAGMENT).with(Field::IP_PROTO, protocol))
            }
            // Connection tracking may know no ports of SCTP, and they would seem to be 0.
            (Part::First, PortBlock::Block { base, mask }) if protocol != SCTP => {
                let matches = fragment(FIRST_FRAGMENT).with(Field::CT_NW_PROTO, protocol);
                Some(matches.with_mask(Field::CT_TP_DST, base, mask))
            }
            (Part::Whole, PortBlock::Block { base, mask }) => {
                let matches = fragment(NO_FRAGMENT).with(Field::IP_PROTO, protocol);
                Some(matches.with_mask(destination_port(protocol)?, base, mask))
            }
            _ => None,
        }
    }

    /// The flow that lets the packets go on with these actions, or drops them.
    fn decide(self, table: Table, matches: Match, actions: Vec<Action>) -> Decision {
        let Judgement { verdict, because, audit, region } = self.judgement;
        let provisional = because.is_provisional();
        let new = if provisional { momentary } else { idling };
        let mut flow = new(self.kind, self.id, table, matches);
        let allows = verdict == Verdict::Allow;
        if allows {
            flow.actions = actions;
        } else if !provisional && is_logged(self.question, self.world) {
            flow.actions = copy_of_denied();
        }
        Decision { flow, allows, because: Some(because), audit, region: Some(region) }
    }
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

/// ICMP errors about conversations that are judged packet by packet; about others they pass with these.
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
    let opened_to = traffic.port.filter(|_| traffic.protocol == TCP)?;
    let (from, to) = match direction {
        Direction::Egress => (subject, peer),
        Direction::Ingress => (peer, subject),
    };
    if context.world.converse(from, to, traffic).verdict() == Verdict::Allow {
        return None;
    }
    let (table, matches) = match direction {
        Direction::Egress => (Table::Ingress, source(Match::new().with(REG_OUTPUT, pod.port), host(peer))),
        Direction::Ingress => {
            (Table::Egress, destination(Match::new().with(Field::IN_PORT, pod.port), host(peer)))
        }
    };
    let matches = matches.with(Field::IP_PROTO, TCP);
    let matches = matches.with(Field::TCP_SRC, opened_to).with(Field::TCP_DST, source_port);
    let id = stable_id(&[
        b"ended",
        table.name().as_bytes(),
        &octets(subject),
        &octets(peer),
        &opened_to.to_be_bytes(),
        &source_port.to_be_bytes(),
    ]);
    let flow = Flow {
        priority: priority::ENDED,
        idle_timeout: ENDED_IDLE_SECONDS,
        ..idling(Kind::Ended, id, table, matches)
    };
    Some(Decision::plain(flow, false))
}
