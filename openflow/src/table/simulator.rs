//! Runs a packet through a table of flows and tells what becomes of it.
//!
//! The simulator does what `ovs-vswitchd` does with masks, priorities, `resubmit`, `goto_table`,
//! `clone`, registers, the stack, the action set and `ct` (whose answers a [`Tracker`] gives), so
//! that a test can ask a pipeline about packets instead of comparing flows. It works through a
//! list of things to do, so a paused packet is that list, kept until it is resumed.

use std::collections::BTreeMap;

use super::{FlowTable, Packet};
use crate::action::{Action, Controller, Ct, CtZone, port};
use crate::field::Field;
use crate::flow::Flow;

/// How many tables a packet may visit before it counts as going in circles, as in OVS.
const MAX_LOOKUPS: usize = 4096;

/// The packet-in reason of a packet whose TTL ran out.
const INVALID_TTL: u8 = 2;

/// Gives the answers of connection tracking.
pub trait Tracker {
    /// Looks `packet` up in `zone`, commits it if `ct` says so, translates its addresses if `ct`
    /// asks for that, and sets its `ct_*` fields.
    fn track(&mut self, packet: &mut Packet, zone: u16, ct: &Ct);
}

impl<F: FnMut(&mut Packet, u16, &Ct)> Tracker for F {
    fn track(&mut self, packet: &mut Packet, zone: u16, ct: &Ct) {
        self(packet, zone, ct);
    }
}

/// One look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The table.
    pub table: u8,
    /// The flow that matched; `None` for a miss.
    pub flow: Option<&'a Flow>,
    /// Other flows of the same priority that match too: which one a switch takes is undefined.
    pub rivals: Vec<&'a Flow>,
}

/// A packet that goes to the controller.
#[derive(Clone, Debug)]
pub struct Punt<'a> {
    /// The action's arguments.
    pub controller: Controller,
    /// The packet as the controller sees it.
    pub packet: Packet,
    /// The table whose flow sent it.
    pub table: u8,
    /// What remains to be done with it once it is resumed, if it waits for that.
    pub continuation: Option<Continuation<'a>>,
}

/// The rest of a paused packet's way.
#[derive(Clone, Debug)]
pub struct Continuation<'a>(Walker<'a>);

/// What became of a packet.
#[derive(Clone, Debug, Default)]
pub struct Trace<'a> {
    /// Every look-up, in order.
    pub steps: Vec<Step<'a>>,
    /// The ports that got the packet, and how it looked then.
    pub outputs: Vec<(u32, Packet)>,
    /// The packets for the controller.
    pub punts: Vec<Punt<'a>>,
    /// The meters passed.
    pub meters: Vec<u32>,
    /// The packet at the end of its way, its registers included; of the last way if `ct` forked it.
    pub packet: Packet,
    /// Actions that the simulator leaves undone (`learn`, unknown groups, ...).
    pub undone: Vec<&'a Action>,
    /// Whether the packet was given up because it visited too many tables.
    pub looped: bool,
}

impl Trace<'_> {
    /// Whether the packet went nowhere.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.outputs.is_empty() && self.punts.is_empty()
    }

    /// The ports that got the packet, in order.
    #[must_use]
    pub fn ports(&self) -> Vec<u32> {
        self.outputs.iter().map(|(port, _)| *port).collect()
    }

    /// The tables visited, in order.
    #[must_use]
    pub fn tables(&self) -> Vec<u8> {
        self.steps.iter().map(|step| step.table).collect()
    }
}

/// A thing to do, taken from the end of the list.
#[derive(Clone, Debug)]
enum Work<'a> {
    Act(&'a Action),
    Look {
        table: u8,
        in_port: Option<u32>,
    },
    /// Back in this table after a resubmit.
    Table(u8),
    /// The end of a `clone`: the packet is what it was.
    Restore(Box<Packet>),
    /// The end of the pipeline: the action set runs.
    ActionSet,
}

/// One packet on its way.
#[derive(Clone, Debug)]
struct Walker<'a> {
    packet: Packet,
    table: u8,
    work: Vec<Work<'a>>,
    action_set: Vec<&'a Action>,
}

/// Flows, arranged for look-ups.
#[derive(Clone, Debug, Default)]
pub struct Simulator<'a> {
    tables: BTreeMap<u8, Vec<&'a Flow>>,
    groups: BTreeMap<u32, &'a [Action]>,
}

impl<'a> Simulator<'a> {
    /// A switch with the flows of `table`.
    #[must_use]
    pub fn new(table: &'a FlowTable) -> Self {
        let mut tables: BTreeMap<u8, Vec<&Flow>> = BTreeMap::new();
        for flow in table.iter() {
            tables.entry(flow.table).or_default().push(flow);
        }
        for flows in tables.values_mut() {
            flows.sort_by_key(|flow| std::cmp::Reverse(flow.priority));
        }
        Self { tables, groups: BTreeMap::new() }
    }

    /// Gives group `id` the actions of the bucket that it shall choose.
    #[must_use]
    pub fn with_group(mut self, id: u32, bucket: &'a [Action]) -> Self {
        self.groups.insert(id, bucket);
        self
    }

