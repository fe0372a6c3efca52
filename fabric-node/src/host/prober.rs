//! The task that finds out what the paths to the tunnel peers carry: the sockets, and the wait for what is due.
//!
//! Requests leave by raw sockets that take whole packets (`IPPROTO_RAW`, raw(7)) and are told to probe
//! (`IP_PMTUDISC_PROBE`, ip(7)): what the kernel has come to believe of a path does not bind them, so that one that has
//! become wider is found. Answers and errors come by raw sockets for ICMP, those about
//! packets of tunnels too.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use fabric_core::node::Event;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, sleep_until};

use super::echo::{self, Heard};
use super::paths::{Paths, Probe};

/// Messages that are read at a time, and the pause after so many: somebody may flood the node.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of the largest IP packet.
const LARGEST: usize = 65_535;
/// Time between two looks where nothing is due.
const LONG: Duration = Duration::from_secs(3600);
/// UDP port of the discard service (RFC 863).
const DISCARD: u16 = 9;

/// The peers whose paths are looked after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// All of them.
    pub peers: BTreeSet<IpAddr>,
    /// Those that pods here send to.
    pub in_use: BTreeSet<IpAddr>,
}

/// Runs until the last handle is gone. `most` is the MTU of the interface that carries tunnels, bytes.
pub async fn run(most: u32, mut wanted: watch::Receiver<Wanted>, events: mpsc::Sender<Event>) {
    let mut prober = Prober::new(most);
    loop {
        let due = prober.paths.next().unwrap_or_else(|| Instant::now() + LONG);
        tokio::select! {
            changed = wanted.changed() => match changed {
                Ok(()) => {
                    let Wanted { peers, in_use } = wanted.borrow_and_update().clone();
                    prober.paths.set(&peers, &in_use, Instant::now());
                }
                Err(_) => return,
            },
            () = readable(prober.v4.as_ref()) => prober.read(Family::V4).await,
            () = readable(prober.v6.as_ref()) => prober.read(Family::V6).await,
            () = sleep_until(due.into()) => {}
        }
        prober.probe();
        if let Some(narrow) = prober.paths.changed() {
            tracing::info!(
                ?narrow,
                "paths to other nodes that carry less than the {most} bytes of the interface"
            );
            if events.send(Event::PathMtus(narrow)).await.is_err() {
                return;
            }
        }
    }
}

struct Prober {
    paths: Paths,
    v4: Option<Sockets>,
    v6: Option<Sockets>,
    tokens: RandomState,
    buffer: Vec<u8>,
}

/// Of the internet protocol.
#[derive(Debug, Clone, Copy)]
enum Family {
    V4,
    V6,
}

/// The raw sockets of a family. What reads and writes datagrams does not care which protocol's they are.
struct Sockets {
    packets: std::net::UdpSocket,
    icmp: UdpSocket,
}

impl Sockets {
    fn open(family: AddressFamily, icmp: SockProtocol) -> io::Result<Self> {
        let raw = |protocol: SockProtocol| {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            socket(family, SockType::Raw, flags, protocol).map(std::net::UdpSocket::from)
        };
        let packets = raw(SockProtocol::Raw)?;
        match family {
            AddressFamily::Inet => set_ip_mtu_discover(&packets, Ipv4PathMtuDiscovery::PROBE)?,
            _ => set_ipv6_mtu_discover(&packets, Ipv6PathMtuDiscovery::PROBE)?,
        }
        Ok(Self { packets, icmp: UdpSocket::from_std(raw(icmp)?)? })
    }

    /// The sockets of a family, or a word in the log why there are none.
    fn of(name: &str, family: AddressFamily, icmp: SockProtocol) -> Option<Self> {
        let opened = Self::open(family, icmp);
        opened
            .inspect_err(|error| {
                tracing::warn!(
                    "{name}: no raw sockets ({error}), so paths to other nodes are taken to carry what the \
                     interface does; the agent needs CAP_NET_RAW"
                );
            })
            .ok()
    }
}

async fn readable(sockets: Option<&Sockets>) {
    match sockets {
        // Reading finds out whether it still is.
        Some(sockets) => drop(sockets.icmp.readable().await),
        None => std::future::pending().await,
    }
}

impl Prober {
    fn new(most: u32) -> Self {
        Self {
            paths: Paths::new(most),
            v4: Sockets::of("IPv4", AddressFamily::Inet, SockProtocol::Icmp),
            v6: Sockets::of("IPv6", AddressFamily::Inet6, SockProtocol::IcmpV6),
            tokens: RandomState::new(),
            buffer: vec![0; LARGEST],
        }
    }

    /// What only the peer can know, who was sent it.
    fn token(&self, peer: IpAddr) -> u64 {
        self.tokens.hash_one(peer)
    }

    /// Sends what is due. What cannot be sent is not answered.
    fn probe(&mut self) {
        for Probe { to, size } in self.paths.due(Instant::now()) {
            if let Err(error) = self.send(to, size) {
                tracing::debug!("echo request of {size} bytes to {to}: {error}");
            }
        }
    }

    fn send(&self, to: IpAddr, size: u32) -> io::Result<()> {
        let from = source(to)?;
        let Some(packet) = echo::request(from, to, size, self.token(to)) else { return Ok(()) };
        match self.sockets(if to.is_ipv4() { Family::V4 } else { Family::V6 }) {
            Some(sockets) => sockets.packets.send_to(&packet, SocketAddr::new(to, 0)).map(drop),
            None => Ok(()),
        }
    }

    fn sockets(&self, family: Family) -> Option<&Sockets> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }

    /// Reads what there is of a family, but never so much that others wait. In IPv6 it comes without a header.
    async fn read(&mut self, family: Family) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut read = 0;
        while read < AT_ONCE
            && let Some(sockets) = self.sockets(family)
            && let Ok((length, from)) = sockets.icmp.try_recv_from(&mut buffer)
        {
            read += 1;
            let message = buffer.get(..length).unwrap_or_default();
            let heard = match from.ip() {
                IpAddr::V4(_) => echo::read_v4(message),
                IpAddr::V6(from) => echo::read_v6(from, message),
            };
            self.hear(heard);
        }
        self.buffer = buffer;
        if read == AT_ONCE {
            sleep(PAUSE).await;
        }
    }

    fn hear(&mut self, heard: Option<Heard>) {
        let now = Instant::now();
        match heard {
            Some(Heard::Answer { from, size, token }) if token == self.token(from) => {
                self.paths.answered(from, size, now);
            }
            Some(Heard::TooBig { to, mtu }) => self.paths.hinted(to, mtu, now),
            _ => {}
        }
    }
}

/// The address that the kernel would send from: a datagram's socket is told its destination, and sends nothing.
fn source(to: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match to {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(SocketAddr::new(to, DISCARD))?;
    Ok(socket.local_addr()?.ip())
}
