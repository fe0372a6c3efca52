//! A path between nodes that becomes narrower while pods use it, and wider again, on real switches: by each
//! encapsulation, in both directions at once, with routers that tell what does not fit and with routers that do not.
//! Needs root and Open vSwitch, and fails where they are missing.
//!
//! IPv6 needs 1,280 bytes, which a path of 1,300 does not leave inside a tunnel: it is asked of a path of 1,400.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use fabric_tests::lab::command::command;
use fabric_tests::lab::netns;
use fabric_tests::passage::Passage;
use fabric_tests::traffic::{self, Digest, Payload};
use fabric_tests::trial::manifest::{annotated, network, pod};
use fabric_tests::trial::{Trial, wait};
use serde_json::json;

/// What the path carries at first.
const WIDE: u32 = 1500;
/// Bytes of a part of a transfer, and the pause after it: 6 MB/s.
const PART: usize = 64_000;
const PACE: Duration = Duration::from_millis(10);
/// How long a transfer takes, and when the path becomes narrow.
const LASTS: Duration = Duration::from_secs(4);
const AFTER: Duration = Duration::from_secs(1);
/// The longest pause of a transfer, where routers tell and where they do not: then the path has to be measured, and what
/// was lost meanwhile is sent again at times that TCP doubles.
const STALL: Duration = Duration::from_secs(3);
const SILENT_STALL: Duration = Duration::from_secs(20);
/// How long agents may take to find a path out.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Network whose pods take less than tunnels carry.
const SMALL: &str = "---\napiVersion: fabric.io/v1alpha1\nkind: Network\nmetadata: {name: small}\n\
                     spec: {mode: overlay, encap: vxlan, vni: 78, mtu: 1300, cidrs: [10.245.0.0/16, 'fd45::/64']}\n";
const SMALL_MTU: u32 = 1300;

struct Bed {
    trial: Trial,
    passage: Passage,
    encap: &'static str,
    /// Bytes that the encapsulation takes.
    overhead: u32,
}

/// A pod.
#[derive(Debug, Clone)]
struct End {
    name: &'static str,
    netns: String,
    addresses: [IpAddr; 2],
}

impl Bed {
    fn up(encap: &'static str, overhead: u32) -> Bed {
        let network = network("10.244.0.0/16, 'fd44::/64'", "").replace("vxlan", encap);
        let small = SMALL.replace("vxlan", encap);
        let mut trial = Trial::up(&format!("pa{encap}"), 2, &format!("{network}{small}"), json!({}));
        let passage = Passage::lay(&trial.lab).unwrap();
        trial.add("pods.yaml", &[pod("a", "n1"), pod("b", "n2")].concat());
        trial.try_add("c", &annotated("c", "n2", "fabric.io/network: small")).unwrap();
        Bed { trial, passage, encap, overhead }
    }

    fn ends(&self) -> [End; 2] {
        ["a", "b"].map(|name| self.end(name))
    }

    fn end(&self, name: &'static str) -> End {
        let record = self.trial.lab.pod(&format!("default/{name}")).unwrap();
        End { name, netns: record.netns.clone(), addresses: record.ips().try_into().unwrap() }
    }

    /// A datagram that every path carries and the receiver does not take is refused by the receiver's node.
    fn small(&self, faults: &mut Vec<String>) {
        let (from, to) = (self.end("a"), self.end("c"));
        // The switches have to find the routers, whom they did not know when their agents started.
        for address in from.addresses {
            wait("a packet each way", PATIENCE, || {
                traffic::echo(&to.netns, address, 8).unwrap().status.success()
            });
        }
        for address in to.addresses {
            if let Err(error) = datagram(&from, &to, address, SMALL_MTU) {
                faults.push(format!(
                    "{}: a pod of {SMALL_MTU} bytes, {}: {error}",
                    self.encap,
                    family(address)
                ));
            }
        }
    }

    /// Waits until both agents know that the path carries so much.
    fn known(&self, mtu: u32) -> Duration {
        let known = |node: &str| {
            let status = self.trial.lab.agent_status(node).unwrap();
            let paths: Vec<u32> = status.paths.iter().map(|path| path.mtu).collect();
            if mtu == WIDE { paths.is_empty() } else { paths == [mtu] }
        };
        wait(&format!("{}: {mtu} bytes are known", self.encap), PATIENCE, || known("n1") && known("n2"))
    }

    /// Forgets what the pods' kernels know of paths.
    fn forget(&self) {
        for end in self.ends() {
            for family in ["-4", "-6"] {
                netns::run_in(&end.netns, &mut command(["ip", family, "route", "flush", "cache"])).unwrap();
            }
        }
    }

    /// Each pod to the other, by these families.
    fn ways(&self, families: &[usize]) -> Vec<(End, End, IpAddr)> {
        let [a, b] = self.ends();
        let both = [(a.clone(), b.clone()), (b, a)];
        let ways = both.into_iter().flat_map(|(from, to)| {
            families.iter().map(move |family| (from.clone(), to.clone(), to.addresses[*family]))
        });
        ways.collect()
    }

