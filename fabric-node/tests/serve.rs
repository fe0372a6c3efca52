//! The agent's socket, asked over a real unix socket.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabric_api::{State, Status, World, WorldCounts};
use fabric_node::serve::client::{self, ClientError};
use fabric_node::serve::{Ask, Handle, ServeConfig, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;

/// A path for a socket, in a folder that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("fabric-serve-{}-{number}", std::process::id())))
    }

    fn config(&self) -> ServeConfig {
        ServeConfig { socket: self.0.join("below/agent.sock") }
    }

    /// An agent in a state, which answers every question.
    fn agent(&self, state: State, waiting_for: &[&str]) -> Handle {
        let (asks, questions) = mpsc::channel(8);
        let waiting_for = waiting_for.iter().map(|&lack| lack.to_owned()).collect();
        let status = Status { node: "n1".to_owned(), state, waiting_for, ..Status::default() };
        tokio::spawn(answer(questions, status));
        start(&self.config(), asks).expect("the socket is ours")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn answer(mut questions: mpsc::Receiver<Ask>, status: Status) {
    while let Some(ask) = questions.recv().await {
        match ask {
            Ask::Status(sender) | Ask::Brief(sender) => {
                let _ = sender.send(status.clone());
            }
            Ask::World(sender) => {
                let counts = WorldCounts { pods: 3, ..WorldCounts::default() };
                let _ = sender.send(World { synced: true, counts, problems: Vec::new() });
            }
        }
    }
}

/// Sends bytes and reads the whole answer.
async fn raw(handle: &Handle, request: &str) -> String {
    let mut stream = UnixStream::connect(handle.socket()).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers text");
    answer
}

async fn ask(handle: &Handle, method: &str, path: &str) -> String {
    raw(handle, &format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn status_and_world_come_as_the_agent_says() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let status = client::status(handle.socket()).await.expect("it answers");
    assert_eq!((status.node.as_str(), status.state), ("n1", State::Running));
    let world = client::world(handle.socket()).await.expect("it answers");
    assert!(world.synced);
    assert_eq!(world.counts.pods, 3);
    let json: serde_json::Value =
        serde_json::from_slice(&client::get(handle.socket(), "/v1/status").await.expect("it answers"))
            .expect("JSON");
    assert_eq!(json["state"], "running");
    assert_eq!(json["switch"]["databaseConnected"], false, "names are in camelCase");
}

#[tokio::test]
async fn metrics_come_in_the_format_of_prometheus() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let answer = ask(&handle, "GET", "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert!(answer.contains("\nfabric_agent_state{state=\"running\"} 1\n"), "{answer}");
}

#[tokio::test]
async fn readiness_follows_the_state() {
    for (state, lacks, code, says) in [
        (State::Running, vec![], 200, "running"),
        (State::Degraded, vec!["the store"], 200, "degraded"),
        (State::Starting, vec![], 503, "the agent is starting"),
        (State::Starting, vec!["x", "y"], 503, "the agent is starting and waits for: x; y"),
        (State::Stopping, vec![], 503, "the agent is ending"),
    ] {
        let place = Place::new();
        let handle = place.agent(state, &lacks);
        let ready = ask(&handle, "GET", "/readyz").await;
        assert!(ready.starts_with(&format!("HTTP/1.1 {code} ")), "{state}: {ready}");
        assert!(ready.contains(says), "{state}: {ready}");
        let health = ask(&handle, "GET", "/healthz").await;
        assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("ok\n"), "{state}: {health}");
    }
}

#[tokio::test]
async fn what_is_not_there_says_what_is() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let unknown = ask(&handle, "GET", "/v2/status").await;
    assert!(unknown.starts_with("HTTP/1.1 404 "), "{unknown}");
    assert!(unknown.ends_with(
        r#"{"error":"/v2/status is nothing here; ask /v1/status, /v1/world, /metrics, /healthz or /readyz"}"#
    ));
    let refused = ask(&handle, "POST", "/v1/status").await;
    assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
    assert!(refused.ends_with(r#"{"error":"this socket answers GET only"}"#), "{refused}");
    let error = client::get(handle.socket(), "/nothing").await.expect_err("it is not there");
    assert!(error.to_string().starts_with("/nothing is nothing here"), "{error}");
}

#[tokio::test]
async fn garbage_is_refused_and_the_next_is_answered() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    assert!(raw(&handle, "\x01\x02\x03\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    let silent = UnixStream::connect(handle.socket()).await.expect("it listens");
    client::status(handle.socket()).await.expect("one that says nothing holds nobody up");
    drop(silent);
}

#[tokio::test]
async fn an_agent_that_does_not_answer_is_not_healthy() {
    let place = Place::new();
    let (asks, mut questions) = mpsc::channel(1);
    let handle = start(&place.config(), asks).expect("the socket is ours");
    let keeper = tokio::spawn(async move {
        let held = questions.recv().await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        drop(held);
    });
    let begin = Instant::now();
    let health = ask(&handle, "GET", "/healthz").await;
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    assert!(health.contains("the agent did not answer within 2 s"), "{health}");
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    keeper.abort();
    let error = client::status(handle.socket()).await.expect_err("nobody is there to answer");
    assert_eq!(error.to_string(), "the agent is ending");
}

#[tokio::test]
async fn the_socket_is_for_root_only_and_goes_with_the_agent() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let path = handle.socket().to_owned();
    let file = fs::metadata(&path).expect("it is there");
    assert!(file.file_type().is_socket());
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let entries = fs::read_dir(path.parent().expect("it has a folder")).expect("readable");
    assert_eq!(entries.count(), 1, "nothing else is left beside it");
    drop(handle);
    assert!(!path.exists());
    let error = client::status(&path).await.expect_err("nobody listens");
    assert!(matches!(error, ClientError::NotRunning { .. }), "{error}");
    assert!(error.to_string().contains("start it with `fabric-node run`"), "{error}");
}

#[tokio::test]
async fn a_second_agent_is_refused_and_a_dead_ones_socket_is_replaced() {
    let place = Place::new();
    let first = place.agent(State::Running, &[]);
    let (asks, _questions) = mpsc::channel(1);
    let error = start(&place.config(), asks).expect_err("another listens");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().ends_with("agent.sock: another agent listens there; end it first"), "{error}");
    client::status(first.socket()).await.expect("the first goes on");
    drop(first);

    let dead = std::os::unix::net::UnixListener::bind(place.config().socket).expect("the path is free");
    drop(dead);
    let second = place.agent(State::Running, &[]);
    client::status(second.socket()).await.expect("it took the place of the dead one");
}

#[tokio::test]
async fn a_path_that_cannot_be_is_named() {
    let (asks, _questions) = mpsc::channel(1);
    let long = format!("{}/agent.sock", "x".repeat(120));
    let place = Place::new();
    let error = start(&ServeConfig { socket: place.0.join(&long) }, asks).expect_err("too long for a socket");
    assert!(error.to_string().contains(&long), "{error}");
}
