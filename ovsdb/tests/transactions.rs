//! Every operation against a real ovsdb-server.

mod support;

use ovsdb::rows::{Bridge, Interface, OpenVSwitch, Port, TypedRow};
use ovsdb::{Condition, Datum, Mutation, Transaction};
use support::Server;

#[tokio::test]
async fn a_port_is_added_to_a_bridge_and_the_monitor_shows_it() {
    let server = Server::start().await;
    let monitor = vec![OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()];
    let (client, mut told) = server.client(monitor);
    told.connected().await;

    let mut txn = Transaction::new();
    let bridge = txn.insert("Bridge", [("name", "br0".into()), ("fail_mode", "secure".into())]);
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridges", bridge)]);
    let next_cfg = txn.bump_next_cfg();
    let done = client.commit(&txn).await.unwrap();
    assert_eq!(done.next_cfg(next_cfg), Ok(1));
    let bridge = done.uuid(bridge).unwrap();

    let mut txn = Transaction::new();
    let interface = txn.insert(
        "Interface",
        [
            ("name", "p0".into()),
            ("type", "internal".into()),
            ("ofport_request", 40000.into()),
            ("external_ids", Datum::from_pairs([("iface-id", "x"), ("pod", "ns/p0")])),
        ],
    );
    let port = txn.insert(
        "Port",
        [("name", "p0".into()), ("interfaces", interface.into()), ("trunks", Datum::from(vec![7, 9]))],
    );
    let hit = txn.mutate("Bridge", [Condition::eq("name", "br0")], [Mutation::insert("ports", port)]);
    let next_cfg = txn.bump_next_cfg();
    let done = client.commit(&txn).await.unwrap();
    assert_eq!(done.count(hit), Ok(1));
    assert_eq!(done.next_cfg(next_cfg), Ok(2));
    let (port, interface) = (done.uuid(port).unwrap(), done.uuid(interface).unwrap());

    told.until("port p0", |replica| replica.len("Port") == 1 && replica.len("Interface") == 1).await;
    let read = Bridge::read(&**told.replica.get("Bridge", bridge).unwrap()).unwrap();
    assert_eq!(read.fail_mode.as_deref(), Some("secure"));
    assert_eq!(read.ports, [port].into());
    let read = Port::read(&**told.replica.get("Port", port).unwrap()).unwrap();
    assert_eq!(read.interfaces, [interface].into());
    assert_eq!(read.trunks, [7, 9].into());
    let read = Interface::read(&**told.replica.get("Interface", interface).unwrap()).unwrap();
    assert_eq!((read.kind.as_str(), read.ofport_request, read.ofport), ("internal", Some(40000), None));
    assert_eq!(read.external_ids.get("pod").map(String::as_str), Some("ns/p0"));
    let (_, root) = OpenVSwitch::all(&told.replica).next().unwrap();
    assert_eq!(root.unwrap().next_cfg, 2);
}
