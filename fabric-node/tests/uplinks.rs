//! The uplinks room on a real kernel with a real Open vSwitch: a NIC moves onto its bridge, and back.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[allow(dead_code, reason = "each test program uses a part")]
mod support;

#[path = "uplinks/bed.rs"]
mod bed;

use std::collections::BTreeMap;
use std::time::Duration;

use bed::{Bed, Pings, Room};
use fabric_node::uplinks::{cleanup, start};
use support::{PATIENCE, in_namespace, run, try_run, until};

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

/// Without the order of what this test has put on anew.
fn sorted(state: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = state.split("},{").collect();
    parts.sort_unstable();
    parts
}

#[test]
fn a_restart_of_the_switch_brings_the_addresses_back() {
    in_namespace(|| async {
        let mut bed = Bed::quick().await;
        bed.bridge();
        let before = bed.state("eth1");
        let room = bed.room();
        room.in_place().await;
        // The host changes something on the bridge: the record follows.
        run("ip", &["addr", "add", "10.5.0.10/24", "dev", "br-lan"]);
        run("ip", &["addr", "del", "10.7.0.1/24", "dev", "br-lan"]);
        let recorded = || bed.ovs.vsctl(&["get", "Bridge", "br-lan", "external_ids:fabric.moved"]);
        until("the record follows", || {
            recorded().contains("10.5.0.10/24") && !recorded().contains("10.7.0.1/24")
        })
        .await;
        run("ip", &["addr", "del", "10.5.0.10/24", "dev", "br-lan"]);
        run("ip", &["addr", "add", "10.7.0.1/24", "dev", "br-lan", "label", "eth1:7", "metric", "700"]);
        until("the record follows", || {
            !recorded().contains("10.5.0.10/24") && recorded().contains("10.7.0.1/24")
        })
        .await;

        let held = bed.state("br-lan");
        // The bridge's device outlives the switch; where it does not, everything goes onto the next one.
        bed.ovs.kill_switch();
        bed.ovs.start_switch().await;
        until("the switch carries frames", || try_run("ping", &["-c", "1", "-W", "1", "10.5.0.2"])).await;
        assert_eq!(bed.state("br-lan"), held);
        bed.ovs.kill_switch();
        run("ip", &["link", "del", "br-lan"]);
        bed.ovs.start_switch().await;
        room.in_place().await;
        until("all is back", || bed.state("br-lan") == held).await;
        assert!(try_run("ping", &["-c", "1", "-W", "2", "10.5.0.2"]));
        drop(room);

        // Without the switch, the record is enough to go back; what the switch itself has to remove is named.
        bed.ovs.kill_switch();
        run("ip", &["link", "del", "br-lan"]);
        let undone = cleanup(bed.impatient()).await;
        assert!(undone.left.concat().contains("ovs-vswitchd"), "{undone:?}");
        assert_eq!(sorted(&bed.state("eth1")), sorted(&before));
        bed.ovs.start_switch().await;
        until("the switch follows", || try_run("ping", &["-c", "1", "-W", "1", "10.5.0.2"])).await;
        bed.bare();
    });
}

#[test]
fn a_switch_that_does_not_act_leaves_the_nic_alone() {
    in_namespace(|| async {
        let bed = Bed::quick().await;
        bed.bridge();
        let before = bed.state("eth1");
        let room = bed.room();
        room.in_place().await;
        drop(room);
        // The bridge is there and the NIC is not in it; then the switch stops.
        bed.ovs.vsctl(&["del-port", "br-lan", "eth1"]);
        let _ = cleanup(bed.config()).await;
        assert_eq!(bed.state("eth1"), before);
        let fresh = ["--", "set", "Bridge", "br-lan", "datapath_type=netdev", "external_ids:fabric=n1"];
        bed.ovs.vsctl(&[&["add-br", "br-lan"][..], &fresh].concat());
        bed.ovs.suspend_switch();
        let room = start(bed.impatient());
        let mut problems = room.problems();
        let named = problems.wait_for(|problems| problems.concat().contains("ovs-vswitchd does not act"));
        tokio::time::timeout(PATIENCE, named).await.expect("in time").expect("the room lives");
        assert_eq!(bed.state("eth1"), before);
        assert!(!bed.ovs.vsctl(&["--no-wait", "list-ports", "br-lan"]).contains("eth1"));
        bed.ovs.resume_switch();
        tokio::time::timeout(PATIENCE, problems.wait_for(Vec::is_empty))
            .await
            .expect("in time")
            .expect("the room lives");
        bed.moved();
    });
}

