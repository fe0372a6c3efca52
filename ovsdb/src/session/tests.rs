use super::*;
use proptest::prelude::*;
use serde_json::json;

/// A schema of one table.
pub(crate) const PORT: &str = r#"{"name":"Open_vSwitch","version":"8.3.1","tables":{"Port":{"columns":{"tag":{"type":{"key":"integer","min":0,"max":1}}}}}}"#;

/// A replica of that table: the last byte of each UUID, and the tag.
pub(crate) fn port_rows(rows: &[(u8, i64)]) -> Replica {
    let schema = serde_json::from_str(PORT).unwrap();
    let mut replica = Replica::new(&schema, &[TableColumns::new("Port", &["tag"])]).unwrap();
    let rows = rows.iter().map(|(id, tag)| (uuid(*id), json!({"initial": {"tag": tag}})));
    let update = json!({"Port": rows.collect::<serde_json::Map<_, _>>()});
    let update = serde_json::value::to_raw_value(&update).unwrap();
    replica.apply_initial(Version::Difference, &update).unwrap();
    replica
}

fn uuid(id: u8) -> String {
    format!("00000000-0000-0000-0000-0000000000{id:02x}")
}

const PROBE: Duration = Duration::from_secs(5);

struct Peer {
    session: Session,
    start: Instant,
}

impl Peer {
    fn new(columns: &[&str]) -> Self {
        let start = Instant::now();
        let config = SessionConfig {
            database: "Open_vSwitch".into(),
            monitor: vec![TableColumns::new("Port", columns)],
            probe: PROBE,
            limits: Limits::default(),
        };
        Self { session: Session::new(config, start).unwrap(), start }
    }

