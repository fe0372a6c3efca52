//! The difference between the host as it should be and as it is, as steps. Pure.

use std::net::IpAddr;

use fabric_core::node::HostState;
use ipnet::IpNet;

use super::netlink::{Link, Neighbour, Route};

/// What the kernel has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The device of the wanted state.
    pub link: Option<Link>,
    /// The room's routes, on every device.
    pub routes: Vec<Route>,
    /// The room's neighbours, on every device.
    pub neighbours: Vec<Neighbour>,
}

/// One request to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Set the MTU of the device and switch it on.
    SetLink {
        /// Index.
        index: u32,
        /// MTU, bytes.
        mtu: u32,
    },
    /// Remove a route.
    RemoveRoute(Route),
    /// Remove a neighbour.
    RemoveNeighbour(Neighbour),
    /// Make a neighbour, or change its hardware address.
    AddNeighbour(Neighbour),
    /// Make a route.
    AddRoute(Route),
}

/// The steps, in order, and what cannot be done.
///
/// Without the device there is nothing to add, and nothing of the room's to keep: routes and neighbours go with
/// their device.
pub fn plan(wanted: &HostState, found: &Found) -> (Vec<Step>, Vec<String>) {
    let mut problems = Vec::new();
    let (routes, neighbours) = match &found.link {
        Some(link) => (routes(wanted, link, &mut problems), neighbours(wanted, link)),
        None => (Vec::new(), Vec::new()),
    };
    let mut steps = Vec::new();
    if let Some(link) = &found.link
        && (!link.up || link.mtu != wanted.mtu)
    {
        steps.push(Step::SetLink { index: link.index, mtu: wanted.mtu });
    }
    let goes = found.routes.iter().filter(|route| !routes.contains(route));
    steps.extend(goes.cloned().map(Step::RemoveRoute));
    // A neighbour of the same address is replaced, so that its next hop is never unresolved.
    let keeps =
        |old: &Neighbour| neighbours.iter().any(|n| (n.device, n.address) == (old.device, old.address));
    let goes = found.neighbours.iter().filter(|old| !keeps(old));
    steps.extend(goes.cloned().map(Step::RemoveNeighbour));
    let comes = neighbours.into_iter().filter(|neighbour| !found.neighbours.contains(neighbour));
    steps.extend(comes.map(Step::AddNeighbour));
    let comes = routes.into_iter().filter(|route| !found.routes.contains(route));
    steps.extend(comes.map(Step::AddRoute));
    (steps, problems)
}

fn routes(wanted: &HostState, link: &Link, problems: &mut Vec<String>) -> Vec<Route> {
    let mut routes = Vec::new();
    for prefix in &wanted.routes {
        let gateway = of_family(&wanted.gateways, prefix);
        if gateway.is_none() {
            problems.push(format!("route {prefix}: no next hop of its family on {}", wanted.device));
            continue;
        }
        let source = of_family(&wanted.sources, prefix);
        routes.push(Route { prefix: prefix.trunc(), device: link.index, gateway, source });
    }
    routes
}

fn of_family(addresses: &[IpAddr], prefix: &IpNet) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv4() == prefix.addr().is_ipv4())
}

fn neighbours(wanted: &HostState, link: &Link) -> Vec<Neighbour> {
    let Some(mac) = wanted.gateway_mac else { return Vec::new() };
    let neighbour =
        |address: &IpAddr| Neighbour { device: link.index, address: *address, mac: mac.0.to_vec() };
    wanted.gateways.iter().map(neighbour).collect()
}

#[cfg(test)]
mod tests;
