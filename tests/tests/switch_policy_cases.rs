//! The worlds of `policy/tests/cases` on real switches: every question asked with real packets.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fabric_tests::frames::segment::{SCTP, TCP};
use fabric_tests::lab::world::documents;
use fabric_tests::oracle::Answer;
use fabric_tests::probe::ask::UDP;
use fabric_tests::probe::{Bed, Outcome, Question, ask, object, serve};
use ipnet::IpNet;
use serde_json::{Value, json};

/// A denied conversation gets this long, in which a SYN is sent twice.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Between two questions.
const PACE: Duration = Duration::from_millis(5);
/// Prefix lengths of a Network around the pods, widest first.
const WIDTHS_V4: [u8; 5] = [16, 24, 25, 26, 27];
const WIDTHS_V6: [u8; 3] = [64, 96, 112];

#[test]
fn the_pods_of_dualstack_reach_whom_the_file_says() {
    case("dualstack");
}

#[test]
fn the_pods_of_except_reach_whom_the_file_says() {
    case("except");
}

#[test]
fn the_pods_of_ports_reach_whom_the_file_says() {
    case("ports");
}

#[test]
fn the_pods_of_selectors_reach_whom_the_file_says() {
    case("selectors");
}

#[test]
fn the_pods_of_tenants_reach_whom_the_file_says() {
    case("tenants");
}

/// A row of `questions.csv`.
#[derive(Debug)]
struct Row {
    text: String,
    from: String,
    to: String,
    protocol: u8,
    port: u16,
    wanted: Answer,
}

fn case(name: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/cases").join(name);
    let mut objects = documents(&fs::read_to_string(folder.join("world.yaml")).unwrap());
    let rows = rows(&fs::read_to_string(folder.join("questions.csv")).unwrap());
    let world = World::of(&objects, &rows);
    objects.push(world.network());
    let mut bed = Bed::up(&format!("sw{}", &name[..4]), 2, json!({}), objects.clone());
    for (name, node, address) in &world.finished {
        bed.add_container(name, node, &[*address]);
    }
    bed.add_outside(&world.outside);
    bed.lead_to_pods();
    bed.applied();
    let questions: Vec<Question> = rows.iter().map(|row| question(&bed, &world, row)).collect();
    serve(&bed, &questions);
    let began = Instant::now();
    let findings = ask(&bed, &questions, PACE, |_| PATIENCE);
    let mut faults = Vec::new();
    for ((row, question), finding) in rows.iter().zip(&questions).zip(&findings) {
        if finding.answer() != Some(row.wanted) {
            faults.push(format!("{}: wanted {}, found {finding:?} ({question})", row.text, row.wanted));
        }
    }
    let slowest = findings.iter().filter_map(|finding| match finding.outcome {
        Outcome::Reached(after) => Some(after),
        _ => None,
    });
    println!("{name}: {} questions in {:?}, slowest answer {:?}", rows.len(), began.elapsed(), slowest.max());
    assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
}

fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let [from, to, protocol, port, verdict] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("not a question: {line}")
        };
        Row {
            text: line.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
            protocol: match protocol {
                "TCP" => TCP,
                "UDP" => UDP,
                "SCTP" => SCTP,
                other => panic!("protocol {other}"),
            },
            port: port.parse().unwrap(),
            wanted: match verdict {
                "allow" => Answer::Allow,
                "deny" => Answer::Deny,
                other => panic!("verdict {other}"),
            },
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// Who has which address, by the manifests.
#[derive(Debug, Default)]
struct World {
    /// Of pods that run in a network of their own.
    pods: BTreeSet<IpAddr>,
    /// Addresses that the questions name and nobody of the cluster has.
    outside: BTreeSet<IpAddr>,
    /// Addresses that pods which have finished left to others: a name for the container, the node, the address.
    finished: Vec<(String, String, IpAddr)>,
}

impl World {
    fn of(objects: &[Value], rows: &[Row]) -> World {
        let mut world = World::default();
        let mut others: BTreeSet<IpAddr> = BTreeSet::new();
        for object in objects {
            let of_node = object["status"]["addresses"].as_array().into_iter().flatten();
            others.extend(of_node.filter_map(|entry| entry["address"].as_str()?.parse::<IpAddr>().ok()));
            let ips = addresses(object);
            let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
            if object["spec"]["hostNetwork"] == true {
                continue;
            }
            if object["status"]["phase"] == "Succeeded" {
                world.finished.extend(ips.iter().map(|ip| (format!("reuse-{ip}"), node.to_owned(), *ip)));
                others.extend(ips);
            } else {
                world.pods.extend(ips);
            }
        }
        let named = rows.iter().flat_map(|row| [&row.from, &row.to]).filter_map(|name| name.parse().ok());
        world.outside = named.filter(|ip| !world.pods.contains(ip) && !others.contains(ip)).collect();
        world
    }

    /// A Network that covers the pods and nothing that is outside.
    fn network(&self) -> Value {
        let used = || self.pods.iter().chain(self.finished.iter().map(|(.., ip)| ip));
        let cidr = |like: &str, widths: &[u8]| {
            let v4 = like.parse::<IpAddr>().unwrap().is_ipv4();
            let first = *used().find(|ip| ip.is_ipv4() == v4)?;
            let nets = widths.iter().map(|width| IpNet::new(first, *width).unwrap().trunc());
            let fits = |net: &IpNet| {
                used().filter(|ip| ip.is_ipv4() == v4).all(|ip| net.contains(ip))
                    && !self.outside.iter().any(|ip| net.contains(ip))
            };
            Some(nets.into_iter().find(fits).unwrap_or_else(|| panic!("no Network for {self:?}")))
        };
        let cidrs = [cidr("0.0.0.0", &WIDTHS_V4), cidr("::", &WIDTHS_V6)].into_iter().flatten();
        let cidrs: Vec<IpNet> = cidrs.collect();
        let mut network = object::network(&[]);
        network["spec"]["cidrs"] = json!(cidrs);
        network["spec"]["gateway"] = json!(cidrs.iter().map(|net| self.free(*net)).collect::<Vec<_>>());
        network
    }

    /// An address for the gateway, which no pod has.
    fn free(&self, net: IpNet) -> IpAddr {
        let mut hosts: Box<dyn Iterator<Item = IpAddr>> = match net {
            IpNet::V4(net) => Box::new(net.hosts().map(IpAddr::V4)),
            IpNet::V6(net) => Box::new(net.hosts().skip(1).map(IpAddr::V6)),
        };
        hosts.find(|ip| !self.pods.contains(ip)).unwrap()
    }
}

fn addresses(object: &Value) -> Vec<IpAddr> {
    let listed = object["status"]["podIPs"].as_array().into_iter().flatten();
    listed.filter_map(|entry| entry["ip"].as_str()?.parse().ok()).collect()
}

fn question(bed: &Bed, world: &World, row: &Row) -> Question {
    let address = |name: &str| match name.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => *bed.place(name).addresses.first().unwrap(),
    };
    let (from_address, to_address) = (address(&row.from), address(&row.to));
    let from = bed.place_of(from_address).name.clone();
    assert_eq!(from == "wire", world.outside.contains(&from_address), "{row:?}");
    assert_eq!(from_address.is_ipv4(), to_address.is_ipv4(), "{row:?}");
    Question { from, from_address, to_address, protocol: row.protocol, port: row.port }
}
