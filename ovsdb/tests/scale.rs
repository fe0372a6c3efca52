//! The first sync of a large switch.

// A helper that cannot go on ends its test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use ovsdb::rows::{Bridge, Interface, OpenVSwitch, Port, TypedRow};
use ovsdb::{Client, Condition, Datum, Mutation, Transaction};
use std::time::{Duration, Instant};
use support::Server;

const PORTS: usize = 10_000;

async fn fill(client: &Client) {
    let mut txn = Transaction::new();
    let bridge = txn.insert("Bridge", [("name", "br0".into())]);
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridges", bridge)]);
    client.commit(&txn).await.unwrap();
    let names: Vec<String> = (0..PORTS).map(|i| format!("p{i}")).collect();
    for chunk in names.chunks(1000) {
        let mut txn = Transaction::new();
        let mut ports = Vec::new();
        for name in chunk {
            let ids = ["container", "netns", "pod", "addresses"].map(|key| (key, format!("{key}-of-{name}")));
            let interface =
                txn.insert("Interface", [("name", name.into()), ("external_ids", Datum::from_pairs(ids))]);
            ports.push(txn.insert("Port", [("name", name.into()), ("interfaces", interface.into())]));
        }
        txn.mutate("Bridge", [Condition::eq("name", "br0")], [Mutation::insert("ports", ports)]);
        client.commit(&txn).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_ports_are_synced() {
    let server = Server::start().await;
    let (client, mut told) = server.client(vec![]);
    told.connected().await;
    fill(&client).await;

    let monitor = vec![OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()];
    let begun = Instant::now();
    let (_client, mut told) = server.client(monitor);
    told.connected().await;
    let took = begun.elapsed();
    assert_eq!((told.replica.len("Port"), told.replica.len("Interface")), (PORTS, PORTS));
    // The budget of 0.7 s is for an optimised build on a quiet machine; this only catches another order of growth.
    assert!(took < Duration::from_secs(10), "the first sync took {took:?}");

    let interfaces = Interface::all(&told.replica).map(|(_, row)| row.unwrap());
    assert!(interfaces.into_iter().all(|row| row.external_ids.len() == 4));
    let (_, bridge) = Bridge::all(&told.replica).next().unwrap();
    assert_eq!(bridge.unwrap().ports.len(), PORTS);
}
