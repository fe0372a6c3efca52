//! The host room on a real kernel, with a real Open vSwitch where tunnels matter.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[path = "host/egress.rs"]
mod egress;
#[path = "host/space.rs"]
mod space;
#[allow(dead_code, reason = "each test program uses a part")]
mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fabric_core::node::{Event, HostState};
use fabric_node::host::{Handle, HostConfig, cleanup, start};
use ipnet::IpNet;
use openflow::Mac;
use space::Namespace;
use support::{Ovs, PATIENCE, in_namespace, run, try_run, until};
use tokio::sync::mpsc;

const MAC: &str = "0a:58:a9:fe:01:01";

struct Room {
    handle: Handle,
    events: mpsc::Receiver<Event>,
    /// The networks that the room told of last.
    links: Option<BTreeSet<IpNet>>,
}

impl Room {
    fn new(config: HostConfig) -> Self {
        let (sender, events) = mpsc::channel(16);
        Self { handle: start(config, sender), events, links: None }
    }

    async fn settled(&mut self) -> BTreeSet<IpAddr> {
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            match event
                .unwrap_or_else(|_| panic!("no event; problems: {:?}", *self.handle.problems().borrow()))
            {
                Some(Event::PeersSettled(peers)) => return peers,
                Some(Event::Links(links)) => self.links = Some(links),
                other => panic!("{other:?} is not of this room"),
            }
        }
    }

    /// The networks that the node's interfaces are on, as the room tells.
    async fn told(&mut self) -> BTreeSet<IpNet> {
        while self.links.is_none() {
            match tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("an event") {
                Some(Event::Links(links)) => self.links = Some(links),
                other => panic!("{other:?} is not of this room"),
            }
        }
        self.links.clone().unwrap_or_default()
    }

    /// Drops the handle, and waits until the room has ended.
    async fn end(mut self) {
        drop(self.handle);
        let ended = tokio::time::timeout(PATIENCE, async { while self.events.recv().await.is_some() {} });
        ended.await.expect("the room ends");
    }

    fn problems(&self) -> String {
        self.handle.problems().borrow().join("\n")
    }

    /// Applies a state and waits until nothing is left to do.
    async fn apply(&mut self, state: &HostState) {
        self.handle.apply(state.clone());
        self.settled().await;
        let mut problems = self.handle.problems();
        let solved = tokio::time::timeout(PATIENCE, problems.wait_for(Vec::is_empty)).await;
        assert!(solved.is_ok(), "{}", self.problems());
    }
}

fn addresses<T: FromIterator<IpAddr>>(list: &[&str]) -> T {
    list.iter().map(|address| address.parse::<IpAddr>().expect("an address")).collect()
}

fn state() -> HostState {
    let prefixes = |list: &[&str]| list.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
    HostState {
        device: "br-fabric".to_owned(),
        mtu: 1450,
        gateway_mac: Some(MAC.parse::<Mac>().expect("an address")),
        gateways: addresses(&["169.254.1.1", "fe80::1"]),
        routes: prefixes(&["10.0.0.0/16", "fd00:10::/48"]),
        sources: addresses(&["192.168.77.1", "fd77::1"]),
        ..HostState::default()
    }
}

/// The bridge's device, played by one end of a pair, and the node's addresses.
fn device() {
    run("ip", &["link", "add", "br-fabric", "type", "veth", "peer", "name", "far"]);
    run("ip", &["link", "set", "far", "up"]);
}

fn node_addresses() {
    run("ip", &["addr", "add", "192.168.77.1/32", "dev", "lo"]);
    run("ip", &["addr", "add", "fd77::1/128", "dev", "lo"]);
}

fn own_routes() -> String {
    let routes = |family| run("ip", &[family, "route", "show", "table", "all", "proto", "250"]);
    format!("{}\n{}", routes("-4"), routes("-6"))
}

fn setting(name: &str) -> String {
    run("cat", &[&format!("/proc/sys/net/{name}")])
}

