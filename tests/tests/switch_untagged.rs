//! A Network without a VLAN: its pods are in the native VLAN of the physical switch, beside one with a tag.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::time::Duration;

use fabric_tests::frames::build::EVERYBODY;
use fabric_tests::lab::Wiring;
use fabric_tests::lab::office::{Lan, PHYSICAL};
use fabric_tests::office::{OfficeBed, Trunks, discovery};
use fabric_tests::traffic;
use fabric_tests::trial::holds_within;
use serde_json::{Map, json};

/// How long the agent may take to read a Network.
const PATIENCE: Duration = Duration::from_secs(10);
/// What was sent is wherever it gets to after this.
const THROUGH: Duration = Duration::from_millis(400);

#[test]
fn pods_without_a_tag_are_in_the_native_vlan_and_in_no_other() {
    let mut bed = OfficeBed::bare("untag", Wiring::SecondNic, 1, Map::new());
    let network = json!({
        "apiVersion": "fabric.io/v1alpha1", "kind": "Network", "metadata": { "name": "plain" },
        "spec": {
            "mode": "underlay", "physicalNetwork": PHYSICAL, "cidrs": ["10.50.0.0/16", "fd50::/64"],
            "ranges": ["10.50.1.0-10.50.1.255", "fd50::1:0-fd50::1:ffff"],
        },
    });
    bed.lab.write_manifest("plain.yaml", &network.to_string()).unwrap();
    let known = || bed.lab.agent_status("n1").unwrap().world.networks == 4;
    assert!(holds_within(PATIENCE, known), "the Network is not read");
    let trunks = Trunks::watch(&bed.lab);
    bed.add("shop/plain", "n1", json!({ "fabric.io/network": "plain" })).unwrap();
    bed.add("shop/till", "n1", json!({ "fabric.io/network": "vlan100" })).unwrap();
    let (plain, till) = (bed.pod("plain"), bed.pod("till"));
    let router = bed.lab.layout().name.office("router");
    for (own, far) in plain.addresses.into_iter().zip(Lan::Untagged.host(1)) {
        traffic::exchange(&plain.netns, &router, far, 1_000_000).unwrap();
        traffic::exchange(&router, &plain.netns, own, 1_000_000).unwrap();
    }
    let (tap, tagged) = (plain.tap(), till.tap());
    drop((tap.captured().unwrap(), tagged.captured().unwrap()));
    // Frames to everybody, of the native VLAN and of VLAN 100, in which each asks for the other's pod.
    let native = fabric_tests::frames::Tap::open(&router, Lan::Untagged.leg()).unwrap();
    let server = bed.server(Lan::Vlan100);
    let other = server.tap();
    native.send(&discovery::claim(native.mac(), Lan::Untagged.host(9)[0], EVERYBODY)).unwrap();
    other.send(&discovery::claim(other.mac(), Lan::Vlan100.host(9)[0], EVERYBODY)).unwrap();
    std::thread::sleep(THROUGH);
    let heard = |tap: &fabric_tests::frames::Tap, from: [u8; 6]| {
        tap.captured().unwrap().iter().filter(|frame| frame[6..12] == from).count()
    };
    assert_eq!((heard(&tap, native.mac()), heard(&tagged, other.mac())), (1, 1), "each its own");
    native.send(&discovery::claim(native.mac(), Lan::Untagged.host(9)[0], EVERYBODY)).unwrap();
    other.send(&discovery::claim(other.mac(), Lan::Vlan100.host(9)[0], EVERYBODY)).unwrap();
    std::thread::sleep(THROUGH);
    assert_eq!((heard(&tap, other.mac()), heard(&tagged, native.mac())), (0, 0), "and not the other's");
    let frames = trunks.take();
    let of = |mac: [u8; 6]| frames.iter().filter(move |frame| frame.from == mac);
    assert!(of(tap.mac()).count() > 0 && of(tap.mac()).all(|frame| frame.vlan.is_none()), "no tag");
    assert!(of(tagged.mac()).count() > 0 && of(tagged.mac()).all(|frame| frame.vlan == Some(100)));
}
