//! Egress addresses on the host's interfaces: put there on loan, renewed, announced, taken off.
//!
//! An address is on loan for [`LOAN`] and renewed every [`RENEW`]. Nodes renew their claims every 10 s, and others take an
//! address over when its claim has not changed for 30 s: that is 20 s after the holder's agent died, or later, and by then the
//! kernel has taken the address off, a second or two after its time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use fabric_core::node::{HostState, announcement};
use ipnet::IpNet;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, send, setsockopt, socket, sockopt,
};
use openflow::Mac;

use super::interfaces::{Address, Interface, Interfaces};
use super::netlink::Netlink;

/// How long the kernel keeps an address that is not renewed, seconds.
const LOAN: u32 = 15;
/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(3);
/// Time between announcements: an answer of whoever had the address before may cross the first.
const AGAIN: Duration = Duration::from_secs(1);
/// Times that an address is announced.
const TIMES: u8 = 3;

/// The addresses that the room has put on interfaces.
#[derive(Debug, Default)]
pub struct Loans {
    loans: BTreeMap<IpAddr, Loan>,
    renew: Option<Instant>,
    links: BTreeSet<IpNet>,
    told: bool,
}

#[derive(Debug, Clone)]
struct Loan {
    interface: Interface,
    /// Announcements that are to come, and when the next is due.
    left: u8,
    announce: Instant,
}

impl Loans {
    /// Whether the host has the address by this room: what the kernel reports of it is no news.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.loans.contains_key(&ip)
    }

    /// When there is something to do.
    pub fn next(&self) -> Option<Instant> {
        let announcements = self.loans.values().filter(|loan| loan.left > 0).map(|loan| loan.announce);
        self.renew.filter(|_| !self.loans.is_empty()).into_iter().chain(announcements).min()
    }

    /// The networks that the interfaces are on, where that was not told yet.
    pub fn news(&mut self) -> Option<BTreeSet<IpNet>> {
        (!std::mem::replace(&mut self.told, true)).then(|| self.links.clone())
    }

    /// Notes the networks that the interfaces are on.
    pub fn note_links(&mut self, interfaces: &Interfaces) {
        let links = interfaces.links();
        if self.links != links || self.renew.is_none() {
            (self.links, self.told) = (links, false);
            self.renew = Some(self.renew.unwrap_or_else(Instant::now));
        }
    }

    /// Puts the addresses of a state where they belong, and takes off those that are not wanted; what could not be done.
    pub async fn apply(&mut self, state: &HostState, found: &Interfaces, netlink: &Netlink) -> Vec<String> {
        let mut problems = Vec::new();
        let mut wanted: BTreeMap<IpAddr, &Interface> = BTreeMap::new();
        for ip in state.egress.keys() {
            match found.of(*ip) {
                Some(interface) => drop(wanted.insert(*ip, interface)),
                None => problems.push(format!(
                    "egress address {ip}: no interface is on a network that has it; was one switched off?"
                )),
            }
        }
        for address in self.unwanted(&wanted, found) {
            let ip = address.net.addr();
            match netlink.take_off(&address).await {
                Ok(()) => drop(self.loans.remove(&ip)),
                Err(error) => problems.push(format!("egress address {ip}: cannot remove it: {error}")),
            }
        }
        self.loans.retain(|ip, _| wanted.contains_key(ip));
        let now = Instant::now();
        for (ip, interface) in wanted {
            if let Err(error) = netlink.lend(interface.index, ip, LOAN).await {
                problems.push(format!("egress address {ip} on {}: {error}", interface.name));
                self.loans.remove(&ip);
                continue;
            }
            let there = |a: &Address| a.device == interface.index && a.net.addr() == ip;
            let left = if found.addresses.iter().any(there) { 0 } else { TIMES };
            let fresh = Loan { interface: interface.clone(), left, announce: now };
            let loan = self.loans.entry(ip).or_insert_with(|| fresh.clone());
            if left > 0 || loan.interface != *interface {
                *loan = fresh;
            }
        }
        self.renew = Some(now + RENEW);
        problems
    }

    /// The room's addresses that are on no interface where they are wanted, those of a kernel that keeps no marks too.
    fn unwanted(&self, wanted: &BTreeMap<IpAddr, &Interface>, found: &Interfaces) -> Vec<Address> {
        let own = |address: &&Address| {
            let ip = address.net.addr();
            let alone = address.net.prefix_len() == address.net.max_prefix_len();
            address.own || alone && self.loans.get(&ip).is_some_and(|l| l.interface.index == address.device)
        };
        let stays = |a: &&Address| wanted.get(&a.net.addr()).is_some_and(|i| i.index == a.device);
        found.addresses.iter().filter(own).filter(|address| !stays(address)).copied().collect()
    }

    /// Renews and announces what is due. An address that cannot be renewed is left to the next comparison: false then.
    pub async fn work(&mut self, netlink: &Netlink) -> bool {
        let now = Instant::now();
        let mut sound = true;
        if self.renew.is_some_and(|at| at <= now) {
            for (ip, loan) in &self.loans {
                let renewed = netlink.lend(loan.interface.index, *ip, LOAN).await;
                sound &= renewed.is_ok();
            }
            self.renew = Some(now + RENEW);
        }
        for (ip, loan) in &mut self.loans {
            if loan.left > 0 && loan.announce <= now {
                loan.left -= 1;
                loan.announce = now + AGAIN;
                if let Err(error) = announce(&loan.interface, *ip) {
                    tracing::warn!("egress address {ip}: not announced on {}: {error}", loan.interface.name);
                }
            }
        }
        sound
    }
}

/// Takes all addresses with the room's mark off; the failures.
pub async fn cleanup(netlink: &Netlink) -> Vec<String> {
    let found = match netlink.interfaces("").await {
        Ok(found) => found,
        Err(error) => return vec![format!("rtnetlink: cannot read the host's addresses: {error}")],
    };
    let mut failures = Vec::new();
    for address in found.addresses.iter().filter(|address| address.own) {
        if let Err(error) = netlink.take_off(address).await {
            failures.push(format!("egress address {}: cannot remove it: {error}", address.net.addr()));
        }
    }
    failures
}

/// Tells everybody on the link of an interface that the address is there.
fn announce(interface: &Interface, ip: IpAddr) -> Result<(), Errno> {
    let Ok(mac) = <[u8; 6]>::try_from(interface.mac.as_slice()) else { return Ok(()) };
    let Some(frame) = announcement(Mac(mac), ip) else { return Ok(()) };
    let mut links = getifaddrs()?.filter(|entry| entry.interface_name == interface.name);
    let link = links.find_map(|entry| entry.address?.as_link_addr().copied()).ok_or(Errno::ENODEV)?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    // Without a protocol it receives nothing.
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None::<SockProtocol>)?;
    setsockopt(&socket, sockopt::SndBuf, &frame.len().saturating_mul(8))?;
    bind(socket.as_raw_fd(), &link)?;
    send(socket.as_raw_fd(), &frame, MsgFlags::empty()).map(drop)
}
