//! Every operation, and every way to fail, against a real ovsdb-server.

// A helper that cannot go on ends its test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use ovsdb::rows::{Bridge, Interface, OpenVSwitch, Port, TypedRow};
use ovsdb::txn::NewRow;
use ovsdb::{
    Client, Columns, Comparison, Condition, Datum, Error, ErrorKind, Mutation, Mutator, OpResult, Operation,
    OperationError, Transaction, Until,
};
use support::Server;

/// Inserts a bridge and hangs it into the root row, without which it would go again at once.
fn bridge(txn: &mut Transaction, name: &str) -> NewRow {
    let bridge = txn.insert("Bridge", [("name", name.into()), ("fail_mode", "secure".into())]);
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridges", bridge)]);
    bridge
}

async fn connected(server: &Server) -> Client {
    let (client, mut told) = server.client(Vec::new());
    told.connected().await;
    client
}

async fn with_bridge(server: &Server) -> Client {
    let client = connected(server).await;
    let mut txn = Transaction::new();
    bridge(&mut txn, "br0");
    client.commit(&txn).await.unwrap();
    client
}

/// The error of a transaction that must fail.
async fn failure(client: &Client, txn: &Transaction) -> OperationError {
    match client.commit(txn).await {
        Err(Error::Transaction(error)) => *error,
        other => panic!("the transaction must fail: {other:?}"),
    }
}

