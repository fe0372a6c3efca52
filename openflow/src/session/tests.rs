//! The session against a peer that is written out: what goes out, what is told, and when.

use std::time::{Duration, Instant};

use super::{
    BundleError, Outgoing, RequestError, SendError, Session, SessionConfig, SessionError, SessionEvent,
};
use crate::flow::{Flow, FlowMod, FlowStats};
use crate::message::{
    Body, BundleControl, BundleStep, Features, Hello, MORE, Message, MultipartReply, OfError, PacketOut,
    Reply, Request, VERSION_13, VERSION_15, frame_length,
};

const PROBE: Duration = Duration::from_secs(5);

fn start() -> (Session, Instant) {
    let now = Instant::now();
    (Session::new(SessionConfig::default(), now), now)
}

fn bytes(xid: u32, body: Body) -> Vec<u8> {
    Message { version: VERSION_15, xid, body }.encode()
}

/// All that the session has written, as messages.
fn written(session: &mut Session) -> Vec<Message> {
    let bytes = session.poll_output().unwrap_or_default();
    let mut rest = bytes.as_slice();
    let mut messages = Vec::new();
    while let Some(length) = frame_length(rest).unwrap() {
        let (frame, after) = rest.split_at(length);
        messages.push(Message::decode(frame).unwrap());
        rest = after;
    }
    assert!(rest.is_empty());
    messages
}

fn told(session: &mut Session) -> Vec<SessionEvent> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

/// A session after its handshake, with nothing to be written.
fn ready() -> (Session, Instant) {
    let (mut session, now) = start();
    session.handle_bytes(&bytes(9, Body::Hello(Hello::only(VERSION_15))), now);
    let features = written(&mut session).pop().unwrap();
    session.handle_bytes(&bytes(features.xid, Body::FeaturesReply(Features::default())), now);
    assert_eq!(told(&mut session), [SessionEvent::Ready(Features::default())]);
    (session, now)
}

fn error(kind: u16, code: u16) -> OfError {
    OfError { version: VERSION_15, kind, code, vendor: 0, data: Vec::new() }
}

fn control(message: &Message) -> BundleControl {
    match message.body {
        Body::BundleControl(control) => control,
        ref other => panic!("a bundle control expected, not {other:?}"),
    }
}

fn answer(request: &Message, step: BundleStep) -> Vec<u8> {
    bytes(request.xid, Body::BundleControl(BundleControl { step, flags: 0, ..control(request) }))
}

fn flow_mods(count: u8) -> impl Iterator<Item = Body> {
    (0..count).map(|table| Body::FlowMod(FlowMod::add(Flow { table, ..Flow::default() })))
}

#[test]
fn the_hello_goes_out_at_once_and_the_setup_after_the_peers() {
    let (mut session, now) = start();
    let hello = written(&mut session);
    assert!(matches!(&hello[..], [Message { body: Body::Hello(hello), .. }] if hello.versions == Some(0x40)));
    assert_eq!(session.barrier(), Err(SendError::NotReady));
    session.handle_bytes(&bytes(9, Body::Hello(Hello { versions: Some(0x7e), other: Vec::new() })), now);
    let setup: Vec<Body> = written(&mut session).into_iter().map(|message| message.body).collect();
    assert!(matches!(
        &setup[..],
        [Body::SetConfig(config), Body::SetPacketInFormat(_), Body::FeaturesRequest] if config.miss_send_len == 0xffff
    ));
}

