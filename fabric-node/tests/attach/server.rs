//! The socket.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use fabric_cni::client::ask;
use fabric_cni::protocol::{Add, Answer, Check, Gc, Key, Request};
use fabric_cni::{Code, Error};
use fabric_core::node::{self, Attached, Event, Reply, RequestError};
use fabric_node::attach::{AttachConfig, SocketError, start};
use openflow::Mac;
use policy::Name;
use tokio::time::timeout;

use crate::room::{Room, spec};
use crate::space::Space;

const LIMIT: Duration = Duration::from_secs(10);

fn key() -> Key {
    Key { container_id: "c1".into(), ifname: "eth0".into() }
}

fn add() -> Request {
    Request::Add(Box::new(Add {
        key: key(),
        netns: "/run/netns/x".into(),
        network: "fabric".into(),
        pod: None,
        ips: Vec::new(),
        mac: None,
        mtu: None,
        bandwidth: None,
        ipam: None,
        routers: Vec::new(),
    }))
}

/// What a client is answered, when the node says this.
fn exchange(
    room: &mut Room,
    request: Request,
    says: impl FnOnce(node::Request) -> Result<Reply, RequestError>,
) -> Answer {
    let socket = room.socket();
    let client = thread::spawn(move || ask(&socket, request, LIMIT).unwrap());
    room.runtime.block_on(async {
        let event = timeout(LIMIT, room.events.recv()).await.expect("a request in time");
        let Some(Event::Request { id, request }) = event else { panic!("not a request") };
        room.handle.reply(id, says(request)).await;
    });
    client.join().unwrap()
}