#[test]
fn what_the_bridge_refuses_goes_back_to_the_nic() {
    in_namespace(|| async {
        let bed = Bed::quick().await;
        bed.bridge();
        let four = |device: &str| {
            let show = |what: &[&str]| run("ip", &[&["-4"], what, &["dev", device]].concat());
            let addresses = show(&["-br", "addr", "show"]);
            let addresses = addresses.split_once(" ").map(|(_, rest)| rest.trim().to_owned());
            (addresses, show(&["route", "show", "table", "all"]))
        };
        let before = four("eth1");
        let room = bed.room();
        room.in_place().await;
        assert_eq!(four("br-lan").1, before.1);
        drop(room);
        // A later address is of a family that the bridge's device cannot have any more.
        run("sysctl", &["-q", "net.ipv6.conf.br-lan.disable_ipv6=1"]);
        run("ip", &["addr", "add", "fd08::1/64", "dev", "eth1", "nodad"]);
        let room = bed.room();
        let problem = room.complains("fd08::1/64").await;
        assert!(problem.contains("and was put back") && !problem.contains("left:"), "{problem}");
        assert_eq!(four("eth1"), before);
        assert!(run("ip", &["addr", "show", "dev", "eth1"]).contains("fd08::1/64"));
        assert!(!bed.ovs.vsctl(&["list-ports", "br-lan"]).contains("eth1"));
        // The reason goes: the next attempt succeeds.
        run("sysctl", &["-q", "net.ipv6.conf.br-lan.disable_ipv6=0"]);
        let mut problems = room.handle.problems();
        tokio::time::timeout(PATIENCE, problems.wait_for(Vec::is_empty))
            .await
            .expect("in time")
            .expect("the room lives");
        assert_eq!(four("br-lan").1, before.1);
    });
}

#[test]
fn the_only_way_to_manage_the_node_stays() {
    in_namespace(|| async {
        let bed = Bed::quick().await;
        bed.bridge();
        run("ip", &["route", "del", "default", "via", "172.31.0.1", "metric", "50"]);
        let before = bed.state("eth1");
        let room = bed.room();
        let problem = room.complains("the only way to manage this node").await;
        assert!(problem.contains("eth1") && problem.contains("allowManagement: true"), "{problem}");
        assert_eq!(bed.state("eth1"), before);
        assert_eq!(bed.ovs.vsctl(&["list-br"]), "br-fabric");
        drop(room);
        let mut config = bed.config();
        config.networks.values_mut().for_each(|network| network.allow_management = true);
        let pings = Pings::start(&bed);
        let room = Room { handle: start(config) };
        room.in_place().await;
        pings.lost_at_most(3);
        bed.moved();
    });
}

#[test]
fn somebody_elses_bridge_gets_a_patch_port_and_nothing_else() {
    in_namespace(|| async {
        let bed = Bed::quick().await;
        bed.bridge();
        bed.ovs.vsctl(&["add-br", "br-lan", "--", "set", "Bridge", "br-lan", "datapath_type=netdev"]);
        let room = bed.room();
        room.complains("is not Fabric's and does not have the NIC eth1").await;
        bed.ovs.vsctl(&["add-port", "br-lan", "eth1"]);
        let before = bed.state("eth1");
        let row = || {
            bed.ovs.vsctl(&["--columns=name,fail_mode,other_config,external_ids", "list", "Bridge", "br-lan"])
        };
        let bridge = row();
        room.apply(&[("lan", &[100])]);
        until("the patch port is there", || bed.ovs.vsctl(&["list-ports", "br-lan"]) == "eth1\nfabric-lan")
            .await;
        assert_eq!(bed.ovs.vsctl(&["get", "Port", "fabric-lan", "trunks"]), "[100]");
        assert_eq!(row(), bridge);
        assert_eq!(bed.state("eth1"), before);
        drop(room);
        let undone = cleanup(bed.config()).await;
        assert_eq!((undone.done.len(), undone.left.len()), (1, 0), "{undone:?}");
        assert_eq!(bed.ovs.vsctl(&["list-ports", "br-lan"]), "eth1");
        assert_eq!(bed.state("eth1"), before);

        // Nor is a NIC taken out of another bridge.
        bed.ovs
            .vsctl(&["del-br", "br-lan", "--", "add-br", "br-other", "--", "add-port", "br-other", "eth1"]);
        let room = bed.room();
        room.complains("eth1 is a port of bridge br-other").await;
        assert_eq!(bed.state("eth1"), before);
    });
}

