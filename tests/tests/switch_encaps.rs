//! Each encapsulation on real switches, one after the other under running pods: what is on the wire, what fits, what goes
//! on meanwhile; and packets that are too big for it, from a VLAN and from a node.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fabric_tests::frames::Tap;
use fabric_tests::lab::command::command;
use fabric_tests::lab::node::BRIDGE_FABRIC;
use fabric_tests::lab::{Wiring, netns, process};
use fabric_tests::office::{Cell, OfficeBed, Place, measure};
use fabric_tests::probe::Packet;
use fabric_tests::traffic::{self, Payload};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Map, json};

/// Bytes of a transfer in each direction.
const MEGABYTE: usize = 1_000_000;
/// The wire's.
const WIRE_MTU: usize = 1500;
/// How long agents may take to act on an edit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A moment in which an edit may cost packets: two agents read it one after the other.
const MOMENT: Duration = Duration::from_secs(2);
/// Between two echoes.
const PACE: Duration = Duration::from_millis(20);
/// A datagram that was not answered by then is sent again.
const AGAIN: Duration = Duration::from_millis(300);

/// An encapsulation: how manifests spell it, what the wire shows, and the MTU that it leaves.
#[derive(Debug, Clone, Copy)]
struct Encap {
    name: &'static str,
    outer: &'static str,
    mtu: usize,
}

const VXLAN: Encap = Encap { name: "vxlan", outer: "UDP 4789", mtu: WIRE_MTU - 50 };
const GENEVE: Encap = Encap { name: "geneve", outer: "UDP 6081", mtu: WIRE_MTU - 50 };
const GRE: Encap = Encap { name: "gre", outer: "IP 47", mtu: WIRE_MTU - 42 };

/// The overlay of the office's example in an encapsulation, and its VLANs.
fn networks(encap: Encap) -> String {
    let text = std::fs::read_to_string(OfficeBed::example().join("networks.yaml")).unwrap();
    let edited = text.replace("mode: overlay\n", &format!("mode: overlay\n  encap: {}\n", encap.name));
    assert_ne!(text, edited, "the example has an overlay");
    edited
}

/// Two overlay pods and one in a VLAN, and the wire between their nodes.
struct Bed {
    office: OfficeBed,
    near: Place,
    far: Place,
    till: Place,
    nodes: [Place; 2],
    /// What n1 sends on the wire, and what it receives.
    taps: [Tap; 2],
}

impl Bed {
    fn up(purpose: &str) -> Bed {
        let mut office = OfficeBed::bare(purpose, Wiring::SecondNic, 2, Map::new());
        for (pod, node, annotations) in [
            ("shop/near", "n1", json!({})),
            ("shop/far", "n2", json!({})),
            ("shop/till", "n1", json!({ "fabric.io/network": "vlan100" })),
        ] {
            office.add(pod, node, annotations).unwrap();
        }
        let [near, far, till] = ["near", "far", "till"].map(|pod| office.pod(pod));
        let nodes = ["n1", "n2"].map(|node| office.node(node));
        let taps = [0, 1].map(|_| Tap::open(&nodes[0].netns, "eth0").unwrap());
        Bed { office, near, far, till, nodes, taps }
    }

    /// What carries packets between the nodes at the moment: what n1 sends, and what it receives.
    fn outer(&self) -> [BTreeSet<String>; 2] {
        let take = |[out, into]: &[Tap; 2]| [out.sent().unwrap(), into.captured().unwrap()];
        let _before = take(&self.taps);
        thread::sleep(Duration::from_millis(200));
        let [here, there] = [&self.nodes[0], &self.nodes[1]].map(|node| node.addresses[0]);
        take(&self.taps).map(|frames| {
            let packets = frames.iter().filter_map(|frame| Packet::of(frame));
            let between = packets.filter(|p| [(here, there), (there, here)].contains(&(p.from, p.to)));
            let named = between.map(|p| match p.protocol {
                17 => format!("UDP {}", p.destination),
                other => format!("IP {other}"),
            });
            named.collect()
        })
    }