/// What a client is answered before the node is asked.
fn refused(room: &Room, request: Request) -> Error {
    match ask(&room.socket(), request, LIMIT).unwrap() {
        Answer::Error(error) => error,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn requests_reach_the_node_and_replies_the_client() {
    let mut room = Room::new();
    let attached = Attached {
        host_name: "fab0".into(),
        mac: Mac([2, 0, 0, 0, 0, 1]),
        mtu: 1450,
        addresses: vec!["10.0.0.9/32".parse().unwrap()],
        gateways: vec!["10.0.0.1".parse().unwrap()],
        network: Name::from("blue"),
    };
    let answer = exchange(&mut room, add(), |request| {
        assert!(matches!(&request, node::Request::Attach(attach) if attach.netns == "/run/netns/x"));
        Ok(Reply::Attached(attached))
    });
    assert!(matches!(answer, Answer::Attached(got) if got.host_name == "fab0" && got.mtu == 1450));

    let answer = exchange(&mut room, Request::Del(key()), |request| {
        assert!(matches!(request, node::Request::Detach(key) if key.container_id == "c1"));
        Ok(Reply::Done)
    });
    assert_eq!(answer, Answer::Done);

    let gc = Request::Gc(Gc { network: "fabric".into(), valid: vec![key()] });
    let answer = exchange(&mut room, gc, |request| {
        assert!(matches!(request, node::Request::Collect { valid, .. } if valid.len() == 1));
        Ok(Reply::Done)
    });
    assert_eq!(answer, Answer::Done);

    let answer = exchange(&mut room, Request::Status, |_| Err(RequestError::NotReady("OVS is away".into())));
    assert!(
        matches!(answer, Answer::Error(error) if error.code == Code::NOT_AVAILABLE && error.details == "OVS is away")
    );
}

#[test]
fn check_compares_the_runtimes_copy_with_the_kernel() {
    let mut room = Room::new();
    let space = Space::new();
    let wanted = spec(&space);
    let check = |addresses: &[&str], mac: &str| {
        Request::Check(Check {
            key: key(),
            netns: space.path.clone(),
            mac: Some(mac.parse().unwrap()),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        })
    };
    let error = refused(&room, check(&["10.0.0.9/32"], "0a:58:0a:00:00:09"));
    assert!(error.details.contains("the interface is missing"), "{error}");

    room.create(&wanted).unwrap();
    let answer =
        exchange(&mut room, check(&["10.0.0.9/32", "fd00::9/128"], "0a:58:0a:00:00:09"), |_| Ok(Reply::Done));
    assert_eq!(answer, Answer::Done);
    let error = refused(&room, check(&["10.0.0.8/32"], "0a:58:0a:00:00:08"));
    assert_eq!(error.code, Code::FAILED);
    assert!(error.details.contains("10.0.0.8/32") && error.details.contains("0a:58:0a:00:00:08"), "{error}");
}

#[test]
fn what_is_no_request_is_refused_and_the_rest_goes_on() {
    let mut room = Room::new();
    for (bytes, word) in [
        (&b"nonsense\n"[..], "\"code\":6"),
        (b"\n", "\"code\":6"),
        (b"{\"protocol\":9,\"x\":1}\n", "\"code\":102"),
        (
            b"{\"protocol\":1,\"request\":{\"del\":{\"containerId\":\"../x\",\"ifname\":\"e\"}}}\n",
            "\"code\":4",
        ),
        // These end without an answer.
        (b"half a li", ""),
        (&[b'x'; 2 << 20], ""),
    ] {
        let mut stream = UnixStream::connect(room.socket()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.contains(word) && answer.is_empty() == word.is_empty(), "{word}: {answer}");
    }
    assert_eq!(exchange(&mut room, Request::Status, |_| Ok(Reply::Done)), Answer::Done);
}

#[test]
fn a_client_that_leaves_is_forgotten() {
    let mut room = Room::new();
    for _ in 0..3 {
        let mut stream = UnixStream::connect(room.socket()).unwrap();
        stream.write_all(&fabric_cni::protocol::encode_request(add()).unwrap()).unwrap();
        room.runtime.block_on(async {
            let event = timeout(LIMIT, room.events.recv()).await.expect("a request in time");
            let Some(Event::Request { id, .. }) = event else { panic!("not a request") };
            drop(stream);
            room.handle.reply(id, Ok(Reply::Done)).await;
        });
    }
    assert_eq!(exchange(&mut room, Request::Status, |_| Ok(Reply::Done)), Answer::Done);
}

#[test]
fn replies_find_whoever_asked_in_any_order() {
    let mut room = Room::new();
    let clients: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|id| {
            let socket = room.socket();
            let request = Request::Del(Key { container_id: id.into(), ifname: "eth0".into() });
            thread::spawn(move || (id, ask(&socket, request, LIMIT).unwrap()))
        })
        .collect();
    room.runtime.block_on(async {
        let mut held = Vec::new();
        for _ in &clients {
            let event = timeout(LIMIT, room.events.recv()).await.expect("a request in time");
            let Some(Event::Request { id, request: node::Request::Detach(key) }) = event else {
                panic!("no DEL")
            };
            held.push((id, key.container_id));
        }
        for (id, container) in held.into_iter().rev() {
            room.handle.reply(id, Err(RequestError::Failed(container))).await;
        }
    });
    for client in clients {
        let (id, answer) = client.join().unwrap();
        assert!(matches!(answer, Answer::Error(error) if error.details == id));
    }
}

#[test]
fn the_socket_is_roots_alone_and_replaces_a_stale_one() {
    let room = Room::new();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&room.socket()), 0o600);
    let guard = room.runtime.enter();
    let again = |socket: &Path| {
        let (give, _events) = tokio::sync::mpsc::channel(1);
        start(AttachConfig { socket: socket.to_owned() }, give)
    };
    assert!(matches!(again(&room.socket()), Err(SocketError::InUse(_))));
    let stale = room.folder.join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    again(&stale).expect("nobody listens there");
    assert_eq!(mode(&stale), 0o600);
    let file = room.folder.join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(again(&file), Err(SocketError::Occupied(_))));
    assert!(matches!(again(Path::new("/proc/x/cni.sock")), Err(SocketError::Refused { .. })));
    drop(guard);
}
