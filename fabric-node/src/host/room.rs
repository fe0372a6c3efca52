//! The task of the room: waits for a cause, applies the difference, asks the peers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddrV6, UdpSocket};
use std::time::{Duration, Instant};

use fabric_core::node::{Event, HostState};
use futures_util::StreamExt;
use ipnet::IpNet;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;

use super::HostConfig;
use super::egress::{self, Loans};
use super::masquerade;
use super::netlink::{Change, Hop, Link, Netlink, exists};
use super::peers::Peers;
use super::plan::{Found, Step, plan};
use super::sysctl;
use crate::{nft, problems};

/// Changes of the kernel come in bunches: time between the first and the comparison it causes.
const GATHER: Duration = Duration::from_millis(20);

/// Time after which something that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Time that a problem must last before it is reported: at a start much is not there yet.
const GRACE: Duration = Duration::from_secs(1);

/// Time between two attempts to set an MTU that something else sets too.
const TRUCE: Duration = Duration::from_secs(10);

/// UDP port of the discard service (RFC 863).
const DISCARD: u16 = 9;

/// Time before a netlink socket that failed is opened again.
const REOPEN: Duration = Duration::from_millis(500);

/// Runs until the last handle is gone.
pub async fn run(
    config: HostConfig,
    mut wanted: watch::Receiver<Option<HostState>>,
    problems: watch::Sender<Vec<String>>,
    events: mpsc::Sender<Event>,
) {
    let mut room = Room::new(config, problems);
    loop {
        let (netlink, mut changes) = match Netlink::open() {
            Ok(opened) => opened,
            Err(error) => {
                room.undone =
                    vec![format!("rtnetlink: cannot open a socket: {error}; the agent must run as root")];
                room.report();
                tokio::time::sleep(REOPEN).await;
                continue;
            }
        };
        room.everything_may_have_changed();
        loop {
            let next = room.next().unwrap_or_else(|| Instant::now() + room.config.refresh);
            tokio::select! {
                changed = wanted.changed() => match changed {
                    Ok(()) => room.want(wanted.borrow_and_update().clone()),
                    Err(_) => return,
                },
                change = changes.next() => match change {
                    Some(change) => room.changed(&change),
                    None => break,
                },
                () = sleep_until(next.into()) => {}
            }
            room.work(&netlink).await;
            if let Some(settled) = room.peers.settled()
                && events.send(Event::PeersSettled(settled)).await.is_err()
            {
                return;
            }
            if let Some(links) = room.links_told()
                && events.send(Event::Links(links)).await.is_err()
            {
                return;
            }
        }
        tracing::warn!("rtnetlink: the connection ended; opening another");
        tokio::time::sleep(REOPEN).await;
    }
}

struct Room {
    config: HostConfig,
    state: Option<HostState>,
    device: Option<Link>,
    /// When the MTU was set last.
    mtu_set: Option<Instant>,
    /// The script that `nft` accepted last.
    masquerade: Option<String>,
    peers: Peers,
    loans: Loans,
    /// When to compare next.
    compare: Option<Instant>,
    /// Whether the rules of the last state are in the kernel.
    ready: bool,
    /// What the last comparison could not bring about.
    undone: Vec<String>,
    /// Since when there is which problem.
    since: BTreeMap<String, Instant>,
    problems: watch::Sender<Vec<String>>,
}

impl Room {
    fn new(config: HostConfig, problems: watch::Sender<Vec<String>>) -> Self {
        Self {
            peers: Peers::new(config.refresh, config.patience),
            config,
            loans: Loans::default(),
            state: None,
            device: None,
            mtu_set: None,
            masquerade: None,
            compare: None,
            ready: false,
            undone: Vec::new(),
            since: BTreeMap::new(),
            problems,
        }
    }

    fn want(&mut self, state: Option<HostState>) {
        let now = Instant::now();
        if let Some(state) = &state {
            self.peers.set(&state.peers, now);
        }
        self.state = state;
        self.compare = Some(now);
    }