    fn edit(&self, encap: Encap) {
        self.office.lab.write_manifest("networks.yaml", &networks(encap)).unwrap();
    }

    /// Waits until pods and nodes have the MTU of an encapsulation and nothing else is on the wire.
    fn moved(&self, encap: Encap) -> Duration {
        let devices = [&self.near, &self.far].map(|pod| (pod.netns.as_str(), "eth0"));
        let hosts = [&self.nodes[0], &self.nodes[1]].map(|node| (node.netns.as_str(), BRIDGE_FABRIC));
        let began = Instant::now();
        loop {
            let places = devices.iter().chain(&hosts);
            let sizes: BTreeSet<usize> =
                places.map(|(netns, device)| traffic::mtu(netns, device).unwrap()).collect();
            let outer = self.outer();
            let carried = outer.iter().all(|names| names.iter().eq([encap.outer]));
            if carried && sizes.iter().eq([&encap.mtu]) {
                return began.elapsed();
            }
            assert!(began.elapsed() < PATIENCE, "{}: MTUs {sizes:?}, on the wire {outer:?}", encap.name);
        }
    }
}

/// A TCP connection on which as many bytes as fill several packets go there and back, all the time.
struct Conversation {
    what: String,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Result<(usize, Duration), String>>,
}

impl Conversation {
    fn open(from: &Place, to: &Place, address: IpAddr) -> Conversation {
        let at = SocketAddr::new(address, 0);
        let listener = netns::inside(&to.netns, || Ok(TcpListener::bind(at).unwrap())).unwrap();
        let client = traffic::open(&from.netns, listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = server.read(&mut buffer) {
                if server.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
        });
        let ended = Arc::<AtomicBool>::default();
        let its = Arc::clone(&ended);
        let thread = thread::spawn(move || converse(client, &its).map_err(|error| error.to_string()));
        Conversation { what: format!("{} to {address}", from.name), ended, thread }
    }

    /// Rounds, and the longest one.
    fn close(self) -> Result<(usize, Duration), String> {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap().map_err(|error| format!("TCP, {}: {error}", self.what))
    }
}

fn converse(mut stream: TcpStream, ended: &AtomicBool) -> std::io::Result<(usize, Duration)> {
    let sent = Payload::new(3).bytes(20_000);
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    let mut back = vec![0; sent.len()];
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        stream.write_all(&sent)?;
        stream.read_exact(&mut back)?;
        if back != sent {
            return Err(std::io::Error::other("other bytes came back"));
        }
        rounds += 1;
        longest = longest.max(began.elapsed());
        thread::sleep(PACE);
    }
    Ok((rounds, longest))
}

/// Echoes that go on until they are counted.
struct Echoes(Child);

impl Echoes {
    fn start(from: &Place, to: IpAddr) -> Echoes {
        let mut ping = command(["ping", "-n", "-q", "-i", &PACE.as_secs_f64().to_string(), &to.to_string()]);
        Echoes(netns::spawn_in(&from.netns, ping.stdout(Stdio::piped())).unwrap())
    }

    /// How many were sent, and how many of them not answered.
    fn count(mut self) -> (usize, usize) {
        let ping = Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        process::signal(ping, Signal::SIGINT).unwrap();
        let text = std::io::read_to_string(self.0.stdout.take().unwrap()).unwrap();
        self.0.wait().unwrap();
        let before = |word: &str| {
            let head = text.split(word).next().unwrap().trim_end();
            head.rsplit([' ', '\n']).next().unwrap().parse::<usize>().unwrap()
        };
        let (sent, received) = (before("packets transmitted"), before("received"));
        (sent, sent - received)
    }
}

/// What goes on while a Network is edited.
struct Traffic {
    conversations: Vec<Conversation>,
    echoes: Vec<(String, Echoes)>,
}

