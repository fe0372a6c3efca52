//! A host with a NIC that leads to a peer in a namespace of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fabric_node::config::PhysicalNetwork;
use fabric_node::uplinks::{Handle, UplinksConfig, start};
use serde_json::Value;

use crate::support::{Ovs, PATIENCE, Process, run, try_run};

static BEDS: AtomicU32 = AtomicU32::new(0);

/// A NIC `eth1`, a second device `eth0` with another way out, a peer behind the NIC, and an Open vSwitch.
pub struct Bed {
    pub ovs: Ovs,
    pub peer: String,
}

impl Bed {
    /// The NIC has addresses, routes and a neighbour of many kinds.
    pub async fn new() -> Self {
        let number = BEDS.fetch_add(1, Ordering::Relaxed);
        let peer = format!("up-{}-{number}", std::process::id());
        run("ip", &["netns", "add", &peer]);
        let bed = Self { ovs: Ovs::running().await, peer };
        bed.nic();
        run("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "far0"]);
        for device in ["eth0", "far0"] {
            run("ip", &["link", "set", device, "up"]);
        }
        run("ip", &["addr", "add", "172.31.0.2/24", "dev", "eth0"]);
        run("ip", &["route", "add", "default", "via", "172.31.0.1", "metric", "50"]);
        bed.belongings();
        bed
    }

    /// As [`Bed::new`], on a host whose devices do not probe their link-local addresses: a second less.
    pub async fn quick() -> Self {
        run("sysctl", &["-q", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.all.accept_dad=0"]);
        Self::new().await
    }

    /// Makes the NIC.
    pub fn nic(&self) {
        let peer = self.peer.as_str();
        run("ip", &["link", "add", "eth1", "type", "veth", "peer", "name", "wire", "netns", peer]);
        run("ip", &["link", "set", "eth1", "address", "02:00:00:00:05:01", "up"]);
        self.there(&["ip", "link", "set", "wire", "address", "02:00:00:00:05:02", "up"]);
        self.there(&["ip", "addr", "add", "10.5.0.2/24", "dev", "wire"]);
        self.there(&["ip", "addr", "add", "fd05::2/64", "dev", "wire", "nodad"]);
        self.there(&["ethtool", "-K", "wire", "tx", "off"]);
        for address in ["10.5.0.254/24", "fd05::fe/64"] {
            self.there(&["ip", "addr", "add", address, "dev", "wire"]);
        }
    }

    /// Gives the host what it has on the NIC.
    pub fn belongings(&self) {
        for line in [
            "addr add 10.5.0.1/24 brd + dev eth1",
            "addr add 10.5.0.9/24 brd + dev eth1",
            "addr add 10.6.0.1/16 dev eth1 noprefixroute",
            "addr add 10.7.0.1/24 dev eth1 label eth1:7 metric 700",
            "addr add 10.8.0.1/32 dev eth1 valid_lft 90000 preferred_lft 80000",
            "addr add fd05::1/64 dev eth1",
            "addr add fd05::9/64 dev eth1 nodad",
            "addr add fd06::1/64 dev eth1 noprefixroute",
            "route add default via 10.5.0.254 metric 100 proto dhcp src 10.5.0.1",
            "route add 10.50.0.0/16 via 10.5.0.254 proto static src 10.5.0.9 mtu 1400",
            "route add 10.51.0.0/16 via 10.99.9.9 dev eth1 onlink table 77",
            "route add 10.52.0.0/16 dev eth1 scope link",
            "-6 route add default via fd05::fe metric 1000",
            "-6 route add fd50::/48 via fe80::1 dev eth1 proto static",
            "neigh add 10.5.0.77 lladdr 02:00:00:00:05:77 dev eth1 nud permanent",
            "neigh add fd05::77 lladdr 02:00:00:00:05:77 dev eth1 nud permanent",
        ] {
            run("ip", &line.split(' ').collect::<Vec<_>>());
        }
        // Duplicate detection takes its time.
        let end = std::time::Instant::now() + PATIENCE;
        while run("ip", &["-6", "addr", "show", "tentative"]).contains("eth1") {
            assert!(std::time::Instant::now() < end, "still tentative");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a program beside the peer.
    pub fn there(&self, command: &[&str]) -> String {
        run("ip", &[&["netns", "exec", self.peer.as_str()], command].concat())
    }

    /// Makes Fabric's own bridge, as the ports room does.
    pub fn bridge(&self) {
        let row = ["--", "set", "Bridge", "br-fabric", "datapath_type=netdev", "external_ids:fabric=n1"];
        self.ovs.vsctl(&[&["add-br", "br-fabric"][..], &row].concat());
    }

    pub fn config(&self) -> UplinksConfig {
        let network = PhysicalNetwork { nic: "eth1".to_owned(), allow_management: false };
        UplinksConfig {
            database: self.ovs.socket(),
            networks: BTreeMap::from([("lan".to_owned(), network)]),
            nft: PathBuf::from("nft"),
            ..UplinksConfig::new("n1")
        }
    }

    /// For a switch that is not expected to act.
    pub fn impatient(&self) -> UplinksConfig {
        UplinksConfig { patience: Duration::from_millis(1500), ..self.config() }
    }

    pub fn room(&self) -> Room {
        Room { handle: start(self.config()) }
    }

    /// All that `ip` says of what the host has on a device, but for the seconds that pass.
    pub fn state(&self, device: &str) -> String {
        let mut lines = Vec::new();
        for arguments in [
            vec!["-j", "-d", "addr", "show", "dev", device],
            vec!["-j", "-d", "-4", "route", "show", "table", "all", "dev", device],
            vec!["-j", "-d", "-6", "route", "show", "table", "all", "dev", device],
            vec!["-j", "neigh", "show", "dev", device, "nud", "permanent"],
        ] {
            let mut value: Value = serde_json::from_str(&run("ip", &arguments)).expect("JSON");
            settle(&mut value);
            lines.push(value.to_string());
        }
        lines.join("\n")
    }

    /// Asserts that the bridge has everything and the NIC nothing but its own link-local address.
    pub fn moved(&self) {
        let nic = run("ip", &["-o", "addr", "show", "dev", "eth1", "scope", "global"]);
        assert_eq!(nic, "");
        let routes = run("ip", &["route", "show", "table", "all", "dev", "eth1"]);
        let own = |line: &&str| line.contains("fe80:") || line.contains("ff00::/8");
        assert_eq!(routes.lines().filter(|line| !own(line)).collect::<Vec<_>>(), Vec::<&str>::new());
        let addresses = run("ip", &["-o", "addr", "show", "dev", "br-lan"]);
        for address in [
            "10.5.0.1/24",
            "10.5.0.9/24",
            "10.6.0.1/16",
            "10.7.0.1/24",
            "10.8.0.1/32",
            "fd05::1/64",
            "fd05::9/64",
            "fd06::1/64",
        ] {
            assert!(addresses.contains(address), "{address} in {addresses}");
        }
        assert!(!addresses.contains("tentative"), "{addresses}");
        let routes = run("ip", &["route", "show", "table", "all", "dev", "br-lan"]);
        for route in [
            "default via 10.5.0.254 proto dhcp src 10.5.0.1 metric 100",
            "10.50.0.0/16 via 10.5.0.254 proto static src 10.5.0.9 mtu 1400",
            "10.51.0.0/16 via 10.99.9.9 table 77 onlink",
            "10.52.0.0/16 scope link",
        ] {
            assert!(routes.contains(route), "{route} in {routes}");
        }
        let routes = run("ip", &["-6", "route", "show", "dev", "br-lan"]);
        for route in ["default via fd05::fe metric 1000", "fd50::/48 via fe80::1 proto static"] {
            assert!(routes.contains(route), "{route} in {routes}");
        }
        let neighbours = run("ip", &["neigh", "show", "dev", "br-lan", "nud", "permanent"]);
        assert_eq!(neighbours.lines().count(), 2, "{neighbours}");
        assert!(self.ovs.vsctl(&["list-ports", "br-lan"]).contains("eth1"));
    }

    /// Asserts that the database has nothing of physical networks.
    pub fn bare(&self) {
        assert_eq!(self.ovs.vsctl(&["list-br"]), "br-fabric");
        assert!(!try_run("ip", &["link", "show", "br-lan"]));
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        try_run("ip", &["netns", "del", &self.peer]);
    }
}

/// Takes out what changes by itself.
fn settle(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for key in ["expires", "ifindex", "operstate", "promiscuity", "allmulti"] {
                map.remove(key);
            }
            if let Some(Value::Array(flags)) = map.get_mut("flags") {
                flags.retain(|flag| flag != "PROMISC");
            }
            for key in ["valid_life_time", "preferred_life_time"] {
                if let Some(Value::Number(left)) = map.get(key)
                    && left.as_u64().is_some_and(|left| left < 100_000)
                {
                    map.insert(key.to_owned(), "some".into());
                }
            }
            map.values_mut().for_each(settle);
        }
        Value::Array(list) => list.iter_mut().for_each(settle),
        _ => {}
    }
}

/// A running room.
pub struct Room {
    pub handle: Handle,
}

impl Room {
    /// Waits until the addresses are on the bridge.
    pub async fn in_place(&self) {
        let end = std::time::Instant::now() + PATIENCE;
        while !(try_run("ip", &["link", "show", "br-lan"])
            && run("ip", &["-o", "addr", "show", "dev", "br-lan"]).contains("10.5.0.1/24")
            && run("nft", &["list", "ruleset"]).contains("eth1"))
        {
            assert!(std::time::Instant::now() < end, "{:?}", self.problems());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a problem says something.
    pub async fn complains(&self, what: &str) -> String {
        let mut problems = self.handle.problems();
        let found = tokio::time::timeout(PATIENCE, problems.wait_for(|p| p.concat().contains(what))).await;
        match found {
            Ok(Ok(found)) => found.concat(),
            _ => panic!("no problem says {what:?}: {:?}", self.problems()),
        }
    }

    pub fn apply(&self, vlans: &[(&str, &[u16])]) {
        self.handle.apply(
            vlans.iter().map(|(name, vlans)| ((*name).into(), vlans.iter().copied().collect())).collect(),
        );
    }

    pub fn problems(&self) -> Vec<String> {
        self.handle.problems().borrow().clone()
    }
}

/// Pings out of the host to the peer, one every 10 ms, in both families.
pub struct Pings {
    four: (Process, PathBuf),
    six: (Process, PathBuf),
}

impl Pings {
    pub fn start(bed: &Bed) -> Self {
        let ping = |name: &str, target: &str| {
            let log = bed.ovs.file(&format!("{name}.{}", BEDS.fetch_add(1, Ordering::Relaxed)));
            (Process::start("ping", &["-i", "0.01", "-O", "-D", target], &log, &[]), log)
        };
        let pings = Self { four: ping("four", "10.5.0.2"), six: ping("six", "fd05::2") };
        std::thread::sleep(Duration::from_millis(300));
        pings
    }

    /// Stops, and asserts how many got no answer.
    pub fn lost_at_most(self, most: u64) {
        for (process, log) in [self.four, self.six] {
            run("kill", &["-INT", &process.id().to_string()]);
            std::thread::sleep(Duration::from_millis(200));
            let text = std::fs::read_to_string(&log).expect("a log");
            let summary = text
                .lines()
                .find(|line| line.contains("packets transmitted"))
                .unwrap_or_else(|| panic!("{text}"));
            let numbers: Vec<u64> =
                summary.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
            let (sent, got) = (numbers[0], numbers[1]);
            println!("{}: {summary}", log.display());
            assert!(sent >= 10, "{summary}");
            // The last one may be on its way.
            assert!(got + most + 1 >= sent, "{text}");
        }
    }
}