    fn everything_may_have_changed(&mut self) {
        let now = Instant::now();
        self.compare = Some(now);
        self.peers.unsettle(now);
    }

    fn changed(&mut self, change: &Change) {
        let now = Instant::now();
        match change {
            Change::Neighbour(hop, standing) => self.peers.heard(*hop, *standing, now),
            Change::Link { index, running } => {
                if *running {
                    self.peers.device_changed(*index, now + GATHER);
                }
                self.compare_by(now + GATHER);
            }
            // Its own renewals come back as news.
            Change::Address { address: Some(ip), present: true } if self.loans.has(*ip) => {}
            Change::Address { .. } => {
                self.peers.retry_silent(now + GATHER);
                self.compare_by(now + GATHER);
            }
            Change::Route => self.compare_by(now + GATHER),
            Change::Lost => self.everything_may_have_changed(),
        }
    }

    fn compare_by(&mut self, at: Instant) {
        self.compare = Some(self.compare.map_or(at, |due| due.min(at)));
    }

    /// When there is something to do; without a state to compare with, there is nothing to compare.
    fn next(&self) -> Option<Instant> {
        let compare = self.compare.filter(|_| self.state.is_some());
        compare.into_iter().chain(self.peers.next()).chain(self.loans.next()).min()
    }

    /// The networks that the interfaces are on, where that is news and the rest of the state is in place: whoever is told may
    /// be given an egress address.
    fn links_told(&mut self) -> Option<BTreeSet<IpNet>> {
        if self.ready { self.loans.news() } else { None }
    }

    /// Does what is due.
    async fn work(&mut self, netlink: &Netlink) {
        let now = Instant::now();
        if self.compare.is_some_and(|at| now >= at)
            && let Some(state) = self.state.clone()
        {
            self.undone = self.apply(&state, netlink).await;
            let pause = if self.undone.is_empty() { self.config.refresh } else { RETRY };
            self.compare = Some(Instant::now() + pause);
        }
        if !self.loans.work(netlink).await {
            self.compare_by(now + GATHER);
        }
        let due = self.peers.due(now);
        if !due.is_empty() {
            ask(&mut self.peers, self.device.as_ref(), &due, netlink).await;
        }
        self.report();
    }

    async fn apply(&mut self, state: &HostState, netlink: &Netlink) -> Vec<String> {
        let mut problems = Vec::new();
        problems.extend(forwarding(state, netlink).await.err());
        match find(state, netlink).await {
            Ok(found) => {
                self.found_device(found.link.as_ref());
                if found.link.is_none() {
                    problems
                        .push(format!("device {} does not exist; is ovs-vswitchd running?", state.device));
                }
                let (steps, impossible) = plan(state, &found);
                problems.extend(impossible);
                if found.link.is_some() {
                    let v6 = state.gateways.iter().any(IpAddr::is_ipv6);
                    problems.extend(sysctl::device(&state.device, true, v6));
                }
                for step in steps {
                    let outcome = match self.truce(&step, &found) {
                        Some(problem) => Err(problem),
                        None => take(&step, &state.device, netlink).await,
                    };
                    problems.extend(outcome.err());
                }
            }
            Err(error) => problems.push(format!("rtnetlink: cannot read the host's state: {error}")),
        }
        match netlink.interfaces(&state.device).await {
            Ok(interfaces) => {
                self.loans.note_links(&interfaces);
                problems.extend(self.loans.apply(state, &interfaces, netlink).await);
            }
            Err(error) => problems.push(format!("rtnetlink: cannot read the host's addresses: {error}")),
        }
        let masqueraded = self.masquerade(state).await;
        self.ready = masqueraded.is_ok();
        problems.extend(masqueraded.err());
        problems
    }

