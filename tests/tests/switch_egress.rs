//! Egress addresses of namespaces on real switches: who leaves under which address, by which node, what happens when
//! that node dies, comes back, or its agent does; and what must not be possible by it.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fabric_tests::frames::build::{self, ARP, ethernet, vxlan};
use fabric_tests::frames::{Mark, Tap, marks};
use fabric_tests::lab::command::command;
use fabric_tests::lab::node::{BRIDGE_PHYSICAL, OUTSIDE, addresses};
use fabric_tests::lab::office::Lan;
use fabric_tests::lab::world::{documents, pods};
use fabric_tests::lab::{Lab, Spec, Wiring, netns, wire};
use fabric_tests::office::{Cell, Net, OfficeBed, Place, measure, table};
use fabric_tests::traffic;

/// The addresses that the namespace `shop` asks for: the last number of both families.
const FIRST: u8 = 200;
const SECOND: u8 = 201;
/// How long a claim, and what follows from it, may take while everybody is well.
const SOON: Duration = Duration::from_secs(15);
/// How long a takeover may take: a claim lapses after 30 s.
const TAKEOVER: Duration = Duration::from_secs(45);
/// Name, node.
const PODS: [(&str, &str); 4] = [("shop/a", "n1"), ("shop/b", "n2"), ("yard/a", "n1"), ("yard/b", "n2")];

struct Bed {
    lab: Lab,
}

impl Bed {
    fn new(purpose: &str) -> Self {
        let lab = Lab::up(&Spec::for_test(purpose, 2).unwrap()).unwrap();
        let mut bed = Self { lab };
        bed.ask(Some(FIRST));
        bed.namespace("yard", "");
        let mut text = String::new();
        for (reference, node) in PODS {
            let (namespace, name) = reference.split_once('/').unwrap();
            text += &format!(
                "---\napiVersion: v1\nkind: Pod\nmetadata: {{namespace: {namespace}, name: {name}}}\n\
                 spec: {{nodeName: {node}}}\n"
            );
        }
        bed.lab.write_manifest("pods.yaml", &text).unwrap();
        for pod in pods(&documents(&text)) {
            bed.lab.attach(&pod, traffic::PATIENCE).unwrap();
        }
        bed
    }

    fn namespace(&self, name: &str, annotations: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, annotations: {{{annotations}}}}}\n"
        );
        self.lab.write_manifest(&format!("namespace-{name}.yaml"), &text).unwrap();
    }

    /// The namespace `shop` asks for an address of each family, or for none.
    fn ask(&self, number: Option<u8>) {
        let annotation = number.map(|number| {
            let [v4, v6] = addresses(number);
            format!("fabric.io/egress-ip: \"{v4},{v6}\"")
        });
        self.namespace("shop", &annotation.unwrap_or_default());
    }

    fn pod(&self, name: &str) -> Place {
        let record = self.lab.pod(name).unwrap();
        Place {
            name: name.to_owned(),
            netns: record.netns.clone(),
            device: "eth0".to_owned(),
            net: Net::Overlay,
            node: Some(record.node.clone()),
            addresses: record.ips().try_into().unwrap(),
        }
    }

    /// A machine outside the cluster, on the network of the nodes.
    fn outside(&self) -> Place {
        Place {
            name: "outside".to_owned(),
            netns: self.lab.layout().name.wire(),
            device: wire::BRIDGE.to_owned(),
            net: Net::Overlay,
            node: None,
            addresses: addresses(OUTSIDE),
        }
    }

    /// Somebody who is only seen.
    fn seen(&self, number: u8) -> Place {
        Place { name: format!("address {number}"), addresses: addresses(number), ..self.outside() }
    }

    fn node(&self, name: &str) -> Place {
        let node = self.lab.node(name).unwrap();
        Place { name: name.to_owned(), addresses: node.addresses(), ..self.outside() }
    }

    /// The nodes whose interface has an address.
    fn carriers(&self, address: IpAddr) -> BTreeSet<String> {
        let has = |name: &str| {
            let mut show = command(["ip", "-j", "addr", "show", "dev", BRIDGE_PHYSICAL]);
            let shown = self.lab.exec_node(name, &mut show).unwrap();
            String::from_utf8_lossy(&shown.stdout).contains(&format!("\"{address}\""))
        };
        ["n1", "n2"].into_iter().filter(|name| has(name)).map(str::to_owned).collect()
    }

    /// Waits until one node carries both addresses of a number, and tells which ones do.
    fn holders(&self, number: u8, patience: Duration) -> [String; 2] {
        addresses(number).map(|address| {
            let what = format!("one node to carry {address}");
            until(&what, patience, || match self.carriers(address) {
                carriers if carriers.len() == 1 => carriers.into_iter().next(),
                _ => None,
            })
        })
    }

    /// How the claim of an address names its node, by the file of the store.
    fn claimed_by(&self, address: IpAddr) -> Option<String> {
        let file =
            self.lab.layout().world().join(".claims").join(format!("{}.json", policy::claim_name(address)));
        let claim: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()?;
        claim["spec"]["node"].as_str().map(str::to_owned)
    }

    /// Waits until a pod has a new conversation with the machine outside, seen as this address.
    fn talks_as(&self, pod: &str, seen: IpAddr, patience: Duration) -> Duration {
        let began = Instant::now();
        let (from, outside) = (self.pod(pod), self.outside());
        let to = outside.addresses[usize::from(seen.is_ipv6())];
        let what = format!("{pod} to be seen as {seen}");
        until(&what, patience, || (greet(&from.netns, &outside.netns, to) == Some(seen)).then_some(()));
        began.elapsed()
    }
}

