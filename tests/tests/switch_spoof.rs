//! A pod that forges: nothing of it gets anywhere, and every frame is counted under its
//! cause; what is honest of the same pod arrives.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::{Cause, Cookie};
use fabric_tests::frames::forgery::{End, ROUTER, Scene, forgeries};
use fabric_tests::frames::{Mark, Tap, build, marks};
use fabric_tests::lab::agent;
use fabric_tests::lab::node::{OUTSIDE, addresses};
use fabric_tests::lab::world::{documents, pods};
use fabric_tests::lab::{Lab, Spec};
use fabric_tests::traffic::{self, PATIENCE, Payload};

/// Marks of frames that are to arrive begin here.
const HONEST: u32 = 1_000_000;
/// Frames of a flood.
const FLOOD: usize = 20_000;
/// The kernel sends a SYN again after 1 s: an exchange below this took none.
const NO_RETRANSMISSION: Duration = Duration::from_millis(900);

fn manifest(name: &str, node: &str) -> String {
    format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: {node}}}\n")
}

/// A forging pod `own` beside a pod `near` on n1, and a pod `far` on n2.
struct Trial {
    lab: Lab,
    scene: Scene,
    own: Tap,
    /// Everywhere where a frame could turn up.
    taps: Vec<(String, Tap)>,
}

impl Trial {
    fn up(purpose: &str) -> Self {
        let mut lab = Lab::up(&Spec::for_test(purpose, 2).unwrap()).unwrap();
        let manifests = manifest("own", "n1") + &manifest("near", "n1") + &manifest("far", "n2");
        lab.write_manifest("pods.yaml", &manifests).unwrap();
        for pod in pods(&documents(&manifests)) {
            lab.attach(&pod, PATIENCE).unwrap();
        }
        let netns = |pod: &str| lab.pod(&format!("default/{pod}")).unwrap().netns.clone();
        let node = |name: &str| lab.node(name).unwrap().namespace.clone();
        let (own, wire) = (Tap::open(&netns("own"), "eth0").unwrap(), lab.layout().name.wire());
        let places = [
            (netns("near"), "eth0"),
            (netns("far"), "eth0"),
            (node("n1"), "br-fabric"),
            (node("n1"), "br-phy"),
            (node("n2"), "br-fabric"),
            (node("n2"), "br-phy"),
            (wire.clone(), "wire"),
            (wire.clone(), "n1"),
            (wire, "n2"),
        ];
        let taps: Vec<(String, Tap)> = places
            .into_iter()
            .map(|(netns, device)| (format!("{device} of {netns}"), Tap::open(&netns, device).unwrap()))
            .collect();
        let scene = Scene {
            own: pod_end(&lab, "own", own.mac()),
            near: pod_end(&lab, "near", taps[0].1.mac()),
            far: pod_end(&lab, "far", taps[1].1.mac()),
            node: end([0; 6], addresses(1)),
            other_node: end([0; 6], addresses(2)),
            outside: end([0; 6], addresses(OUTSIDE)),
        };
        Self { lab, scene, own, taps }
    }

    fn netns(&self, pod: &str) -> String {
        self.lab.pod(&format!("default/{pod}")).unwrap().netns.clone()
    }