    /// A bridge that was made anew has forgotten its peers.
    fn found_device(&mut self, found: Option<&Link>) {
        let index = |link: Option<&Link>| link.map(|link| link.index);
        if found.is_some() && index(found) != index(self.device.as_ref()) {
            self.peers.unsettle(Instant::now() + GATHER);
        }
        self.device = found.cloned();
    }

    /// Leaves an MTU alone that something else has just changed, or the two would change it for ever.
    fn truce(&mut self, step: &Step, found: &Found) -> Option<String> {
        let (Step::SetLink { mtu, .. }, Some(link)) = (step, &found.link) else { return None };
        let now = Instant::now();
        if link.up && self.mtu_set.is_some_and(|set| now < set + TRUCE) {
            let found = link.mtu;
            return Some(format!(
                "MTU {mtu} of the bridge's device: something sets it to {found}; is mtu_request of its Interface {mtu}?"
            ));
        }
        self.mtu_set = Some(now);
        None
    }

    /// Runs the script of the state: whenever there is something in it, since others may have removed it.
    async fn masquerade(&mut self, state: &HostState) -> Result<(), String> {
        let script = masquerade::script(state);
        let is_empty = script == masquerade::removal();
        if is_empty && self.masquerade.as_ref() == Some(&script) {
            return Ok(());
        }
        let outcome = masquerade(&self.config.nft, &script).await;
        if is_empty && self.masquerade.is_none() && outcome.is_err() {
            // There was nothing to remove, as far as is known.
            self.masquerade = Some(script);
            return Ok(());
        }
        outcome.map(|()| self.masquerade = Some(script))
    }

    fn report(&mut self) {
        let now = Instant::now();
        let found: BTreeSet<String> = self.undone.iter().cloned().chain(self.peers.complaint()).collect();
        self.since.retain(|problem, _| found.contains(problem));
        for problem in found {
            self.since.entry(problem).or_insert(now);
        }
        let lasting = self.since.iter().filter(|(_, since)| now >= **since + GRACE);
        let problems: Vec<String> = lasting.map(|(problem, _)| problem.clone()).collect();
        problems::tell(&self.problems, problems);
    }
}

async fn find(state: &HostState, netlink: &Netlink) -> Result<Found, rtnetlink::Error> {
    Ok(Found {
        link: netlink.link(&state.device).await?,
        routes: netlink.routes().await?,
        neighbours: netlink.neighbours().await?,
    })
}

async fn forwarding(state: &HostState, netlink: &Netlink) -> Result<(), String> {
    if state.routes.iter().any(|prefix| prefix.addr().is_ipv4()) {
        sysctl::forward_v4()?;
    }
    if state.routes.iter().any(|prefix| prefix.addr().is_ipv6()) && !sysctl::forwards_v6() {
        let told = |error| format!("rtnetlink: cannot read the routes of router advertisements: {error}");
        let mut names = Vec::new();
        for index in netlink.advertised().await.map_err(told)? {
            names.extend(netlink.name(index).await.map_err(told)?);
        }
        sysctl::forward_v6(names.iter().map(String::as_str))?;
    }
    Ok(())
}

async fn take(step: &Step, device: &str, netlink: &Netlink) -> Result<(), String> {
    match step {
        Step::SetLink { index, mtu } => {
            let outcome = netlink.set_link(*index, *mtu).await;
            outcome.map_err(|error| format!("device {device}: cannot set it up with MTU {mtu}: {error}"))
        }
        Step::RemoveRoute(route) => {
            let outcome = netlink.remove_route(route).await;
            outcome.map_err(|error| format!("route {}: cannot remove it: {error}", route.prefix))
        }
        Step::RemoveNeighbour(neighbour) => {
            let hop = Hop { device: neighbour.device, address: neighbour.address };
            let outcome = netlink.forget(hop).await;
            outcome.map_err(|error| format!("neighbour {}: cannot remove it: {error}", neighbour.address))
        }
        Step::AddNeighbour(neighbour) => {
            let outcome = netlink.add_neighbour(neighbour).await;
            outcome.map_err(|error| format!("neighbour {} on {device}: {error}", neighbour.address))
        }
        Step::AddRoute(route) => netlink.add_route(route).await.map_err(|error| {
            let prefix = route.prefix;
            match route.source {
                _ if exists(&error) => format!(
                    "route {prefix} on {device}: the host has another route to it, which stays; remove that one"
                ),
                Some(source) => format!(
                    "route {prefix} on {device} from {source}: {error}; is {source} an address of this node?"
                ),
                None => format!("route {prefix} on {device}: {error}"),
            }
        }),
    }
}