    /// Runs `packet` from table 0.
    pub fn run(&self, packet: Packet, tracker: &mut dyn Tracker) -> Trace<'a> {
        self.run_from(0, packet, tracker)
    }

    /// Runs `packet` from `table`.
    pub fn run_from(&self, table: u8, packet: Packet, tracker: &mut dyn Tracker) -> Trace<'a> {
        self.walk(Walker::new(packet, table), tracker)
    }

    /// Goes on with a paused packet, in this switch's flows.
    pub fn resume(&self, continuation: Continuation<'a>, tracker: &mut dyn Tracker) -> Trace<'a> {
        self.walk(continuation.0, tracker)
    }

    fn walk(&self, first: Walker<'a>, tracker: &mut dyn Tracker) -> Trace<'a> {
        let mut run = Run { simulator: self, tracker, trace: Trace::default(), waiting: vec![first] };
        while let Some(walker) = run.waiting.pop() {
            run.finish(walker);
        }
        run.trace
    }

    /// The best flow of `table` for a packet, and those that are as good.
    fn look_up(&self, table: u8, packet: &Packet, in_port: Option<u32>) -> Step<'a> {
        let of = |field: Field| match (field, in_port) {
            (Field::IN_PORT, Some(port)) => port.into(),
            _ => packet.stored(field),
        };
        let flows = self.tables.get(&table).map_or(&[][..], Vec::as_slice);
        let mut fitting = flows.iter().copied().filter(|flow| flow.matches.fits(of));
        let flow = fitting.next();
        let rivals = fitting.take_while(|other| flow.is_some_and(|f| f.priority == other.priority)).collect();
        Step { table, flow, rivals }
    }
}

impl<'a> Walker<'a> {
    fn new(packet: Packet, table: u8) -> Self {
        let work = vec![Work::ActionSet, Work::Look { table, in_port: None }];
        Walker { packet, table, work, action_set: Vec::new() }
    }

    fn push_actions(&mut self, actions: &'a [Action]) {
        self.work.extend(actions.iter().rev().map(Work::Act));
    }

    /// Leaves all lists of actions, up to the `clone` that is being run, if any.
    fn exit(&mut self) {
        while let Some(work) = self.work.pop() {
            if matches!(work, Work::Restore(_)) {
                self.work.push(work);
                return;
            }
        }
    }
}

/// A run of one packet and of the copies that `ct` makes.
struct Run<'r, 'a> {
    simulator: &'r Simulator<'a>,
    tracker: &'r mut dyn Tracker,
    trace: Trace<'a>,
    waiting: Vec<Walker<'a>>,
}

