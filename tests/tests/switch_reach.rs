//! Who reaches whom on real switches, over which protocols, and seen as whom.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use fabric_tests::lab::command::command;
use fabric_tests::lab::node::{OUTSIDE, addresses};
use fabric_tests::lab::world::{Pod, documents, pods};
use fabric_tests::lab::{Lab, Spec, netns};
use fabric_tests::traffic;

/// Bytes of a TCP conversation in each direction.
const MEGABYTE: usize = 1_000_000;
/// The kernel sends a SYN again after 1 s: an exchange below this took none.
const NO_RETRANSMISSION: Duration = Duration::from_millis(900);
/// Pods that come, talk and go.
const FRESH: usize = 100;
/// Where the servers for fresh pods listen.
const PORT: &str = "7777";

fn manifest(name: &str, node: &str) -> String {
    format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: {node}}}\n")
}

fn lab(purpose: &str, manifests: &str) -> (Lab, Vec<Pod>) {
    let lab = Lab::up(&Spec::for_test(purpose, 2).unwrap()).unwrap();
    lab.write_manifest("pods.yaml", manifests).unwrap();
    (lab, pods(&documents(manifests)))
}

/// A place that can talk: its namespace and its addresses.
#[derive(Debug, Clone)]
struct Place {
    name: &'static str,
    netns: String,
    addresses: [IpAddr; 2],
}

fn pod(lab: &Lab, name: &'static str) -> Place {
    let record = lab.pod(&format!("default/{name}")).unwrap();
    Place { name, netns: record.netns.clone(), addresses: record.ips().try_into().unwrap() }
}

fn node(lab: &Lab, name: &'static str) -> Place {
    let node = lab.node(name).unwrap();
    Place { name, netns: node.namespace.clone(), addresses: node.addresses() }
}

fn outside(lab: &Lab) -> Place {
    Place { name: "outside", netns: lab.layout().name.wire(), addresses: addresses(OUTSIDE) }
}

/// One cell of the table: what does not work, a line each. `seen` is whom the far end sees.
fn cell(from: &Place, to: &Place, seen: &Place) -> Vec<String> {
    let mut faults = Vec::new();
    for (to_address, seen_address) in to.addresses.iter().zip(seen.addresses) {
        let (from_netns, to_netns, address) = (from.netns.as_str(), to.netns.as_str(), *to_address);
        let mut note =
            |what: String| faults.push(format!("{} to {} ({address}): {what}", from.name, to.name));
        let echo = traffic::echo(from_netns, address, 56).unwrap();
        if !echo.status.success() {
            note(format!("no echo: {}", String::from_utf8_lossy(&echo.stdout)));
        }
        match traffic::datagrams(from_netns, to_netns, address, 1000) {
            Ok(source) if source == seen_address => {}
            Ok(source) => note(format!("UDP is seen as {source} and not as {seen_address}")),
            Err(error) => note(error.to_string()),
        }
        match traffic::exchange(from_netns, to_netns, address, MEGABYTE) {
            Ok(exchange) if !exchange.is_whole() => note(format!("bytes were lost or changed: {exchange:?}")),
            Ok(exchange) if exchange.arrived.bytes != MEGABYTE => note(format!("{exchange:?}")),
            Ok(exchange) if exchange.seen == seen_address => {}
            Ok(exchange) => note(format!("TCP is seen as {} and not as {seen_address}", exchange.seen)),
            Err(error) => note(error.to_string()),
        }
    }
    faults
}

