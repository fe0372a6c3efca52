//! The uplinks room on a real kernel with a real Open vSwitch: a NIC moves onto its bridge, and back.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[allow(dead_code, reason = "each test program uses a part")]
mod support;

#[path = "uplinks/bed.rs"]
mod bed;

use std::time::Duration;

use bed::{Bed, Pings};
use fabric_node::uplinks::cleanup;
use support::{in_namespace, run, until};

#[test]
fn a_nic_moves_with_all_that_the_host_has_on_it_and_back() {
    in_namespace(|| async {
        let bed = Bed::new().await;
        bed.bridge();
        let before = bed.state("eth1");
        let pings = Pings::start(&bed);
        let room = bed.room();
        room.in_place().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        pings.lost_at_most(3);
        bed.moved();
        assert_eq!(bed.ovs.vsctl(&["get-fail-mode", "br-lan"]), "standalone");
        assert_eq!(
            bed.ovs.vsctl(&["get", "Interface", "fabric-lan", "type", "options:peer"]),
            "patch\nto-lan"
        );
        assert_eq!(bed.ovs.vsctl(&["get", "Port", "fabric-lan", "trunks"]), "[4095]");

        // A restart of the room touches nothing.
        let pings = Pings::start(&bed);
        let held = bed.state("br-lan");
        drop(room);
        let room = bed.room();
        room.apply(&[("lan", &[0, 100])]);
        until("the VLANs pass", || bed.ovs.vsctl(&["get", "Port", "fabric-lan", "trunks"]) == "[0, 100]")
            .await;
        pings.lost_at_most(0);
        assert_eq!(bed.state("br-lan"), held);
        drop(room);

        let pings = Pings::start(&bed);
        let undone = cleanup(bed.config()).await;
        assert_eq!(undone.left, Vec::<String>::new());
        tokio::time::sleep(Duration::from_millis(500)).await;
        pings.lost_at_most(5);
        assert_eq!(bed.state("eth1"), before);
        bed.bare();
        assert_eq!(cleanup(bed.config()).await, fabric_node::uplinks::Undone::default(), "twice is fine");
        assert_eq!(bed.state("eth1"), before);
        assert_eq!(run("nft", &["list", "ruleset"]), "");
    });
}