impl Traffic {
    fn start(bed: &Bed) -> Traffic {
        let pairs = [(&bed.near, &bed.far), (&bed.till, &bed.far), (&bed.nodes[0], &bed.far)];
        let ends = pairs.iter().flat_map(|(from, to)| to.addresses.map(|address| (*from, *to, address)));
        let (mut conversations, mut echoes) = (Vec::new(), Vec::new());
        for (from, to, address) in ends {
            conversations.push(Conversation::open(from, to, address));
            echoes.push((format!("{} to {address}", from.name), Echoes::start(from, address)));
        }
        Traffic { conversations, echoes }
    }

    /// Ends it: what became of it, for people, and what should not have become of it.
    fn end(self, faults: &mut Vec<String>) -> String {
        let mut lost = Vec::new();
        for (what, echoes) in self.echoes {
            let (sent, unanswered) = echoes.count();
            lost.push(format!("{unanswered}/{sent}"));
            let most = usize::try_from(MOMENT.as_millis() / PACE.as_millis()).unwrap();
            if unanswered > most || sent <= most / 2 {
                faults.push(format!("{what}: {unanswered} of {sent} echoes are lost"));
            }
        }
        let mut pauses = Vec::new();
        for conversation in self.conversations {
            let what = conversation.what.clone();
            match conversation.close() {
                Ok((rounds, longest)) => {
                    pauses.push(format!("{:.2}", longest.as_secs_f64()));
                    if longest > MOMENT || rounds < 10 {
                        faults.push(format!("TCP, {what}: {rounds} rounds, one took {longest:?}"));
                    }
                }
                Err(error) => faults.push(error),
            }
        }
        format!("echoes lost {}; longest pauses of TCP {} s", lost.join(" "), pauses.join(" "))
    }
}

/// What an encapsulation carries, with nothing lost, and what does not fit.
fn carried(bed: &Bed, encap: Encap) -> Vec<String> {
    let Bed { near, far, till, nodes: [n1, _], .. } = bed;
    let cells = [(near, far), (far, near), (till, far), (far, till), (n1, far), (far, n1)];
    let cells = cells.map(|(from, to)| measure(Cell { from, to, seen: from }));
    let mut faults: Vec<String> = cells.iter().flat_map(|cell| cell.faults().collect::<Vec<_>>()).collect();
    for (from, to) in [(near, far), (far, near), (n1, far)] {
        for address in to.addresses {
            let echo =
                traffic::echo(&from.netns, address, traffic::largest_echo(encap.mtu, address) + 1).unwrap();
            let said = String::from_utf8_lossy(&echo.stderr).into_owned();
            let own = ["mtu=", "mtu: "].map(|word| format!("{word}{}", encap.mtu));
            if echo.status.success() || !own.iter().any(|own| said.contains(own)) {
                faults.push(format!("{} to {address}, a byte too many: {said}", from.name));
            }
        }
    }
    faults
}

/// What a pod's kernel has learned of the path to an address is forgotten.
fn forget(pod: &Place) {
    for family in ["-4", "-6"] {
        netns::run_in(&pod.netns, &mut command(["ip", family, "route", "flush", "cache"])).unwrap();
    }
}

/// Packets that fill a VLAN and do not fit into the tunnel: their sender is told by its gateway, learns it, and its
/// transfers do not hang.
fn too_big(bed: &Bed, encap: Encap) -> Vec<String> {
    let Bed { near, far, till, nodes: [n1, _], .. } = bed;
    let gateways = fabric_tests::lab::office::Lan::Vlan100.host(1);
    let mut faults = Vec::new();
    forget(till);
    for (address, gateway) in far.addresses.into_iter().zip(gateways) {
        let echo = traffic::echo(&till.netns, address, traffic::largest_echo(WIRE_MTU, address)).unwrap();
        let said = String::from_utf8_lossy(&echo.stdout).into_owned();
        let wanted = if address.is_ipv4() {
            format!("From {gateway} icmp_seq=1 Frag needed and DF set (mtu = {})", encap.mtu)
        } else {
            format!("From {gateway} icmp_seq=1 Packet too big: mtu={}", encap.mtu)
        };
        if !said.contains(&wanted) {
            faults.push(format!("no \"{wanted}\": {said}"));
        }
        let ask = ["ip", "route", "get", &address.to_string()].map(str::to_owned);
        let route = netns::run_in(&till.netns, &mut command(ask)).unwrap();
        if !route.contains(&format!("mtu {}", encap.mtu)) {
            faults.push(format!("{address}: the kernel has not learned {}: {route}", encap.mtu));
        }
    }
    forget(till);
    for (from, to, mtu) in [(till, far, WIRE_MTU), (till, near, WIRE_MTU), (n1, far, encap.mtu)] {
        for address in to.addresses {
            match filled(from, to, address, traffic::largest_echo(mtu, address)) {
                Ok(again) if again <= 3 => {}
                result => faults.push(format!("{} to {address}, UDP of {mtu} bytes: {result:?}", from.name)),
            }
        }
    }
    faults
}