fn until<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {patience:?} for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One datagram there and one back within half a second; the source that was seen.
fn greet(from: &str, to: &str, address: IpAddr) -> Option<IpAddr> {
    Chat::open(from, to, address).greet()
}

/// Datagrams between the same two ports.
struct Chat {
    client: UdpSocket,
    server: UdpSocket,
}

impl Chat {
    fn open(from: &str, to: &str, address: IpAddr) -> Self {
        let server = traffic::udp(to, SocketAddr::new(address, 0)).unwrap();
        let client = traffic::udp(from, SocketAddr::new(traffic::unspecified(address), 0)).unwrap();
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        }
        client.connect(server.local_addr().unwrap()).unwrap();
        Self { client, server }
    }

    /// One there and one back within half a second; the source that was seen.
    fn greet(&self) -> Option<IpAddr> {
        self.client.send(b"hello").ok()?;
        let (_, seen) = self.server.recv_from(&mut [0; 16]).ok()?;
        self.server.send_to(b"hello", seen).ok()?;
        self.client.recv(&mut [0; 16]).ok()?;
        Some(seen.ip())
    }

    /// Goes on until it is seen as somebody.
    fn turns_into(&self, seen: IpAddr) {
        until(&format!("the same two ports to be seen as {seen}"), SOON, || {
            (self.greet() == Some(seen)).then_some(())
        });
    }
}

/// A conversation that stays open: what one end writes the other writes back.
struct Talk {
    client: TcpStream,
    server: TcpStream,
}

impl Talk {
    fn open(from: &Place, to: &Place, address: IpAddr) -> Self {
        let listener = netns::inside(&to.netns, || Ok(TcpListener::bind((address, 0)).unwrap())).unwrap();
        let client = traffic::open(&from.netns, listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(traffic::PATIENCE)).unwrap();
        Self { client, server }
    }

    /// A word there and back, and how long it took.
    fn word(&mut self) -> Duration {
        let began = Instant::now();
        self.client.write_all(b"word").unwrap();
        let mut buffer = [0; 4];
        self.server.read_exact(&mut buffer).unwrap();
        self.server.write_all(&buffer).unwrap();
        self.client.read_exact(&mut buffer).unwrap();
        began.elapsed()
    }
}