    /// Packets that the switch of n1 has dropped, by cause.
    fn drops(&self) -> BTreeMap<&'static str, u64> {
        let mut drops = BTreeMap::new();
        for stats in self.lab.dump_flows("n1").unwrap() {
            if let Some(cause) = Cookie(stats.flow.cookie).dropped_for() {
                *drops.entry(cause.name()).or_default() += stats.packets;
            }
        }
        drops
    }

    /// The same as the agent tells it.
    fn told_drops(&self) -> BTreeMap<String, u64> {
        agent::status(self.lab.node("n1").unwrap(), self.lab.programs().unwrap()).unwrap().drops
    }

    /// Marks that turned up since the last call, with the place.
    fn turned_up(&self) -> Vec<(Mark, &str)> {
        let captured = |(place, tap): &'_ (String, Tap)| {
            let frames = tap.captured().unwrap();
            frames.iter().flat_map(|frame| marks(frame)).map(|mark| (mark, place.clone())).collect::<Vec<_>>()
        };
        let named = |place: String| self.taps.iter().find(|(p, _)| *p == place).unwrap().0.as_str();
        self.taps.iter().flat_map(captured).map(|(mark, place)| (mark, named(place))).collect()
    }

    /// Honest packets of the forging pod, which must arrive; everything sent before is through then.
    fn honest(&self, from: u32) -> Vec<(Mark, &str)> {
        let (own, mut found, mut number) = (self.scene.own, Vec::new(), from);
        for (place, to) in [(0, self.scene.near), (1, self.scene.far)] {
            let pairs: [(IpAddr, IpAddr); 2] = [(own.v4.into(), to.v4.into()), (own.v6.into(), to.v6.into())];
            for (from, to) in pairs {
                let mark = Mark(HONEST + number);
                number += 1;
                let (ethertype, packet) = build::udp((from, 4000), (to, 4001), &mark.bytes());
                self.own.send(&build::ethernet(ROUTER, own.mac, ethertype, &packet)).unwrap();
                let place = self.taps[place].0.as_str();
                wait(&format!("an honest packet from {from} arrives at {to}"), || {
                    found.extend(self.turned_up());
                    found.contains(&(mark, place))
                });
            }
        }
        found
    }

    /// Numbers of the processes of n1's switch and of its agent.
    fn processes(&self) -> Vec<String> {
        let folder = &self.lab.node("n1").unwrap().directory;
        let files = ["ovs-vswitchd.pid", "fabric-node.pid"].map(|file| folder.join(file));
        files.map(|file| std::fs::read_to_string(file).unwrap()).to_vec()
    }
}

fn end(mac: [u8; 6], addresses: [IpAddr; 2]) -> End {
    match addresses {
        [IpAddr::V4(v4), IpAddr::V6(v6)] => End { mac, v4, v6 },
        other => unreachable!("{other:?}"),
    }
}