/// A megabyte of datagrams of this size there and back; how many had to be sent again.
fn filled(from: &Place, to: &Place, address: IpAddr, bytes: usize) -> std::io::Result<usize> {
    let server = traffic::udp(&to.netns, SocketAddr::new(address, 0)).unwrap();
    let client = traffic::udp(&from.netns, SocketAddr::new(traffic::unspecified(address), 0)).unwrap();
    client.connect(server.local_addr()?)?;
    client.set_read_timeout(Some(AGAIN))?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        server.set_read_timeout(Some(AGAIN))?;
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            while !ended.load(Ordering::Relaxed) {
                if let Ok((length, sender)) = server.recv_from(&mut buffer) {
                    // A lost answer is asked for again.
                    let _ = server.send_to(&buffer[..length], sender);
                }
            }
        });
        let again = repeated(&client, bytes);
        ended.store(true, Ordering::Relaxed);
        again
    })
}

fn repeated(client: &UdpSocket, bytes: usize) -> std::io::Result<usize> {
    let mut again = 0;
    let mut back = vec![0; 1 << 16];
    for number in 0..MEGABYTE.div_ceil(bytes) {
        let sent = Payload::new(u64::try_from(number).unwrap()).bytes(bytes);
        let mut tries = 0;
        loop {
            client.send(&sent)?;
            match client.recv(&mut back) {
                Ok(length) if back[..length] == sent => break,
                // An answer to an earlier one that was only late.
                Ok(_) => {}
                Err(error) if tries == 10 => return Err(error),
                Err(_) => again += 1,
            }
            tries += 1;
        }
    }
    Ok(again)
}

/// What a pod is addressed by, inside: with the number of its interface.
fn identity(pod: &Place) -> String {
    netns::run_in(&pod.netns, &mut command(["ip", "-o", "addr", "show", "dev", "eth0"])).unwrap()
}

#[test]
fn running_pods_move_from_one_encapsulation_to_the_next_and_each_carries_what_fits() {
    let bed = Bed::up("enmoves");
    let mut report = "\nEncapsulations, one after the other\n".to_owned();
    let mut faults = Vec::new();
    let identities = [&bed.near, &bed.far].map(identity);
    for (encap, next) in [(VXLAN, GENEVE), (GENEVE, GRE), (GRE, VXLAN)] {
        let began = Instant::now();
        forget(&bed.till);
        let mut found = carried(&bed, encap);
        found.extend(too_big(&bed, encap));
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", encap.name)));
        report += &format!("{}: all in {:.1} s\n", encap.name, began.elapsed().as_secs_f64());
        let what = format!("{} to {}", encap.name, next.name);
        let traffic = Traffic::start(&bed);
        bed.moved(encap);
        thread::sleep(Duration::from_secs(1));
        bed.edit(next);
        let took = bed.moved(next);
        thread::sleep(Duration::from_secs(1));
        let mut found = Vec::new();
        report += &format!("{what}: in {:.1} s; {}\n", took.as_secs_f64(), traffic.end(&mut found));
        faults.extend(found.into_iter().map(|fault| format!("{what}: {fault}")));
        if [&bed.near, &bed.far].map(identity) != identities {
            faults.push(format!("{what}: pods have other addresses or interfaces"));
        }
    }
    // Written past the test harness, which keeps what is printed.
    std::io::stdout().write_all(report.as_bytes()).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