fn check(cells: &[(&Place, &Place, &Place)]) {
    let measured: Vec<_> = cells.iter().map(|(from, to, seen)| measure(Cell { from, to, seen })).collect();
    println!("{}", table(&measured));
    let faults: Vec<String> = measured.iter().flat_map(|cell| cell.faults().collect::<Vec<_>>()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_namespace_leaves_under_its_address_until_it_asks_for_another_or_for_none() {
    let bed = Bed::new("egress");
    let holders = bed.holders(FIRST, SOON);
    println!("{} is on {}, {} on {}", addresses(FIRST)[0], holders[0], addresses(FIRST)[1], holders[1]);
    let (outside, n1, n2) = (bed.outside(), bed.node("n1"), bed.node("n2"));
    let [a, b, c, d] = PODS.map(|(name, _)| bed.pod(name));
    let first = bed.seen(FIRST);
    // From both nodes, and nobody else; within the cluster all is as ever.
    check(&[
        (&a, &outside, &first),
        (&b, &outside, &first),
        (&c, &outside, &n1),
        (&d, &outside, &n2),
        (&a, &b, &a),
        (&b, &c, &b),
    ]);
    // An agent that is killed and started anew loses no word of what is under way.
    let mut talks: Vec<Talk> = [&a, &b]
        .into_iter()
        .flat_map(|pod| outside.addresses.map(|address| Talk::open(pod, &outside, address)))
        .collect();
    for node in ["n1", "n2"] {
        bed.lab.kill_agent(node).unwrap();
        assert!(talks.iter_mut().map(Talk::word).all(|took| took < traffic::PATIENCE));
        bed.lab.start_agent(node).unwrap();
        let end = Instant::now() + Duration::from_secs(6);
        let mut longest = Duration::ZERO;
        while Instant::now() < end {
            longest = talks.iter_mut().map(Talk::word).fold(longest, Duration::max);
            std::thread::sleep(Duration::from_millis(20));
        }
        bed.lab.wait_agent(node).unwrap();
        println!("agent of {node} killed and started: longest word {longest:?}");
        assert!(longest < Duration::from_millis(500), "a word took {longest:?}");
        assert_eq!(bed.holders(FIRST, SOON), holders, "a restart moves no address");
    }
    // Another address. Whoever goes on between the same two ports is seen under it as well.
    let places = [&a, &b].map(|pod| (pod, if pod.node == Some("n1".to_owned()) { &n1 } else { &n2 }));
    let chats: Vec<(Chat, usize, &Place)> = places
        .into_iter()
        .flat_map(|(pod, node)| {
            let chat = |at: usize| Chat::open(&pod.netns, &outside.netns, outside.addresses[at]);
            [(chat(0), 0, node), (chat(1), 1, node)]
        })
        .collect();
    chats.iter().for_each(|(chat, at, _)| chat.turns_into(first.addresses[*at]));
    bed.ask(Some(SECOND));
    chats.iter().for_each(|(chat, at, _)| chat.turns_into(addresses(SECOND)[*at]));
    bed.holders(SECOND, SOON);
    until("the first address to be nobody's", SOON, || {
        addresses(FIRST)
            .iter()
            .all(|ip| bed.carriers(*ip).is_empty() && bed.claimed_by(*ip).is_none())
            .then_some(())
    });
    let second = bed.seen(SECOND);
    check(&[(&a, &outside, &second), (&b, &outside, &second), (&c, &outside, &n1)]);
    // None, and one again.
    bed.ask(None);
    chats.iter().for_each(|(chat, at, node)| chat.turns_into(node.addresses[*at]));
    bed.ask(Some(FIRST));
    chats.iter().for_each(|(chat, at, _)| chat.turns_into(first.addresses[*at]));
    bed.ask(None);
    chats.iter().for_each(|(chat, at, node)| chat.turns_into(node.addresses[*at]));
    until("the second address to be nobody's", SOON, || {
        let nobody = |ip: &IpAddr| bed.carriers(*ip).is_empty() && bed.claimed_by(*ip).is_none();
        addresses(SECOND).iter().all(nobody).then_some(())
    });
    check(&[(&a, &outside, &n1), (&b, &outside, &n2)]);
}

/// Whoever says in ARP that an address is his, with the moment.
struct Claims {
    tap: Tap,
    seen: Vec<(Instant, [u8; 6])>,
}

impl Claims {
    fn on_the_wire(bed: &Bed) -> Self {
        Self { tap: Tap::open(&bed.lab.layout().name.wire(), wire::BRIDGE).unwrap(), seen: Vec::new() }
    }

    /// Asks who has the address, and notes who claims it, asked or not.
    fn ask(&mut self, address: IpAddr) {
        let IpAddr::V4(v4) = address else { return };
        let question = build::arp(1, (self.tap.mac(), [0, 0, 0, 0].into()), ([0; 6], v4), &[]);
        self.tap.send(&ethernet(build::EVERYBODY, self.tap.mac(), ARP, &question)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        for frame in self.tap.captured().unwrap() {
            let arp =
                frame.get(12..14) == Some(&ARP.to_be_bytes()) && frame.get(28..32) == Some(&v4.octets());
            if let Some(sender) = frame.get(22..28).filter(|_| arp) {
                self.seen.push((Instant::now(), sender.try_into().unwrap()));
            }
        }
    }

    /// Who claimed it, in the order in which they began; nobody may be heard once another has begun.
    fn in_turn(&self) -> Vec<[u8; 6]> {
        let mut turns: Vec<[u8; 6]> = Vec::new();
        for (_, mac) in &self.seen {
            if turns.last() != Some(mac) {
                turns.push(*mac);
            }
        }
        turns
    }
}

#[test]
fn another_node_takes_the_address_over_and_nobody_has_it_twice() {
    let bed = Bed::new("takeov");
    let address = addresses(FIRST)[0];
    let [holder, _] = bed.holders(FIRST, SOON);
    let other = if holder == "n1" { "n2" } else { "n1" };
    let pod_on = |node: &str| PODS.iter().find(|(_, on)| *on == node).unwrap().0;
    bed.talks_as(pod_on(other), address, SOON);
    // The agent alone dies, and its host lives on with the address.
    let mut claims = Claims::on_the_wire(&bed);
    claims.ask(address);
    bed.lab.kill_agent(&holder).unwrap();
    let died = Instant::now();
    let mut gone = None;
    until("the other node to claim the address", TAKEOVER, || {
        claims.ask(address);
        if gone.is_none() && bed.carriers(address).is_empty() {
            gone = Some(died.elapsed());
        }
        (bed.claimed_by(address).as_deref() == Some(other)).then_some(())
    });
    bed.talks_as(pod_on(other), address, SOON);
    println!(
        "agent dead: its host gave the address up after {gone:?}, the other has it after {:?}",
        died.elapsed()
    );
    (0..20).for_each(|_| claims.ask(address));
    assert_eq!(claims.in_turn().len(), 2, "one after the other: {:?}", claims.seen);
    // It comes back, and lets the other have it.
    bed.lab.start_agent(&holder).unwrap();
    bed.lab.wait_agent(&holder).unwrap();
    (0..60).for_each(|_| claims.ask(address));
    assert_eq!(claims.in_turn().len(), 2, "one after the other: {:?}", claims.seen);
    bed.talks_as(pod_on(&holder), address, SOON);
    // The node that holds it dies whole.
    let wire = bed.lab.layout().name.wire();
    let link = |state: &str| {
        netns::run_in(&wire, &mut command(["ip", "link", "set", other, state])).unwrap();
    };
    link("down");
    bed.lab.kill_agent(other).unwrap();
    bed.lab.kill_vswitchd(other).unwrap();
    let died = Instant::now();
    let took = bed.talks_as(pod_on(&holder), address, TAKEOVER);
    println!("node dead: new conversations after {took:?}");
    link("up");
    bed.lab.start_vswitchd(other).unwrap();
    bed.lab.start_agent(other).unwrap();
    bed.lab.wait_agent(other).unwrap();
    (0..60).for_each(|_| claims.ask(address));
    assert_eq!(claims.in_turn().len(), 3, "one after the other: {:?}", claims.seen);
    assert_eq!(bed.carriers(address), BTreeSet::from([holder.clone()]), "after {:?}", died.elapsed());
    for (pod, _) in &PODS[..2] {
        bed.talks_as(pod, address, SOON);
    }
}

/// A frame that a node takes for one of another's tunnel, with a marked datagram inside.
fn tunnelled(bed: &Bed, tap: &Tap, by: &str, at: &str, inner: (IpAddr, IpAddr), mark: Mark) -> Vec<u8> {
    let (from, to) = (bed.node(by).addresses[0], bed.node(at).addresses[0]);
    let (ethertype, packet) = build::udp((inner.0, 4000), (inner.1, 4001), &mark.bytes());
    let router = [0x0a, 0x58, 0xa9, 0xfe, 1, 1];
    let inside = vxlan(77, &ethernet(router, router, ethertype, &packet));
    let (outer, packet) = build::udp((from, 50_000), (to, 4789), &inside);
    ethernet(mac_of(bed, at), tap.mac(), outer, &packet)
}

fn mac_of(bed: &Bed, node: &str) -> [u8; 6] {
    Tap::open(&bed.lab.node(node).unwrap().namespace, BRIDGE_PHYSICAL).unwrap().mac()
}

#[test]
fn a_machine_in_a_vlan_of_the_company_sees_the_egress_address_as_well() {
    let mut bed = OfficeBed::bare("egroffic", Wiring::SecondNic, 2, serde_json::Map::new());
    let [v4, v6] = addresses(FIRST);
    let shop = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: shop, annotations: {{fabric.io/egress-ip: \"{v4},{v6}\"}}}}\n"
    );
    bed.lab.write_manifest("namespaces.yaml", &shop).unwrap();
    for (name, node) in [("shop/a", "n1"), ("shop/b", "n2")] {
        bed.add(name, node, serde_json::json!({})).unwrap();
    }
    bed.add("shop/desk", "n1", serde_json::json!({ "fabric.io/network": "vlan100" })).unwrap();
    let claims = bed.lab.layout().world().join(".claims");
    until("both addresses to be claimed", SOON, || {
        let claimed = |ip: &IpAddr| claims.join(format!("{}.json", policy::claim_name(*ip))).exists();
        addresses(FIRST).iter().all(claimed).then_some(())
    });
    let server = bed.server(Lan::Vlan100);
    let seen = Place { addresses: addresses(FIRST), ..server.clone() };
    let (a, b, desk) = (bed.pod("a"), bed.pod("b"), bed.pod("desk"));
    until("the first answer", SOON, || greet(&a.netns, &server.netns, server.addresses[0]));
    until("the first answer", SOON, || greet(&b.netns, &server.netns, server.addresses[1]));
    // A pod in the VLAN is on the wire as itself, and reached by the fabric.
    check(&[(&a, &server, &seen), (&b, &server, &seen), (&desk, &server, &desk), (&a, &desk, &a)]);
}

#[test]
fn the_holder_is_no_way_in_and_no_way_out_for_others() {
    let bed = Bed::new("egrtrick");
    let holders = bed.holders(FIRST, SOON);
    let outside = bed.outside();
    let tap = Tap::open(&outside.netns, wire::BRIDGE).unwrap();
    let mut number = 0;
    for (family, holder) in holders.iter().enumerate() {
        let far = if holder == "n1" { "n2" } else { "n1" };
        let pod = |namespace: &str, node: &str| {
            bed.pod(PODS.iter().find(|(name, on)| name.starts_with(namespace) && *on == node).unwrap().0)
        };
        let (shop, yard, host) = (pod("shop", far), pod("yard", far), outside.addresses[family]);
        // Flows for the way back are there.
        bed.talks_as(&shop.name, addresses(FIRST)[family], SOON);
        let in_pods: Vec<(Place, Tap)> = [&shop, &yard].map(|place| (place.clone(), place.tap())).into();
        let out = Tap::open(&outside.netns, far).unwrap();
        let by_holder = Tap::open(&outside.netns, holder).unwrap();
        let tricks = [
            (
                "from outside by the holder, to a pod of the namespace",
                holder.as_str(),
                far,
                (host, shop.addresses[family]),
            ),
            ("from outside by the holder, to another pod", holder, far, (host, yard.addresses[family])),
            (
                "from outside by the pod's own node, to its holder",
                far,
                holder,
                (host, pod("shop", holder).addresses[family]),
            ),
            ("another namespace's pod, by the holder", far, holder, (yard.addresses[family], host)),
            ("an address of nobody, by the holder", far, holder, (addresses(99)[family], host)),
        ];
        for (what, by, at, inner) in tricks {
            for _ in 0..3 {
                number += 1;
                let mark = Mark(number);
                tap.send(&tunnelled(&bed, &tap, by, at, inner, mark)).unwrap();
                std::thread::sleep(Duration::from_millis(200));
                for (place, tap) in &in_pods {
                    let came = tap.captured().unwrap().iter().any(|frame| marks(frame).any(|m| m == mark));
                    assert!(!came, "{what} ({} to {}): came to {}", inner.0, inner.1, place.name);
                }
                for tap in [&out, &by_holder] {
                    let left = |frame: &Vec<u8>| marks(frame).any(|m| m == mark);
                    assert!(!tap.captured().unwrap().iter().any(left), "{what}: left by a node");
                }
            }
        }
        // The same frames from whom they should be: what is outside gets it, so the taps do see.
        number += 1;
        let mark = Mark(number);
        let inner = (shop.addresses[family], host);
        tap.send(&tunnelled(&bed, &tap, far, holder, inner, mark)).unwrap();
        until("the honest packet outside", Duration::from_secs(2), || {
            by_holder.captured().unwrap().iter().any(|frame| marks(frame).any(|m| m == mark)).then_some(())
        });
    }
}
