//! Paths to other nodes on a real kernel: behind a router whose link becomes narrower and wider, that tells what does
//! not fit and that does not.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "host/space.rs"]
mod space;
#[allow(dead_code, reason = "each test program uses a part")]
mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_core::node::{Event, HostState};
use fabric_node::host::{Handle, HostConfig, start};
use space::Namespace;
use support::{PATIENCE, in_namespace, run};
use tokio::sync::mpsc;

const V4: &str = "192.168.79.2";
const V6: &str = "fd79::2";
const WIDE: u32 = 1500;

struct Bed {
    handle: Handle,
    events: mpsc::Receiver<Event>,
    router: Namespace,
    /// The peer's kernel.
    _peer: Namespace,
}

impl Bed {
    /// The test's namespace is the node; behind a router is its peer.
    async fn up() -> Bed {
        for (one, other) in [("near", "uplink"), ("far", "nic")] {
            run("ip", &["link", "add", one, "type", "veth", "peer", "name", other]);
        }
        let peer = Namespace::behind("nic", "192.168.79.2/24", "192.168.79.1").await;
        let router = Namespace::behind("near", "192.168.78.254/24", "192.168.78.1").await;
        run("ip", &["link", "set", "far", "netns", &router.id()]);
        for sysctl in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            router.run(&["sysctl", "-qw", sysctl]);
        }
        for words in [
            "addr add 192.168.79.1/24 dev far",
            "link set far up",
            "addr add fd79::1/64 dev far nodad noprefixroute",
        ] {
            router.run(&[&["ip"], &words.split(' ').collect::<Vec<_>>()[..]].concat());
        }
        router.run(&["ip", "addr", "add", "fd78::254/64", "dev", "near", "nodad"]);
        peer.run(&["ip", "addr", "add", "fd79::2/64", "dev", "nic", "nodad"]);
        peer.run(&["ip", "route", "add", "default", "via", "fd79::1"]);
        for words in [
            "addr add 192.168.78.1/24 dev uplink",
            "addr add fd78::1/64 dev uplink nodad",
            "link set uplink up",
            "route add 192.168.79.0/24 via 192.168.78.254",
            "route add fd79::/64 via fd78::254",
        ] {
            run("ip", &words.split(' ').collect::<Vec<_>>());
        }
        let (sender, events) = mpsc::channel(16);
        let handle = start(HostConfig { carrier_mtu: WIDE, ..HostConfig::default() }, sender);
        let peers = [V4, V6].map(ip).into();
        handle.apply(HostState { device: "none".to_owned(), peers, ..HostState::default() });
        handle.look_after([V4, V6].map(ip).into());
        let bed = Bed { handle, events, router, _peer: peer };
        bed.carries(WIDE);
        bed
    }

    /// What the router's way to the peer carries. Its device takes what it took, so that what comes from there does too.
    fn carries(&self, mtu: u32) {
        let mtu = mtu.to_string();
        for prefix in ["192.168.79.0/24", "fd79::/64"] {
            self.router.run(&["ip", "route", "replace", prefix, "dev", "far", "mtu", "lock", &mtu]);
        }
    }

    fn mute(&self) {
        for rule in [
            "add table inet mute",
            "add chain inet mute out { type filter hook output priority 0 ; }",
            "add rule inet mute out icmp type destination-unreachable drop",
            "add rule inet mute out icmpv6 type packet-too-big drop",
        ] {
            self.router.run(&[&["nft"], &rule.split(' ').collect::<Vec<_>>()[..]].concat());
        }
    }

    /// How long it takes until just this is known of narrow paths.
    async fn told(&mut self, wanted: &[(&str, u32)]) -> Duration {
        let wanted: BTreeMap<IpAddr, u32> = wanted.iter().map(|(peer, mtu)| (ip(peer), *mtu)).collect();
        let began = Instant::now();
        let mut last = None;
        loop {
            match tokio::time::timeout(PATIENCE, self.events.recv()).await {
                Ok(Some(Event::PathMtus(paths))) if paths == wanted => return began.elapsed(),
                Ok(Some(Event::PathMtus(paths))) => last = Some(paths),
                Ok(Some(_)) => {}
                _ => panic!("not {wanted:?} but {last:?}"),
            }
        }
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn a_path_that_becomes_narrow_and_wide_is_found_out_whether_routers_tell_or_not() {
    in_namespace(|| async {
        let mut bed = Bed::up().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        for mute in [false, true] {
            if mute {
                bed.mute();
            }
            for mtu in [1400, 1300, 1437] {
                bed.carries(mtu);
                let took = bed.told(&[(V4, mtu), (V6, mtu)]).await;
                println!("{mtu} bytes, routers {}: {took:.1?}", if mute { "say nothing" } else { "tell" });
                assert!(took < Duration::from_secs(8), "{took:?}");
            }
            bed.carries(WIDE);
            let took = bed.told(&[]).await;
            println!("{WIDE} bytes again: {took:.1?}");
        }
        drop(bed.handle);
    });
}
