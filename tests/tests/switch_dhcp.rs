//! Addresses from a DHCP server in a VLAN, by the real plugin `dhcp`, its daemon and dnsmasq: got, renewed whatever
//! policies say, given back; no pod plays server or hears another's client; and nothing stays of what was begun when the
//! agent or the plugin is killed.
//! Needs root, Open vSwitch, containernetworking-plugins and dnsmasq-base, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};

use fabric_api::LeaseState;
use fabric_tests::frames::build::{EVERYBODY, ethernet, udp};
use fabric_tests::frames::{Mark, Tap, marks};
use fabric_tests::lab::cni::{self, Attachment};
use fabric_tests::lab::command::command;
use fabric_tests::lab::office::Lan;
use fabric_tests::lab::{LabError, Wiring, netns, process};
use fabric_tests::office::dhcp::{Daemon, RENEW, Server};
use fabric_tests::office::{OfficeBed, Place};
use fabric_tests::probe::object;
use fabric_tests::traffic;
use fabric_tests::trial::holds_within;
use serde_json::{Map, Value, json};

/// What was sent is wherever it gets to after this.
const THROUGH: Duration = Duration::from_millis(400);
/// How long something may take that needs a moment.
const PATIENCE: Duration = Duration::from_secs(15);
/// The server gives addresses in between; the Network gives none of them to pods by itself.
const RANGE: [&str; 2] = ["10.100.9.10", "10.100.9.40"];
/// An address that the server keeps for one hardware address, and a pod has already.
const HELD: (&str, &str) = ("10.100.9.99", "02:00:00:00:09:99");
/// Ports of DHCP.
const SERVER: u16 = 67;
const CLIENT: u16 = 68;

struct Office {
    bed: OfficeBed,
    server: Place,
    dhcp: Server,
    daemon: Daemon,
}

impl Office {
    fn open() -> Self {
        let bed = OfficeBed::bare("dhcp", Wiring::SecondNic, 2, Map::new());
        let server = bed.server(Lan::Vlan100);
        let (address, mac) = HELD;
        let keeps = format!("--dhcp-host={mac},{address}");
        let dhcp = Server::start(&bed.lab, &server, RANGE, Lan::Vlan100.host(1)[0], &[&keeps]);
        let daemon = Daemon::start(&bed.lab);
        Self { bed, server, dhcp, daemon }
    }

    /// Makes a pod on n1 and its namespace, attached to nothing.
    fn pod(&self, name: &str, network: Option<&str>) -> Leased<'_> {
        let reference = format!("shop/{name}");
        let mut pod = object::pod(&reference, "n1", json!({ "app": "leased" }), &[]);
        pod["status"] = Value::Null;
        if let Some(network) = network {
            pod["metadata"]["annotations"] = json!({ "fabric.io/network": network });
        }
        self.bed.lab.write_manifest(&format!("{name}.yaml"), &pod.to_string()).unwrap();
        let netns = self.bed.lab.layout().name.pod(&reference);
        netns::add([netns.as_str()]).unwrap();
        Leased { office: self, name: name.to_owned(), netns, mac: None }
    }

    /// An attachment as the agent of n1 tells it.
    fn told(&self, name: &str) -> Option<fabric_api::Attachment> {
        let status = self.bed.lab.agent_status("n1").ok()?;
        status.attachments.into_iter().find(|attachment| attachment.container == container(name))
    }
}

fn container(name: &str) -> String {
    format!("container-{name}")
}

/// A pod that gets its address from the server.
#[derive(Clone)]
struct Leased<'a> {
    office: &'a Office,
    name: String,
    netns: String,
    mac: Option<&'static str>,
}

