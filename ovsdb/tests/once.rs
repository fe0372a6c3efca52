//! Transactions that take effect once, through a proxy that breaks connections at the worst moments.

// A helper that cannot go on ends its test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use ovsdb::client::Outcome;
use ovsdb::rows::{OpenVSwitch, TypedRow};
use ovsdb::{Client, Config, Error, Mutation, Transaction};
use std::path::PathBuf;
use std::time::Duration;
use support::{Folder, PATIENCE, Server, Told, client_of};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

const KEY: &str = "test_writer";

/// What the proxy does to a connection when a transaction comes by.
enum Fate {
    /// Passes it on, and everything after it.
    Pass,
    /// Closes the connection; the server never sees the transaction.
    BreakBefore,
    /// Passes the transaction on, waits for the server's answer, and closes the connection without it.
    BreakAfter,
    /// Closes the connection to the client only, and passes the transaction on when told; then sends on what the
    /// server answered.
    Hold { go: oneshot::Receiver<()>, answer: oneshot::Sender<String> },
}

/// A socket in front of the server. Each transaction meets the next fate, and passes when there is none.
struct Proxy {
    folder: Folder,
    fates: mpsc::UnboundedSender<Fate>,
}

impl Proxy {
    fn before(server: &Server) -> Self {
        let folder = Folder::new();
        let listener = UnixListener::bind(folder.path().join("db.sock")).unwrap();
        let (fates, queue) = mpsc::unbounded_channel();
        tokio::spawn(serve(listener, server.socket(), queue));
        Self { folder, fates }
    }

    fn next(&self, fate: Fate) {
        assert!(self.fates.send(fate).is_ok());
    }

    fn client(&self) -> (Client, Told) {
        client_of(Config::new(self.folder.path().join("db.sock"), vec![OpenVSwitch::monitor()]))
    }
}

async fn serve(listener: UnixListener, server: PathBuf, mut fates: mpsc::UnboundedReceiver<Fate>) {
    while let Ok((client, _)) = listener.accept().await {
        let upstream = UnixStream::connect(&server).await.unwrap();
        relay(client, upstream, &mut fates).await;
    }
}

/// Relays one connection until it ends or its fate does it.
async fn relay(mut client: UnixStream, mut server: UnixStream, fates: &mut mpsc::UnboundedReceiver<Fate>) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(len @ 1..) = read else { return };
                let text = up[..len].to_vec();
                let fate = if String::from_utf8_lossy(&text).contains("\"transact\"") {
                    fates.try_recv().unwrap_or(Fate::Pass)
                } else {
                    Fate::Pass
                };
                match fate {
                    Fate::Pass => server.write_all(&text).await.unwrap(),
                    Fate::BreakBefore => return,
                    Fate::BreakAfter => {
                        server.write_all(&text).await.unwrap();
                        until_reply(&mut server).await;
                        return;
                    }
                    Fate::Hold { go, answer } => {
                        tokio::spawn(async move {
                            go.await.unwrap();
                            server.write_all(&text).await.unwrap();
                            answer.send(until_reply(&mut server).await).unwrap();
                        });
                        return;
                    }
                }
            }
            read = server.read(&mut down) => {
                let Ok(len @ 1..) = read else { return };
                client.write_all(&down[..len]).await.unwrap();
            }
        }
    }
}

/// Reads until the answer to a transaction is there.
async fn until_reply(server: &mut UnixStream) -> String {
    let (mut all, mut chunk) = (String::new(), vec![0; 1 << 16]);
    while !all.contains("\"result\":[") {
        let len = server.read(&mut chunk).await.unwrap();
        assert_ne!(len, 0, "the server answers");
        all.push_str(&String::from_utf8_lossy(&chunk[..len]));
    }
    all
}

/// Adds one to `next_cfg`, which tells how often it took effect.
fn count_up() -> Transaction {
    let mut txn = Transaction::new();
    txn.bump_next_cfg();
    txn
}

async fn once(client: &Client) -> Result<Outcome, Error> {
    timeout(PATIENCE, client.commit_once(count_up(), KEY)).await.unwrap()
}

/// What `next_cfg` is, asked at the server itself.
async fn counted(server: &Server) -> i64 {
    let (_client, mut told) = server.client(vec![OpenVSwitch::monitor()]);
    told.connected().await;
    let (_, root) = OpenVSwitch::all(&told.replica).next().unwrap();
    root.unwrap().next_cfg
}

#[tokio::test]
async fn without_trouble_the_results_come() {
    let server = Server::start().await;
    let (client, mut told) = server.client(vec![OpenVSwitch::monitor()]);
    // It need not be connected yet.
    for wanted in 1..=3 {
        let mut txn = Transaction::new();
        let next_cfg = txn.bump_next_cfg();
        let Outcome::Committed(done) = client.commit_once(txn, KEY).await.unwrap() else { panic!("results") };
        assert_eq!(done.next_cfg(next_cfg), Ok(wanted));
    }
    told.until("the counter", |replica| {
        OpenVSwitch::all(replica).any(|(_, root)| root.is_ok_and(|root| root.next_cfg == 3))
    })
    .await;
    let (_, root) = OpenVSwitch::all(&told.replica).next().unwrap();
    assert!(root.unwrap().external_ids.contains_key(KEY));
}