    /// Transfers each way at once, in the midst of which the path becomes narrow; the longest pause of each.
    fn shrink(&self, mtu: u32, families: &[usize], most: Duration, faults: &mut Vec<String>) -> String {
        let began = Instant::now();
        let stalls: Vec<_> = thread::scope(|scope| {
            let ways = self.ways(families);
            let transfers: Vec<_> =
                ways.into_iter().map(|way| scope.spawn(move || (transfer(&way), way))).collect();
            thread::sleep(AFTER.saturating_sub(began.elapsed()));
            self.passage.narrow(mtu).unwrap();
            transfers.into_iter().map(|transfer| transfer.join().unwrap()).collect()
        });
        let mut told = Vec::new();
        for (outcome, (from, _, address)) in stalls {
            let what = format!("{} bytes, {} by {}", mtu, from.name, family(address));
            match outcome {
                Ok(stall) => {
                    told.push(format!("{} {} {:.2} s", from.name, family(address), stall.as_secs_f64()));
                    if stall > most {
                        faults.push(format!("{}: {what}: a pause of {stall:?}", self.encap));
                    }
                }
                Err(error) => faults.push(format!("{}: {what}: {error}", self.encap)),
            }
        }
        self.known(mtu);
        told.join(", ")
    }

    /// A datagram as large as the pod's interface takes is refused, and one that fits comes there.
    fn refused(&self, mtu: u32, families: &[usize], faults: &mut Vec<String>) -> usize {
        self.forget();
        let ways = self.ways(families);
        for (from, to, address) in &ways {
            let outcome = datagram(from, to, *address, mtu - self.overhead);
            if let Err(error) = outcome {
                let family = family(*address);
                faults.push(format!("{}: {mtu} bytes, UDP, {} by {family}: {error}", self.encap, from.name));
            }
        }
        ways.len()
    }

    fn widen(&self) -> f64 {
        self.passage.narrow(WIDE).unwrap();
        let took = self.known(WIDE).as_secs_f64();
        self.forget();
        took
    }
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// A transfer; the longest time in which nothing came.
fn transfer((from, to, address): &(End, End, IpAddr)) -> std::io::Result<Duration> {
    let at = SocketAddr::new(*address, 0);
    let listener = netns::inside(&to.netns, || Ok(TcpListener::bind(at).unwrap())).unwrap();
    let mut client = traffic::open(&from.netns, listener.local_addr()?).unwrap();
    let (mut server, _) = listener.accept()?;
    let limit = Some(SILENT_STALL * 2);
    server.set_read_timeout(limit)?;
    client.set_write_timeout(limit)?;
    let sender = thread::spawn(move || -> std::io::Result<Digest> {
        let (began, mut payload, mut all) = (Instant::now(), Payload::new(5), Vec::new());
        while began.elapsed() < LASTS {
            let part = payload.bytes(PART);
            client.write_all(&part)?;
            all.extend(part);
            thread::sleep(PACE);
        }
        Ok(Digest::of(&all))
    });
    let (mut all, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = server.read(&mut buffer)?;
        longest = longest.max(last.elapsed());
        last = Instant::now();
        if length == 0 {
            break;
        }
        all.extend_from_slice(&buffer[..length]);
    }
    let sent = sender.join().unwrap()?;
    if sent != Digest::of(&all) {
        return Err(std::io::Error::other(format!("{sent:?} was sent, {:?} came", Digest::of(&all))));
    }
    Ok(longest)
}

/// Sends a datagram that fills the pod's MTU, and then one that fits.
fn datagram(from: &End, to: &End, address: IpAddr, fits: u32) -> std::io::Result<()> {
    let server = traffic::udp(&to.netns, SocketAddr::new(address, 0)).unwrap();
    let client = traffic::udp(&from.netns, SocketAddr::new(traffic::unspecified(address), 0)).unwrap();
    client.connect(server.local_addr()?)?;
    client.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mtu = traffic::mtu(&from.netns, "eth0").unwrap();
    client.send(&vec![1; traffic::largest_echo(mtu, address)])?;
    match client.recv(&mut [0; 8]) {
        // EMSGSIZE has no kind of its own.
        Err(error) if error.raw_os_error() == Some(nix::libc::EMSGSIZE) => {}
        other => return Err(std::io::Error::other(format!("no \"message too long\" but {other:?}"))),
    }
    let whole = traffic::largest_echo(usize::try_from(fits).unwrap(), address);
    client.send(&vec![2; whole])?;
    server.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut buffer = [0; 2000];
    match server.recv(&mut buffer) {
        Ok(length) if length == whole => Ok(()),
        Ok(length) => Err(std::io::Error::other(format!("{length} bytes came, not {whole}"))),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Err(std::io::Error::other("what fits is lost"))
        }
        Err(error) => Err(error),
    }
}

/// Everything, by one encapsulation.
fn whole(encap: &'static str, overhead: u32) {
    let bed = Bed::up(encap, overhead);
    let mut faults = Vec::new();
    let mut report = format!("\nA path that becomes narrow, {encap}: longest pause of TCP\n");
    bed.known(WIDE);
    bed.small(&mut faults);
    for (mutes, most) in [(false, STALL), (true, SILENT_STALL)] {
        let kind = if mutes { "routers say nothing" } else { "routers tell" };
        if mutes {
            bed.passage.mute(true).unwrap();
        }
        for (mtu, families) in [(1400, &[0, 1][..]), (1300, &[0])] {
            let stalls = bed.shrink(mtu, families, most, &mut faults);
            let refused = bed.refused(mtu, families, &mut faults);
            report += &format!("{kind}, to {mtu}: {stalls}; {refused} datagrams refused\n");
        }
        report += &format!("{kind}, to {WIDE}: known after {:.1} s\n", bed.widen());
        if mutes {
            bed.passage.mute(false).unwrap();
        }
    }
    // Written past the test harness, which keeps what is printed.
    std::io::stdout().write_all(report.as_bytes()).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_path_becomes_narrow_and_wide_under_each_encapsulation() {
    for (encap, overhead) in [("vxlan", 50), ("geneve", 50), ("gre", 42)] {
        whole(encap, overhead);
    }
}
