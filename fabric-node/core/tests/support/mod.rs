//! A node as the pipeline sees it, made from manifests.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod cluster;
pub mod lan;
pub mod meters;
pub mod model;
pub mod neighbours;
pub mod net;
pub mod switch;
pub mod tracked;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use fabric_core::pipeline::learned::{Context, Part, Pods, Punt, Tracked, Tuple, Verdict, answer};
use fabric_core::pipeline::site::{LocalPod, Rates, Segment, Site, Tunnel};
use fabric_core::pipeline::statics::static_flows;
use fabric_core::pipeline::vocabulary::{Origin, Table};
use openflow::{Flow, FlowTable, Mac};
use policy::manifest::{Source, admit};
use policy::{Edit, Exit, Family, Traffic, World};

/// The pods of the node, by everything that a packet shows of them.
#[derive(Default)]
pub struct Local(pub Vec<LocalPod>);

impl Pods for Local {
    fn by_zone(&self, zone: u16) -> Option<&LocalPod> {
        self.0.iter().find(|pod| pod.zone == zone)
    }
    fn by_port(&self, port: u32) -> Option<&LocalPod> {
        self.0.iter().find(|pod| pod.port == port)
    }
    fn by_address(&self, address: IpAddr) -> Option<&LocalPod> {
        self.0.iter().find(|pod| pod.addresses.contains(&address))
    }
}

/// A node of a world.
pub struct Scene {
    pub site: Site,
    pub world: World,
    pub local: Local,
}

/// The world of some manifests.
pub fn world(text: &str) -> World {
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(text).unwrap();
    let mut world = World::new();
    for (number, document) in documents.into_iter().enumerate() {
        let admission = admit(&Source::file("world", number + 1), document);
        assert!(admission.problems.is_empty(), "{:?}", admission.problems);
        world.apply(Edit::Put(admission.object.unwrap()));
    }
    world
}

impl Scene {
    /// Node `n1` of the world in a file.
    pub fn read(path: &Path) -> Scene {
        Scene::of(world(&std::fs::read_to_string(path).unwrap()), "n1")
    }

    /// A node of the world, with its pods in the order of their names. Those with the label `ipam: dhcp` have their
    /// addresses from a DHCP server, or wait for them.
    pub fn of(world: World, node: &str) -> Scene {
        let site = Site {
            node: node.into(),
            addresses: world.node(node).unwrap().addresses.clone(),
            local_mac: Some(Mac([0x02, 0, 0, 0, 0, 0xfe])),
            tunnels: BTreeMap::from([(Tunnel::Vxlan, 1)]),
            uplinks: world.networks().filter_map(Segment::of).map(|segment| (segment.physical, 2)).collect(),
            egress: (world.egress_claims().filter(|claim| claim.node.as_str() == node))
                .map(|claim| claim.ip)
                .collect(),
            ..Site::default()
        };
        let largest_mtu = if site.uplinks.is_empty() { 1450 } else { 1500 };
        let site = Site { carrier_mtu: 1500, largest_mtu, local_mtu: 1450, ..site };
        let site = Site { overfills: site.may_overfill(&world), ..site };
        let mine = world.pods().filter(|pod| pod.node.as_deref() == Some(node));
        let leases =
            |pod: &policy::Pod| pod.labels.get("ipam").is_some_and(|plugin| plugin.as_str() == "dhcp");
        let network = |pod: &policy::Pod| match pod.ips.first() {
            Some(ip) => world.network_of(*ip),
            None => world.network_for(Some(&pod.reference)).ok().filter(|_| leases(pod)),
        };
        let pods = mine.zip(1u16..).map(|(pod, zone)| LocalPod {
            zone,
            port: 32768 + u32::from(zone),
            mac: Mac([0x0e, 0, 0, 0, 0, u8::try_from(zone).unwrap()]),
            addresses: pod.ips.clone(),
            leases: leases(pod),
            segment: network(pod).and_then(Segment::of),
            rates: Rates { out: pod.annotations.egress_bandwidth, into: pod.annotations.ingress_bandwidth },
            mtu: 0,
            exits: (pod.ips.iter().filter(|ip| world.exit(**ip) != Exit::OwnNode))
                .map(|ip| Family::of(*ip))
                .collect(),
        });
        let local = Local(pods.collect());
        Scene { site, world, local }
    }

