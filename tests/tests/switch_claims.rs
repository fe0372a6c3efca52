//! A machine in a VLAN takes the address of a running pod: nobody here believes it, the agent defends the address and
//! names the machine, and many such frames cost it no more than one. Needs root and Open vSwitch, and fails where they
//! are missing.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_core::pipeline::vocabulary::Table;
use fabric_tests::frames::Tap;
use fabric_tests::frames::build::EVERYBODY;
use fabric_tests::lab::Wiring;
use fabric_tests::lab::office::Lan;
use fabric_tests::office::{OfficeBed, discovery};
use fabric_tests::traffic;
use fabric_tests::trial::holds_within;
use serde_json::{Map, json};

/// How long the agent may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Frames of a second.
const CLAIMS: u32 = 10_000;

/// Packets that the switch of n1 has given to its agent below the meters.
fn handed_up(bed: &OfficeBed) -> u64 {
    let flows = bed.lab.dump_flows("n1").unwrap();
    let up = flows.iter().filter(|s| s.flow.table == Table::Punt.id() && !s.flow.actions.is_empty());
    up.map(|stats| stats.packets).sum()
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[test]
fn a_pods_address_is_defended_against_a_machine_that_takes_it() {
    let mut bed = OfficeBed::bare("unclaim", Wiring::SecondNic, 1, Map::new());
    bed.add("shop/till", "n1", json!({ "fabric.io/network": "vlan100" })).unwrap();
    let (till, server) = (bed.pod("till"), bed.server(Lan::Vlan100));
    let own = Tap::open(&till.netns, &till.device).unwrap().mac();
    let tap = server.tap();
    // Its own announcements are repeated within seconds.
    std::thread::sleep(Duration::from_secs(3));
    for address in till.addresses {
        drop(tap.captured().unwrap());
        tap.send(&discovery::claim(tap.mac(), address, EVERYBODY)).unwrap();
        let defends = |frame: &Vec<u8>| frame[6..12] == own && names(frame, address);
        let defended = || tap.captured().unwrap().iter().any(defends);
        assert!(holds_within(PATIENCE, defended), "{address} is not announced again");
        let status = bed.lab.agent_status("n1").unwrap();
        let conflict = status.conflicts.iter().find(|conflict| conflict.ip == address).unwrap();
        assert_eq!(
            (conflict.holder.as_str(), conflict.mac.as_str()),
            ("pod shop/till", text(tap.mac()).as_str())
        );
        let said = format!("address {address} of pod shop/till is also used in VLAN 100");
        let told =
            status.problems.iter().any(|p| p.message.contains(&said) && p.message.contains(&text(tap.mac())));
        assert!(told, "{:?}", status.problems);
    }
    let (before, began) = ((handed_up(&bed), bed.lab.agent_status("n1").unwrap().defences), Instant::now());
    for n in 0..CLAIMS {
        tap.send(&discovery::claim(tap.mac(), till.addresses[0], EVERYBODY)).unwrap();
        std::thread::sleep((Duration::from_micros(100) * n).saturating_sub(began.elapsed()));
    }
    std::thread::sleep(Duration::from_secs(1));
    let took = began.elapsed();
    let after = (handed_up(&bed), bed.lab.agent_status("n1").unwrap().defences);
    println!("{CLAIMS} claims in {took:?}: handed up, and defended, before {before:?} and after {after:?}");
    let most = 1 + took.as_secs() / 10;
    assert!(after.1 - before.1 <= most, "defended {before:?} to {after:?} in {took:?}");
    // Those that are under way while the agent hears of the first.
    assert!(after.0 - before.0 <= 1_100 * most, "handed up {before:?} to {after:?}");
    let dropped = || bed.drops("n1")["spoofed-on-wire"] >= u64::from(CLAIMS) * 9 / 10;
    assert!(holds_within(PATIENCE, dropped), "{:?}", bed.drops("n1"));
    // Whoever believed the machine has been told otherwise.
    for address in till.addresses {
        traffic::exchange(&server.netns, &till.netns, address, 10_000).unwrap();
    }
}

/// Whether a frame of ARP or neighbour discovery says whose an address is.
fn names(frame: &[u8], address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => frame[12..14] == [0x08, 0x06] && frame[28..32] == v4.octets(),
        IpAddr::V6(v6) => frame[12..14] == [0x86, 0xdd] && frame.len() >= 78 && frame[62..78] == v6.octets(),
    }
}
