//! The agent's socket, asked over a real unix socket.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fabric_api::{Pool, State, Status, Store, World, WorldCounts, verdict};
use fabric_node::serve::client::{self, ClientError};
use fabric_node::serve::{Ask, Handle, ServeConfig, start};
use serde_json::{Value, json};
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
        let store = Store { synced: state != State::Starting, ..Store::default() };
        let pools = vec![Pool {
            network: "pods".to_owned(),
            family: 4,
            size: 65_533,
            claimed: CLAIMS,
            retained: 0,
            pending: 0,
            resting: 0,
            disputed: 0,
            free: 65_533 - CLAIMS,
        }];
        let status = Status { node: "n1".to_owned(), state, waiting_for, store, pools, ..Status::default() };
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
            Ask::Look(look) => {
                if status.store.synced {
                    look.at(&cluster());
                }
            }
            Ask::Lint(sender) => {
                let lint = || verdict::lint(&cluster(), Vec::new(), |_| None);
                let _ = sender.send(status.store.synced.then(lint));
            }
        }
    }
}

/// Claims that the world has: more than two pages of them.
const CLAIMS: u64 = 2_500;

fn claim(number: u64) -> policy::IpClaim {
    let ip = std::net::Ipv4Addr::from(0x0a01_0000 + u32::try_from(number).expect("few"));
    policy::IpClaim {
        ip: ip.into(),
        network: "pods".into(),
        mac: [2, 0, 0, 0, 0, 1],
        node: "n1".into(),
        pod: Some(policy::PodIdent { namespace: "shop".into(), name: "db-0".into(), uid: "u".into() }),
        owner: format!("c{number}/eth0"),
        retain: true,
        since: Some(policy::Timestamp(7)),
    }
}

/// A web server, a client that may ask it on port 80, and one that may not; and a policy for nobody.
fn cluster() -> policy::World {
    let mut world = policy::World::new();
    let pod = |name: &str, ip: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": name, "labels": {"app": name}},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Running", "podIPs": [{"ip": ip}]},
        })
    };
    let policy = |name: &str, selects: &str| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"namespace": "shop", "name": name},
            "spec": {
                "podSelector": {"matchLabels": {"app": selects}},
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}], "ports": [{"port": 80}]}],
            },
        })
    };
    let manifests = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
               "status": {"addresses": [{"type": "InternalIP", "address": "192.168.77.1"}]}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        pod("web", "10.0.0.1"),
        pod("client", "10.0.0.2"),
        pod("stranger", "10.0.0.3"),
        policy("web-in", "web"),
        policy("nobody-in", "nobody"),
    ];
    for manifest in manifests {
        let admission = policy::manifest::admit(&policy::manifest::Source::api(), manifest);
        assert_eq!(admission.problems, []);
        world.apply(policy::Edit::Put(admission.object.expect("it is good")));
    }
    for number in 0..CLAIMS {
        world.apply(policy::Edit::Put(policy::Object::IpClaim(claim(number))));
    }
    world
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
    let json: Value =
        serde_json::from_slice(&client::get(handle.socket(), "/v1/status").await.expect("it answers"))
            .expect("JSON");
    assert_eq!(json["state"], "running");
    assert_eq!(json["switch"]["databaseConnected"], false, "names are in camelCase");
}

