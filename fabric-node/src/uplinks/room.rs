//! The task of the room: waits for a cause, looks at every network, does what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use policy::Name;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::LinkAttribute;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::UplinksConfig;
use super::database::Database;
use super::hands::{Hands, Names};
use super::kernel::Kernel;
use super::stuck::Stuck;
use super::view;
use crate::news::{self, MulticastGroup, News};
use crate::problems;

/// Changes come in bunches: time between the first and the look that it causes.
const GATHER: Duration = Duration::from_millis(20);

/// Time between two looks without a cause.
const REFRESH: Duration = Duration::from_secs(60);

/// Time between two looks at a network that waits for something.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest time before a network that failed is tried again; the first time is [`AGAIN`], and doubled each time.
const LONGEST: Duration = Duration::from_secs(60);

/// Time before a netlink socket that failed is opened again.
const REOPEN: Duration = Duration::from_millis(500);

/// Runs until the last handle is gone.
pub async fn run(
    config: UplinksConfig,
    mut wanted: watch::Receiver<Option<BTreeMap<Name, BTreeSet<u16>>>>,
    known: watch::Sender<Vec<String>>,
) {
    let database = Database::open(&config.database);
    let (kernel, mut changes) = loop {
        match open() {
            Ok(opened) => break opened,
            Err(error) => {
                let problem = format!("rtnetlink: cannot open a socket: {error}; the agent must run as root");
                problems::tell(&known, vec![problem]);
                sleep(REOPEN).await;
            }
        }
    };
    let networks = config.networks.iter().map(|(name, network)| {
        (Names::new(name, &network.nic), Standing { allow: network.allow_management, ..Standing::default() })
    });
    let mut room = Room {
        networks: networks.collect(),
        hands: Hands { config, database, kernel, guarded: BTreeMap::new(), switched_on: BTreeSet::new() },
        leftovers: Standing::default(),
        look: Instant::now(),
    };
    let names = room.names();
    loop {
        tokio::select! {
            changed = wanted.changed() => match changed {
                Ok(()) => room.look_by(Instant::now()),
                Err(_) => return,
            },
            concerns = room.hands.database.event(&names) => if concerns { room.look_by(Instant::now() + GATHER) },
            Some(change) = changes.next() => if room.concerns(&change, &names) { room.look_by(Instant::now() + GATHER) },
            () = sleep_until(room.look) => {}
        }
        if Instant::now() >= room.look {
            let vlans = wanted.borrow_and_update().clone();
            room.work(vlans.as_ref()).await;
            problems::tell(&known, room.problems());
        }
    }
}

/// News of the kernel.
enum Change {
    /// Of the device of that name.
    Device(String),
    /// Of an address of the device of that index.
    Address(u32),
    /// News were lost: anything may have changed.
    Lost,
}

fn change(news: News<'_>) -> Option<Change> {
    let News::Message(message) = news else { return Some(Change::Lost) };
    match message {
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
            link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(Change::Device(name.clone())),
                _ => None,
            })
        }
        RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) => {
            Some(Change::Address(address.header.index))
        }
        _ => None,
    }
}

