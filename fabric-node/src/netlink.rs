//! A netlink socket for short exchanges with the kernel.
//!
//! Everything that one piece of work changes goes out as one datagram of several messages,
//! each acknowledged: one system call for the lot, and an error still names its step.
//! A socket belongs to the network namespace of the thread that opened it, for good.

use std::io;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::sys::protocols::{NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE};
use rtnetlink::sys::{Socket, SocketAddr};

/// What tells the agent's own routes, neighbours and addresses from those of others (`rtm_protocol`, `NDA_PROTOCOL`,
/// `IFA_PROTO`).
pub const PROTOCOL: u8 = 0xfa;

/// How long the kernel may take to acknowledge, seconds.
const ANSWER_SECONDS: i64 = 10;

/// Room for one datagram of the kernel's answers, bytes: it fills up to 32 KiB.
const DATAGRAM: usize = 1 << 16;

/// One change, and what to call it when it fails.
#[derive(Debug)]
pub struct Step {
    /// What is being done: `add address 10.0.0.1/32`.
    pub what: String,
    /// The request.
    pub message: RouteNetlinkMessage,
    /// `NLM_F_*` beside request and acknowledgement.
    pub flags: u16,
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct StepError {
    /// What was being done.
    pub what: String,
    /// What the kernel says.
    pub cause: io::Error,
}

impl StepError {
    /// Whether the kernel gave this error number.
    pub fn is(&self, number: nix::errno::Errno) -> bool {
        self.cause.raw_os_error() == Some(number as i32)
    }
}

/// A socket to the kernel's routing family.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> io::Result<Netlink> {
        open(NETLINK_ROUTE).map(|socket| Netlink { socket, sequence: 0 })
    }

    /// As [`Netlink::open`], for a socket whose dumps the kernel filters by what the request says. Before Linux 4.20
    /// it cannot, and gives everything.
    pub fn open_strict() -> io::Result<Netlink> {
        let netlink = Self::open()?;
        let strict = netlink.socket.set_netlink_get_strict_chk(true);
        strict.unwrap_or_else(|error| tracing::debug!("the kernel does not filter dumps: {error}"));
        Ok(netlink)
    }

    /// Carries the steps out in order. The kernel goes on after one that fails; the first failure is returned.
    pub fn apply(&mut self, steps: Vec<Step>) -> Result<(), StepError> {
        self.apply_all(steps).into_iter().next().map_or(Ok(()), Err)
    }

    /// As [`Netlink::apply`], with every failure, in the order of the steps.
    pub fn apply_all(&mut self, steps: Vec<Step>) -> Vec<StepError> {
        let mut bytes = Vec::new();
        let mut names = Vec::with_capacity(steps.len());
        let first = self.sequence.wrapping_add(1);
        for step in steps {
            names.push(step.what);
            self.append(&mut bytes, step.message, NLM_F_REQUEST | NLM_F_ACK | step.flags);
        }
        let count = names.len();
        let failed =
            |index: usize, cause| StepError { what: names.get(index).cloned().unwrap_or_default(), cause };
        if count == 0 {
            return Vec::new();
        }
        if let Err(cause) = self.socket.send(&bytes, 0) {
            return vec![failed(0, cause)];
        }
        let mut failures = Vec::new();
        let mut seen = 0;
        while seen < count {
            let messages = match self.receive() {
                Ok(messages) => messages,
                Err(cause) => {
                    failures.push(failed(seen, cause));
                    return failures;
                }
            };
            for message in messages {
                let index = message.header.sequence_number.wrapping_sub(first) as usize;
                let NetlinkPayload::Error(answer) = message.payload else { continue };
                if index >= count {
                    continue;
                }
                seen += 1;
                if answer.code.is_some() {
                    failures.push(failed(index, answer.to_io()));
                }
            }
        }
        failures
    }

    /// The device of this name, where there is one.
    pub fn link(&mut self, name: &str) -> io::Result<Option<LinkMessage>> {
        let mut query = LinkMessage::default();
        query.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.query(RouteNetlinkMessage::GetLink(query), 0) {
            Ok(answers) => Ok(answers.into_iter().find_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(link) => Some(link),
                _ => None,
            })),
            Err(cause) if cause.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// All objects of the kind that the request names.
    pub fn dump(&mut self, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.query(request, NLM_F_DUMP)
    }

    fn query(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut bytes = Vec::new();
        self.append(&mut bytes, request, NLM_F_REQUEST | flags);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            for message in self.receive()? {
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Overrun(_) => return Err(io::ErrorKind::OutOfMemory.into()),
                    _ => return Ok(answers),
                }
                if flags == 0 {
                    return Ok(answers);
                }
            }
        }
    }

    fn append(&mut self, bytes: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let start = bytes.len().next_multiple_of(4);
        bytes.resize(start + message.buffer_len(), 0);
        if let Some(room) = bytes.get_mut(start..) {
            message.serialize(room);
        }
    }

    /// The messages of one datagram.
    fn receive(&mut self) -> io::Result<Vec<NetlinkMessage<RouteNetlinkMessage>>> {
        let datagram = receive(&self.socket)?;
        let mut rest = datagram.as_slice();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let message =
                NetlinkMessage::deserialize(rest).map_err(|cause| io::Error::other(cause.to_string()))?;
            let length = (message.header.length as usize).next_multiple_of(4).max(16);
            rest = rest.get(length..).unwrap_or_default();
            messages.push(message);
        }
        Ok(messages)
    }
}

/// A socket to the kernel's generic family.
pub fn open_generic() -> io::Result<Socket> {
    open(NETLINK_GENERIC)
}

/// A socket to the kernel's netfilter.
pub fn open_netfilter() -> io::Result<Socket> {
    open(NETLINK_NETFILTER)
}

/// One datagram from the kernel.
pub fn receive(socket: &Socket) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(DATAGRAM);
    match socket.recv(&mut buffer, 0) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(buffer),
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {ANSWER_SECONDS} s")))
        }
        Err(cause) => Err(cause),
    }
}

fn open(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    // Without the copy of the request, acknowledgements of a long batch fit the buffer.
    socket.set_cap_ack(true)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER_SECONDS, 0))?;
    Ok(socket)
}
