//! Real conversations between network namespaces: TCP with content that is checked at
//! both ends, UDP, and ICMP echo, each with the source that the far end sees.
//!
//! Sockets are opened on a thread inside the namespace and used from anywhere. Nothing is
//! tried twice: a packet that is lost on the way is an error.

mod payload;
mod tcp;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Output;
use std::time::Duration;

use crate::lab::command::command;
use crate::lab::{LabError, netns};

pub use payload::{Digest, Payload};
pub use tcp::{Exchange, exchange, open};

/// How long any step of a conversation may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// One UDP datagram there and one back; the source that the far end saw.
///
/// # Errors
/// [`LabError::Io`] where one of the two is lost, or comes back as another.
pub fn datagrams(from: &str, to: &str, address: IpAddr, bytes: usize) -> Result<IpAddr, LabError> {
    let server = udp(to, SocketAddr::new(address, 0))?;
    let client = udp(from, SocketAddr::new(unspecified(address), 0))?;
    let what = || format!("UDP, {bytes} bytes from {from} to {address}");
    let step = || -> io::Result<IpAddr> {
        let sent = Payload::new(7).bytes(bytes);
        client.connect(server.local_addr()?)?;
        client.send(&sent)?;
        let mut buffer = vec![0; bytes + 1];
        let (length, seen) = server.recv_from(&mut buffer)?;
        same(&sent, buffer.get(..length).unwrap_or_default())?;
        server.send_to(&sent, seen)?;
        let length = client.recv(&mut buffer)?;
        same(&sent, buffer.get(..length).unwrap_or_default())?;
        Ok(seen.ip())
    };
    step().map_err(LabError::io(what()))
}

fn same(sent: &[u8], received: &[u8]) -> io::Result<()> {
    if sent == received { Ok(()) } else { Err(io::Error::other("another datagram than the one sent")) }
}

/// A UDP socket inside a namespace that waits for [`PATIENCE`].
///
/// # Errors
/// [`LabError::Io`].
pub fn udp(namespace: &str, address: SocketAddr) -> Result<UdpSocket, LabError> {
    netns::inside(namespace, || {
        UdpSocket::bind(address)
            .and_then(|socket| socket.set_read_timeout(Some(PATIENCE)).map(|()| socket))
            .map_err(LabError::io(format!("bind UDP {address} in {namespace}")))
    })
}

/// One ICMP echo with this many bytes of payload, which must not be fragmented.
///
/// # Errors
/// Where `ping` cannot be run.
pub fn echo(from: &str, to: IpAddr, bytes: usize) -> Result<Output, LabError> {
    let (to, bytes) = (to.to_string(), bytes.to_string());
    let ping = ["ping", "-n", "-c1", "-W5", "-M", "do", "-s", &bytes, &to];
    netns::output_in(from, &mut command(ping), &[])
}

/// The largest payload of an echo that a packet of `mtu` bytes holds.
#[must_use]
pub fn largest_echo(mtu: usize, to: IpAddr) -> usize {
    mtu - if to.is_ipv4() { 20 + 8 } else { 40 + 8 }
}

/// The MTU of a device of a namespace.
///
/// # Errors
/// [`LabError::Io`] where there is no such device.
pub fn mtu(namespace: &str, device: &str) -> Result<usize, LabError> {
    let link = netns::run_in(namespace, &mut command(["ip", "-j", "link", "show", device]))?;
    let link: serde_json::Value = serde_json::from_str(&link).unwrap_or_default();
    let mtu = link[0]["mtu"].as_u64().and_then(|mtu| usize::try_from(mtu).ok());
    mtu.ok_or_else(|| LabError::NotReady(format!("no MTU of {device} in {namespace}")))
}

/// A counter of `/proc/net/netstat` of a namespace, `TcpExt` and `TCPSynRetrans` for example.
///
/// # Errors
/// [`LabError::Io`] where it cannot be read, [`LabError::NotReady`] where it has no such counter.
pub fn counter(namespace: &str, protocol: &str, name: &str) -> Result<u64, LabError> {
    let read =
        || std::fs::read_to_string("/proc/thread-self/net/netstat").map_err(LabError::io("read counters"));
    let text = netns::inside(namespace, read)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
    let names = lines.next().unwrap_or_default().split(' ');
    let values = lines.next().unwrap_or_default().split(' ');
    let found = names.zip(values).find(|(n, _)| *n == name).and_then(|(_, value)| value.parse().ok());
    found.ok_or_else(|| LabError::NotReady(format!("no counter {protocol} {name} in {namespace}")))
}

/// The unspecified address of the same family.
#[must_use]
pub fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}