fn pod_end(lab: &Lab, name: &str, mac: [u8; 6]) -> End {
    let record = lab.pod(&format!("default/{name}")).unwrap();
    end(mac, record.ips().try_into().unwrap())
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_forged_gets_anywhere_and_each_is_counted_under_its_cause() {
    let trial = Trial::up("raforge");
    trial.honest(0);
    let (forgeries, before, processes) = (forgeries(&trial.scene), trial.drops(), trial.processes());
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for forgery in &forgeries {
        trial.own.send(&forgery.frame).unwrap();
        if let Some(cause) = forgery.cause {
            *wanted.entry(cause.name()).or_default() += 1;
        }
    }
    let mut turned_up = trial.honest(100);
    // What waited for an answer of the agent is through as well.
    std::thread::sleep(Duration::from_millis(500));
    turned_up.extend(trial.honest(200));
    let through: Vec<String> = turned_up
        .iter()
        .filter_map(|(mark, place)| Some((forgeries.get(usize::try_from(mark.0).unwrap())?, place)))
        .map(|(forgery, place)| format!("{} turned up at {place}", forgery.name))
        .collect();
    assert!(through.is_empty(), "{}", through.join("\n"));
    // Pods have multicast of their own, forgeries without one cause may be invalid, and the switch counts packets that
    // it asked about in a burst a second time, under the flow that was the answer.
    let loose = [Cause::Multicast, Cause::Invalid, Cause::TunnelPort].map(Cause::name);
    let until = Instant::now() + PATIENCE;
    let counted: BTreeMap<&str, u64> = loop {
        let drops = trial.drops();
        let counted: BTreeMap<_, _> =
            wanted.keys().map(|cause| (*cause, drops[cause] - before[cause])).collect();
        if wanted.iter().all(|(cause, n)| counted[cause] >= *n) || Instant::now() > until {
            break counted;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let right =
        |(cause, n): (&&str, &u64)| counted[cause] == *n || loose.contains(cause) && counted[cause] > *n;
    assert!(wanted.iter().all(right), "wanted {wanted:?}\ncounted {counted:?}");
    let told = trial.told_drops();
    assert!(wanted.keys().all(|cause| told[*cause] >= before[cause] + counted[cause]), "{told:?}");
    assert_eq!(trial.processes(), processes, "neither switch nor agent began anew");
    // What shows that a tap would have seen it: the honest packets, inside their tunnel too.
    let on_wire = turned_up.iter().filter(|(mark, place)| mark.0 >= HONEST && place.starts_with("n1 of"));
    assert_eq!(on_wire.count(), 4);
}

/// What a flood sends as its n-th frame.
type Frame = fn(&Scene, &mut Payload, u16) -> Vec<u8>;

#[test]
fn a_flood_makes_no_other_pod_suffer() {
    let trial = Trial::up("raflood");
    let processes = trial.processes();
    let kinds: [(&str, Frame); 4] = [
        ("of noise", noise),
        ("of packets to addresses that nobody has", |scene, _, n| {
            let [high, low] = n.to_be_bytes();
            let to = std::net::Ipv4Addr::new(10, 244, high, low);
            framed(scene, build::udp((scene.own.v4.into(), 4000), (to.into(), 4001), b"?"))
        }),
        ("of packets whose time ends", |scene, _, n| {
            let datagram = build::udp_datagram((scene.own.v4.into(), n), (scene.near.v4.into(), 4001), b"?");
            let packet = build::ipv4(scene.own.v4, scene.near.v4, build::UDP, 0, &datagram);
            framed(scene, (build::IPV4, build::with_ttl(packet, 1)))
        }),
        ("of fragments whose others never come", |scene, _, n| {
            let mut packet = build::ipv4(scene.own.v4, scene.near.v4, build::UDP, 0x2000, &[0x55; 64]);
            packet[4..6].copy_from_slice(&n.to_be_bytes());
            framed(scene, (build::IPV4, build::with_ttl(packet, 64)))
        }),
    ];
    let mut number = 0;
    for (name, frame) in kinds {
        std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                let mut noise = Payload::new(17);
                for n in 0..FLOOD {
                    let frame = frame(&trial.scene, &mut noise, u16::try_from(n).unwrap());
                    trial.own.send(&frame).unwrap();
                }
            });
            let (mut talks, (near, far)) = (0, (trial.netns("near"), trial.netns("far")));
            while !flood.is_finished() || talks < 4 {
                for (from, to, end) in [(&near, &far, trial.scene.far), (&far, &near, trial.scene.near)] {
                    let began = Instant::now();
                    let exchange = traffic::exchange(from, to, end.v4.into(), 100).unwrap();
                    let took = began.elapsed();
                    assert!(
                        exchange.is_whole() && took < NO_RETRANSMISSION,
                        "flood {name}: {took:?} for an answer"
                    );
                    talks += 1;
                }
            }
        });
        trial.honest(number);
        number += 10;
        assert_eq!(trial.processes(), processes, "flood {name}: neither switch nor agent began anew");
    }
}

fn framed(scene: &Scene, (ethertype, packet): (u16, Vec<u8>)) -> Vec<u8> {
    build::ethernet(ROUTER, scene.own.mac, ethertype, &packet)
}

/// A frame of the pod's own that is right for some bytes and then anything.
fn noise(scene: &Scene, noise: &mut Payload, n: u16) -> Vec<u8> {
    let (ethertype, mut packet) = match n % 4 {
        0 => (noise.bytes(1)[0].into(), Vec::new()),
        1 => (build::ARP, Vec::new()),
        2 => build::udp((scene.own.v4.into(), 1), (scene.near.v4.into(), 2), &[0; 100]),
        _ => build::udp((scene.own.v6.into(), 1), (scene.far.v6.into(), 2), &[0; 100]),
    };
    let kept = usize::from(noise.bytes(1)[0]) % (packet.len() + 1);
    packet.truncate(kept);
    let more = usize::from(noise.bytes(1)[0]);
    packet.extend(noise.bytes(more));
    let spoilt = noise.bytes(2);
    if let Some(byte) = packet.get_mut(usize::from(spoilt[0])) {
        *byte = spoilt[1];
    }
    framed(scene, (ethertype, packet))
}