    pub fn context(&self) -> Context<'_, Local> {
        Context { site: &self.site, world: &self.world, pods: &self.local }
    }

    pub fn statics(&self) -> Vec<Flow> {
        static_flows(&self.site, &self.world, &self.local.0)
    }

    /// A line of a conversation file: `pod FROM TO PROTOCOL PORT`, the same with `wire` for what a wire
    /// brings, or `tunnel OUTER FROM TO PROTOCOL PORT`, and then,
    /// for packets that are no whole ones of a new conversation: `first` or `later` (fragments), `back` (an answer
    /// from that port) or `related` (an ICMP error); the last two are of a conversation that is *seen*.
    pub fn punt(&self, line: &str) -> Punt {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (tunnel, rest) = match words.as_slice() {
            ["tunnel", outer, rest @ ..] => (Some(outer.parse().unwrap()), rest),
            ["pod" | "wire", rest @ ..] => (None, rest),
            _ => panic!("a conversation begins with pod or tunnel: {line}"),
        };
        let [from, to, protocol, port, kind @ ..] = rest else {
            panic!("four words after the origin: {line}")
        };
        let (part, reply, related) = match kind {
            [] => (Part::Whole, false, false),
            ["first"] => (Part::First, false, false),
            ["later"] => (Part::Later, false, false),
            ["back"] => (Part::Whole, true, false),
            ["related"] => (Part::Whole, false, true),
            _ => panic!("nothing known of {kind:?}: {line}"),
        };
        let source: IpAddr = from.parse().unwrap();
        let destination: IpAddr = to.parse().unwrap();
        let wire = words.first() == Some(&"wire");
        let local = self.local.by_address(if wire { destination } else { source });
        let segment = local.and_then(|pod| self.site.segment_number(pod.segment.as_ref()?));
        let in_port = match segment {
            Some(number) if wire => number >> 16,
            _ => local.map_or(1, |pod| pod.port),
        };
        let (table, origin) = match tunnel {
            Some(_) => (Table::Guard, Origin::Tunnel),
            None if wire => (Table::Ingress, Origin::Physical),
            None => (Table::Egress, Origin::Pod),
        };
        let (port, other) = (port.parse().ok(), Some(40_000));
        let (source_port, port) = if reply { (port, other) } else { (other, port) };
        Punt {
            table,
            origin,
            in_port,
            segment,
            tunnel,
            asks_peer: false,
            tracked: Tracked { reply, related, seen: reply || related },
            tuple: Tuple {
                source,
                destination,
                traffic: Traffic { protocol: protocol.parse().unwrap(), port },
                source_port,
                part,
            },
        }
    }

    /// What the agent learns from a conversation, and what becomes of its packet.
    pub fn learn(&self, line: &str, patient: bool) -> (Vec<Flow>, Verdict) {
        let answer = answer(&self.punt(line), &self.context(), patient);
        (answer.learned.into_iter().map(|(_, decision)| decision.flow).collect(), answer.verdict)
    }
}

/// Flows for people: sorted, with the names of the tables.
pub fn print(flows: impl IntoIterator<Item = Flow>) -> String {
    let table: FlowTable = flows.into_iter().collect();
    let mut text = String::new();
    let mut last = None;
    for flow in table.iter() {
        if last != Some(flow.table) {
            let name = Table::from_id(flow.table).map_or("?", Table::name);
            writeln!(text, "## {name}").unwrap();
            last = Some(flow.table);
        }
        writeln!(text, "{flow}").unwrap();
    }
    text
}