impl Leased<'_> {
    fn run(&self, verb: &'static str, previous: Option<&Value>) -> Result<Value, LabError> {
        let lab = &self.office.bed.lab;
        let node = lab.node("n1")?;
        let (container, pod) = (container(&self.name), format!("shop/{}", self.name));
        let uid = format!("uid-shop-{}", self.name);
        let of = Attachment { container: &container, netns: &self.netns, pod: &pod, uid: Some(uid.as_str()) };
        let mut config = cni::configuration(node);
        config["cniVersion"] = json!("1.0.0");
        config["ipam"] = json!({ "type": "dhcp", "daemonSocketPath": self.office.daemon.socket });
        if let Some(mac) = self.mac {
            config["runtimeConfig"] = json!({ "mac": mac });
        }
        if let Some(previous) = previous {
            config["prevResult"] = previous.clone();
        }
        cni::run(node, lab.programs()?, verb, &of, &config)
    }

    fn add(&self) -> (Value, IpAddr) {
        let result = self.run("ADD", None).unwrap_or_else(|error| {
            panic!("{error}\n{}\n{:#?}", self.office.dhcp.log(), self.office.told(&self.name))
        });
        let [address] = &cni::addresses(&result)[..] else { panic!("{result}") };
        let address = address.strip_suffix("/16").unwrap().parse().unwrap();
        (result, address)
    }

    fn refused(&self) -> String {
        self.run("ADD", None).unwrap_err().to_string()
    }

    /// Its interface, for frames made by hand.
    fn tap(&self) -> Tap {
        Tap::open(&self.netns, "eth0").unwrap()
    }

    /// Nothing of it is left: no interface, no claim, no port.
    fn is_gone(&self, address: &str) -> bool {
        let office = self.office;
        let inside = netns::run_in(&self.netns, &mut command(["ip", "-br", "link", "show", "eth0"]));
        let claims = office.bed.lab.agent_status("n1").unwrap().leases;
        inside.is_err()
            && office.told(&self.name).is_none()
            && !claims.iter().any(|claim| claim.ip.to_string() == address && claim.state == LeaseState::Held)
    }
}

#[test]
fn a_pod_lives_with_an_address_of_the_vlans_dhcp_server() {
    let mut office = Office::open();
    office.bed.add("shop/web", "n2", json!({})).unwrap();
    let vlan = json!({ "fabric.io/network": "vlan100" });
    office.bed.add("shop/rogue", "n1", vlan.clone()).unwrap();
    let mut holder = vlan;
    holder["fabric.io/ip"] = json!(HELD.0);
    office.bed.add("shop/holder", "n1", holder).unwrap();
    let pod = office.pod("leased", Some("vlan100"));
    let began = Instant::now();
    let (result, address) = pod.add();
    println!("an address in {:.1?}: {address}", began.elapsed());
    assert!(office.dhcp.leases().contains(&address.to_string()), "{:?}", office.dhcp.leases());
    pod.run("CHECK", Some(&result)).unwrap();
    assert_eq!(pod.add().1, address, "asked for again");
    talks(&office, &pod, address);
    let policy = object::policy(
        "shop/nothing",
        json!({ "podSelector": { "matchLabels": { "app": "leased" } }, "policyTypes": ["Ingress", "Egress"] }),
    );
    office.bed.lab.write_manifest("nothing.yaml", &policy.to_string()).unwrap();
    let denied = || !traffic::echo(&office.server.netns, address, 56).unwrap().status.success();
    assert!(holds_within(PATIENCE, denied), "policies are for pods with leases too");
    renews(&office, &pod, address);
    only_dhcp_passes(&office, &pod, address);
    nobody_plays_server(&office, &pod);
    refusals_leave_nothing(&office);
    survives_kills(&office);
    pod.run("DEL", None).unwrap();
    let address = address.to_string();
    let released = || !office.dhcp.leases().contains(&address) && pod.is_gone(&address);
    assert!(holds_within(PATIENCE, released), "{:?}\n{}", office.dhcp.leases(), office.dhcp.log());
    assert!(office.dhcp.count("DHCPRELEASE", &address) > 0, "{}", office.dhcp.log());
    pod.run("DEL", None).unwrap();
    let problems = office.bed.lab.agent_status("n1").unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}

/// With the server of its VLAN and with a pod of the overlay on another node, each beginning.
fn talks(office: &Office, pod: &Leased<'_>, address: IpAddr) {
    let web = office.bed.pod("web");
    for (from, to, target) in [
        (&pod.netns, &office.server.netns, office.server.addresses[0]),
        (&office.server.netns, &pod.netns, address),
        (&pod.netns, &web.netns, web.addresses[0]),
        (&web.netns, &pod.netns, address),
    ] {
        let exchange = traffic::exchange(from, to, target, 100_000).unwrap();
        assert!(exchange.is_whole(), "{from} to {target}");
    }
}

/// While nothing else may pass, and while the agent is away.
fn renews(office: &Office, pod: &Leased<'_>, address: IpAddr) {
    let text = address.to_string();
    let renewed = |times: usize| {
        let before = office.dhcp.count("DHCPACK", &text);
        let wait = Duration::from_secs(RENEW * (times as u64 + 2)) + PATIENCE;
        holds_within(wait, || office.dhcp.count("DHCPACK", &text) >= before + times)
    };
    assert!(renewed(2), "under a policy that allows nothing:\n{}", office.dhcp.log());
    office.bed.lab.kill_agent("n1").unwrap();
    assert!(renewed(1), "without the agent:\n{}", office.dhcp.log());
    office.bed.lab.start_agent("n1").unwrap();
    office.bed.lab.wait_agent("n1").unwrap();
    assert!(renewed(1), "with another agent:\n{}", office.dhcp.log());
    let told = office.told(&pod.name).unwrap();
    assert!(told.ready && told.addresses == [address], "{told:?}");
}