#[test]
fn everybody_reaches_whom_they_should_and_is_seen_as_who_they_are() {
    let (mut lab, pods) =
        lab("rareach", &(manifest("a", "n1") + &manifest("b", "n1") + &manifest("far", "n2")));
    for pod in &pods {
        lab.attach(pod, traffic::PATIENCE).unwrap();
    }
    let (a, b, far) = (pod(&lab, "a"), pod(&lab, "b"), pod(&lab, "far"));
    let (n1, n2, outside) = (node(&lab, "n1"), node(&lab, "n2"), outside(&lab));
    let mut faults = Vec::new();
    // Each in this order on a lab where nobody has talked: the first packet of each cell is a first packet.
    for (from, to, seen) in [
        (&a, &b, &a),
        (&a, &far, &a),
        (&far, &b, &far),
        (&n1, &a, &n1),
        (&a, &n1, &a),
        (&n2, &a, &n2),
        (&b, &n2, &b),
        (&n1, &far, &n1),
        (&a, &outside, &n1),
        (&far, &outside, &n2),
        (&b, &a, &b),
        (&far, &a, &far),
    ] {
        faults.extend(cell(from, to, seen));
    }
    faults.extend(full_size(&[(&a, &b), (&a, &far), (&far, &a), (&n1, &a), (&a, &n1), (&n2, &a), (&a, &n2)]));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Packets that fill the MTU of their sender and must not be fragmented pass; a byte more is refused.
fn full_size(pairs: &[(&Place, &Place)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (from, to) in pairs {
        let device = if from.name.starts_with('n') { "br-fabric" } else { "eth0" };
        let mtu = traffic::mtu(&from.netns, device).unwrap();
        assert_eq!(mtu, 1450, "{}: the wire's 1500 bytes less those of VXLAN over IPv4", from.name);
        for address in to.addresses {
            let bytes = traffic::largest_echo(mtu, address);
            if !traffic::echo(&from.netns, address, bytes).unwrap().status.success() {
                faults.push(format!("{} to {address}: no echo of {mtu} bytes", from.name));
            }
            let (from_netns, to_netns) = (from.netns.as_str(), to.netns.as_str());
            // Of two fragments, and of a whole one.
            for bytes in [bytes, 4000] {
                if let Err(error) = traffic::datagrams(from_netns, to_netns, address, bytes) {
                    faults.push(error.to_string());
                }
            }
        }
    }
    faults.extend(too_big(pairs));
    faults
}

/// All at once, since `ping` takes a second to give up.
fn too_big(pairs: &[(&Place, &Place)]) -> Vec<String> {
    let probes = pairs.iter().flat_map(|(from, to)| to.addresses.map(|address| (*from, address)));
    std::thread::scope(|scope| {
        let probe = |(from, address): (&Place, IpAddr)| {
            let netns = from.netns.clone();
            let name = from.name;
            scope.spawn(move || {
                let bytes = traffic::largest_echo(1450, address) + 1;
                let passed = traffic::echo(&netns, address, bytes).unwrap().status.success();
                passed.then(|| format!("{name} to {address}: more than 1450 bytes passed"))
            })
        };
        let threads: Vec<_> = probes.map(probe).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Answers every connection at once and closes it; runs until the test ends.
fn answering(place: &Place) {
    for address in place.addresses {
        let at = SocketAddr::new(address, PORT.parse().unwrap());
        let listener = netns::inside(&place.netns, || Ok(TcpListener::bind(at).unwrap())).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that has gone sees to that itself.
                let _ = stream.unwrap().write_all(b"answer\n");
            }
        });
    }
}

/// How a first try of `nc` went.
enum First {
    Prompt,
    /// Answered, with a packet sent again on the way.
    Slow(String),
    Failed(String),
}

fn first_try(netns: &str, to: IpAddr) -> First {
    let sent_again = || traffic::counter(netns, "TcpExt", "TCPSynRetrans").unwrap();
    let before = sent_again();
    let began = Instant::now();
    let output = netns::output_in(netns, &mut command(["nc", "-d", &to.to_string(), PORT]), &[]).unwrap();
    let took = began.elapsed();
    let again = sent_again() - before;
    if output.stdout != b"answer\n" {
        First::Failed(format!("{to}: {took:?}, {output:?}"))
    } else if again > 0 || took >= NO_RETRANSMISSION {
        First::Slow(format!("{to}: {took:?}, {again} SYNs sent again"))
    } else {
        First::Prompt
    }
}

#[test]
fn the_first_instruction_of_a_fresh_pod_gets_its_answer_at_the_first_try() {
    let fresh: String = (0..FRESH).map(|n| manifest(&format!("fresh-{n}"), "n1")).collect();
    let (mut lab, pods) = lab("rafresh", &(manifest("near", "n1") + &manifest("far", "n2") + &fresh));
    let (servers, fresh) = pods.split_at(2);
    for server in servers {
        lab.attach(server, traffic::PATIENCE).unwrap();
    }
    let (near, far) = (pod(&lab, "near"), pod(&lab, "far"));
    answering(&near);
    answering(&far);
    let (mut failed, mut slow) = (Vec::new(), Vec::new());
    for (n, fresh) in fresh.iter().enumerate() {
        lab.attach(fresh, traffic::PATIENCE).unwrap();
        let netns = lab.pod(&fresh.reference).unwrap().netns.clone();
        // Each of the four is the very first instruction of every fourth pod.
        let mut targets = [near.addresses, far.addresses].concat();
        targets.rotate_left(n % 4);
        for to in targets {
            match first_try(&netns, to) {
                First::Prompt => {}
                First::Slow(how) => slow.push(format!("{} to {how}", fresh.reference)),
                First::Failed(how) => failed.push(format!("{} to {how}", fresh.reference)),
            }
        }
        lab.remove_pod(&fresh.reference).unwrap();
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), 4 * FRESH, failed.join("\n"));
    // A switch that is at work on its ports drops what it has no cached flow for: rarely, and TCP sends it again.
    assert!(slow.len() <= 4 * FRESH / 100, "{} of {}:\n{}", slow.len(), 4 * FRESH, slow.join("\n"));
}