#[tokio::test]
async fn a_port_is_added_to_a_bridge_and_the_monitor_shows_it() {
    let server = Server::start().await;
    let monitor = vec![OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()];
    let (client, mut told) = server.client(monitor);
    told.connected().await;

    let mut txn = Transaction::new();
    let bridge = bridge(&mut txn, "br0");
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

#[tokio::test]
async fn rows_are_selected_updated_mutated_and_deleted() {
    let server = Server::start().await;
    let client = with_bridge(&server).await;
    let br0 = || [Condition::eq("name", "br0")];

    let mut txn = Transaction::new();
    let updated =
        txn.update("Bridge", br0(), [("datapath_type", "netdev".into()), ("fail_mode", Datum::empty())]);
    let missed = txn.update("Bridge", [Condition::eq("name", "other")], [("datapath_type", "x".into())]);
    txn.update("Bridge", br0(), [("external_ids", Datum::from_pairs([("a", "1"), ("b", "2")]))]);
    txn.set_keys("Bridge", br0(), "external_ids", [("b", "3"), ("c", "4")]);
    txn.mutate(
        "Bridge",
        br0(),
        [
            Mutation::insert("protocols", vec!["OpenFlow13", "OpenFlow15"]),
            Mutation::delete("protocols", "OpenFlow13"),
            Mutation::delete("external_ids", Datum::from_pairs([("a", "not this value")])),
        ],
    );
    txn.comment("a note");
    let read = txn.select(
        "Bridge",
        [Condition::includes("external_ids", Datum::from_pairs([("c", "4")]))],
        Bridge::COLUMNS,
    );
    let none = txn.select("Bridge", [Condition::excludes("protocols", "OpenFlow15")], &["_uuid"]);
    let done = client.commit(&txn).await.unwrap();
    assert_eq!((done.count(updated), done.count(missed)), (Ok(1), Ok(0)));
    assert_eq!(done.rows(none), Ok(&[][..]));
    let row = Bridge::read(&done.rows(read).unwrap()[0]).unwrap();
    assert_eq!((row.datapath_type.as_str(), row.fail_mode), ("netdev", None));
    assert_eq!(row.protocols, ["OpenFlow15".to_owned()].into());
    let ids = [("a", "1"), ("b", "3"), ("c", "4")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(row.external_ids, ids.into());

    let mut txn = Transaction::new();
    txn.mutate("Open_vSwitch", [], [Mutation::new("bridges", Mutator::Delete, Datum::empty())]);
    let all = txn.select("Bridge", [], &["_uuid", "name"]);
    let done = client.commit(&txn).await.unwrap();
    let uuid = done.rows(all).unwrap()[0]["_uuid"].clone();
    let mut txn = Transaction::new();
    txn.mutate("Open_vSwitch", [], [Mutation::delete("bridges", uuid)]);
    let deleted = txn.delete("Bridge", [Condition::new("name", Comparison::NotEqual, "x")]);
    assert_eq!(client.commit(&txn).await.unwrap().count(deleted), Ok(1));
    let mut txn = Transaction::new();
    let left = txn.select("Bridge", [], &["name"]);
    assert_eq!(client.commit(&txn).await.unwrap().rows(left), Ok(&[][..]));
}

#[tokio::test]
async fn numbers_are_mutated_and_division_by_zero_is_a_domain_error() {
    let server = Server::start().await;
    let client = connected(&server).await;
    let cfg = |mutator, by: i64| Mutation::new("next_cfg", mutator, by);
    let mut txn = Transaction::new();
    let steps = [
        (Mutator::Add, 17),
        (Mutator::Subtract, 2),
        (Mutator::Multiply, 3),
        (Mutator::Divide, 2),
        (Mutator::Remainder, 5),
    ];
    txn.mutate("Open_vSwitch", [], steps.map(|(mutator, by)| cfg(mutator, by)));
    let read = txn.select("Open_vSwitch", [Condition::new("next_cfg", Comparison::Less, 10)], &["next_cfg"]);
    let done = client.commit(&txn).await.unwrap();
    assert_eq!(done.rows(read).unwrap()[0]["next_cfg"], 2.into());

    let mut txn = Transaction::new();
    txn.mutate("Open_vSwitch", [], [cfg(Mutator::Divide, 0)]);
    let error = failure(&client, &txn).await;
    assert_eq!((error.kind, error.table.as_deref()), (ErrorKind::Domain, Some("Open_vSwitch")));

    let mut txn = Transaction::new();
    txn.mutate("Open_vSwitch", [], [cfg(Mutator::Add, i64::MAX)]);
    assert_eq!(failure(&client, &txn).await.kind, ErrorKind::Range);
}

#[tokio::test]
async fn a_wait_passes_fails_at_once_or_fails_in_time() {
    let server = Server::start().await;
    let client = with_bridge(&server).await;
    let mut txn = Transaction::new();
    txn.require_row("Bridge", [Condition::eq("name", "br0")]);
    txn.require_no_row("Bridge", [Condition::eq("name", "br1")]);
    client.commit(&txn).await.unwrap();

    for present in [true, false] {
        let mut txn = Transaction::new();
        bridge(&mut txn, "br2");
        if present {
            txn.require_no_row("Bridge", [Condition::eq("name", "br0")]);
        } else {
            txn.require_row("Bridge", [Condition::eq("name", "br1")]);
        }
        let error = failure(&client, &txn).await;
        assert_eq!((error.kind, error.operation, error.name), (ErrorKind::TimedOut, Some(2), Some("wait")));
        assert_eq!(error.table.as_deref(), Some("Bridge"));
    }

    let wait = |rows: &[&str], timeout| Operation::Wait {
        table: "Bridge".into(),
        conditions: vec![],
        columns: vec!["name".into()],
        until: Until::Equal,
        rows: rows.iter().map(|name| Columns::from([("name".to_owned(), (*name).into())])).collect(),
        timeout,
    };
    let begun = std::time::Instant::now();
    let failed = client.transact(vec![wait(&["br9"], Some(100))]).await;
    assert!(matches!(failed, Err(Error::Transaction(error)) if error.kind == ErrorKind::TimedOut));
    // The server's clock for waits starts with its last wake-up, so it may count less than the whole time.
    assert!(begun.elapsed().as_millis() >= 50);

    // A wait without limit ends when another client does what it waits for.
    let waiting = tokio::spawn({
        let client = client.clone();
        let wait = wait(&["br0", "br1"], None);
        async move { client.transact(vec![wait]).await }
    });
    let other = connected(&server).await;
    let mut txn = Transaction::new();
    bridge(&mut txn, "br1");
    other.commit(&txn).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(vec![OpResult::Done]));
}

#[tokio::test]
async fn an_abort_undoes_what_came_before() {
    let server = Server::start().await;
    let client = connected(&server).await;
    let mut txn = Transaction::new();
    bridge(&mut txn, "br0");
    txn.push(Operation::Abort {});
    txn.comment("never reached");
    let error = failure(&client, &txn).await;
    assert_eq!((error.kind, error.operation, error.name), (ErrorKind::Aborted, Some(2), Some("abort")));
    let mut txn = Transaction::new();
    let read = txn.select("Bridge", [], &["name"]);
    txn.push(Operation::Commit { durable: true });
    assert_eq!(client.commit(&txn).await.unwrap().rows(read), Ok(&[][..]));
}

/// A transaction of one operation on a table, and how it must fail: kind, column named.
type Forbidden = (fn(&mut Transaction, &str), &'static str, ErrorKind, Option<&'static str>);

const FORBIDDEN: [Forbidden; 9] = [
    // A second bridge of the same name; the index is named.
    (again, "Bridge", ErrorKind::ConstraintViolation, Some("name")),
    // A number out of range, and a word that is not one of those allowed: the server names no column.
    (|txn, table| add(txn, table, "tag", 9999.into()), "Port", ErrorKind::ConstraintViolation, None),
    (
        |txn, table| set(txn, table, "fail_mode", "open".into()),
        "Bridge",
        ErrorKind::ConstraintViolation,
        None,
    ),
    // A reference to a row that is not there, and the loss of a row that another refers to.
    (
        |txn, table| set(txn, table, "ports", nobody()),
        "Bridge",
        ErrorKind::ReferentialIntegrity,
        Some("ports"),
    ),
    (remove, "Bridge", ErrorKind::ReferentialIntegrity, None),
    // A column and a table that the schema lacks, and a value of another type.
    (|txn, table| add(txn, table, "nam", "x".into()), "Bridge", ErrorKind::UnknownColumn, Some("nam")),
    (|txn, table| add(txn, table, "name", "x".into()), "Brigde", ErrorKind::Syntax, None),
    (|txn, table| set(txn, table, "datapath_type", 7.into()), "Bridge", ErrorKind::Syntax, None),
    (twice, "Mirror", ErrorKind::DuplicateUuidName, None),
];

fn add(txn: &mut Transaction, table: &str, column: &str, value: Datum) {
    txn.insert(table, [(column, value)]);
}

fn set(txn: &mut Transaction, table: &str, column: &str, value: Datum) {
    txn.update(table, [], [(column, value)]);
}

fn again(txn: &mut Transaction, _: &str) {
    bridge(txn, "br0");
}

fn remove(txn: &mut Transaction, table: &str) {
    txn.delete(table, []);
}

fn nobody() -> Datum {
    ovsdb::Uuid::from_bytes([9; 16]).into()
}

/// Two rows with one name.
fn twice(txn: &mut Transaction, table: &str) {
    for _ in 0..2 {
        let (table, row) = (table.to_owned(), Columns::new());
        txn.push(Operation::Insert { table, row, uuid_name: Some("same".into()) });
    }
}

#[tokio::test]
async fn what_the_schema_forbids_is_named() {
    let server = Server::start().await;
    let client = with_bridge(&server).await;
    for (build, table, kind, column) in FORBIDDEN {
        let mut txn = Transaction::new();
        build(&mut txn, table);
        let error = failure(&client, &txn).await;
        let found = (&error.kind, error.table.as_deref(), error.column.as_deref());
        assert_eq!(found, (&kind, Some(table), column), "{error}");
    }
}

#[tokio::test]
async fn a_lock_that_is_not_held_fails_the_transaction() {
    let server = Server::start().await;
    let client = connected(&server).await;
    let mut txn = Transaction::new();
    txn.push(Operation::Assert { lock: "mine".into() });
    assert_eq!(failure(&client, &txn).await.kind, ErrorKind::NotOwner);
}

#[tokio::test]
async fn databases_and_schemas_can_be_read() {
    let server = Server::start().await;
    let client = connected(&server).await;
    assert!(client.list_databases().await.unwrap().contains(&"Open_vSwitch".to_owned()));
    let schema = client.get_schema("Open_vSwitch").await.unwrap();
    for wanted in [OpenVSwitch::monitor(), Bridge::monitor(), Port::monitor(), Interface::monitor()] {
        for column in &wanted.columns {
            assert!(schema.tables[&wanted.table].columns.contains_key(column), "{}.{column}", wanted.table);
        }
    }
    let unknown = client.get_schema("Nope").await;
    assert_eq!(unknown, Err(Error::UnknownDatabase("Nope".into())));
}

#[tokio::test]
async fn what_cannot_be_written_leaves_the_connection_alone() {
    let server = Server::start().await;
    let client = connected(&server).await;
    let mut txn = Transaction::new();
    txn.comment("fine");
    txn.update("Open_vSwitch", [], [("external_ids", Datum::from_pairs([("k", "a\0b")]))]);
    assert!(matches!(client.commit(&txn).await, Err(Error::Encode(why)) if why.contains("NUL")));
    client.list_databases().await.unwrap();
}