/// A datagram with a mark, as a frame.
fn datagram(
    (to, from): ([u8; 6], [u8; 6]),
    source: (IpAddr, u16),
    target: (IpAddr, u16),
    mark: Mark,
) -> Vec<u8> {
    let (ethertype, packet) = udp(source, target, &mark.bytes());
    ethernet(to, from, ethertype, &packet)
}

fn marks_at(tap: &Tap) -> Vec<u64> {
    let frames = tap.captured().unwrap();
    let mut found: Vec<u64> =
        frames.iter().flat_map(|frame| marks(frame)).map(|mark| mark.0.into()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Of what the isolated pod says and what is said to it, what a DHCP client and its server say, and nothing else.
fn only_dhcp_passes(office: &Office, pod: &Leased<'_>, address: IpAddr) {
    let (own, server) = (pod.tap(), office.server.tap());
    let (anybody, everybody) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::BROADCAST));
    let (out, back) = ((server.mac(), own.mac()), (own.mac(), server.mac()));
    let (theirs, to_all) = (office.server.addresses[0], (EVERYBODY, own.mac()));
    for (mark, frame, source, target) in [
        (1, out, (address, CLIENT), (theirs, SERVER)),
        (2, to_all, (anybody, CLIENT), (everybody, SERVER)),
        (3, out, (address, CLIENT), (theirs, CLIENT)),
        (4, out, (address, CLIENT + 1), (theirs, SERVER)),
        (5, out, (anybody, CLIENT), (theirs, SERVER)),
        (6, to_all, (anybody, 1000), (everybody, SERVER)),
        (7, to_all, (anybody, CLIENT), (everybody, SERVER + 1000)),
    ] {
        own.send(&datagram(frame, source, target, Mark(mark))).unwrap();
    }
    for (mark, frame, source, target) in [
        (11, back, (theirs, SERVER), (address, CLIENT)),
        (12, (EVERYBODY, server.mac()), (theirs, SERVER), (everybody, CLIENT)),
        (13, back, (theirs, SERVER), (address, CLIENT + 1)),
        (14, back, (theirs, SERVER + 1), (address, CLIENT)),
        (15, (EVERYBODY, server.mac()), (theirs, SERVER), (everybody, SERVER)),
    ] {
        server.send(&datagram(frame, source, target, Mark(mark))).unwrap();
    }
    thread::sleep(THROUGH);
    assert_eq!(marks_at(&server), [1, 2], "of what the pod sent");
    assert_eq!(marks_at(&own), [11, 12], "of what the server sent");
}

/// A pod of the VLAN that answers clients is heard by nobody; nor does it hear what clients say.
fn nobody_plays_server(office: &Office, pod: &Leased<'_>) {
    let rogue = office.bed.pod("rogue");
    let (own, leased, server) = (rogue.tap(), pod.tap(), office.server.tap());
    let before = office.bed.drops("n1");
    let (anybody, everybody) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::BROADCAST));
    let from = (rogue.addresses[0], SERVER);
    for (mark, to) in [(21, EVERYBODY), (22, leased.mac()), (23, server.mac())] {
        own.send(&datagram((to, own.mac()), from, (everybody, CLIENT), Mark(mark))).unwrap();
    }
    // It has no lease, so it is no client.
    let asks = datagram((EVERYBODY, own.mac()), (anybody, CLIENT), (everybody, SERVER), Mark(24));
    own.send(&asks).unwrap();
    leased
        .send(&datagram((EVERYBODY, leased.mac()), (anybody, CLIENT), (everybody, SERVER), Mark(25)))
        .unwrap();
    thread::sleep(THROUGH);
    assert_eq!(marks_at(&leased), [0; 0], "what the rogue said to the pod");
    assert_eq!(marks_at(&server), [25], "what the wire heard");
    assert_eq!(marks_at(&own), [0; 0], "what the rogue heard");
    let counted = || office.bed.drops("n1")["dhcp-server"] > before["dhcp-server"];
    assert!(holds_within(PATIENCE, counted), "{:?}", office.bed.drops("n1"));
}