#[test]
fn a_switch_without_1_5_is_named() {
    let (mut session, now) = start();
    let hello = Message {
        version: VERSION_13,
        xid: 1,
        body: Body::Hello(Hello { versions: Some(0x12), other: vec![] }),
    };
    session.handle_bytes(&hello.encode(), now);
    let events = told(&mut session);
    let [SessionEvent::Closed(error @ SessionError::TooOld { .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(error.to_string().contains("OpenFlow 1.0, 1.3, not OpenFlow 1.5"), "{error}");
}

#[test]
fn a_hello_without_bitmap_offers_all_up_to_its_version() {
    let (mut session, now) = start();
    session.handle_bytes(&bytes(1, Body::Hello(Hello::default())), now);
    assert!(told(&mut session).is_empty());
    let (mut session, now) = start();
    session.handle_bytes(&[1, 0, 0, 8, 0, 0, 0, 1], now);
    assert!(matches!(&told(&mut session)[..], [SessionEvent::Closed(SessionError::TooOld { .. })]));
}

#[test]
fn a_refused_setup_names_what_was_refused() {
    let (mut session, now) = start();
    session.handle_bytes(&bytes(9, Body::Hello(Hello::only(VERSION_15))), now);
    let format =
        written(&mut session).into_iter().find(|m| matches!(m.body, Body::SetPacketInFormat(_))).unwrap();
    session.handle_bytes(&bytes(format.xid, Body::Error(error(1, 5))), now);
    let events = told(&mut session);
    let [SessionEvent::Closed(error)] = &events[..] else { panic!("{events:?}") };
    assert!(error.to_string().contains("NXT_PACKET_IN2: OFPBRC_EPERM"), "{error}");
}

#[test]
fn an_echo_request_is_answered_where_it_is_read() {
    let (mut session, now) = ready();
    session.handle_bytes(&bytes(77, Body::EchoRequest(vec![1, 2, 3])), now);
    let answer = Message { version: VERSION_15, xid: 77, body: Body::EchoReply(vec![1, 2, 3]) };
    assert_eq!(written(&mut session), [answer]);
}

#[test]
fn a_silent_peer_is_asked_three_times_and_given_up() {
    let (mut session, now) = ready();
    for probe in 1..=3 {
        session.handle_timeout(now + PROBE * probe - Duration::from_millis(1));
        assert!(written(&mut session).is_empty(), "too early");
        assert_eq!(session.poll_timeout(), Some(now + PROBE * probe));
        session.handle_timeout(now + PROBE * probe);
        assert!(matches!(&written(&mut session)[..], [Message { body: Body::EchoRequest(_), .. }]));
    }
    session.handle_timeout(now + PROBE * 4);
    let silent = SessionError::Silent { seconds: 20, probes: 3 };
    assert_eq!(told(&mut session), [SessionEvent::Closed(silent)]);
    assert_eq!(session.poll_timeout(), None);
}

#[test]
fn any_byte_is_a_sign_of_life() {
    let (mut session, now) = ready();
    let status = bytes(0, Body::Raw { kind: 31, data: vec![0; 40] });
    for (second, byte) in (1..).zip(&status) {
        let now = now + Duration::from_secs(4 * second);
        session.handle_timeout(now);
        session.handle_bytes(&[*byte], now);
    }
    assert!(matches!(&told(&mut session)[..], [SessionEvent::Message(_)]));
    assert!(session.is_ready());
}

#[test]
fn a_bundle_is_committed_once_the_switch_has_accepted_all_of_it() {
    let (mut session, now) = ready();
    let token = session.commit(flow_mods(3)).unwrap();
    let sent = written(&mut session);
    let [open, adds @ .., close] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((control(open).step, control(open).flags), (BundleStep::OpenRequest, 3));
    assert_eq!(control(close).step, BundleStep::CloseRequest);
    assert_eq!(adds.len(), 3);
    for add in adds {
        assert!(matches!(&add.body, Body::BundleAdd(add_body) if add_body.message.xid == add.xid));
    }
    session.handle_bytes(&answer(open, BundleStep::OpenReply), now);
    assert!(written(&mut session).is_empty());
    session.handle_bytes(&answer(close, BundleStep::CloseReply), now);
    let [commit] = &written(&mut session)[..] else { panic!("a commit expected") };
    assert_eq!(control(commit).step, BundleStep::CommitRequest);
    assert!(told(&mut session).is_empty());
    session.handle_bytes(&answer(commit, BundleStep::CommitReply), now);
    assert_eq!(told(&mut session), [SessionEvent::BundleCommitted { token }]);
}

#[test]
fn a_bundle_with_a_refused_message_is_discarded() {
    let (mut session, now) = ready();
    let token = session.commit(flow_mods(2)).unwrap();
    let sent = written(&mut session);
    session.handle_bytes(&bytes(sent[2].xid, Body::Error(error(4, 9))), now);
    assert!(told(&mut session).is_empty(), "the bundle must be discarded first");
    session.handle_bytes(&answer(&sent[3], BundleStep::CloseReply), now);
    assert_eq!(control(&written(&mut session)[0]).step, BundleStep::DiscardRequest);
    let refused = BundleError::Refused(error(4, 9));
    assert_eq!(told(&mut session), [SessionEvent::BundleFailed { token, error: refused }]);
}

#[test]
fn a_refused_commit_is_named_by_its_first_error() {
    let (mut session, now) = ready();
    let token = session.commit(flow_mods(1)).unwrap();
    let sent = written(&mut session);
    session.handle_bytes(&answer(&sent[2], BundleStep::CloseReply), now);
    let commit = written(&mut session).remove(0);
    session.handle_bytes(&bytes(sent[1].xid, Body::Error(error(2, 9))), now);
    session.handle_bytes(&bytes(commit.xid, Body::Error(error(17, 13))), now);
    let events = told(&mut session);
    let [SessionEvent::BundleFailed { token: failed, error }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*failed, token);
    assert_eq!(error.to_string(), "the switch refused the bundle: OFPBAC_BAD_OUT_GROUP");
}

#[test]
fn a_bundle_that_cannot_be_opened_fails_once() {
    let (mut session, now) = ready();
    let token = session.commit(flow_mods(2)).unwrap();
    for message in written(&mut session) {
        session.handle_bytes(&bytes(message.xid, Body::Error(error(17, 5))), now);
    }
    let refused = BundleError::Refused(error(17, 5));
    assert_eq!(told(&mut session), [SessionEvent::BundleFailed { token, error: refused }]);
    assert!(written(&mut session).is_empty());
}

#[test]
fn a_connection_lost_in_a_commit_leaves_the_outcome_open() {
    let (mut session, now) = ready();
    let committing = session.commit(flow_mods(1)).unwrap();
    let close = written(&mut session).pop().unwrap();
    session.handle_bytes(&answer(&close, BundleStep::CloseReply), now);
    let filling = session.commit(flow_mods(1)).unwrap();
    let asking = session.request(Request::GroupFeatures).unwrap();
    let waiting = session.barrier().unwrap();
    session.handle_end();
    let lost = SessionError::PeerClosed;
    assert_eq!(
        told(&mut session),
        [
            SessionEvent::BundleFailed { token: committing, error: BundleError::UnknownOutcome },
            SessionEvent::BundleFailed { token: filling, error: BundleError::NotCommitted },
            SessionEvent::Reply { token: asking, result: Err(RequestError::Lost) },
            SessionEvent::BatchDone { token: waiting, result: Err(lost.clone()) },
            SessionEvent::Closed(lost),
        ]
    );
}

#[test]
fn a_batch_tells_which_of_its_messages_were_refused() {
    let (mut session, now) = ready();
    let token =
        session.batch(vec![Body::CtFlushZone(1), Body::CtFlushZone(2), Body::CtFlushZone(3)]).unwrap();
    let sent = written(&mut session);
    assert!(matches!(sent[3].body, Body::BarrierRequest));
    session.handle_bytes(&bytes(sent[1].xid, Body::Error(error(1, 2))), now);
    assert!(told(&mut session).is_empty());
    session.handle_bytes(&bytes(sent[3].xid, Body::BarrierReply), now);
    assert_eq!(told(&mut session), [SessionEvent::BatchDone { token, result: Ok(vec![(1, error(1, 2))]) }]);
}

fn part(xid: u32, flags: u16, tables: std::ops::Range<u8>) -> Vec<u8> {
    let stats = |table| FlowStats { flow: Flow { table, ..Flow::default() }, ..FlowStats::default() };
    bytes(xid, Body::MultipartReply(MultipartReply { flags, body: Reply::Flow(tables.map(stats).collect()) }))
}

#[test]
fn an_answer_in_parts_is_put_together() {
    let (mut session, now) = ready();
    let token = session.request(Request::Flow(Default::default())).unwrap();
    let xid = written(&mut session)[0].xid;
    session.handle_bytes(&part(xid, MORE, 0..3), now);
    session.handle_bytes(&part(xid, MORE, 3..3), now);
    assert!(told(&mut session).is_empty());
    session.handle_bytes(&part(xid, 0, 3..5), now);
    let events = told(&mut session);
    let [SessionEvent::Reply { token: answered, result: Ok(Reply::Flow(flows)) }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*answered, token);
    assert_eq!(flows.iter().map(|stats| stats.flow.table).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn an_answer_without_end_is_cut_off() {
    let now = Instant::now();
    let (mut session, _) = ready();
    session.config.reply_limit = 1000;
    let token = session.request(Request::Flow(Default::default())).unwrap();
    let xid = written(&mut session)[0].xid;
    for _ in 0..100 {
        session.handle_bytes(&part(xid, MORE, 0..5), now);
    }
    let result = Err(RequestError::TooLarge { limit: 1000 });
    assert_eq!(told(&mut session), [SessionEvent::Reply { token, result }]);
    assert!(session.is_ready());
}

#[test]
fn parts_of_different_kinds_are_no_answer() {
    let (mut session, now) = ready();
    let token = session.request(Request::Flow(Default::default())).unwrap();
    let xid = written(&mut session)[0].xid;
    session.handle_bytes(&part(xid, MORE, 0..1), now);
    let other = MultipartReply { flags: 0, body: Reply::Group(Vec::new()) };
    session.handle_bytes(&bytes(xid, Body::MultipartReply(other)), now);
    assert_eq!(told(&mut session), [SessionEvent::Reply { token, result: Err(RequestError::Mixed) }]);
}

#[test]
fn a_truncated_stream_is_named() {
    let (mut session, now) = ready();
    let message = bytes(1, Body::EchoRequest(vec![0; 92]));
    session.handle_bytes(&message[..40], now);
    session.handle_end();
    let error = SessionError::Truncated { have: 40, length: 100 };
    assert_eq!(told(&mut session), [SessionEvent::Closed(error)]);
}

#[test]
fn a_bad_message_ends_the_session_and_nothing_more() {
    let (mut session, now) = ready();
    let mut message = bytes(1, Body::PacketOut(PacketOut::new(vec![0; 20], Vec::new())));
    message[12] = 0xff;
    session.handle_bytes(&[message, bytes(2, Body::EchoRequest(Vec::new()))].concat(), now);
    let events = told(&mut session);
    let [SessionEvent::Closed(error @ SessionError::Malformed { kind: 13, .. })] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(error.to_string().contains("PacketOut.actions"), "{error}");
    assert_eq!(session.poll_output(), None, "nothing is answered after the end");
    session.handle_bytes(&bytes(3, Body::BarrierReply), now);
    session.handle_end();
    assert!(told(&mut session).is_empty());
}

#[test]
fn a_length_below_the_header_ends_the_session() {
    let (mut session, now) = ready();
    session.handle_bytes(&[6, 2, 0, 7, 0, 0, 0, 1], now);
    assert!(matches!(&told(&mut session)[..], [SessionEvent::Closed(SessionError::Malformed { .. })]));
}

#[test]
fn what_is_too_long_is_not_sent_at_all() {
    let (mut session, _) = ready();
    let long = || Body::PacketOut(PacketOut::new(vec![0; 70_000], Vec::new()));
    assert!(matches!(session.send(long()), Err(SendError::TooLong { length: 70_032 })));
    assert!(matches!(session.batch(vec![Body::CtFlushZone(1), long()]), Err(SendError::TooLong { .. })));
    assert!(matches!(session.commit(flow_mods(1).chain([long()])), Err(SendError::TooLong { .. })));
    assert_eq!(session.poll_output(), None);
}

#[test]
fn encoded_messages_get_their_ids_when_they_are_sent() {
    let (mut session, now) = ready();
    let bodies = [Body::EchoRequest(vec![1; 9]), Body::BarrierRequest, Body::CtFlushZone(7)];
    session.send_encoded(Outgoing::encode(bodies.clone()).unwrap()).unwrap();
    let next = session.send(Body::GetConfigRequest).unwrap();
    let sent = written(&mut session);
    assert_eq!(
        sent.iter().map(|message| message.xid).collect::<Vec<_>>(),
        [next - 3, next - 2, next - 1, next]
    );
    assert!(sent.iter().zip(&bodies).all(|(message, body)| message.body == *body));
    session.handle_bytes(&bytes(next - 1, Body::Error(error(1, 2))), now);
    assert_eq!(told(&mut session), [SessionEvent::Refused { xid: next - 1, error: error(1, 2) }]);
}

#[test]
fn a_stream_in_any_pieces_says_the_same() {
    let stream: Vec<u8> = (0..20_u8)
        .flat_map(|i| bytes(0, Body::Raw { kind: 31, data: vec![i; usize::from(i) * 7] }))
        .collect();
    for size in [1, 2, 3, 5, 7, 8, 9, 64, 1000, stream.len()] {
        let (mut session, now) = ready();
        stream.chunks(size).for_each(|piece| session.handle_bytes(piece, now));
        assert_eq!(told(&mut session).len(), 20, "in pieces of {size}");
    }
}

#[test]
fn waiting_doubles_up_to_the_limit_and_starts_over() {
    let mut backoff = super::Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
    let waits: Vec<u128> = (0..4).map(|_| backoff.failed().as_millis()).collect();
    assert_eq!(waits, [50, 100, 150, 150]);
    backoff.succeeded();
    assert_eq!(backoff.failed().as_millis(), 50);
}