#[test]
fn a_nic_goes_and_comes_and_a_network_leaves_the_node_file() {
    in_namespace(|| async {
        let bed = Bed::quick().await;
        bed.bridge();
        let room = bed.room();
        room.in_place().await;
        let held = bed.state("br-lan");
        run("ip", &["link", "del", "eth1"]);
        room.complains("NIC eth1 does not exist").await;
        assert_eq!(bed.state("br-lan"), held);
        bed.nic();
        run("ip", &["link", "set", "eth1", "down"]);
        until("the switch has the NIC again", || try_run("ping", &["-c", "1", "-W", "1", "10.5.0.2"])).await;
        let mut problems = room.handle.problems();
        tokio::time::timeout(PATIENCE, problems.wait_for(Vec::is_empty))
            .await
            .expect("in time")
            .expect("the room lives");
        until("no frame is received twice", || run("nft", &["list", "ruleset"]).contains("eth1")).await;
        // A program of the host puts an address on the NIC: it moves as well.
        run("ip", &["addr", "add", "10.9.0.1/24", "dev", "eth1"]);
        until("the address moves", || run("ip", &["addr", "show", "dev", "br-lan"]).contains("10.9.0.1/24"))
            .await;
        drop(room);
        let config = fabric_node::uplinks::UplinksConfig { networks: BTreeMap::new(), ..bed.config() };
        let _room = start(config);
        until("all goes back", || bed.ovs.vsctl(&["list-br"]) == "br-fabric").await;
        let addresses = run("ip", &["addr", "show", "dev", "eth1"]);
        assert!(addresses.contains("10.5.0.1/24") && addresses.contains("10.9.0.1/24"), "{addresses}");
        assert!(try_run("ping", &["-c", "1", "-W", "2", "10.5.0.2"]));
    });
}

#[test]
fn after_a_boot_the_hosts_own_configuration_counts() {
    in_namespace(|| async {
        let mut bed = Bed::quick().await;
        bed.bridge();
        let room = bed.room();
        room.in_place().await;
        drop(room);
        // What a boot leaves: the database, and what the host's configuration puts on the NIC.
        let boot = run("cat", &["/proc/sys/kernel/random/boot_id"]);
        let record = bed.ovs.vsctl(&["get", "Bridge", "br-lan", "external_ids:fabric.moved"]);
        let earlier = record.replace(&boot, "an-earlier-boot").replace("\\\"opened\\\":", "\\\"opened\\\":9");
        assert!(earlier.contains("opened\\\":9"), "{earlier}");
        bed.ovs.vsctl(&["set", "Bridge", "br-lan", &format!("external_ids:fabric.moved={earlier}")]);
        bed.ovs.kill_switch();
        run("ip", &["link", "del", "br-lan"]);
        bed.ovs.start_switch().await;
        run("ip", &["addr", "add", "10.5.0.1/24", "brd", "+", "dev", "eth1"]);
        let port = bed.ovs.vsctl(&["get", "Port", "eth1", "_uuid"]);
        let room = bed.room();
        room.in_place().await;
        let addresses = run("ip", &["addr", "show", "dev", "br-lan"]);
        assert!(addresses.contains("10.5.0.1/24") && !addresses.contains("10.6.0.1"), "{addresses}");
        // The switch has opened this NIC: it is not put in once more.
        run("ip", &["addr", "add", "10.9.0.1/24", "dev", "eth1"]);
        until("the address moves", || run("ip", &["addr", "show", "dev", "br-lan"]).contains("10.9.0.1/24"))
            .await;
        assert_eq!(bed.ovs.vsctl(&["get", "Port", "eth1", "_uuid"]), port);
        assert_eq!(room.problems(), Vec::<String>::new());
    });
}