/// Asks peers for their link-layer addresses, each hop once.
async fn ask(peers: &mut Peers, device: Option<&Link>, due: &[IpAddr], netlink: &Netlink) {
    let known = netlink.standings().await.unwrap_or_default();
    let mut hops = BTreeSet::new();
    for address in due {
        let hop = netlink.hop(*address).await;
        let hop = hop.inspect_err(|error| tracing::debug!("tunnel peer {address}: no route: {error}"));
        let hop = hop.ok().flatten();
        peers.asked(*address, hop, Instant::now());
        hops.extend(hop);
    }
    let kernel_datapath = device.is_some_and(|link| link.kernel_datapath);
    for hop in hops {
        let standing = known.iter().find(|(known, _)| *known == hop).map(|(_, standing)| *standing);
        if let Some(standing @ super::netlink::Standing::Fixed) = standing {
            peers.heard(hop, standing, Instant::now());
            continue;
        }
        if let (Some(standing), true) = (standing, kernel_datapath) {
            peers.heard(hop, standing, Instant::now());
        }
        if let Err(error) = question(hop, kernel_datapath, netlink).await {
            tracing::debug!("tunnel peer behind {}: cannot ask for it: {error}", hop.address);
        }
    }
}

async fn question(hop: Hop, kernel_datapath: bool, netlink: &Netlink) -> Result<(), rtnetlink::Error> {
    if !kernel_datapath {
        netlink.forget(hop).await?;
    }
    // Before the other, since an entry that is being resolved sends no second question for a second packet.
    if let IpAddr::V6(address) = hop.address {
        let sent = discard(SocketAddrV6::new(address, DISCARD, 0, hop.device));
        sent.unwrap_or_else(|error| tracing::debug!("neighbour {address}: no datagram sent: {error}"));
    }
    netlink.resolve(hop).await
}

/// Sends an empty datagram.
fn discard(to: SocketAddrV6) -> std::io::Result<()> {
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
    socket.set_nonblocking(true)?;
    socket.send_to(&[], to).map(drop)
}

async fn masquerade(nft: &std::path::Path, script: &str) -> Result<(), String> {
    nft::run(nft, script).await.map_err(|error| format!("masquerade: {error}"))
}

/// Removes all that carries the room's mark; the failures.
pub async fn cleanup(config: &HostConfig) -> Vec<String> {
    let mut failures = Vec::new();
    match Netlink::open() {
        Ok((netlink, _changes)) => match find(&HostState::default(), &netlink).await {
            Ok(found) => {
                let (steps, _) = plan(&HostState::default(), &Found { link: None, ..found });
                for step in steps {
                    failures.extend(take(&step, "", &netlink).await.err());
                }
                failures.extend(egress::cleanup(&netlink).await);
            }
            Err(error) => failures.push(format!("rtnetlink: cannot read the host's state: {error}")),
        },
        Err(error) => failures.push(format!("rtnetlink: cannot open a socket: {error}")),
    }
    failures.extend(masquerade(&config.nft, &masquerade::removal()).await.err());
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_was_told_nothing_has_nothing_to_do() {
        let (problems, _) = watch::channel(Vec::new());
        let mut room = Room::new(HostConfig::default(), problems);
        room.everything_may_have_changed();
        assert_eq!(room.next(), None, "it would wake up for nothing, again and again");
        room.want(Some(HostState::default()));
        assert!(room.next().is_some());
    }
}