/// An address that somebody has, and a Network without a VLAN.
fn refusals_leave_nothing(office: &Office) {
    let pod = Leased { mac: Some(HELD.1), ..office.pod("second", Some("vlan100")) };
    let error = pod.refused();
    assert!(error.contains(HELD.0) && error.contains("shop/holder"), "{error}");
    let given_back = || office.dhcp.count("DHCPRELEASE", HELD.0) > 0 && office.told("second").is_none();
    assert!(holds_within(PATIENCE, given_back), "{}", office.dhcp.log());
    assert!(!office.dhcp.leases().contains(&HELD.0.to_owned()), "{:?}", office.dhcp.leases());
    let over = office.pod("over", None);
    let error = over.refused();
    assert!(error.contains("Network pods is an overlay"), "{error}");
    assert!(office.told("over").is_none());
}

/// While the server is silent, one plugin is killed, and the agent under another.
fn survives_kills(office: &Office) {
    let (lost, kept) = (office.pod("lost", Some("vlan100")), office.pod("kept", Some("vlan100")));
    office.dhcp.pause(true);
    let outcome = thread::scope(|scope| {
        let dies = scope.spawn(|| lost.run("ADD", None));
        let waits = |name: &str| {
            let told = || office.told(name).is_some_and(|told| told.ofport.is_some() && !told.ready);
            assert!(holds_within(PATIENCE, told), "{name}: {:?}", office.told(name));
        };
        waits("lost");
        plugins(office).into_iter().for_each(|pid| {
            process::signal(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
        });
        assert!(dies.join().unwrap().is_err());
        let lives = scope.spawn(|| kept.run("ADD", None));
        waits("kept");
        hears_nothing_but_dhcp(office, &kept);
        office.bed.lab.kill_agent("n1").unwrap();
        office.bed.lab.start_agent("n1").unwrap();
        office.bed.lab.wait_agent("n1").unwrap();
        assert!(office.told("lost").is_some() && office.told("kept").is_some_and(|told| !told.ready));
        office.dhcp.pause(false);
        lives.join().unwrap()
    });
    let result = outcome.unwrap_or_else(|error| panic!("{error}\n{}", office.dhcp.log()));
    let addresses = cni::addresses(&result);
    let address = addresses[0].strip_suffix("/16").unwrap();
    assert!(office.told("kept").unwrap().ready && office.dhcp.leases().contains(&address.to_owned()));
    // The first never had an address.
    for (pod, address) in [(&lost, ""), (&kept, address)] {
        pod.run("DEL", None).unwrap();
        assert!(holds_within(PATIENCE, || pod.is_gone(address)), "{:?}", office.told(&pod.name));
    }
    assert!(holds_within(PATIENCE, || !office.dhcp.leases().contains(&address.to_owned())));
}

/// A pod that waits for its lease.
fn hears_nothing_but_dhcp(office: &Office, pod: &Leased<'_>) {
    let (own, server) = (pod.tap(), office.server.tap());
    let (theirs, some) = (office.server.addresses[0], "10.100.9.30".parse().unwrap());
    let everybody = IpAddr::V4(Ipv4Addr::BROADCAST);
    let (back, to_all) = ((own.mac(), server.mac()), (EVERYBODY, server.mac()));
    for (mark, frame, source, target) in [
        (31, back, (theirs, SERVER), (some, CLIENT)),
        (32, to_all, (theirs, SERVER), (everybody, CLIENT)),
        (33, back, (theirs, 9), (some, 9)),
        (34, to_all, (theirs, 9), (everybody, 9)),
    ] {
        server.send(&datagram(frame, source, target, Mark(mark))).unwrap();
    }
    own.send(&datagram((server.mac(), own.mac()), (some, 9), (theirs, 9), Mark(35))).unwrap();
    own.send(&datagram((server.mac(), own.mac()), (some, CLIENT), (theirs, SERVER), Mark(36))).unwrap();
    thread::sleep(THROUGH);
    assert_eq!(marks_at(&own), [31, 32], "what the waiting pod heard");
    assert_eq!(marks_at(&server), [0; 0], "what it said");
}

/// Plugins that run on n1: Fabric's, and the one that it has asked.
fn plugins(office: &Office) -> Vec<i32> {
    let node = office.bed.lab.node("n1").unwrap().namespace.clone();
    let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    netns::processes(&[node])
        .into_iter()
        .filter(|pid| ["fabric-cni", "dhcp"].contains(&name(pid).trim()))
        .collect()
}