impl<'a> Run<'_, 'a> {
    fn finish(&mut self, mut walker: Walker<'a>) {
        while let Some(work) = walker.work.pop() {
            match work {
                Work::Look { table, in_port } => self.look(&mut walker, table, in_port),
                Work::Table(table) => walker.table = table,
                Work::Restore(packet) => walker.packet = *packet,
                Work::ActionSet => {
                    let set = std::mem::take(&mut walker.action_set);
                    walker.work.extend(set.into_iter().rev().map(Work::Act));
                }
                Work::Act(action) => self.act(&mut walker, action),
            }
        }
        self.trace.packet = walker.packet;
    }

    fn look(&mut self, walker: &mut Walker<'a>, table: u8, in_port: Option<u32>) {
        if self.trace.steps.len() >= MAX_LOOKUPS {
            self.trace.looped = true;
            walker.work.clear();
            return;
        }
        walker.table = table;
        let step = self.simulator.look_up(table, &walker.packet, in_port);
        if let Some(flow) = step.flow {
            walker.push_actions(&flow.actions);
        }
        self.trace.steps.push(step);
    }

    fn act(&mut self, walker: &mut Walker<'a>, action: &'a Action) {
        match action {
            Action::Output { port: port::CONTROLLER, max_len } => {
                self.punt(walker, Controller { max_len: *max_len, ..Controller::default() });
            }
            Action::Output { port, .. } | Action::OutputTrunc { port, .. } => self.output(walker, *port),
            Action::OutputReg { src, .. } => {
                let port = walker.packet.bits(*src);
                self.output(walker, u32::try_from(port).unwrap_or(port::ANY));
            }
            Action::Controller(controller) => self.punt(walker, controller.clone()),
            Action::Group(id) => match self.simulator.groups.get(id) {
                Some(bucket) => {
                    let packet = Box::new(walker.packet.clone());
                    walker.work.push(Work::Restore(packet));
                    walker.push_actions(bucket);
                }
                None => self.trace.undone.push(action),
            },
            Action::Meter(id) => self.trace.meters.push(*id),
            Action::Resubmit { in_port, table, .. } => {
                let here = walker.table;
                walker.work.push(Work::Table(here));
                let in_port = in_port.map(wide_port);
                walker.work.push(Work::Look { table: table.unwrap_or(here), in_port });
            }
            Action::GotoTable(table) => walker.work.push(Work::Look { table: *table, in_port: None }),
            Action::Ct(ct) => self.track(walker, ct),
            Action::Clone(actions) => {
                walker.work.push(Work::Restore(Box::new(walker.packet.clone())));
                walker.push_actions(actions);
            }
            Action::Exit => walker.exit(),
            Action::ClearActions => walker.action_set.clear(),
            Action::WriteActions(actions) => write_action_set(&mut walker.action_set, actions),
            Action::DecTtl | Action::DecTtlIds(_) => self.decrement_ttl(walker),
            other if change(&mut walker.packet, other) => {}
            other => self.trace.undone.push(other),
        }
    }

    fn output(&mut self, walker: &Walker<'a>, port: u32) {
        // A switch sends nothing back where it came from unless it is told so by name.
        if u128::from(port) != walker.packet.get(Field::IN_PORT) {
            self.trace.outputs.push((port, walker.packet.clone()));
        }
    }

    fn punt(&mut self, walker: &mut Walker<'a>, controller: Controller) {
        let continuation = controller.pause.then(|| {
            let work = std::mem::take(&mut walker.work);
            Continuation(Walker { work, ..walker.clone() })
        });
        let (packet, table) = (walker.packet.clone(), walker.table);
        self.trace.punts.push(Punt { controller, packet, table, continuation });
    }

    fn decrement_ttl(&mut self, walker: &mut Walker<'a>) {
        match walker.packet.get(Field::IP_TTL) {
            0 | 1 => {
                self.punt(walker, Controller { reason: INVALID_TTL, ..Controller::default() });
                walker.exit();
            }
            ttl => walker.packet.set(Field::IP_TTL, ttl - 1),
        }
    }

    /// With a table, a copy goes on there with its state known. The packet itself goes on here without it, and without
    /// what was known of an earlier look-up. Without a table, the translation of addresses is seen here.
    fn track(&mut self, walker: &mut Walker<'a>, ct: &'a Ct) {
        let zone = match ct.zone {
            CtZone::Imm(zone) => zone,
            CtZone::Field(sub) => u16::try_from(walker.packet.bits(sub)).unwrap_or_default(),
        };
        let mut tracked = walker.packet.clone();
        self.tracker.track(&mut tracked, zone, ct);
        match ct.table {
            Some(table) => self.waiting.push(Walker::new(tracked, table)),
            None => walker.packet = tracked,
        }
        change(&mut walker.packet, &Action::CtClear);
    }
}

/// The fields that connection tracking sets.
pub(super) const CT_FIELDS: [Field; 11] = [
    Field::CT_STATE,
    Field::CT_ZONE,
    Field::CT_MARK,
    Field::CT_LABEL,
    Field::CT_NW_SRC,
    Field::CT_NW_DST,
    Field::CT_IPV6_SRC,
    Field::CT_IPV6_DST,
    Field::CT_NW_PROTO,
    Field::CT_TP_SRC,
    Field::CT_TP_DST,
];

fn wide_port(port: u16) -> u32 {
    if port >= 0xff00 { u32::from(port) | 0xffff_0000 } else { port.into() }
}

/// An action set holds one action of a kind, and one `set_field` a field.
fn write_action_set<'a>(set: &mut Vec<&'a Action>, actions: &'a [Action]) {
    let same = |a: &Action, b: &Action| match (a, b) {
        (Action::SetField { field: x, .. }, Action::SetField { field: y, .. }) => x == y,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    for action in actions {
        set.retain(|old| !same(old, action));
        set.push(action);
    }
    // Outputs come last (OpenFlow 1.5.1 §5.6).
    set.sort_by_key(|action| matches!(action, Action::Output { .. } | Action::Group(_)));
}

/// Applies an action that changes the packet alone; `false` if it is of another kind.
pub(super) fn change(packet: &mut Packet, action: &Action) -> bool {
    match action {
        Action::SetField { field, value, mask } => {
            packet.set_masked(*field, value.0, mask.map_or(field.full_mask(), |m| m.0));
        }
        Action::Load { dst, value } => packet.set_bits(*dst, (*value).into()),
        Action::Move { src, dst } => packet.set_bits(*dst, packet.bits(*src)),
        Action::WriteMetadata { value, mask } => {
            packet.set_masked(Field::METADATA, (*value).into(), (*mask).into());
        }
        Action::Push(sub) => packet.push(*sub),
        Action::Pop(sub) => packet.pop(*sub),
        Action::PushVlan(_) => packet.set(Field::VLAN_TCI, 0x1000),
        Action::PopVlan => packet.set(Field::VLAN_TCI, 0),
        Action::SetNwTtl(ttl) => packet.set(Field::IP_TTL, (*ttl).into()),
        Action::CheckPktLarger { dst, bytes } => {
            packet.set_bits(*dst, u128::from(packet.length > usize::from(*bytes)));
        }
        Action::CtClear => CT_FIELDS.iter().for_each(|field| packet.set(*field, 0)),
        Action::SetQueue(_) | Action::PopQueue | Action::Note(_) | Action::FinTimeout { .. } => {}
        _ => return false,
    }
    true
}
