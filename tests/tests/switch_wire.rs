//! What the wire sees of pods in VLANs: every frame on the trunks between the nodes and the office's switch. And what a
//! machine on the wire, or a pod, gets through that claims to be another.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::{Cause, ROUTER_MAC};
use fabric_tests::frames::build::{self, EVERYBODY, ethernet, tag, udp};
use fabric_tests::frames::{Mark, Tap, marks};
use fabric_tests::lab::office::{Lan, PHYSICAL};

use fabric_tests::lab::{LabError, Wiring, netns};
use fabric_tests::office::{Frame, Net, OfficeBed, Place, Trunks, discovery};
use fabric_tests::traffic;
use fabric_tests::trial::holds_within;
use serde_json::{Map, json};

/// What was sent is wherever it gets to after this.
const THROUGH: Duration = Duration::from_millis(400);
/// A packet that is sent again to learn a place takes longer: a SYN after 1 s.
const AT_ONCE: Duration = Duration::from_secs(3);
/// Between two frames that are counted one by one.
const APART: Duration = Duration::from_millis(50);
/// How long the switch may take to count what it dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Two pods of each network on n1, and one on n2.
const PODS: [&str; 9] = ["web", "cart", "db", "till", "scanner", "printer", "camera", "recorder", "phone"];

type Mac = [u8; 6];

fn bed(purpose: &str) -> OfficeBed {
    OfficeBed::of_folder(purpose, Wiring::SecondNic, &OfficeBed::example(), Map::new())
}

fn mac_of(netns: &str, device: &str) -> Mac {
    Tap::open(netns, device).unwrap().mac()
}

/// Who may be seen on a VLAN of a trunk, by hardware address.
struct Owner {
    /// Its addresses; none for the router, which carries those of others.
    addresses: Vec<IpAddr>,
    forwards: bool,
    /// VLAN; none for untagged.
    vlan: Option<u16>,
    /// The node behind whose trunk it is; none of the office itself.
    node: Option<String>,
    name: String,
}

/// Everybody with a hardware address in the office.
fn owners(bed: &OfficeBed, pods: &[Place]) -> BTreeMap<(Mac, Option<u16>), Owner> {
    let mut owners = BTreeMap::new();
    let mut add = |mac: Mac, owner: Owner| owners.insert((mac, owner.vlan), owner);
    for pod in pods {
        let Net::Lan(lan) = pod.net else { continue };
        let (addresses, node) = (pod.addresses.to_vec(), pod.node.clone());
        let owner = Owner { addresses, forwards: false, vlan: lan.vlan(), node, name: pod.name.clone() };
        add(mac_of(&pod.netns, &pod.device), owner);
    }
    let office = &bed.lab.layout().name;
    for lan in Lan::ALL {
        let mac = mac_of(&office.office("router"), lan.leg());
        let (addresses, vlan) = (lan.host(1).to_vec(), lan.vlan());
        add(mac, Owner { addresses, forwards: true, vlan, node: None, name: "router".to_owned() });
        if let Some(server) = lan.server() {
            let mac = mac_of(&office.office(server), "eth0");
            let (addresses, vlan) = (lan.host(10).to_vec(), lan.vlan());
            add(mac, Owner { addresses, forwards: false, vlan, node: None, name: server.to_owned() });
        }
    }
    for node in bed.lab.nodes() {
        let mac = mac_of(&node.namespace, &format!("br-{PHYSICAL}"));
        let (node, name) = (Some(node.name.clone()), node.name.clone());
        add(mac, Owner { addresses: Vec::new(), forwards: false, vlan: None, node, name });
    }
    owners
}