/// What is missing of [`state`].
fn missing() -> Option<String> {
    let routes = own_routes();
    let neighbours = run("ip", &["neigh", "show", "dev", "br-fabric", "nud", "permanent"]);
    let link = run("ip", &["link", "show", "br-fabric"]);
    let complete = routes.contains("10.0.0.0/16 via 169.254.1.1 dev br-fabric src 192.168.77.1 onlink")
        && routes.contains("fd00:10::/48 via fe80::1 dev br-fabric src fd77::1")
        && neighbours.contains(&format!("169.254.1.1 lladdr {MAC} PERMANENT"))
        && neighbours.contains(&format!("fe80::1 lladdr {MAC} PERMANENT"))
        && link.contains("mtu 1450")
        && link.contains(",UP");
    (!complete).then(|| format!("{routes}\n{neighbours}\n{link}"))
}

async fn complete() {
    let end = Instant::now() + PATIENCE;
    while let Some(missing) = missing() {
        assert!(Instant::now() < end, "not complete:\n{missing}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn applies_a_state_whole_and_takes_it_back() {
    in_namespace(|| async {
        device();
        node_addresses();
        let mut room = Room::new(HostConfig::default());
        room.apply(&state()).await;
        complete().await;
        for (name, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv4/conf/br-fabric/rp_filter", "2"),
            ("ipv4/conf/br-fabric/arp_ignore", "8"),
            ("ipv6/conf/br-fabric/accept_ra", "0"),
        ] {
            assert_eq!(setting(name), value, "{name}");
        }
        // What others made stays, here and through everything below.
        run("ip", &["route", "add", "10.77.0.0/16", "dev", "br-fabric"]);
        run("ip", &["neigh", "add", "169.254.9.9", "lladdr", MAC, "dev", "br-fabric"]);

        let mut smaller = state();
        smaller.routes.pop_first();
        smaller.sources = addresses(&["fd77::1"]);
        room.apply(&smaller).await;
        until("one route is left", || {
            !own_routes().contains("10.0.0.0/16") && own_routes().contains("fd00:10::/48")
        })
        .await;
        room.end().await;
        assert!(own_routes().contains("fd00:10::/48"), "what was made outlives the room");

        // A later run finds what an earlier one left.
        let mut room = Room::new(HostConfig::default());
        let only_v4 = HostState { routes: state().routes.into_iter().take(1).collect(), ..state() };
        room.apply(&only_v4).await;
        until("the other route is left", || {
            own_routes().contains("10.0.0.0/16") && !own_routes().contains("fd00:10::/48")
        })
        .await;
        room.end().await;
        cleanup(&HostConfig::default()).await.expect("cleaned up");
        assert_eq!(own_routes().trim(), "");
        let neighbours = run("ip", &["neigh", "show", "dev", "br-fabric", "nud", "permanent"]);
        assert!(neighbours.contains("169.254.9.9") && !neighbours.contains("169.254.1.1"), "{neighbours}");
        assert!(run("ip", &["route"]).contains("10.77.0.0/16"));
        cleanup(&HostConfig::default()).await.expect("nothing to clean up is no error");
    });
}

#[test]
fn a_device_that_comes_and_goes_is_followed() {
    in_namespace(|| async {
        node_addresses();
        let mut room = Room::new(HostConfig::default());
        room.handle.apply(state());
        let mut problems = room.handle.problems();
        let named = |problems: &Vec<String>| problems.concat().contains("device br-fabric does not exist");
        problems.wait_for(named).await.expect("the room lives");
        assert_eq!(room.settled().await, BTreeSet::new());
        for _ in 0..3 {
            device();
            problems.wait_for(Vec::is_empty).await.expect("the room lives");
            until("all is there", || own_routes().contains("10.0.0.0/16")).await;
            complete().await;
            run("ip", &["link", "del", "br-fabric"]);
            problems.wait_for(named).await.expect("the room lives");
        }
    });
}

#[test]
fn what_others_undo_is_done_again() {
    in_namespace(|| async {
        device();
        node_addresses();
        let mut room = Room::new(HostConfig::default());
        room.apply(&state()).await;
        run("ip", &["route", "del", "10.0.0.0/16"]);
        until("the route is back", || own_routes().contains("10.0.0.0/16")).await;
        run("ip", &["link", "set", "br-fabric", "mtu", "1500"]);
        until("the MTU is back", || run("ip", &["link", "show", "br-fabric"]).contains("mtu 1450")).await;
        // Without the device up, its routes are gone.
        run("ip", &["link", "set", "br-fabric", "down"]);
        until("the device is up", || {
            own_routes().contains("10.0.0.0/16") && own_routes().contains("fd00:10::")
        })
        .await;
        complete().await;
        // The address that routes prefer goes and comes, and takes the route along.
        run("ip", &["addr", "del", "192.168.77.1/32", "dev", "lo"]);
        let mut problems = room.handle.problems();
        let named =
            |problems: &Vec<String>| problems.concat().contains("is 192.168.77.1 an address of this node?");
        problems.wait_for(named).await.expect("the room lives");
        run("ip", &["addr", "add", "192.168.77.1/32", "dev", "lo"]);
        problems.wait_for(Vec::is_empty).await.expect("the room lives");
        complete().await;
    });
}

#[test]
fn a_route_of_somebody_else_is_not_taken_over() {
    in_namespace(|| async {
        device();
        node_addresses();
        run("ip", &["route", "add", "10.0.0.0/16", "dev", "lo"]);
        let room = Room::new(HostConfig::default());
        room.handle.apply(state());
        let mut problems = room.handle.problems();
        let named = |problems: &Vec<String>| problems.concat().contains("another route");
        problems.wait_for(named).await.expect("the room lives");
        assert!(room.problems().contains("10.0.0.0/16"), "{}", room.problems());
        assert_eq!(run("ip", &["route", "show", "10.0.0.0/16"]), "10.0.0.0/16 dev lo scope link");
        until("the rest goes on", || own_routes().contains("fd00:10::/48")).await;
        run("ip", &["route", "del", "10.0.0.0/16"]);
        problems.wait_for(Vec::is_empty).await.expect("the room lives");
        complete().await;
    });
}

#[test]
fn forwarding_keeps_a_default_route_that_a_router_advertised() {
    in_namespace(|| async {
        device();
        node_addresses();
        run("ip", &["link", "add", "uplink", "type", "veth", "peer", "name", "router"]);
        run("ip", &["link", "set", "uplink", "up"]);
        run("ip", &["link", "set", "router", "up"]);
        run("ip", &["route", "add", "fd88::/64", "dev", "uplink", "proto", "ra"]);
        assert_eq!(setting("ipv6/conf/uplink/accept_ra"), "1");
        let mut room = Room::new(HostConfig::default());
        room.apply(&state()).await;
        assert_eq!(setting("ipv6/conf/all/forwarding"), "1");
        assert_eq!(setting("ipv6/conf/uplink/accept_ra"), "2");
        assert_eq!(setting("ipv6/conf/router/accept_ra"), "1");
    });
}

#[test]
fn masquerades_what_leaves_the_fabric_only() {
    in_namespace(|| async {
        device();
        node_addresses();
        // A pod behind the bridge, and the world behind another device.
        let pod = Namespace::behind("far", "10.0.0.5/16", "169.254.1.1").await;
        run("ip", &["link", "add", "uplink", "type", "veth", "peer", "name", "world"]);
        run("ip", &["addr", "add", "203.0.113.1/24", "dev", "uplink"]);
        run("ip", &["link", "set", "uplink", "up"]);
        let world = Namespace::behind("world", "203.0.113.9/24", "203.0.113.1").await;
        let mut room = Room::new(HostConfig::default());
        let mut wanted = state();
        wanted.masquerade = ["10.0.0.0/16"].iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
        room.apply(&wanted).await;
        // Without a switch the pod answers for the router itself.
        pod.run(&["ip", "link", "set", "far", "address", MAC]);
        pod.run(&["ip", "neigh", "add", "169.254.1.1", "lladdr", &mac_of("br-fabric"), "dev", "far"]);
        let rules = run("nft", &["list", "table", "ip", "fabric"]);
        assert!(rules.contains("masquerade"), "{rules}");
        let capture = world.capture("world", "icmp[icmptype] == icmp-echo");
        until("the world answers", || pod.try_run(&["ping", "-c", "1", "-W", "1", "203.0.113.9"])).await;
        until("the world saw the node's address", || {
            pod.try_run(&["ping", "-c", "1", "-W", "1", "203.0.113.9"]);
            capture.text().contains("203.0.113.1 > 203.0.113.9")
        })
        .await;
        assert!(!capture.text().contains("10.0.0.5 >"), "{}", capture.text());

        // Others empty the tables: the next comparison brings them back.
        run("nft", &["flush", "ruleset"]);
        room.apply(&wanted).await;
        run("nft", &["list", "table", "ip", "fabric"]);
        room.apply(&state()).await;
        assert!(!try_run("nft", &["list", "table", "ip", "fabric"]));
        room.apply(&wanted).await;
        room.end().await;
        run("nft", &["add", "table", "ip", "other"]);
        cleanup(&HostConfig::default()).await.expect("cleaned up");
        assert_eq!(run("nft", &["list", "tables"]), "table ip other");
    });
}

#[test]
fn a_missing_nft_matters_only_where_it_is_needed() {
    in_namespace(|| async {
        device();
        node_addresses();
        let mut room =
            Room::new(HostConfig { nft: PathBuf::from("/nonexistent/nft"), ..HostConfig::default() });
        room.apply(&state()).await;
        let mut wanted = state();
        wanted.masquerade = wanted.routes.clone();
        room.handle.apply(wanted);
        let mut problems = room.handle.problems();
        let named = |problems: &Vec<String>| problems.concat().contains("/nonexistent/nft");
        problems.wait_for(named).await.expect("the room lives");
        complete().await;
    });
}

#[test]
fn peers_are_given_up_in_time_and_found_later() {
    in_namespace(|| async {
        device();
        run("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "wire"]);
        run("ip", &["addr", "add", "192.168.77.1/24", "dev", "eth0"]);
        run("ip", &["addr", "add", "fd77::1/64", "dev", "eth0", "nodad"]);
        run("ip", &["link", "set", "eth0", "up"]);
        run("ip", &["link", "set", "wire", "up"]);
        let mut room = Room::new(HostConfig::default());
        let wanted = HostState { peers: addresses(&["192.168.77.2", "fd77::2", "10.99.99.99"]), ..state() };
        let begin = Instant::now();
        room.handle.apply(wanted.clone());
        assert_eq!(room.settled().await, wanted.peers);
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(3), "{took:?}");
        let mut problems = room.handle.problems();
        let silent = |problems: &Vec<String>| {
            problems.concat().contains("tunnel peers do not answer: 10.99.99.99, 192.168.77.2, fd77::2")
        };
        problems.wait_for(silent).await.expect("the room lives");
        // The peer comes up: it is found without anything being said.
        let peer = Namespace::behind("wire", "192.168.77.2/24", "192.168.77.1").await;
        peer.run(&["ip", "addr", "add", "fd77::2/64", "dev", "wire", "nodad"]);
        let only = |problems: &Vec<String>| {
            problems.concat().ends_with("do not answer: 10.99.99.99; are these nodes up?")
        };
        tokio::time::timeout(PATIENCE, problems.wait_for(only))
            .await
            .expect("in time")
            .expect("the room lives");
        // Two peers that answer settle at once.
        let begin = Instant::now();
        let wanted = HostState { peers: addresses(&["192.168.77.2", "fd77::2"]), ..state() };
        room.handle.apply(wanted.clone());
        assert_eq!(room.settled().await, wanted.peers);
        assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    });
}

#[test]
fn the_switch_knows_the_peers_before_the_first_packet() {
    in_namespace(|| async {
        let mut ovs = Ovs::running().await;
        run("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "wire"]);
        run("ip", &["link", "set", "eth0", "up"]);
        let peer = Namespace::behind("wire", "192.168.77.2/24", "192.168.77.1").await;
        peer.run(&["ip", "addr", "add", "fd77::2/64", "dev", "wire", "nodad"]);
        for bridge in ["br-phy", "br-fabric"] {
            ovs.vsctl(&["add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev"]);
        }
        ovs.vsctl(&["add-port", "br-phy", "eth0"]);
        let tunnel = ["type=vxlan", "options:remote_ip=flow", "options:key=flow"];
        let add = ["add-port", "br-fabric", "fabric-vxlan", "--", "set", "Interface", "fabric-vxlan"];
        ovs.vsctl(&[&add[..], &tunnel[..]].concat());
        run("sysctl", &["-qw", "net.ipv4.conf.eth0.arp_ignore=1"]);
        run("ip", &["addr", "add", "192.168.77.1/24", "dev", "br-phy"]);
        run("ip", &["addr", "add", "fd77::1/64", "dev", "br-phy", "nodad"]);
        run("ip", &["link", "set", "br-phy", "up"]);
        let mut room = Room::new(HostConfig::default());
        let wanted = HostState { peers: addresses(&["192.168.77.2", "fd77::2"]), ..state() };
        room.apply(&wanted).await;
        let known = |ovs: &Ovs| {
            let table = ovs.appctl(&["tnl/neigh/show"]);
            table.contains("192.168.77.2 ") && table.contains("fd77::2 ")
        };
        assert!(known(&ovs), "{}", ovs.appctl(&["tnl/neigh/show"]));

        // A switch that was killed has forgotten them; they are there again without anybody's packet.
        ovs.kill_switch();
        ovs.start_switch().await;
        until("the switch knows the peers again", || known(&ovs)).await;
        complete().await;
    });
}

#[test]
fn the_mtu_of_the_bridge_stays_beside_ports_of_other_sizes() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        node_addresses();
        ovs.vsctl(&["add-br", "br-fabric", "--", "set", "Bridge", "br-fabric", "datapath_type=netdev"]);
        ovs.vsctl(&["set", "Interface", "br-fabric", "mtu_request=1450"]);
        let mut room = Room::new(HostConfig::default());
        room.apply(&state()).await;
        for (name, mtu) in [("fab1", "1500"), ("fab2", "1400"), ("fab3", "9000")] {
            run(
                "ip",
                &["link", "add", name, "mtu", mtu, "type", "veth", "peer", "name", &format!("p{name}")],
            );
            ovs.vsctl(&["add-port", "br-fabric", name]);
            until("the MTU is as wanted", || run("ip", &["link", "show", "br-fabric"]).contains("mtu 1450"))
                .await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        complete().await;
    });
}

#[test]
fn a_switch_that_insists_on_another_mtu_is_named_and_not_fought() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        node_addresses();
        ovs.vsctl(&["add-br", "br-fabric", "--", "set", "Bridge", "br-fabric", "datapath_type=netdev"]);
        run("ip", &["link", "add", "fab1", "mtu", "1400", "type", "veth", "peer", "name", "pfab1"]);
        ovs.vsctl(&["add-port", "br-fabric", "fab1"]);
        let room = Room::new(HostConfig::default());
        room.handle.apply(state());
        let mut problems = room.handle.problems();
        let named = |problems: &Vec<String>| problems.concat().contains("something sets it to 1400");
        let named = tokio::time::timeout(PATIENCE, problems.wait_for(named)).await;
        named.expect("in time").expect("the room lives");
        ovs.vsctl(&["set", "Interface", "br-fabric", "mtu_request=1450"]);
        let solved = tokio::time::timeout(PATIENCE, problems.wait_for(Vec::is_empty)).await;
        solved.expect("in time").expect("the room lives");
        complete().await;
    });
}

fn mac_of(device: &str) -> String {
    let link = run("ip", &["-br", "link", "show", device]);
    link.split_whitespace().nth(2).expect("an address").to_owned()
}