    /// A session that is in step, with one row.
    fn synced() -> Self {
        let mut peer = Self::new(&["tag"]);
        peer.says_line(&format!(r#"{{"id":0,"result":{PORT},"error":null}}"#)).unwrap();
        peer.says_line(&format!(
            r#"{{"id":1,"result":{{"Port":{{"{}":{{"initial":{{"tag":7}}}}}}}}}}"#,
            uuid(1)
        ))
        .unwrap();
        assert_eq!(peer.session.poll_event(), Some(Event::Synced(port_rows(&[(1, 7)]))));
        while peer.hears().is_some() {}
        peer
    }

    fn says_line(&mut self, text: &str) -> Result<(), Error> {
        self.session.handle_bytes(self.start, text.as_bytes())
    }

    fn hears(&mut self) -> Option<String> {
        self.session.poll_output().map(|text| String::from_utf8(text).unwrap())
    }
}

#[test]
fn a_session_reads_the_schema_then_monitors() {
    let mut peer = Peer::new(&["tag"]);
    let wanted = r#"{"method":"get_schema","params":["Open_vSwitch"],"id":0}"#;
    assert_eq!((peer.hears().as_deref(), peer.hears()), (Some(wanted), None));
    peer.says_line(&format!(r#"{{"id":0,"result":{PORT},"error":null}}"#)).unwrap();
    let wanted = r#"{"method":"monitor_cond","params":["Open_vSwitch","replica",{"Port":[{"columns":["tag"]}]}],"id":1}"#;
    assert_eq!(peer.hears().as_deref(), Some(wanted));
    assert!(!peer.session.is_synced());
    peer.says_line(r#"{"id":1,"result":{},"error":null}"#).unwrap();
    assert_eq!(peer.session.poll_event(), Some(Event::Synced(port_rows(&[]))));
    assert!(peer.session.is_synced());
    let update = format!(
        r#"{{"id":null,"method":"update2","params":["replica",{{"Port":{{"{}":{{"insert":{{}}}}}}}}]}}"#,
        uuid(1)
    );
    peer.says_line(&update).unwrap();
    let Some(Event::Updated(changes)) = peer.session.poll_event() else { panic!("a change") };
    assert_eq!(changes.len(), 1);
    assert_eq!(peer.session.replica().len("Port"), 1);
}

#[test]
fn a_server_without_monitor_cond_is_asked_for_monitor() {
    let mut peer = Peer::new(&["tag"]);
    peer.says_line(&format!(
        r#"{{"id":0,"result":{PORT}}}{{"id":1,"error":"unknown method","result":null}}"#
    ))
    .unwrap();
    let heard: Vec<String> = std::iter::from_fn(|| peer.hears()).collect();
    assert!(heard[2].starts_with(r#"{"method":"monitor","params":["Open_vSwitch","replica","#), "{heard:?}");
    peer.says_line(&format!(r#"{{"id":2,"result":{{"Port":{{"{}":{{"new":{{"tag":7}}}}}}}}}}"#, uuid(1)))
        .unwrap();
    assert_eq!(peer.session.poll_event(), Some(Event::Synced(port_rows(&[(1, 7)]))));
    let update = format!(
        r#"{{"id":null,"method":"update","params":["replica",{{"Port":{{"{}":{{"old":{{"tag":7}},"new":{{"tag":8}}}}}}}}]}}"#,
        uuid(1)
    );
    peer.says_line(&update).unwrap();
    assert_eq!(peer.session.replica(), &port_rows(&[(1, 8)]));
}

#[test]
fn a_refused_monitor_is_named() {
    let mut peer = Peer::new(&["tag"]);
    peer.says_line(&format!(r#"{{"id":0,"result":{PORT}}}"#)).unwrap();
    let refusal = r#"{"id":1,"error":{"error":"syntax error","details":"no table named Port"}}"#;
    let why = peer.says_line(refusal).unwrap_err().to_string();
    assert_eq!(why, "the server refused monitor_cond: syntax error at Port: no table named Port");
}

#[test]
fn a_column_that_the_schema_lacks_ends_the_session_by_name() {
    let mut peer = Peer::new(&["tag", "nope"]);
    let why = peer.says_line(&format!(r#"{{"id":0,"result":{PORT}}}"#)).unwrap_err();
    assert!(matches!(why, Error::UnknownColumn { table, column, .. } if table == "Port" && column == "nope"));
}

#[test]
fn a_database_that_the_server_lacks_is_named() {
    let mut peer = Peer::new(&["tag"]);
    let refusal = r#"{"id":0,"error":{"error":"unknown database","details":"x"}}"#;
    assert_eq!(peer.says_line(refusal), Err(Error::UnknownDatabase("Open_vSwitch".into())));
}

#[test]
fn echo_is_answered_and_other_requests_are_refused() {
    let mut peer = Peer::synced();
    peer.says_line(r#"{"id":"echo","method":"echo","params":["x",1]}{"id":9,"method":"dance","params":[]}"#)
        .unwrap();
    assert_eq!(peer.hears().as_deref(), Some(r#"{"id":"echo","result":["x",1],"error":null}"#));
    assert_eq!(peer.hears().as_deref(), Some(r#"{"id":9,"result":null,"error":"unknown method"}"#));
    peer.says_line(r#"{"id":null,"method":"stolen","params":["lock"]}"#).unwrap();
    assert_eq!((peer.hears(), peer.session.poll_event()), (None, None));
}

#[test]
fn a_silent_peer_is_probed_and_then_dead() {
    let mut peer = Peer::synced();
    let start = peer.start;
    assert_eq!(peer.session.poll_timeout(), Some(start + PROBE));
    peer.session.handle_timeout(start + PROBE / 2).unwrap();
    assert_eq!(peer.hears(), None);
    peer.session.handle_timeout(start + PROBE).unwrap();
    assert_eq!(peer.hears().as_deref(), Some(r#"{"method":"echo","params":[],"id":2}"#));
    assert_eq!(peer.session.poll_timeout(), Some(start + PROBE * 2));
    assert_eq!(peer.session.handle_timeout(start + PROBE * 2), Err(Error::DeadPeer(PROBE)));
}

#[test]
fn any_byte_keeps_a_peer_alive() {
    let mut peer = Peer::synced();
    let start = peer.start;
    peer.session.handle_timeout(start + PROBE).unwrap();
    peer.session.handle_bytes(start + PROBE * 3 / 2, b" ").unwrap();
    assert_eq!(peer.session.poll_timeout(), Some(start + PROBE * 5 / 2));
    peer.session.handle_timeout(start + PROBE * 2).unwrap();
    peer.says_line(r#"{"id":2,"result":[],"error":null}"#).unwrap();
    assert_eq!(peer.session.poll_event(), None);
}

#[test]
fn a_probe_of_zero_never_ends_a_session() {
    let mut peer = Peer::synced();
    peer.session.core.config.probe = Duration::ZERO;
    assert_eq!(peer.session.poll_timeout(), None);
    peer.session.handle_timeout(peer.start + PROBE * 100).unwrap();
    assert_eq!(peer.hears(), None);
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let mut peer = Peer::synced();
    let databases = peer.session.request(Request::ListDatabases).unwrap();
    let results = peer.session.request(Request::Transact(vec![Operation::Abort {}])).unwrap();
    let lock = peer.session.request(Request::Steal { lock: "one".into() }).unwrap();
    let schema = peer.session.request(Request::GetSchema { database: "x".into() }).unwrap();
    let heard: Vec<String> = std::iter::from_fn(|| peer.hears()).collect();
    assert_eq!(heard[1], r#"{"method":"transact","params":["Open_vSwitch",{"op":"abort"}],"id":3}"#);
    assert_eq!(heard[2], r#"{"method":"steal","params":["one"],"id":4}"#);
    peer.says_line(r#"{"id":5,"error":{"error":"unknown database","details":""}}"#).unwrap();
    peer.says_line(r#"{"id":3,"result":[{"error":"aborted","details":"aborted by request"}],"error":null}"#)
        .unwrap();
    peer.says_line(r#"{"id":4,"result":{"locked":true},"error":null}"#).unwrap();
    peer.says_line(r#"{"id":2,"result":["a","b"],"error":null}"#).unwrap();
    let events: Vec<Event> = std::iter::from_fn(|| peer.session.poll_event()).collect();
    assert_eq!(events[0], Event::Answered(schema, Err(Error::UnknownDatabase("x".into()))));
    let Event::Answered(id, Err(Error::Transaction(error))) = &events[1] else {
        panic!("a failed transaction")
    };
    assert_eq!((*id, &error.kind, error.name), (results, &ErrorKind::Aborted, Some("abort")));
    assert_eq!(events[2], Event::Answered(lock, Ok(Reply::Locked)));
    assert_eq!(events[3], Event::Answered(databases, Ok(Reply::Databases(vec!["a".into(), "b".into()]))));
}

#[test]
fn what_cannot_be_written_is_not_sent() {
    let mut peer = Peer::synced();
    let nul = Operation::Comment { comment: "x".into() };
    let bad = Operation::Update {
        table: "Port".into(),
        conditions: vec![],
        row: [("name".to_owned(), "a\0b".into())].into(),
    };
    let why = peer.session.request(Request::Transact(vec![nul, bad])).unwrap_err();
    assert_eq!(
        why.to_string(),
        "the request cannot be written: strings of OVSDB cannot hold a NUL character"
    );
    assert_eq!(peer.hears(), None);
}

#[test]
fn what_is_not_ovsdb_is_named() {
    let cases = [
        ("x", "must begin with '{'"),
        (r#"{"id":77,"result":1}"#, "a reply to an unknown request 77"),
        (r#"{"id":"x","result":1}"#, "a reply to an unknown request \"x\""),
        (r#"{"id":null,"method":"update2","params":["replica"]}"#, "update2 parameters cannot be read"),
        (r#"{"id":null,"method":"update2","params":["other",{}]}"#, "monitor \"other\", which is not ours"),
        (
            r#"{"id":null,"method":"update2","params":["replica",{"Bridge":{}}]}"#,
            "table Bridge is not monitored",
        ),
        (r#"{"id":null,"method":"monitor_canceled","params":["replica"]}"#, "cancelled the monitor"),
    ];
    for (text, wanted) in cases {
        let why = Peer::synced().says_line(text).unwrap_err().to_string();
        assert!(why.contains(wanted), "{text}: {why}");
    }
    let early = r#"{"id":null,"method":"update2","params":["replica",{}]}"#;
    let why = Peer::new(&["tag"]).says_line(early).unwrap_err().to_string();
    assert!(why.contains("before the first rows"), "{why}");
}

#[test]
fn the_end_of_a_connection_says_where_it_came() {
    let mut peer = Peer::synced();
    assert_eq!(peer.session.handle_end(), Error::Closed);
    peer.says_line("{\"id\"").unwrap();
    assert_eq!(peer.session.handle_end(), Error::ClosedInMessage);
}

#[test]
fn back_off_doubles_up_to_its_limit_and_starts_over() {
    let ms = Duration::from_millis;
    let mut backoff = Backoff::new(ms(50), ms(300));
    let delays: Vec<Duration> = (0..5).map(|_| backoff.next_delay()).collect();
    assert_eq!(delays, [50, 100, 200, 300, 300].map(ms));
    backoff.reset();
    assert_eq!(backoff.next_delay(), ms(50));
}

proptest! {
    #[test]
    fn no_peer_is_a_panic(pieces in proptest::collection::vec(hostile(), 0..8)) {
        let mut fresh = Peer::new(&["tag"]);
        let mut synced = Peer::synced();
        synced.session.request(Request::Transact(vec![Operation::Commit { durable: true }])).unwrap();
        for piece in &pieces {
            fresh.session.handle_bytes(fresh.start, piece).ok();
            if synced.session.handle_bytes(synced.start, piece).is_err() {
                break;
            }
        }
    }
}

/// Bytes, and messages with a part broken.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("[{}]".to_owned()),
        Just("[null]".to_owned()),
        Just(r#"["replica",{"Port":{}}]"#.to_owned()),
        Just(format!(r#"["replica",{{"Port":{{"{}":{{"modify":{{"tag":["set",[1,2]]}}}}}}}}]"#, uuid(1))),
        Just(format!(r#"["replica",{{"Port":{{"{}":{{"delete":7}}}}}}]"#, uuid(1))),
        Just(PORT.to_owned()),
        Just(r#"{"error":7}"#.to_owned()),
        Just(r#"{"error":"x","details":"table table column column"}"#.to_owned()),
    ];
    let member = prop_oneof![
        (0..4_u8).prop_map(|id| format!("\"id\":{id}")),
        "(echo|update|update2|monitor_canceled|x)".prop_map(|method| format!("\"method\":\"{method}\"")),
        (prop_oneof!["params", "result", "error"], value)
            .prop_map(|(name, value)| format!("\"{name}\":{value}")),
    ];
    prop_oneof![
        1 => any::<Vec<u8>>(),
        4 => proptest::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(",")).into_bytes()),
    ]
}