#[tokio::test]
async fn many_at_once_take_effect_one_after_the_other() {
    let server = Server::start().await;
    let (client, _told) = server.client(vec![]);
    let all = (0..20).map(|_| {
        tokio::spawn({
            let client = client.clone();
            async move { once(&client).await }
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert!(matches!(one.await.unwrap(), Ok(Outcome::Committed(_))));
    }
    assert_eq!(counted(&server).await, 20);
}

#[tokio::test]
async fn a_transaction_that_never_arrived_is_sent_again() {
    let server = Server::start().await;
    let proxy = Proxy::before(&server);
    let (client, _told) = proxy.client();
    proxy.next(Fate::BreakBefore);
    proxy.next(Fate::BreakBefore);
    assert!(matches!(once(&client).await, Ok(Outcome::Committed(_))));
    assert_eq!(counted(&server).await, 1);
}

#[tokio::test]
async fn a_transaction_whose_answer_was_lost_is_not_carried_out_again() {
    let server = Server::start().await;
    let proxy = Proxy::before(&server);
    let (client, _told) = proxy.client();
    proxy.next(Fate::BreakAfter);
    assert_eq!(once(&client).await, Ok(Outcome::CommittedBefore));
    assert_eq!(counted(&server).await, 1);
    proxy.next(Fate::BreakBefore);
    proxy.next(Fate::BreakAfter);
    proxy.next(Fate::BreakBefore);
    assert_eq!(once(&client).await, Ok(Outcome::CommittedBefore));
    assert_eq!(client.next_cfg().await, Ok(2));
    assert_eq!(counted(&server).await, 2);
}

#[tokio::test]
async fn a_copy_that_comes_late_over_the_old_connection_does_nothing() {
    let server = Server::start().await;
    let proxy = Proxy::before(&server);
    let (client, _told) = proxy.client();
    let (go, held) = oneshot::channel();
    let (answer, late) = oneshot::channel();
    proxy.next(Fate::Hold { go: held, answer });
    assert!(matches!(once(&client).await, Ok(Outcome::Committed(_))));
    // The next token replaces the one that the late copy looks for; the lock still stops it.
    assert!(matches!(once(&client).await, Ok(Outcome::Committed(_))));
    go.send(()).unwrap();
    let late = timeout(PATIENCE, late).await.unwrap().unwrap();
    assert!(late.contains("not owner"), "{late}");
    assert_eq!(counted(&server).await, 2);
}

#[tokio::test]
async fn a_plain_transaction_says_that_its_outcome_is_unknown() {
    let server = Server::start().await;
    let proxy = Proxy::before(&server);
    let (client, mut told) = proxy.client();
    told.connected().await;
    proxy.next(Fate::BreakAfter);
    assert_eq!(client.commit(&count_up()).await, Err(Error::OutcomeUnknown));
    assert_eq!(counted(&server).await, 1);
}

#[tokio::test]
async fn a_transaction_waits_for_a_server_that_is_away() {
    let mut server = Server::start().await;
    server.kill();
    let (client, _told) = server.client(vec![]);
    let waiting = tokio::spawn(async move { once(&client).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    server.run().await;
    assert!(matches!(waiting.await.unwrap(), Ok(Outcome::Committed(_))));
    assert_eq!(counted(&server).await, 1);
}

#[tokio::test]
async fn a_caller_that_gives_up_takes_its_transaction_along() {
    let mut server = Server::start().await;
    server.kill();
    let (client, _told) = server.client(vec![]);
    assert!(timeout(Duration::from_millis(100), client.commit_once(count_up(), KEY)).await.is_err());
    server.run().await;
    assert!(matches!(once(&client).await, Ok(Outcome::Committed(_))));
    assert_eq!(counted(&server).await, 1);
}

#[tokio::test]
async fn of_two_writers_with_one_key_the_later_takes_over() {
    let server = Server::start().await;
    let (one, _told_one) = server.client(vec![]);
    let (two, _told_two) = server.client(vec![]);
    assert!(matches!(once(&one).await, Ok(Outcome::Committed(_))));
    assert!(matches!(once(&two).await, Ok(Outcome::Committed(_))));
    assert_eq!(once(&one).await, Err(Error::Superseded(KEY.into())));
    assert!(matches!(once(&one).await, Ok(Outcome::Committed(_))));
    assert_eq!(counted(&server).await, 3);
}

#[tokio::test]
async fn failures_come_with_the_callers_own_numbers() {
    let server = Server::start().await;
    let (client, _told) = server.client(vec![]);
    let mut txn = Transaction::new();
    txn.comment("first");
    txn.mutate("Open_vSwitch", [], [Mutation::insert("bridgets", "x")]);
    let Err(Error::Transaction(error)) = client.commit_once(txn, KEY).await else { panic!("a failure") };
    assert_eq!((error.operation, error.column.as_deref()), (Some(1), Some("bridgets")));
    let bad = client.commit_once(count_up(), "not an id").await.unwrap_err();
    assert!(matches!(bad, Error::Refused { method: "steal", .. }), "{bad}");
}

#[tokio::test]
async fn an_empty_database_is_named() {
    let server = Server::start().await;
    let (client, mut told) = server.client(vec![]);
    told.connected().await;
    let mut txn = Transaction::new();
    txn.delete("Open_vSwitch", []);
    client.commit(&txn).await.unwrap();
    assert_eq!(client.commit_once(count_up(), KEY).await, Err(Error::NoRootRow));
}