/// What is wrong with a frame.
fn fault(frame: &Frame, owners: &BTreeMap<(Mac, Option<u16>), Owner>) -> Option<String> {
    let Some(owner) = owners.get(&(frame.from, frame.vlan)) else {
        let whose = owners.iter().find(|((mac, _), _)| *mac == frame.from);
        return Some(format!(
            "nobody of VLAN {:?} has its source: {:?}",
            frame.vlan,
            whose.map(|(_, o)| &o.name)
        ));
    };
    if frame.from == ROUTER_MAC.0 || frame.to == ROUTER_MAC.0 {
        return Some("a hardware address that is the fabric's own".to_owned());
    }
    if frame.by_node != (owner.node.as_deref() == Some(frame.node.as_str())) {
        return Some(format!("{} is not on that side of the trunk", owner.name));
    }
    let own = |address: &IpAddr| owner.addresses.contains(address) || is_link_local(address);
    if let Some(claim) = frame.claim() {
        if !own(&claim.address) && !claim.address.is_unspecified() {
            return Some(format!("{} claims {}", owner.name, claim.address));
        }
        if claim.mac.is_some_and(|mac| mac != frame.from) {
            return Some(format!("{} names another hardware address than its own", owner.name));
        }
        return None;
    }
    let packet = frame.packet()?;
    let overlay = [packet.from, packet.to].into_iter().find(is_overlay);
    if let Some(address) = overlay {
        return Some(format!("{address} is the overlay's own"));
    }
    if (packet.protocol, packet.destination) == (build::UDP, 4789) {
        return Some("a tunnel's packet".to_owned());
    }
    let honest = owner.forwards || own(&packet.from) || packet.from.is_unspecified();
    // Hosts behind the router and the machines of the VLAN have addresses of their own.
    (!honest).then(|| format!("{} sends as {}", owner.name, packet.from))
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn is_overlay(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..2] == [10, 244],
        IpAddr::V6(v6) => v6.segments()[0] == 0xfd44,
    }
}

/// Datagrams of everybody to everybody, each with a mark of its own, and some TCP and echoes.
fn traffic_of_all(places: &[Place]) -> u32 {
    let mut mark = 0;
    for from in places {
        for to in places.iter().filter(|to| to.name != from.name) {
            if to.net == Net::Overlay && !from.is_pod() {
                continue;
            }
            for address in to.addresses {
                send(from, address, Mark(mark));
                mark += 1;
            }
        }
    }
    for (from, to) in places.iter().zip(places.iter().skip(3)) {
        for address in to.addresses {
            if to.net != Net::Overlay || from.is_pod() {
                traffic::exchange(&from.netns, &to.netns, address, 100_000).unwrap();
            }
        }
    }
    mark
}

fn send(from: &Place, to: IpAddr, mark: Mark) {
    let socket = traffic::udp(&from.netns, SocketAddr::new(traffic::unspecified(to), 0)).unwrap();
    socket.send_to(&mark.bytes(), SocketAddr::new(to, 9)).unwrap();
}

#[test]
fn on_the_trunks_everybody_speaks_for_himself_and_in_his_vlan_only() {
    let mut bed = bed("unframe");
    let trunks = Trunks::watch(&bed.lab);
    bed.add("shop/fresh", "n1", json!({ "fabric.io/network": "vlan100" })).unwrap();
    let mut pods: Vec<Place> = PODS.iter().map(|name| bed.pod(name)).collect();
    pods.push(bed.pod("fresh"));
    let servers = [Lan::Vlan100, Lan::Vlan200].map(|lan| bed.server(lan));
    let places: Vec<Place> = pods.iter().chain(&servers).cloned().collect();
    let sent = traffic_of_all(&places);
    let asking = servers[0].tap();
    // Somebody asks for what nobody has, and for what an overlay pod, a node and another VLAN's pod have.
    for address in
        [pods[0].addresses, pods[6].addresses, bed.node("n1").addresses, Lan::Vlan100.host(77)].concat()
    {
        let own = servers[0].addresses[usize::from(address.is_ipv6())];
        asking.send(&discovery::question(asking.mac(), own, address)).unwrap();
    }
    // Announcements are repeated within seconds.
    std::thread::sleep(Duration::from_secs(2));
    let frames = trunks.take();
    let owners = owners(&bed, &pods);
    let mut faults: Vec<String> = frames
        .iter()
        .filter_map(|frame| Some(format!("{}: {}", fault(frame, &owners)?, shown(frame))))
        .collect();
    faults.extend(duplicates(&frames));
    faults.sort();
    faults.dedup();
    let shown_faults = faults.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{} of {} frames:\n{shown_faults}", faults.len(), frames.len());
    // What shows that the capture would have seen them.
    let marked: BTreeSet<Mark> = frames.iter().filter_map(|frame| frame.mark).collect();
    assert!(marked.len() > usize::try_from(sent).unwrap() / 3, "{} of {sent} datagrams", marked.len());
    let tags: BTreeSet<_> =
        frames.iter().filter(|frame| frame.mark.is_some()).map(|frame| frame.vlan).collect();
    assert_eq!(tags, BTreeSet::from([Some(100), Some(200)]));
    announced(&bed, &pods[9], &frames);
}

