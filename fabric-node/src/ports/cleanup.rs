//! Undoing all of it, without a room that runs.

use std::time::{Duration, Instant};

use ovsdb::{Client, ClientEvent, Config, Datum, Mutation, Transaction};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::PortsConfig;
use super::own::MARK;
use super::view::{self, View};

/// Time that the database has to answer.
const CONNECT: Duration = Duration::from_secs(2);

/// Key of `external_ids` that tells the ports of containers.
const CONTAINER: &str = "fabric.container";

/// What became of the bridge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removal {
    /// Whether there was one, and it is gone.
    pub removed: bool,
    /// What is left, with the reason.
    pub left: Option<String>,
    /// The devices of containers that were its ports: the host's ends of their pairs.
    pub devices: Vec<String>,
}

/// Removes the bridge with everything in it. A room that runs meanwhile would make it again.
pub async fn cleanup(config: &PortsConfig) -> Removal {
    let (sender, mut events) = mpsc::channel(4);
    let client = Client::spawn(Config::new(&config.database, view::tables()), sender);
    let bridge = &config.bridge;
    let database = config.database.display();
    let left = |why: String| Removal { left: Some(format!("bridge {bridge}: {why}")), ..Removal::default() };
    let snapshot = match timeout(CONNECT, events.recv()).await {
        Ok(Some(ClientEvent::Connected { snapshot })) => snapshot,
        Ok(Some(ClientEvent::Disconnected { reason })) => {
            return left(format!(
                "database of Open vSwitch at {database}: {reason}; start it and run this again"
            ));
        }
        _ => return left(format!("database of Open vSwitch at {database} does not answer; run this again")),
    };
    let mut view = View::new(bridge, snapshot);
    let Some((uuid, row)) = view.bridge() else { return Removal::default() };
    if !row.external_ids.contains_key(MARK) {
        return left("it is not Fabric's, and stays".to_owned());
    }
    let containers = view.rows().into_iter().filter(|row| row.external_ids.contains_key(CONTAINER));
    let devices = containers.map(|row| row.name).collect();
    let mut txn = Transaction::new();
    txn.mutate("Open_vSwitch", [], [Mutation::delete("bridges", Datum::scalar(uuid))]);
    let next_cfg = txn.bump_next_cfg();
    let goal = client.commit(&txn).await.and_then(|committed| committed.next_cfg(next_cfg));
    let goal = match goal {
        Ok(goal) => goal,
        Err(error) => {
            return Removal { devices, ..left(format!("the database refuses to remove it: {error}")) };
        }
    };
    let end = Instant::now() + config.patience;
    while view.cur_cfg() < goal {
        match timeout(end.saturating_duration_since(Instant::now()), events.recv()).await {
            Ok(Some(ClientEvent::Update(changes))) => drop(view.follow(&changes)),
            Ok(Some(ClientEvent::Connected { snapshot })) => view = View::new(bridge, snapshot),
            Ok(Some(ClientEvent::Disconnected { .. })) => {}
            Ok(None) | Err(_) => {
                let why = "removed from the database; ovs-vswitchd does not act on it: is it running?";
                return Removal { devices, ..left(why.to_owned()) };
            }
        }
    }
    Removal { removed: true, left: None, devices }
}
