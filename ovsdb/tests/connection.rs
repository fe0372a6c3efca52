//! Connections that break, servers that go and come, peers that misbehave.

// A helper that cannot go on ends its test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use ovsdb::rows::{Bridge, OpenVSwitch, Port, TypedRow};
use ovsdb::{Client, ClientEvent, Config, Error, Mutation, TableColumns, Transaction};
use std::time::Duration;
use support::{Folder, Server, Told, client_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

async fn add_bridge(client: &Client, name: &str) -> Result<ovsdb::Committed, Error> {
    let mut txn = Transaction::new();
    let bridge = txn.insert("Bridge", [("name", name.into())]);
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridges", bridge)]);
    client.commit(&txn).await
}

fn bridges(told: &Told) -> Vec<String> {
    let mut names: Vec<String> = Bridge::all(&told.replica).map(|(_, row)| row.unwrap().name).collect();
    names.sort();
    names
}

#[tokio::test]
async fn two_clients_see_each_others_changes() {
    let server = Server::start().await;
    let (one, mut told_one) = server.client(vec![Bridge::monitor()]);
    let (two, mut told_two) = server.client(vec![Bridge::monitor(), OpenVSwitch::monitor()]);
    told_one.connected().await;
    told_two.connected().await;
    add_bridge(&one, "br1").await.unwrap();
    add_bridge(&two, "br2").await.unwrap();
    for told in [&mut told_one, &mut told_two] {
        told.until("both bridges", |replica| replica.len("Bridge") == 2).await;
        assert_eq!(bridges(told), ["br1", "br2"]);
    }
    let mut txn = Transaction::new();
    txn.update("Open_vSwitch", [], [("bridges", ovsdb::Datum::empty())]);
    one.commit(&txn).await.unwrap();
    told_two.until("no bridge", |replica| replica.len("Bridge") == 0).await;
    told_one.until("no bridge", |replica| replica.len("Bridge") == 0).await;
}

#[tokio::test]
async fn a_server_that_is_killed_and_restarted_gives_a_fresh_snapshot() {
    let mut server = Server::start().await;
    let (client, mut told) = server.client(vec![Bridge::monitor()]);
    told.connected().await;
    add_bridge(&client, "br1").await.unwrap();
    told.until("br1", |replica| replica.len("Bridge") == 1).await;
    server.kill();
    assert!(matches!(told.disconnected().await, Error::Closed | Error::Io(_)));
    assert!(matches!(add_bridge(&client, "br2").await, Err(Error::NotConnected)));
    server.run().await;
    // Another client is quicker or slower; either way the first one sees both bridges.
    let (other, mut told_other) = server.client(vec![]);
    told_other.connected().await;
    add_bridge(&other, "br3").await.unwrap();
    told.connected().await;
    told.until("br3", |replica| replica.len("Bridge") == 2).await;
    assert_eq!(bridges(&told), ["br1", "br3"]);
    add_bridge(&client, "br4").await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_away_is_waited_for() {
    let mut server = Server::start().await;
    server.kill();
    let (client, mut told) = server.client(vec![Bridge::monitor()]);
    let reason = told.disconnected().await;
    assert!(matches!(&reason, Error::Connect { path, .. } if *path == server.socket()), "{reason}");
    assert!(matches!(client.get_schema("Open_vSwitch").await, Err(Error::NotConnected)));
    // Some attempts fail, and say nothing, since the reason stays the same.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(told.nothing_more());
    server.run().await;
    told.connected().await;
    add_bridge(&client, "br1").await.unwrap();
}

#[tokio::test]
async fn a_column_that_the_server_lacks_is_named() {
    let server = Server::start().await;
    let (_client, mut told) = server.client(vec![Port::monitor(), TableColumns::new("Bridge", &["nope"])]);
    let reason = told.disconnected().await;
    assert!(
        matches!(&reason, Error::UnknownColumn { table, column, .. } if table == "Bridge" && column == "nope")
    );
    let (_client, mut told) = server.client(vec![TableColumns::new("Brigde", &["name"])]);
    assert!(matches!(told.disconnected().await, Error::UnknownTable { table, .. } if table == "Brigde"));
    let database = "Nope".to_owned();
    let (_client, mut told) = client_of(Config { database, ..Config::new(server.socket(), vec![]) });
    assert_eq!(told.disconnected().await, Error::UnknownDatabase("Nope".into()));
}

#[tokio::test]
async fn the_owner_may_be_slow() {
    let server = Server::start().await;
    let (client, mut told) = server.client(vec![Bridge::monitor(), OpenVSwitch::monitor()]);
    told.connected().await;
    // Many more changes than the channel of events has room for, and nobody takes them meanwhile.
    for i in 0..100 {
        add_bridge(&client, &format!("br{i}")).await.unwrap();
    }
    told.until("all bridges", |replica| replica.len("Bridge") == 100).await;
    let (_, root) = OpenVSwitch::all(&told.replica).next().unwrap();
    assert_eq!(root.unwrap().bridges.len(), 100);
}

#[tokio::test]
async fn requests_go_on_without_anybody_who_listens() {
    let server = Server::start().await;
    let (client, mut told) = server.client(vec![Bridge::monitor()]);
    told.connected().await;
    drop(told);
    for i in 0..20 {
        add_bridge(&client, &format!("br{i}")).await.unwrap();
    }
}

#[tokio::test]
async fn the_task_ends_with_its_last_handle() {
    let server = Server::start().await;
    let (sender, mut events) = tokio::sync::mpsc::channel(4);
    let client = Client::spawn(Config::new(server.socket(), vec![]), sender);
    assert!(matches!(events.recv().await, Some(ClientEvent::Connected { .. })));
    drop(client.clone());
    client.list_databases().await.unwrap();
    drop(client);
    assert_eq!(events.recv().await, None);
}

/// A socket of which the test plays the server.
struct Fake {
    listener: UnixListener,
    folder: Folder,
}

impl Fake {
    fn new() -> Self {
        let folder = Folder::new();
        let listener = UnixListener::bind(folder.path().join("db.sock")).unwrap();
        Self { listener, folder }
    }

    fn client(&self, probe: Duration) -> (Client, Told) {
        let config = Config::new(self.folder.path().join("db.sock"), vec![Port::monitor()]);
        client_of(Config { probe, ..config })
    }

    /// Takes a connection and reads the request for the schema.
    async fn accept(&self) -> UnixStream {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut text = [0; 1024];
        let len = stream.read(&mut text).await.unwrap();
        assert!(text[..len].starts_with(b"{\"method\":\"get_schema\""));
        stream
    }
}

#[tokio::test]
async fn a_peer_that_closes_in_a_message_is_told_from_one_that_closes_between_two() {
    let fake = Fake::new();
    let (_client, mut told) = fake.client(Duration::from_secs(5));
    let mut stream = fake.accept().await;
    stream.write_all(b"{\"id\":0,\"result\":{\"name\":\"Open_v").await.unwrap();
    drop(stream);
    assert_eq!(told.disconnected().await, Error::ClosedInMessage);
    drop(fake.accept().await);
    assert_eq!(told.disconnected().await, Error::Closed);
}

#[tokio::test]
async fn a_silent_peer_is_given_up_and_tried_again() {
    let fake = Fake::new();
    let (_client, mut told) = fake.client(Duration::from_millis(200));
    let mut stream = fake.accept().await;
    let mut text = [0; 1024];
    let len = stream.read(&mut text).await.unwrap();
    assert_eq!(&text[..len], b"{\"method\":\"echo\",\"params\":[],\"id\":1}");
    assert_eq!(told.disconnected().await, Error::DeadPeer(Duration::from_millis(200)));
    let _again = fake.accept().await;
}

#[tokio::test]
async fn a_peer_that_only_echoes_stays_connected() {
    let fake = Fake::new();
    let (_client, mut told) = fake.client(Duration::from_millis(300));
    let mut stream = fake.accept().await;
    let mut text = [0; 1024];
    for id in 1..5 {
        let len = stream.read(&mut text).await.unwrap();
        assert_eq!(text[..len], *format!("{{\"method\":\"echo\",\"params\":[],\"id\":{id}}}").as_bytes());
        stream.write_all(format!("{{\"id\":{id},\"result\":[],\"error\":null}}").as_bytes()).await.unwrap();
    }
    stream.write_all(b"{\"id\":\"echo\",\"method\":\"echo\",\"params\":[]}").await.unwrap();
    let len = stream.read(&mut text).await.unwrap();
    assert_eq!(&text[..len], b"{\"id\":\"echo\",\"result\":[],\"error\":null}");
    assert!(told.nothing_more());
}

#[tokio::test]
async fn garbage_from_the_peer_is_named() {
    let fake = Fake::new();
    let (_client, mut told) = fake.client(Duration::from_secs(5));
    let cases: [(&[u8], &str); 4] = [
        (b"HTTP/1.1 400 Bad Request\r\n", "a message must begin with '{', found byte 0x48"),
        (b"{\"id\":0,\"result\":7}", "result of get_schema cannot be read"),
        (b"{\"id\":5,\"result\":7}", "a reply to an unknown request 5"),
        (&[b'{'; 100], "nested deeper than 64 levels"),
    ];
    for (bytes, wanted) in cases {
        let mut stream = fake.accept().await;
        stream.write_all(bytes).await.unwrap();
        let reason = told.disconnected().await.to_string();
        assert!(reason.contains(wanted), "{reason}");
    }
}