/// Requests to the kernel, and its news of devices and addresses.
fn open() -> io::Result<(Kernel, impl Stream<Item = Change> + Unpin)> {
    let groups = [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
    let changes = news::follow(&groups, change)?;
    Ok((Kernel::open()?, changes))
}

/// How a network is.
#[derive(Debug, Clone, Default)]
struct Standing {
    /// Whether it may take the only way to manage this node.
    allow: bool,
    problem: Option<String>,
    /// Failures in a row.
    failures: u32,
    /// Not to be tried before.
    rest: Option<Instant>,
}

impl Standing {
    /// Notes how an attempt went; when to look again.
    fn note(&mut self, outcome: Result<(), Stuck>) -> Instant {
        let now = Instant::now();
        let (problem, pause) = match outcome {
            Ok(()) => (None, REFRESH),
            Err(Stuck::Later) => (self.problem.take(), AGAIN),
            Err(Stuck::Blocked(problem)) => (Some(problem), AGAIN * 5),
            Err(Stuck::Failed(problem)) => {
                let pause = AGAIN * 2_u32.saturating_pow(self.failures.min(6));
                (self.failures, self.rest) = (self.failures + 1, Some(now + pause.min(LONGEST)));
                self.problem = Some(problem);
                return now + pause.min(LONGEST);
            }
        };
        (self.problem, self.failures, self.rest) = (problem, 0, None);
        now + pause
    }

    fn rests(&self) -> Option<Instant> {
        self.rest.filter(|rest| Instant::now() < *rest)
    }
}

struct Room {
    networks: Vec<(Names, Standing)>,
    hands: Hands,
    /// Networks that are in place and not in the configuration.
    leftovers: Standing,
    /// When to look next.
    look: Instant,
}

impl Room {
    /// Names of what a change must be of to matter.
    fn names(&self) -> BTreeSet<String> {
        let of = |names: &Names| [names.nic.clone(), names.bridge.clone(), names.patch.clone()];
        self.networks.iter().flat_map(|(names, _)| of(names)).collect()
    }

    /// Whether news are of a NIC or a bridge of a physical network.
    fn concerns(&mut self, change: &Change, names: &BTreeSet<String>) -> bool {
        match change {
            Change::Device(name) => names.contains(name),
            Change::Address(index) => {
                let devices = self.networks.iter().flat_map(|(names, _)| [&names.nic, &names.bridge]);
                let kernel = &mut self.hands.kernel;
                let mut found = devices.filter_map(|name| kernel.link(name).ok().flatten());
                found.any(|link| link.device.index == *index)
            }
            Change::Lost => true,
        }
    }

    fn look_by(&mut self, at: Instant) {
        self.look = self.look.min(at);
    }

    async fn work(&mut self, vlans: Option<&BTreeMap<Name, BTreeSet<u16>>>) {
        self.look = Instant::now() + REFRESH;
        self.clear_leftovers().await;
        let none = BTreeSet::new();
        for at in 0..self.networks.len() {
            let Some((names, standing)) = self.networks.get(at).cloned() else { continue };
            if let Some(rest) = standing.rests() {
                self.look_by(rest);
                continue;
            }
            let vlans = vlans.map(|vlans| vlans.get(names.network.as_str()).unwrap_or(&none));
            let outcome = self.hands.bring_in(&names, standing.allow, vlans).await;
            if let Some((_, standing)) = self.networks.get_mut(at) {
                let again = standing.note(outcome);
                self.look_by(again);
            }
        }
    }

    /// Undoes networks that are not in the configuration any more.
    async fn clear_leftovers(&mut self) {
        let Some(replica) = self.hands.database.replica() else { return };
        if let Some(rest) = self.leftovers.rests() {
            return self.look_by(rest);
        }
        let known = &self.hands.config.networks;
        let gone = view::networks(replica).into_iter().filter(|(network, nic)| match known.get(network) {
            None => true,
            Some(network) => nic.as_ref().is_some_and(|nic| *nic != network.nic),
        });
        let mut left = Vec::new();
        for (network, nic) in gone.collect::<Vec<_>>() {
            let names = Names::new(&network, &nic.unwrap_or_default());
            let undone = self.hands.put_back(&names).await;
            undone.done.iter().for_each(|done| tracing::info!("physical network {network}: {done}"));
            left.extend(undone.left);
        }
        let outcome = if left.is_empty() { Ok(()) } else { Err(Stuck::Failed(left.join("; "))) };
        let again = self.leftovers.note(outcome);
        self.look_by(again);
    }

    fn problems(&self) -> Vec<String> {
        let standings = self.networks.iter().map(|(_, standing)| standing).chain([&self.leftovers]);
        let mut problems: BTreeSet<String> =
            standings.filter_map(|standing| standing.problem.clone()).collect();
        if !self.networks.is_empty()
            && let Some(lost) = &self.hands.database.lost
        {
            let database = self.hands.config.database.display();
            problems.insert(format!("database of Open vSwitch at {database}: {lost}"));
        }
        problems.into_iter().collect()
    }
}
