//! Flows that are there before the first packet: a few for the node, some a local pod.
//!
//! Their number does not depend on the size of the cluster: everything about other
//! nodes and their pods is learned.

mod dhcp;
mod node;
mod pod;
mod rates;
mod segment;

use ipnet::IpNet;
use openflow::message::MeterMod;
use openflow::{Action, Flow, Match};
use policy::World;

use super::fields::{go, set_flags};
use super::site::{LocalPod, Site};
use super::vocabulary::{Cause, Cookie, Kind, REG_FLAGS, RETRY, Table, priority};

pub use node::{OWN_NODE, node_flows, node_meters, to_host, to_host_from};
pub use pod::{forget_meters_of, forget_rates, pod_flows, pod_meters};
pub use segment::{out_by_wire, probe_flows, quiet_flows};

/// All static flows of a node: its own and those of its pods.
#[must_use]
pub fn static_flows<'a>(
    site: &Site,
    world: &World,
    pods: impl IntoIterator<Item = &'a LocalPod> + Clone,
) -> Vec<Flow> {
    let mut flows = node_flows(site, world, pods.clone());
    for pod in pods {
        flows.extend(pod_flows(site, pod));
    }
    flows
}

/// All meters of a node: the host's and those of its pods, `rate` punts a second each, and the pods' own rates.
#[must_use]
pub fn static_meters<'a>(pods: impl IntoIterator<Item = &'a LocalPod>, rate: u32) -> Vec<MeterMod> {
    let mut meters = node_meters(rate);
    for pod in pods {
        meters.extend(pod_meters(pod, rate));
    }
    meters
}

/// What the fabric alone leads to: the overlays, and those pods of this node that are on no wire although their Network
/// is no overlay any more.
fn inside(world: &World, pods: &[&LocalPod]) -> Vec<IpNet> {
    let off_wire = pods.iter().filter(|pod| pod.segment.is_none()).flat_map(|pod| &pod.addresses);
    let strays = off_wire.filter(|address| !world.is_overlay(**address)).map(|address| IpNet::from(*address));
    world.overlays().flat_map(|network| network.cidrs.iter().copied()).chain(strays).collect()
}

fn flow(kind: Kind, id: u64, table: Table, priority: u16, matches: Match, actions: Vec<Action>) -> Flow {
    Flow { table: table.id(), priority, cookie: Cookie::new(kind, id).0, matches, actions, ..Flow::default() }
}

/// A flow of the node itself.
fn of_node(table: Table, priority: u16, matches: Match, actions: Vec<Action>) -> Flow {
    flow(Kind::Node, 0, table, priority, matches, actions)
}

/// A flow of one pod.
fn own(pod: &LocalPod, table: Table, priority: u16, matches: Match, actions: Vec<Action>) -> Flow {
    flow(Kind::Pod, u64::from(pod.zone), table, priority, matches, actions)
}

fn drop_for(cause: Cause, table: Table, priority: u16, matches: Match) -> Flow {
    Flow { table: table.id(), priority, cookie: Cookie::cause(cause).0, matches, ..Flow::default() }
}

/// The way of a packet that no learned flow covers: remember the table, ask, look again.
///
/// `flags` and `mask` narrow it to packets with these bits in `reg0`. A packet that
/// comes back and still finds nothing falls off the end of the table.
fn miss(table: Table, flags: u32, mask: u32) -> Flow {
    let number = u32::from(table.id()) << 20;
    flow(
        Kind::Node,
        0,
        table,
        priority::DEFAULT,
        Match::new().with_mask(REG_FLAGS, flags, RETRY | mask),
        vec![set_flags(RETRY | number, RETRY | 0xf << 20), go(Table::Punt), go(table)],
    )
}
