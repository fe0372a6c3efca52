//! Undoing all of it, without a room that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::UplinksConfig;
use super::database::Database;
use super::guard;
use super::hands::{Hands, Names};
use super::kernel::Kernel;
use super::undo::Undone;
use super::view;
use crate::nft;

/// Time that the database has to answer.
const CONNECT: Duration = Duration::from_secs(2);

/// Moves everything back to its NIC and removes the bridges that Fabric made for physical networks, those of the
/// configuration and those that the database names. Without the database it moves what is on the bridges' devices.
/// Doing it twice does no harm. A room that runs meanwhile would do the opposite.
pub async fn cleanup(config: UplinksConfig) -> Undone {
    let kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(error) => {
            let left = format!("rtnetlink: cannot open a socket: {error}; run it as root");
            return Undone { left: vec![left], ..Undone::default() };
        }
    };
    let mut undone = Undone::default();
    let mut database = Database::open(&config.database);
    let mut networks: BTreeMap<String, String> =
        config.networks.iter().map(|(name, network)| (name.clone(), network.nic.clone())).collect();
    if database.connected(CONNECT).await {
        for (network, nic) in database.replica().map(view::networks).unwrap_or_default() {
            // Where it was moved from counts, whatever the node file says today.
            match nic {
                Some(nic) => drop(networks.insert(network, nic)),
                None => drop(networks.entry(network).or_default()),
            }
        }
    } else {
        let (socket, why) = (config.database.display(), database.lost.clone().unwrap_or_default());
        undone.left.push(format!(
            "database of Open vSwitch at {socket}: {why}: bridges stay; start it and run this again"
        ));
    }
    let nft = config.nft.clone();
    let mut hands =
        Hands { config, database, kernel, guarded: BTreeMap::new(), switched_on: BTreeSet::new() };
    for (network, nic) in networks {
        let one = hands.put_back(&Names::new(&network, &nic)).await;
        undone.done.extend(one.done);
        undone.left.extend(one.left);
    }
    if let Err(error) = nft::run(&nft, &guard::none()).await {
        undone.left.push(error);
    }
    undone
}
