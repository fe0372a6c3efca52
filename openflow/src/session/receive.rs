//! What comes from the peer: cutting the stream into messages, and what each of them means.

use std::time::Instant;

use super::pending::{Pending, Place, Stage};
use super::{BUNDLE_FLAGS, BundleError, RequestError, Session, SessionError, SessionEvent, State};
use crate::message::{
    Body, BundleControl, BundleStep, HEADER_LEN, Header, Hello, Message, OfError, VERSION_15, frame_length,
};
use crate::wire::DecodeError;

impl Session {
    /// Bytes came from the peer.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        if self.state == State::Closed || bytes.is_empty() {
            return;
        }
        self.last_heard = now;
        self.probes = 0;
        if self.inbox.is_empty() {
            let used = self.handle_messages(bytes);
            self.inbox.extend_from_slice(bytes.get(used..).unwrap_or_default());
        } else {
            self.inbox.extend_from_slice(bytes);
            let mut inbox = std::mem::take(&mut self.inbox);
            let used = self.handle_messages(&inbox);
            inbox.drain(..used);
            self.inbox = inbox;
        }
    }

    /// The peer closed the connection, or it broke.
    pub fn handle_end(&mut self) {
        let have = self.inbox.len();
        let error = if have == 0 {
            SessionError::PeerClosed
        } else {
            let length = Header::peek(&self.inbox).map_or(HEADER_LEN, |header| header.length.into());
            SessionError::Truncated { have, length }
        };
        self.close(error);
    }

    /// Handles all whole messages at the start of `bytes`; gives the number of bytes they take.
    fn handle_messages(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while self.state != State::Closed {
            let length = match frame_length(rest) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(error) => {
                    self.malformed(rest, error);
                    break;
                }
            };
            let Some((frame, after)) = rest.split_at_checked(length) else { break };
            match Message::decode(frame) {
                Ok(message) => self.handle_message(message, length),
                Err(error) => self.malformed(frame, error),
            }
            rest = after;
        }
        bytes.len() - rest.len()
    }

    fn malformed(&mut self, frame: &[u8], error: DecodeError) {
        let kind = Header::peek(frame).map_or(0, |header| header.kind);
        self.close(SessionError::Malformed { kind, error });
    }

    fn handle_message(&mut self, message: Message, length: usize) {
        if self.state == State::Greeting {
            return self.handle_greeting(message);
        }
        if message.version != VERSION_15 {
            let kind = message.body.kind(message.version);
            return self
                .close(SessionError::Malformed { kind, error: DecodeError::BadVersion(message.version) });
        }
        let place = self.book.place(message.xid);
        match message.body {
            Body::EchoRequest(data) => self.put_at(message.xid, Body::EchoReply(data)),
            Body::EchoReply(_) | Body::Hello(_) => {}
            Body::FeaturesReply(features) if self.state == State::Setup => {
                if let Some(place) = place {
                    self.book.remove(place);
                }
                self.finish_setup(features);
            }
            Body::Error(error) => self.handle_error(message.xid, place, error),
            Body::BarrierReply => self.handle_barrier(place),
            Body::BundleControl(control) => self.handle_bundle(place, control),
            Body::MultipartReply(reply) => {
                let limit = self.config.reply_limit;
                let event = place.and_then(|place| self.book.take_reply(place, reply, length, limit));
                self.events.extend(event);
            }
            _ => self.events.push_back(SessionEvent::Message(Box::new(message))),
        }
    }

    fn handle_greeting(&mut self, message: Message) {
        match message.body {
            Body::Hello(hello) if hello.offers(message.version, VERSION_15) => self.begin_setup(),
            Body::Hello(hello) => {
                let offered = version_names(&hello, message.version);
                self.close(SessionError::TooOld { offered });
            }
            Body::Error(error) => {
                let text = String::from_utf8_lossy(&error.data);
                self.close(SessionError::HelloRefused(format!("{error} {text:?}")));
            }
            _ => self.close(SessionError::Unexpected { what: "message before the hello" }),
        }
    }

    /// The features reply comes last: what was set before it was accepted.
    fn finish_setup(&mut self, features: crate::message::Features) {
        self.state = State::Ready;
        self.features = Some(features);
        self.book.forget_setup();
        self.events.push_back(SessionEvent::Ready(features));
    }

    fn handle_error(&mut self, xid: u32, place: Option<Place>, error: OfError) {
        let pending = place.and_then(|place| self.book.get(place).map(|pending| (place, pending)));
        let Some((place, pending)) = pending else {
            return self.events.push_back(SessionEvent::Refused { xid, error });
        };
        match pending {
            Pending::Setup { what } => {
                let what = *what;
                self.close(SessionError::SetupRefused { what, error });
            }
            Pending::Batch { errors, .. } => {
                errors.push((place.index, error));
                if place.last {
                    self.handle_barrier(Some(place));
                }
            }
            Pending::Bundle(bundle) => {
                let first = bundle.error.get_or_insert(error).clone();
                let (token, stage) = (bundle.token, bundle.stage);
                // A refused close or commit is the last that is heard of a bundle.
                let over = place.last || (stage == Stage::Filling && self.book.is_next_to_last(place));
                if over {
                    self.book.remove(place);
                    self.events
                        .push_back(SessionEvent::BundleFailed { token, error: BundleError::Refused(first) });
                }
            }
            Pending::Request { token, .. } => {
                let token = *token;
                self.book.remove(place);
                self.events
                    .push_back(SessionEvent::Reply { token, result: Err(RequestError::Refused(error)) });
            }
        }
    }

    fn handle_barrier(&mut self, place: Option<Place>) {
        let Some(place) = place.filter(|place| place.last) else { return };
        if !matches!(self.book.get(place), Some(Pending::Batch { .. })) {
            return;
        }
        if let Some(Pending::Batch { token, errors }) = self.book.remove(place) {
            self.events.push_back(SessionEvent::BatchDone { token, result: Ok(errors) });
        }
    }

    fn handle_bundle(&mut self, place: Option<Place>, control: BundleControl) {
        let Some(place) = place else { return };
        let Some(Pending::Bundle(bundle)) = self.book.get(place) else { return };
        let (token, id) = (bundle.token, bundle.id);
        match control.step {
            BundleStep::CloseReply if bundle.stage == Stage::Filling => {
                let refused = bundle.error.clone();
                bundle.stage = Stage::Committing;
                let xid = self.book.last_of(place);
                let step = match refused {
                    None => BundleStep::CommitRequest,
                    Some(_) => BundleStep::DiscardRequest,
                };
                self.put_at(xid, Body::BundleControl(BundleControl { id, step, flags: BUNDLE_FLAGS }));
                if let Some(error) = refused {
                    self.book.remove(place);
                    self.events
                        .push_back(SessionEvent::BundleFailed { token, error: BundleError::Refused(error) });
                }
            }
            BundleStep::CommitReply if place.last => {
                self.book.remove(place);
                self.events.push_back(SessionEvent::BundleCommitted { token });
            }
            _ => {}
        }
    }
}

fn version_names(hello: &Hello, header_version: u8) -> String {
    const NAMES: [&str; 6] = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];
    let names: Vec<&str> = (1_u8..)
        .zip(NAMES)
        .filter(|(version, _)| hello.offers(header_version, *version))
        .map(|(_, name)| name)
        .collect();
    if names.is_empty() { "no known version".to_owned() } else { format!("OpenFlow {}", names.join(", ")) }
}
