//! DEL without the agent: the container's interface goes, all else waits for the agent.
//!
//! Only a pair that Fabric made is removed, and by its host's end, whose name begins
//! with `fab`: the previous result names it, or the interface inside points at it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fabric_cni::env::Target;
use fabric_cni::result::{Success, host_end};
use nix::errno::Errno;
use nix::net::if_::{if_indextoname, if_nametoindex};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// How names of the host's ends begin.
const PREFIX: &str = "fab";

/// How long the kernel may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Removes the pair of devices; one that is gone is no error.
pub fn remove(target: &Target, previous: Option<&Success>) -> Result<(), String> {
    let named = previous.and_then(|result| host_end(result, target)).map(str::to_owned);
    let host = match (named, &target.netns) {
        (Some(name), _) => Some(name),
        (None, Some(netns)) => find(Path::new(netns), &target.ifname)?,
        (None, None) => None,
    };
    let Some(host) = host.filter(|name| name.starts_with(PREFIX)) else { return Ok(()) };
    match if_nametoindex(host.as_str()) {
        Err(_) => Ok(()),
        Ok(index) => match exchange(RTM_DELLINK, NLM_F_ACK, index) {
            Ok(_) => Ok(()),
            Err(cause) if cause.raw_os_error() == Some(Errno::ENODEV as i32) => Ok(()),
            Err(cause) => Err(format!("cannot remove the device {host}: {cause}")),
        },
    }
}

/// Name of the device in this namespace that is the other end of `ifname` in that one.
/// The thread that enters the namespace ends there.
fn find(netns: &Path, ifname: &str) -> Result<Option<String>, String> {
    let file = match File::open(netns) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(format!("cannot open {}: {cause}", netns.display())),
    };
    let ends = thread::scope(|scope| scope.spawn(|| ends_inside(&file, ifname)).join());
    match ends {
        Ok(Ok(ends)) => Ok(ends.and_then(|(inside, outside)| joined(inside, outside))),
        Ok(Err(cause)) => Err(format!("cannot look for {ifname} in {}: {cause}", netns.display())),
        Err(_) => Err(format!("looking for {ifname} in {} ended early", netns.display())),
    }
}

/// Indices of the interface and of its other end, which the kernel counts in the namespace of each.
fn ends_inside(netns: &File, ifname: &str) -> io::Result<Option<(u32, u32)>> {
    setns(netns, CloneFlags::CLONE_NEWNET)?;
    match if_nametoindex(ifname) {
        Err(_) => Ok(None),
        Ok(inside) => Ok(link_of(&exchange(RTM_GETLINK, 0, inside)?).map(|outside| (inside, outside))),
    }
}

/// Name of the device `outside` of this namespace, if it points back at `inside`: the other end may be in a third
/// namespace, where `outside` is another device.
fn joined(inside: u32, outside: u32) -> Option<String> {
    let answer = exchange(RTM_GETLINK, 0, outside).ok()?;
    if link_of(&answer) != Some(inside) {
        return None;
    }
    if_indextoname(outside).ok()?.into_string().ok()
}

// linux/netlink.h and linux/rtnetlink.h
const NLMSG_ERROR: u16 = 2;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const IFLA_LINK: u16 = 5;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct ifinfomsg`.
const LINK_HEADER: usize = 16;

/// Asks the kernel about the device, and gives its answer.
fn exchange(kind: u16, flags: u16, index: u32) -> io::Result<Vec<u8>> {
    let route = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, route)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER.as_secs().cast_signed(), 0))?;
    send(socket.as_raw_fd(), &message(kind, flags, index), MsgFlags::empty())?;
    let mut answer = vec![0_u8; 32 * 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    let code = answer.get(HEADER..HEADER + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (u16_at(&answer, 4), code) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(answer),
        (Some(NLMSG_ERROR), Some(code)) => Err(io::Error::from_raw_os_error(-code)),
        (Some(_), Some(_)) => Ok(answer),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// `nlmsghdr` and `ifinfomsg`, in the byte order of this machine.
fn message(kind: u16, flags: u16, index: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + LINK_HEADER);
    bytes.extend(32_u32.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0; 4]);
    bytes.extend(index.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// The attribute `IFLA_LINK` of an answer to `RTM_GETLINK`: for a veth, the index of its other end.
fn link_of(answer: &[u8]) -> Option<u32> {
    let mut rest = answer.get(HEADER + LINK_HEADER..)?;
    loop {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..length)?;
        if u16_at(rest, 2)? == IFLA_LINK {
            return value.try_into().ok().map(u32::from_ne_bytes);
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}