#[tokio::test]
async fn addresses_come_as_numbers_and_claims_page_by_page() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let ipam = client::ipam(handle.socket()).await.expect("it answers");
    assert_eq!(ipam.pools.len(), 1);
    assert_eq!((ipam.pools[0].network.as_str(), ipam.pools[0].claimed), ("pods", CLAIMS));
    let claims = client::claims(handle.socket()).await.expect("it answers");
    assert_eq!(claims.len() as u64, CLAIMS);
    assert!(claims.windows(2).all(|pair| pair[0].ip < pair[1].ip), "each once, in order");
    let last = serde_json::to_value(claims.last()).expect("JSON");
    let wanted = json!({"ip": "10.1.9.195", "network": "pods", "pod": "shop/db-0", "node": "n1", "owner": "c2499/eth0",
        "since": "1970-01-01T00:00:07Z", "retain": true});
    assert_eq!(last, wanted);
    let bad = ask(&handle, "GET", "/v1/claims?after=here").await;
    assert!(bad.starts_with("HTTP/1.1 400 ") && bad.contains("after: "), "{bad}");
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
        r#"{"error":"/v2/status is nothing here; ask /v1/status, /v1/world, /v1/ipam, /v1/claims, /v1/verdict, /v1/check, /v1/matrix, /v1/pods, /v1/lint, /metrics, /healthz or /readyz"}"#
    ));
    let refused = ask(&handle, "POST", "/v1/status").await;
    assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
    assert!(refused.ends_with(r#"{"error":"/v1/status answers GET only"}"#), "{refused}");
    let error = client::get(handle.socket(), "/nothing").await.expect_err("it is not there");
    assert!(error.to_string().starts_with("/nothing is nothing here"), "{error}");
}

/// Asks with a body and reads the status and the body of the answer.
async fn post(handle: &Handle, path: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json";
    let request = format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = raw(handle, &request).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status").to_owned();
    (status, serde_json::from_str(body).expect("JSON"))
}

#[tokio::test]
async fn a_verdict_comes_with_what_was_looked_at() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let ask = json!({"from": "shop/client", "to": "10.0.0.1", "protocol": "TCP", "port": 80});
    let (status, report) = post(&handle, "/v1/verdict", &ask).await;
    assert_eq!((status.as_str(), &report["verdict"]), ("200", &json!("allow")));
    assert_eq!(report["to"]["resident"], "Pod shop/web on n1");
    assert_eq!(report["ingress"]["policy"]["name"], "web-in");
    assert!(report["ingress"]["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{report}");
    let ask = json!({"from": "shop/stranger", "to": "shop/web", "protocol": "TCP", "port": 80});
    let (_, report) = post(&handle, "/v1/verdict", &ask).await;
    assert_eq!(report["verdict"], "deny");
    assert_eq!(report["egress"]["verdict"], "allow");
    assert_eq!(report["ingress"]["verdict"], "deny");
}

#[tokio::test]
async fn many_questions_come_in_bounded_portions() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let question = |from: &str| json!({"from": from, "to": "shop/web", "protocol": "TCP", "port": 80});
    let some = json!({"questions": [question("shop/client"), question("shop/gone"), question("10.0.0.3")]});
    let (status, check) = post(&handle, "/v1/check", &some).await;
    assert_eq!(status, "200");
    assert_eq!(check["answers"][0]["verdict"], "allow");
    assert_eq!(check["answers"][1], json!({"error": "there is no pod shop/gone"}));
    assert_eq!(check["answers"][2]["verdict"], "deny");
    let many = vec![question("shop/client"); verdict::CHECK_MOST + 1];
    let (status, error) = post(&handle, "/v1/check", &json!({"questions": many})).await;
    assert_eq!(status, "413", "{error}");

    let pods: Value =
        serde_json::from_slice(&client::get(handle.socket(), "/v1/pods").await.expect("pods")).expect("JSON");
    assert_eq!(pods["pods"][2], json!({"pod": "shop/web", "addresses": ["10.0.0.1"]}));
    let rest = client::get(handle.socket(), "/v1/pods?after=shop/stranger").await.expect("pods");
    assert_eq!(rest, r#"{"pods":[{"pod":"shop/web","addresses":["10.0.0.1"]}]}"#);

    let table = json!({
        "from": ["10.0.0.2", "10.0.0.3"], "to": ["10.0.0.1", "10.0.0.2", "fd00::1"],
        "traffic": [{"protocol": "TCP", "port": 80}, {"protocol": "ICMP"}],
    });
    let (_, matrix) = post(&handle, "/v1/matrix", &table).await;
    assert_eq!(matrix, json!({"rows": [["aa-", "da-"], ["da-", "da-"]]}));
    let (status, _) = post(
        &handle,
        "/v1/matrix",
        &json!({
            "from": vec!["10.0.0.2"; 50], "to": vec!["10.0.0.1"; 50], "traffic": [{"protocol": "ICMP"}],
        }),
    )
    .await;
    assert_eq!(status, "413");
}

#[tokio::test]
async fn a_bad_question_says_what_is_wanted() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    for (body, status, says) in [
        (
            json!({"from": "shop/web", "to": "nowhere", "protocol": "TCP", "port": 80}),
            "422",
            "neither a pod nor an address",
        ),
        (json!({"from": "shop/web", "to": "10.0.0.2", "protocol": "TCP"}), "422", "TCP wants a port"),
        (
            json!({"from": "shop/web", "to": "10.0.0.2", "protocol": "ICMP", "port": 8}),
            "422",
            "ICMP has no ports",
        ),
        (
            json!({"from": "shop/gone", "to": "10.0.0.2", "protocol": "ICMP"}),
            "422",
            "there is no pod shop/gone",
        ),
        (
            json!({"from": "shop/web", "to": "fd00::1", "protocol": "ICMP"}),
            "422",
            "no addresses of the same family",
        ),
    ] {
        let (answered, error) = post(&handle, "/v1/verdict", &body).await;
        assert_eq!(answered, status, "{error}");
        assert!(error["error"].as_str().is_some_and(|error| error.contains(says)), "{says}: {error}");
    }
    let wrong = ask(&handle, "GET", "/v1/verdict").await;
    assert!(wrong.contains("/v1/verdict answers POST only"), "{wrong}");
    let wrong = ask(&handle, "GET", "/v1/pods?after=x").await;
    assert!(wrong.starts_with("HTTP/1.1 400 ") && wrong.contains("NAMESPACE/NAME is wanted"), "{wrong}");
}

#[tokio::test]
async fn findings_name_the_policy() {
    let place = Place::new();
    let handle = place.agent(State::Running, &[]);
    let lint: verdict::Lint = client::json(handle.socket(), "/v1/lint").await.expect("it answers");
    assert_eq!(lint.findings.len(), 1, "{lint:?}");
    assert_eq!(lint.findings[0].object, "NetworkPolicy shop/nobody-in");
}

#[tokio::test]
async fn nothing_is_judged_before_the_world_is_read() {
    let place = Place::new();
    let handle = place.agent(State::Starting, &[]);
    let ask = json!({"from": "shop/client", "to": "shop/web", "protocol": "ICMP"});
    let (status, error) = post(&handle, "/v1/verdict", &ask).await;
    assert_eq!(status, "503", "{error}");
    let error = client::get(handle.socket(), "/v1/lint").await.expect_err("there is none yet");
    assert!(error.to_string().contains("has not delivered its first full list"), "{error}");
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
    assert!(error.to_string().ends_with("agent.sock: another agent listens there; stop it first"), "{error}");
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