fn shown(frame: &Frame) -> String {
    let mac = |mac: Mac| mac.map(|byte| format!("{byte:02x}")).join(":");
    let (by, what) = (if frame.by_node { "from" } else { "to" }, frame.packet());
    let Frame { node, vlan, ethertype, .. } = frame;
    let (source, target, claim) = (mac(frame.from), mac(frame.to), frame.claim());
    format!("{by} {node}, VLAN {vlan:?}, {source} > {target}, type {ethertype:#06x}, {what:?}, {claim:?}")
}

/// Marked datagrams that passed a trunk twice in one direction.
fn duplicates(frames: &[Frame]) -> Vec<String> {
    let mut seen: BTreeMap<(Mark, &str, bool, Option<u16>), usize> = BTreeMap::new();
    for frame in frames {
        if let Some(mark) = frame.mark
            && frame.packet().is_some_and(|packet| packet.protocol == build::UDP)
        {
            *seen.entry((mark, &frame.node, frame.by_node, frame.vlan)).or_default() += 1;
        }
    }
    let twice = seen.iter().filter(|(_, times)| **times > 1);
    twice.map(|((mark, node, by_node, vlan), times)| {
        format!("{mark:?} was seen {times} times on the trunk of {node} (by the node: {by_node}), VLAN {vlan:?}")
    }).collect()
}

/// A pod that was attached tells its VLAN where it is, in both families.
fn announced(bed: &OfficeBed, pod: &Place, frames: &[Frame]) {
    let mac = mac_of(&pod.netns, &pod.device);
    for address in pod.addresses {
        let tells = |frame: &&Frame| {
            let claim = frame.claim();
            frame.from == mac
                && frame.is_for_group()
                && frame.by_node
                && claim
                    .is_some_and(|claim| claim.answers && claim.address == address && claim.mac == Some(mac))
        };
        let told = frames.iter().filter(tells).count();
        assert!(told > 0, "{address} of {} is announced to nobody on {}", pod.name, bed.lab.layout().name);
    }
}

