use super::*;
use proptest::prelude::*;

fn split(limits: Limits, pieces: &[&[u8]]) -> Result<Vec<String>, RpcError> {
    let mut splitter = Splitter::new(limits);
    let mut messages = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        while let Some(message) = splitter.next_message()? {
            messages.push(String::from_utf8_lossy(message).into_owned());
        }
    }
    Ok(messages)
}

fn one(text: &str) -> Result<Vec<String>, RpcError> {
    split(Limits::default(), &[text.as_bytes()])
}

#[test]
fn messages_need_nothing_between_them() {
    let text = " {\"a\":\"}\\\"{\"}{\"b\":[{}]}\n\t{}";
    assert_eq!(one(text).unwrap(), ["{\"a\":\"}\\\"{\"}", "{\"b\":[{}]}", "{}"]);
}

#[test]
fn a_bad_stream_is_named() {
    assert_eq!(one("[1]"), Err(RpcError::NotAnObject(b'[')));
    assert_eq!(one("{}x"), Err(RpcError::NotAnObject(b'x')));
    assert_eq!(one("{]"), Err(RpcError::Bracket(']')));
    assert_eq!(one("{[}"), Err(RpcError::Bracket('}')));
    let limits = Limits { bytes: 10, depth: 3 };
    assert_eq!(split(limits, &[b"{\"a\":[[1]]}"]), Err(RpcError::TooLong(10)));
    assert_eq!(split(limits, &[b"{\"a\":", b"\"xxxxx"]), Err(RpcError::TooLong(10)));
    assert_eq!(split(limits, &[b"{[[["]), Err(RpcError::TooDeep(3)));
    assert_eq!(split(limits, &[b"{\"a\":[1]}", b"{\"a\":[2]}"]).unwrap().len(), 2);
}

#[test]
fn a_message_under_way_is_known() {
    let mut splitter = Splitter::new(Limits::default());
    assert!(!splitter.in_message());
    splitter.push(b"{} {\"a\"");
    while splitter.next_message().unwrap().is_some() {}
    assert!(splitter.in_message());
}

#[test]
fn envelopes_are_told_apart() {
    let parse = |text: &'static str| Message::parse(text.as_bytes());
    assert!(matches!(
        parse("{\"id\":\"echo\",\"method\":\"echo\",\"params\":[1]}"),
        Ok(Message::Request { id, method, params })
            if id.get() == "\"echo\"" && method == "echo" && params.get() == "[1]"
    ));
    assert!(matches!(
        parse("{\"id\":null,\"method\":\"update2\",\"params\":[]}"),
        Ok(Message::Notification { method, .. }) if method == "update2"
    ));
    assert!(matches!(
        parse("{\"id\":3,\"result\":{},\"error\":null}"),
        Ok(Message::Reply { id, result: Ok(result) }) if id.get() == "3" && result.get() == "{}"
    ));
    // ovsdb-server leaves "result" out of an error, and a null result is one.
    assert!(matches!(
        parse("{\"id\":3,\"error\":\"unknown method\"}"),
        Ok(Message::Reply { result: Err(error), .. }) if error.get() == "\"unknown method\""
    ));
    assert!(matches!(
        parse("{\"id\":3,\"result\":null,\"error\":null}"),
        Ok(Message::Reply { result: Ok(result), .. }) if result.get() == "null"
    ));
}

#[test]
fn bad_envelopes_are_named() {
    let why = |text: &'static str| Message::parse(text.as_bytes()).unwrap_err();
    assert_eq!(why("{}"), RpcError::Missing("method and id"));
    assert_eq!(why("{\"id\":1,\"method\":\"echo\"}"), RpcError::Missing("params"));
    for text in
        ["{\"id\":1,\"id\":2,\"result\":1}", "{\"method\":7,\"params\":[]}", "{\"id\":01}", "{\"a\" 1}"]
    {
        assert!(matches!(why(text), RpcError::Malformed { .. }), "{text}");
    }
    assert!(matches!(Message::parse(b"{\"method\":\"\xff\"}"), Err(RpcError::Malformed { .. })));
}

#[test]
fn replies_carry_the_id_as_it_came() {
    let echo = b"{\"id\":[\"a\",1.50],\"method\":\"echo\",\"params\":[\"x\"]}";
    let Ok(Message::Request { id, params, .. }) = Message::parse(echo) else { panic!("a request") };
    assert_eq!(reply(id, params), b"{\"id\":[\"a\",1.50],\"result\":[\"x\"],\"error\":null}");
    assert_eq!(unknown_method(id), b"{\"id\":[\"a\",1.50],\"result\":null,\"error\":\"unknown method\"}");
}

/// JSON text of some depth.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("null".to_owned()),
        "[^\0]{0,9}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        "[\\[\\]{}\"\\\\]{0,9}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(", "))),
            proptest::collection::vec(inner, 0..4).prop_map(|all| {
                let members = all.iter().enumerate().map(|(i, value)| format!("\"k{i}\":{value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        bodies in proptest::collection::vec((json(), "[ \t\r\n]{0,3}"), 0..6),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let wanted: Vec<String> = bodies.iter().map(|(body, _)| format!("{{\"v\":{body}}}")).collect();
        let stream: String = wanted.iter().zip(&bodies).map(|(m, (_, space))| format!("{space}{m}")).collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|w| &stream.as_bytes()[w[0]..w[1]]).collect();
        prop_assert_eq!(split(Limits::default(), &pieces).unwrap(), wanted);
    }

    #[test]
    fn no_stream_is_a_panic(pieces: Vec<Vec<u8>>, text in "[\\[\\]{}\"\\\\:,a ]{0,40}") {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let limits = Limits { bytes: 64, depth: 4 };
        split(limits, &pieces).ok();
        split(limits, &[b"{", text.as_bytes()]).ok();
        Message::parse(text.as_bytes()).ok();
    }
}
