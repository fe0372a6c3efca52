//! JSON-RPC 1.0 as OVSDB uses it (RFC 7047 §4): messages out of a byte stream, requests and answers into one.
//!
//! Nothing separates messages on the wire, so a [`Splitter`] follows brackets and strings byte by byte and hands
//! out each message as text of its own; `serde_json` then reads the envelope, and leaves parameters and results
//! as raw text for whoever knows their shape.

mod splitter;

pub use splitter::{Limits, Splitter};

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Why bytes from the peer are not JSON-RPC, or not what the request asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// A message begins with something else than `{`.
    #[error("a message must begin with '{{', found byte 0x{0:02x}")]
    NotAnObject(u8),
    /// Objects and arrays are nested deeper than [`Limits::depth`].
    #[error("a message is nested deeper than {0} levels")]
    TooDeep(usize),
    /// A message is longer than [`Limits::bytes`].
    #[error("a message is longer than {0} bytes")]
    TooLong(usize),
    /// `]` closes `{`, or `}` closes `[`.
    #[error("bracket '{0}' closes the other kind")]
    Bracket(char),
    /// The text of a message is not JSON, or not of the shape that its place asks for.
    #[error("{what} cannot be read: {why}")]
    Malformed {
        /// Which message or part of it.
        what: String,
        /// What is wrong, and where in the text.
        why: String,
    },
    /// A message with none of the members that make it a request, a notification or a reply.
    #[error("a message is neither a request nor a reply: it lacks {0}")]
    Missing(&'static str),
    /// A reply to a request that was never made, or has been answered.
    #[error("a reply to an unknown request {0}")]
    UnknownReply(String),
}

impl RpcError {
    pub(crate) fn malformed(what: impl Into<String>, why: &serde_json::Error) -> Self {
        Self::Malformed { what: what.into(), why: why.to_string() }
    }
}

/// A message from the peer, its parts still as text.
#[derive(Debug)]
pub enum Message<'a> {
    /// A request, which wants a reply with the same id.
    Request {
        /// The peer's id, any JSON value but `null`.
        id: &'a RawValue,
        /// Name of the method.
        method: Cow<'a, str>,
        /// Parameters, an array.
        params: &'a RawValue,
    },
    /// A notification: a request without an id.
    Notification {
        /// Name of the method.
        method: Cow<'a, str>,
        /// Parameters, an array.
        params: &'a RawValue,
    },
    /// A reply to one of our requests.
    Reply {
        /// Our id.
        id: &'a RawValue,
        /// The result, or the error when there is one.
        result: Result<&'a RawValue, &'a RawValue>,
    },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Reads the envelope of one message.
    pub fn parse(text: &'a [u8]) -> Result<Self, RpcError> {
        let envelope: Envelope<'a> =
            serde_json::from_slice(text).map_err(|why| RpcError::malformed("message", &why))?;
        let Envelope { id, method, params, result, error } = envelope;
        match (method, id) {
            (Some(method), id) => {
                let params = params.ok_or(RpcError::Missing("params"))?;
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            (None, Some(id)) => {
                let result = match error {
                    Some(error) => Err(error),
                    None => Ok(result.unwrap_or(RawValue::NULL)),
                };
                Ok(Self::Reply { id, result })
            }
            (None, None) => Err(RpcError::Missing("method and id")),
        }
    }
}

/// The text of a request.
pub(crate) fn request<P: serde::Serialize>(
    id: u64,
    method: &str,
    params: &P,
) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(serde::Serialize)]
    struct Request<'a, P> {
        method: &'a str,
        params: &'a P,
        id: u64,
    }
    serde_json::to_vec(&Request { method, params, id })
}

/// The text of a reply with a result.
pub(crate) fn reply(id: &RawValue, result: &RawValue) -> Vec<u8> {
    format!("{{\"id\":{},\"result\":{},\"error\":null}}", id.get(), result.get()).into_bytes()
}

/// The text of a reply that says the method is not known here.
pub(crate) fn unknown_method(id: &RawValue) -> Vec<u8> {
    format!("{{\"id\":{},\"result\":null,\"error\":\"unknown method\"}}", id.get()).into_bytes()
}

#[cfg(test)]
mod tests;
