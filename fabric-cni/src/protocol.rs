//! What plugin and agent say to each other on the unix socket.
//!
//! The plugin sends one line of JSON and the agent answers with one line; then the
//! connection ends. Every line carries the number of the protocol that its reader has to know, so that
//! releases that do not understand each other say so.

use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::address::{Cidr, Mac};
use crate::error::{Code, Error};

/// Number of the newest protocol. A line carries that of the oldest that knows all that is in it, so that releases on
/// both sides of an update understand each other for as long as nobody asks for what only one of them knows.
pub const PROTOCOL: u32 = 2;

/// Where the agent listens unless the configuration says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/fabric/cni.sock";

/// Longest line that either side reads, bytes.
pub const MAX_LINE: usize = 1 << 20;

/// What the plugin asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// Attach a container.
    Add(Box<Add>),
    /// Make the interface of a container, whose address is asked for on it and follows with [`Request::Add`]: for the
    /// IPAM plugin `dhcp`. Since protocol 2.
    Prepare(Box<Add>),
    /// Detach one; one that is not attached is no error.
    Del(Key),
    /// Compare an attachment with what it should be.
    Check(Check),
    /// Detach what is not listed.
    Gc(Gc),
    /// Whether an [`Request::Add`] could be served.
    Status,
}

/// What CNI tells attachments apart by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// `CNI_CONTAINERID`.
    pub container_id: String,
    /// `CNI_IFNAME`.
    pub ifname: String,
}

/// A pod, as the runtime names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its `metadata.uid`; empty where the runtime does not say.
    #[serde(default)]
    pub uid: String,
}

/// Limits of rate that a runtime may ask for (CNI conventions, capability `bandwidth`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bandwidth {
    /// Into the container, bits per second; 0 is no limit.
    #[serde(default)]
    pub ingress_rate: u64,
    /// Bits.
    #[serde(default)]
    pub ingress_burst: u64,
    /// Out of the container, bits per second; 0 is no limit.
    #[serde(default)]
    pub egress_rate: u64,
    /// Bits.
    #[serde(default)]
    pub egress_burst: u64,
}

/// ADD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Which attachment.
    pub key: Key,
    /// Path of the network namespace.
    pub netns: String,
    /// `name` of the network configuration.
    pub network: String,
    /// The pod, where the runtime names it.
    pub pod: Option<PodRef>,
    /// Addresses asked for.
    #[serde(default)]
    pub ips: Vec<IpAddr>,
    /// Hardware address asked for.
    pub mac: Option<Mac>,
    /// MTU of the configuration, bytes.
    pub mtu: Option<u32>,
    /// Limits of rate asked for.
    pub bandwidth: Option<Bandwidth>,
    /// The IPAM plugin that gave `ips` (or is to, for [`Request::Prepare`]), where one did: these are the container's only addresses then.
    #[serde(default)]
    pub ipam: Option<String>,
    /// Routers that the plugin `dhcp` was told of, for a Network that names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<IpAddr>,
}

/// CHECK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Which attachment.
    pub key: Key,
    /// Path of the network namespace.
    pub netns: String,
    /// Hardware address that ADD returned.
    pub mac: Option<Mac>,
    /// Addresses that ADD returned for this interface.
    #[serde(default)]
    pub addresses: Vec<Cidr>,
}

/// GC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gc {
    /// `name` of the network configuration.
    pub network: String,
    /// Attachments in use.
    pub valid: Vec<Key>,
}

/// What the agent answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// To [`Request::Add`]: the container has a network. To [`Request::Prepare`]: it has an interface; without addresses,
    /// unless it was attached before.
    Attached(Attached),
    /// To all others.
    Done,
    /// It was not done.
    Error(Error),
}

/// An attachment that carries traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// Name of the host's end.
    pub host_name: String,
    /// Hardware address inside.
    pub mac: Mac,
    /// MTU, bytes.
    pub mtu: u32,
    /// Addresses inside.
    pub addresses: Vec<Cidr>,
    /// Next hops of the default routes, one a family at most.
    pub gateways: Vec<IpAddr>,
}

#[derive(Serialize, Deserialize)]
struct RequestLine {
    protocol: u32,
    request: Request,
}

#[derive(Serialize, Deserialize)]
struct AnswerLine {
    protocol: u32,
    answer: Answer,
}

#[derive(Deserialize)]
struct AnyLine {
    protocol: u32,
}

/// The line for a request, with its newline.
pub fn encode_request(request: Request) -> Result<Vec<u8>, Error> {
    let protocol = if matches!(request, Request::Prepare(_)) { 2 } else { 1 };
    encode(&RequestLine { protocol, request })
}

/// The request of a line, with or without the newline.
pub fn decode_request(line: &[u8]) -> Result<Request, Error> {
    decode::<RequestLine>(line).map(|line| line.request)
}

/// The line for an answer, with its newline.
pub fn encode_answer(answer: Answer) -> Result<Vec<u8>, Error> {
    encode(&AnswerLine { protocol: 1, answer })
}

/// The answer of a line, with or without the newline.
pub fn decode_answer(line: &[u8]) -> Result<Answer, Error> {
    decode::<AnswerLine>(line).map(|line| line.answer)
}

fn encode<T: Serialize>(line: &T) -> Result<Vec<u8>, Error> {
    let mut bytes = serde_json::to_vec(line)
        .map_err(|cause| Error::new(Code::DECODE, format!("cannot encode: {cause}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The number is looked at first: a line of another protocol need not have this one's shape.
fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, Error> {
    let bad =
        |cause: serde_json::Error| Error::new(Code::DECODE, format!("line on the agent's socket: {cause}"));
    let any: AnyLine = serde_json::from_slice(line).map_err(bad)?;
    if !(1..=PROTOCOL).contains(&any.protocol) {
        let details = format!(
            "this side speaks protocols up to {PROTOCOL}, the other {}: install fabric-cni and the agent of one release",
            any.protocol
        );
        return Err(Error::new(Code::PROTOCOL, details));
    }
    serde_json::from_slice(line).map_err(bad)
}

#[cfg(test)]
mod tests;