#[test]
fn a_pod_gets_no_frame_into_another_vlan_by_a_tag_of_its_own() {
    let bed = bed("unhop");
    let victims = ["scanner", "printer", "camera", "phone"].map(|name| bed.pod(name));
    let servers = [Lan::Vlan100, Lan::Vlan200].map(|lan| bed.server(lan));
    let places: Vec<&Place> = victims.iter().chain(&servers).collect();
    let taps: Vec<_> = places.iter().map(|place| place.tap()).collect();
    let (trunks, mut number, before) = (Trunks::watch(&bed.lab), 0, bed.drops("n1"));
    // One in a VLAN, and one in the overlay.
    for sender in [bed.pod("till"), bed.pod("web")] {
        let own = sender.tap();
        for (place, tap) in places.iter().zip(&taps) {
            for (to, family) in [(tap.mac(), 0), (tap.mac(), 1), (EVERYBODY, 0), (EVERYBODY, 1)] {
                let (from, target) = (sender.addresses[family], place.addresses[family]);
                let next = || {
                    number += 1;
                    udp((from, 9), (target, 9), &Mark(number).bytes())
                };
                for (ethertype, inside) in tagged(next) {
                    own.send(&ethernet(to, own.mac(), ethertype, &inside)).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
    std::thread::sleep(THROUGH);
    let mut through: Vec<String> =
        trunks.take().iter().filter(|frame| frame.mark.is_some()).map(shown).collect();
    for (place, tap) in places.iter().zip(&taps) {
        let frames = tap.captured().unwrap();
        through.extend(
            frames.iter().flat_map(|frame| marks(frame)).map(|mark| format!("{mark:?} at {}", place.name)),
        );
    }
    assert!(through.is_empty(), "{} of {number}:\n{}", through.len(), through.join("\n"));
    // At times the switch counts not each of what it sees for the first time.
    let most = || (bed.drops("n1")["vlan-tag"] - before["vlan-tag"]) * 10 >= u64::from(number) * 9;
    assert!(holds_within(PATIENCE, most), "of {number} with a tag {:?} are counted so", bed.drops("n1"));
}

/// A packet behind tags of several kinds: of the other VLAN, of its own, of none; behind two; behind a service tag.
fn tagged(mut next: impl FnMut() -> (u16, Vec<u8>)) -> Vec<(u16, Vec<u8>)> {
    let mut frames = Vec::new();
    for vid in [200, 100, 0, 4095] {
        let (ethertype, packet) = next();
        frames.push((build::VLAN, tag(vid, ethertype, &packet)));
    }
    let (ethertype, packet) = next();
    frames.push((build::VLAN, tag(100, build::VLAN, &tag(200, ethertype, &packet))));
    let (ethertype, packet) = next();
    frames.push((build::SERVICE_VLAN, tag(200, ethertype, &packet)));
    frames
}

/// A frame that a machine of VLAN 100 sends, and why nothing of it may get to a pod of n1.
struct Forged {
    what: String,
    cause: Cause,
    frame: Vec<u8>,
}

/// What a machine of VLAN 100 tries with the pods `till` and `scanner` of n1, in one family.
fn forged(bed: &OfficeBed, family: usize, mac: Mac, next: &mut impl FnMut() -> Mark) -> Vec<Forged> {
    let (till, scanner, camera) = (bed.pod("till"), bed.pod("scanner"), bed.pod("camera"));
    let (till_mac, scanner_mac) = (mac_of(&till.netns, "eth0"), mac_of(&scanner.netns, "eth0"));
    let own = bed.server(Lan::Vlan100).addresses[family];
    let (till, scanner, camera) =
        (till.addresses[family], scanner.addresses[family], camera.addresses[family]);
    let (web, db) = (bed.pod("web").addresses[family], bed.pod("db").addresses[family]);
    let (node, other) = (bed.node("n1").addresses[family], bed.node("n2").addresses[family]);
    let mut forged = Vec::new();
    let mut packet = |what: &str, cause, source: Mac, from: IpAddr, to: Mac, target: IpAddr| {
        let (ethertype, packet) = udp((from, 9), (target, 9), &next().bytes());
        let frame = ethernet(to, source, ethertype, &packet);
        forged.push(Forged { what: format!("{what}, {from} to {target}"), cause, frame });
    };
    let (spoofed, stray) = (Cause::SpoofedOnWire, Cause::WireStray);
    packet("a pod's address", spoofed, mac, till, scanner_mac, scanner);
    packet("the pod's own address", spoofed, mac, till, till_mac, till);
    packet("a pod's hardware address", spoofed, scanner_mac, own, till_mac, till);
    packet("an overlay pod's address", spoofed, mac, web, till_mac, till);
    packet("a remote overlay pod's address", spoofed, mac, db, till_mac, till);
    packet("the node's address", spoofed, mac, node, till_mac, till);
    packet("to another pod than the frame's", stray, mac, own, till_mac, scanner);
    packet("to a pod of another VLAN", stray, mac, own, till_mac, camera);
    packet("to an overlay pod", stray, mac, own, till_mac, web);
    packet("to a remote overlay pod", stray, mac, own, till_mac, db);
    packet("to the node", stray, mac, own, till_mac, node);
    packet("to another node", stray, mac, own, till_mac, other);
    packet("to a machine outside", stray, mac, own, till_mac, Lan::Vlan200.host(10)[family]);
    packet("to the fabric's router", stray, mac, own, ROUTER_MAC.0, till);
    packet("to nobody's hardware address", stray, mac, own, [2, 9, 9, 9, 9, 9], till);
    for (to, whom) in [(EVERYBODY, "everybody"), (scanner_mac, "a pod"), (till_mac, "its owner")] {
        // Discovery has a group of its own for everybody.
        let to = if family == 1 && to == EVERYBODY { [0x33, 0x33, 0, 0, 0, 1] } else { to };
        let frame = discovery::claim(mac, till, to);
        forged.push(Forged { what: format!("{till} is claimed, to {whom}"), cause: spoofed, frame });
    }
    forged
}

/// Which of the frames turned up at a pod.
fn arrived(victims: &[Place], taps: &[Tap], forgeries: &[Forged]) -> Vec<String> {
    let mut through = Vec::new();
    for (victim, tap) in victims.iter().zip(taps) {
        let frames = tap.captured().unwrap();
        let same = |forged: &&Forged| {
            frames.iter().any(|frame| match marks(&forged.frame).next() {
                Some(mark) => marks(frame).any(|other| other == mark),
                None => frame[14..] == forged.frame[14..],
            })
        };
        let found = forgeries.iter().filter(same);
        through.extend(found.map(|forged| format!("{} arrived at {}", forged.what, victim.name)));
    }
    through
}

#[test]
fn what_a_machine_of_the_vlan_forges_gets_to_no_pod() {
    let bed = bed("unforge");
    let server = bed.server(Lan::Vlan100);
    let (own, mut number) = (server.tap(), 0);
    let mut next = || {
        number += 1;
        Mark(number)
    };
    let mut forgeries: Vec<Forged> =
        (0..2).flat_map(|family| forged(&bed, family, own.mac(), &mut next)).collect();
    // The office's switch sends what is for a hardware address to where it saw it last: those who steal one come last.
    forgeries.sort_by_key(|forged| forged.frame[6..12] != own.mac());
    let victims: Vec<Place> =
        PODS.iter().map(|name| bed.pod(name)).filter(|pod| pod.node.as_deref() == Some("n1")).collect();
    let taps: Vec<_> = victims.iter().map(Place::tap).collect();
    let before = bed.drops("n1");
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for Forged { cause, frame, .. } in &forgeries {
        own.send(frame).unwrap();
        std::thread::sleep(APART);
        *wanted.entry(cause.name()).or_default() += 1;
    }
    std::thread::sleep(THROUGH);
    let through = arrived(&victims, &taps, &forgeries);
    assert!(through.is_empty(), "{}", through.join("\n"));
    let counted = || -> BTreeMap<&str, u64> {
        let after = bed.drops("n1");
        wanted.keys().map(|cause| (*cause, after[cause] - before[cause])).collect()
    };
    // The switch counts what its cache has dropped in a moment, and at times not each of what it sees for the first time.
    let all = || wanted.iter().all(|(cause, sent)| counted()[cause] * 10 >= sent * 9);
    assert!(holds_within(PATIENCE, all), "sent {wanted:?}, counted {:?}", counted());
    // What shows that the machine reaches the pods when it is honest.
    let (till, mark) = (bed.pod("till"), Mark(9999));
    for family in 0..2 {
        send(&server, till.addresses[family], mark);
    }
    std::thread::sleep(THROUGH);
    let place = victims.iter().position(|victim| victim.name == till.name).unwrap();
    let honest = taps[place].captured().unwrap();
    assert_eq!(honest.iter().flat_map(|frame| marks(frame)).filter(|m| *m == mark).count(), 2);
}

#[test]
fn an_address_that_a_machine_of_the_vlan_has_is_given_to_no_pod() {
    let mut bed = bed("undup");
    let server = bed.server(Lan::Vlan100);
    let mac = mac_of(&server.netns, &server.device).map(|byte| format!("{byte:02x}")).join(":");
    for (name, address) in [("four", server.addresses[0]), ("six", server.addresses[1])] {
        let annotations = json!({ "fabric.io/network": "vlan100", "fabric.io/ip": address });
        let added = bed.add(&format!("shop/{name}"), "n1", annotations);
        let Err(LabError::Cni { message, .. }) = added else { unreachable!("{added:?}") };
        assert!(
            message.contains(&mac) && message.contains(&address.to_string()),
            "{mac}, {address}: {message}"
        );
    }
    // The machine goes, and the address is free.
    netns::batch(&server.netns, &format!("addr del {}/16 dev eth0\n", server.addresses[0])).unwrap();
    let annotations = json!({ "fabric.io/network": "vlan100", "fabric.io/ip": server.addresses[0] });
    bed.add("shop/later", "n1", annotations).unwrap();
}

#[test]
fn a_pod_that_moves_is_announced_and_reached_at_its_new_place_at_once() {
    let config = Map::from_iter([("claimRestSeconds".to_owned(), json!(1))]);
    let mut bed = OfficeBed::bare("unmove", Wiring::SecondNic, 2, config);
    let annotations = json!({ "fabric.io/network": "vlan100", "fabric.io/ip": "10.100.1.77,fd10::1:77" });
    let server = bed.server(Lan::Vlan100);
    for node in ["n1", "n2", "n1"] {
        let trunks = Trunks::watch(&bed.lab);
        bed.add("shop/mover", node, annotations.clone()).unwrap();
        let mover = bed.pod("mover");
        for address in mover.addresses {
            let began = Instant::now();
            let exchange = traffic::exchange(&server.netns, &mover.netns, address, 1000).unwrap();
            assert!(
                exchange.is_whole() && began.elapsed() < AT_ONCE,
                "{address} on {node}: {:?}",
                began.elapsed()
            );
        }
        announced(&bed, &mover, &trunks.take());
        bed.lab.remove_pod("shop/mover").unwrap();
    }
}
