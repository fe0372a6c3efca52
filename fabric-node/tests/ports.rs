//! The ports room on a real `ovsdb-server` and `ovs-vswitchd`.

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[allow(dead_code, reason = "each test program uses a part")]
mod support;

#[path = "ports/room.rs"]
mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fabric_core::node::{PortRow, PortsEvent};
use fabric_node::config::Datapath;
use fabric_node::ports::{PortsConfig, Tunnel};
use room::{Room, config, spec, veth};
use support::{Ovs, PATIENCE, in_namespace, run, try_run, until};

/// Packets that a device received.
fn received(device: &str) -> u64 {
    let table = run("cat", &["/proc/net/dev"]);
    let line = table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
    let number = line.and_then(|counters| counters.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).expect("a counter")
}

fn find<'a>(rows: &'a [PortRow], name: &str) -> &'a PortRow {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

#[test]
fn makes_bridge_and_tunnel_and_keeps_them() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        let rows = room.ready().await;
        assert_eq!(find(&rows, "br-fabric").ofport, Some(65534));
        assert_eq!(find(&rows, "br-fabric").kind, "internal");
        assert_eq!(find(&rows, "fabric-vxlan").ofport, Some(1));
        assert_eq!(room.handle.datapath_type(), "netdev");
        assert_eq!(ovs.vsctl(&["get-fail-mode", "br-fabric"]), "secure");
        let options = ovs.vsctl(&["get", "Interface", "fabric-vxlan", "options"]);
        assert_eq!(options, "{dst_port=\"4789\", key=flow, remote_ip=flow}");
        assert!(ovs.file("br-fabric.mgmt").exists());
        let mac = find(&rows, "br-fabric").mac.expect("an address");
        assert_eq!(mac.0[..2], [0x0e, 0xfa]);

        // A second run changes nothing, and somebody's change is undone.
        let before = ovs.vsctl(&["list", "Bridge", "br-fabric"]);
        drop(room);
        let mut room = Room::on(&ovs);
        assert_eq!(room.ready().await.len(), 2);
        assert_eq!(ovs.vsctl(&["list", "Bridge", "br-fabric"]), before);
        ovs.vsctl(&["set-fail-mode", "br-fabric", "standalone", "--", "del-port", "fabric-vxlan"]);
        until("the bridge is mended", || {
            ovs.vsctl(&["get-fail-mode", "br-fabric"]) == "secure"
                && ovs.vsctl(&["list-ports", "br-fabric"]) == "fabric-vxlan"
        })
        .await;
        ovs.vsctl(&["del-br", "br-fabric"]);
        room.down().await;
        let rows = room.ready().await;
        assert_eq!(rows.len(), 2);
        assert_eq!(find(&rows, "br-fabric").mac, Some(mac));

        drop(room);
        let mut room = Room::new(PortsConfig { mtu: Some(1450), ..config(&ovs) });
        room.ready().await;
        assert_eq!(ovs.vsctl(&["get", "Interface", "br-fabric", "mtu"]), "1450");
        room.handle.set_mtu(1458);
        let asks = || ovs.vsctl(&["get", "Interface", "br-fabric", "mtu_request"]);
        until("another MTU is asked for", || asks() == "1458").await;

        drop(room);
        let mut room = Room::new(PortsConfig { mtu: Some(1450), ..config(&ovs) });
        room.ready().await;
        assert_eq!(asks(), "1458", "what is there stays until somebody knows better");
    });
}

#[test]
fn adds_and_removes_ports() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        veth("fab1");
        let task = room.add("fab1", 40000).await;
        let row = room.done(task).await.expect("added").expect("a row");
        assert_eq!(row.ofport, Some(40000));
        assert_eq!(row.external_ids, spec("fab1", 40000).external_ids);
        assert_eq!(ovs.vsctl(&["list-ports", "br-fabric"]), "fab1\nfabric-vxlan");

        // The same again, in another form: keys of others stay.
        ovs.vsctl(&["set", "Interface", "fab1", "external_ids:fabric.stale=1", "external_ids:other=1"]);
        let seen = |row: &PortRow| row.external_ids.contains_key("other");
        while !matches!(room.news().await, PortsEvent::Changed(row) if seen(&row)) {}
        let task = room.add("fab1", 40001).await;
        let row = room.done(task).await.expect("added").expect("a row");
        assert_eq!(row.ofport, Some(40001));
        let mut expected = spec("fab1", 40001).external_ids;
        expected.insert("other".to_owned(), "1".to_owned());
        assert_eq!(row.external_ids, expected);

        let task = room.remove("fab1").await;
        assert_eq!(room.done(task).await, Ok(None));
        assert_eq!(ovs.vsctl(&["list-ports", "br-fabric"]), "fabric-vxlan");
        let task = room.remove("fab1").await;
        assert_eq!(room.done(task).await, Ok(None));
        let gone = |news: &PortsEvent| matches!(news, PortsEvent::Gone { name } if name == "fab1");
        assert!(room.ports.iter().any(gone), "{:?}", room.ports);
    });
}

#[test]
fn a_device_that_does_not_exist_is_named() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        let task = room.add("fabnone", 40000).await;
        let error = room.done(task).await.expect_err("no such device");
        assert!(error.contains("fabnone") && error.contains("No such device"), "{error}");
        // The device comes: the same command succeeds.
        veth("fabnone");
        let task = room.add("fabnone", 40000).await;
        assert_eq!(room.done(task).await.expect("added").expect("a row").ofport, Some(40000));
    });
}

#[test]
fn what_is_not_fabrics_stays() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        ovs.vsctl(&["add-br", "br-other", "--", "set", "Bridge", "br-other", "datapath_type=netdev"]);
        veth("mine");
        veth("fab1");
        ovs.vsctl(&["add-port", "br-other", "mine"]);
        let mut room = Room::on(&ovs);
        room.ready().await;
        ovs.vsctl(&["add-port", "br-fabric", "fab1"]);
        for (name, why) in
            [("mine", "bridge br-other"), ("fab1", "not Fabric's"), ("br-fabric", "not Fabric's")]
        {
            let task = room.add(name, 40000).await;
            let error = room.done(task).await.expect_err("not Fabric's");
            assert!(error.contains(name) && error.contains(why), "{error}");
        }
        for name in ["fab1", "br-fabric", "fabric-vxlan"] {
            let task = room.remove(name).await;
            room.done(task).await.expect_err("not Fabric's");
        }
        let task = room.remove("mine").await;
        assert_eq!(room.done(task).await, Ok(None));
        assert_eq!(ovs.vsctl(&["list-ports", "br-other"]), "mine");
        assert_eq!(ovs.vsctl(&["list-ports", "br-fabric"]), "fab1\nfabric-vxlan");
    });
}

#[test]
fn a_bridge_of_somebody_else_is_not_taken() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        ovs.vsctl(&["add-br", "br-fabric", "--", "set", "Bridge", "br-fabric", "datapath_type=netdev"]);
        let mut room = Room::on(&ovs);
        let mut facts = room.handle.facts();
        let facts = facts.wait_for(|facts| !facts.problems.is_empty()).await.expect("the room lives").clone();
        assert!(facts.problems.concat().contains("bridge br-fabric is not Fabric's"), "{facts:?}");
        assert_eq!(ovs.vsctl(&["get-fail-mode", "br-fabric"]), "");
        ovs.vsctl(&["set", "Bridge", "br-fabric", "external_ids:fabric=n1"]);
        assert_eq!(room.ready().await.len(), 2);
        assert_eq!(ovs.vsctl(&["get-fail-mode", "br-fabric"]), "secure");
    });
}

#[test]
fn an_old_switch_is_refused_until_it_is_upgraded() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        ovs.vsctl(&["set", "Open_vSwitch", ".", "ovs_version=2.13.8"]);
        let mut room = Room::on(&ovs);
        let mut facts = room.handle.facts();
        let facts = facts.wait_for(|facts| !facts.problems.is_empty()).await.expect("the room lives").clone();
        assert!(facts.problems.concat().contains("2.13.8 is too old: 2.17 or newer"), "{facts:?}");
        assert_eq!(ovs.vsctl(&["list-br"]), "");
        ovs.vsctl(&["set", "Open_vSwitch", ".", "ovs_version=3.1.0"]);
        room.ready().await;
        assert_eq!(room.handle.ovs_version().as_deref(), Some("3.1.0"));
        assert_eq!(room.handle.problems(), Vec::<String>::new());
    });
}

#[test]
fn a_datapath_that_is_not_offered_is_named() {
    in_namespace(|| async {
        let mut ovs = Ovs::new().await;
        let room = Room::new(PortsConfig { datapath: Datapath::Netdev, ..config(&ovs) });
        let mut facts = room.handle.facts();
        let silent = facts.wait_for(|facts| facts.problems.concat().contains("ovs-vswitchd"));
        silent.await.expect("the room lives");
        ovs.start_switch().await;
        let set_up = facts.wait_for(|facts| facts.problems.is_empty());
        set_up.await.expect("the room lives");
        assert_eq!(room.handle.datapath_type(), "netdev");
    });
}

#[test]
fn fifty_at_once_and_numbers_are_used_again() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        for port in 0..50 {
            veth(&format!("fab{port}"));
        }
        for round in 0..2 {
            let begin = Instant::now();
            let mut tasks = BTreeSet::new();
            for port in 0..50_u16 {
                // In the second round the numbers go to other ports.
                let number = 40000 + (port + 25 * round) % 50;
                tasks.insert(room.add(&format!("fab{port}"), number).await);
            }
            let mut numbers = BTreeSet::new();
            while !tasks.is_empty() {
                let (task, result) = room.any().await;
                assert!(tasks.remove(&task), "{task:?} came twice");
                numbers.insert(result.expect("added").expect("a row").ofport);
            }
            assert_eq!(numbers.len(), 50);
            println!("50 ports added in {:?}", begin.elapsed());
            let begin = Instant::now();
            let mut tasks = BTreeSet::new();
            for port in 0..50 {
                tasks.insert(room.remove(&format!("fab{port}")).await);
            }
            while !tasks.is_empty() {
                let (task, result) = room.any().await;
                assert!(tasks.remove(&task), "{task:?} came twice");
                assert_eq!(result, Ok(None));
            }
            println!("50 ports removed in {:?}", begin.elapsed());
        }
        assert_eq!(ovs.vsctl(&["list-ports", "br-fabric"]), "fabric-vxlan");
    });
}

#[test]
fn additions_and_removals_of_one_port_keep_their_order() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        veth("fab1");
        let mut tasks = Vec::new();
        for number in 40000..40010 {
            tasks.push(room.add("fab1", number).await);
            tasks.push(room.remove("fab1").await);
        }
        tasks.push(room.add("fab1", 41000).await);
        let last = *tasks.last().expect("many");
        let mut results = BTreeMap::new();
        while results.len() < tasks.len() {
            let (task, result) = room.any().await;
            assert!(results.insert(task, result).is_none(), "{task:?} came twice");
        }
        let row = results.remove(&last).and_then(Result::ok).flatten().expect("the last one counts");
        assert_eq!(row.ofport, Some(41000));
        assert_eq!(ovs.vsctl(&["list-ports", "br-fabric"]), "fab1\nfabric-vxlan");
    });
}

#[test]
fn the_database_goes_and_comes() {
    in_namespace(|| async {
        let mut ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        veth("fab1");
        veth("fab2");
        let task = room.add("fab1", 40000).await;
        room.done(task).await.expect("added");
        ovs.kill_database();
        room.down().await;
        assert!(!room.handle.problems().is_empty());
        // Commands wait for the database.
        let second = room.add("fab2", 40001).await;
        let removal = room.remove("fab1").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        ovs.start_database().await;
        let mut rows = room.ready().await;
        rows.retain(|row| row.name == "fab1");
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].ofport, Some(40000));
        let mut results = BTreeMap::new();
        while results.len() < 2 {
            let (task, result) = room.any().await;
            results.insert(task, result);
        }
        assert_eq!(results.remove(&removal), Some(Ok(None)));
        let row = results.remove(&second).expect("answered").expect("added").expect("a row");
        assert_eq!(row.ofport, Some(40001));
        assert_eq!(room.handle.problems(), Vec::<String>::new());
    });
}

#[test]
fn the_database_goes_while_ports_are_added() {
    in_namespace(|| async {
        let mut ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        for port in 0..30 {
            veth(&format!("fab{port}"));
        }
        let mut tasks = BTreeSet::new();
        for port in 0..30_u16 {
            tasks.insert(room.add(&format!("fab{port}"), 40000 + port).await);
            if port % 10 == 9 {
                ovs.kill_database();
                ovs.start_database().await;
            }
        }
        while !tasks.is_empty() {
            let (task, result) = room.any().await;
            assert!(tasks.remove(&task), "{task:?} came twice");
            assert!(result.expect("added").expect("a row").ofport.is_some());
        }
        assert_eq!(ovs.vsctl(&["list-ports", "br-fabric"]).lines().count(), 31);
    });
}

#[test]
fn without_the_database_commands_end_in_time() {
    in_namespace(|| async {
        let mut ovs = Ovs::running().await;
        let patience = Duration::from_millis(500);
        let mut room = Room::new(PortsConfig { patience, ..config(&ovs) });
        room.ready().await;
        ovs.kill_database();
        room.down().await;
        let begin = Instant::now();
        let task = room.add("fab1", 40000).await;
        let error = room.done(task).await.expect_err("no database");
        assert!(error.contains("fab1") && error.contains("database"), "{error}");
        assert!(begin.elapsed() >= patience && begin.elapsed() < patience * 3, "{:?}", begin.elapsed());
    });
}

#[test]
fn a_switch_that_is_away_is_named_and_waited_for() {
    in_namespace(|| async {
        let mut ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        drop(room);
        ovs.kill_switch();
        let mut room = Room::on(&ovs);
        let mut facts = room.handle.facts();
        let named = facts.wait_for(|facts| facts.problems.concat().contains("ovs-vswitchd does not act"));
        tokio::time::timeout(PATIENCE, named).await.expect("in time").expect("the room lives");
        assert!(room.ports.is_empty());
        ovs.start_switch().await;
        assert_eq!(room.ready().await.len(), 2);
        assert_eq!(room.handle.problems(), Vec::<String>::new());
    });
}

#[test]
fn the_switch_is_killed_and_comes_back() {
    in_namespace(|| async {
        let mut ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        veth("fab1");
        veth("fab2");
        let task = room.add("fab1", 40000).await;
        room.done(task).await.expect("added");
        ovs.kill_switch();
        // The command waits for the switch.
        let task = room.add("fab2", 40001).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        ovs.start_switch().await;
        let row = room.done(task).await.expect("added").expect("a row");
        assert_eq!(row.ofport, Some(40001));
        assert_eq!(ovs.vsctl(&["get", "Interface", "fab1", "ofport"]), "40000");
    });
}

#[test]
fn a_device_that_is_made_anew_is_opened_anew() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        for (name, number) in [("fab1", 40001), ("fab2", 40002)] {
            veth(name);
            run("ip", &["link", "set", &format!("p{name}"), "up"]);
            let task = room.add(name, number).await;
            room.done(task).await.expect("added");
        }
        run("ip", &["link", "del", "fab1"]);
        veth("fab1");
        run("ip", &["link", "set", "pfab1", "up"]);
        let task = room.add("fab1", 40001).await;
        let row = room.done(task).await.expect("added").expect("a row");
        assert_eq!(row.ofport, Some(40001));
        let pass = ["ovs-ofctl", "add-flow", "br-fabric", "in_port=40001,actions=40002"];
        let mut command = std::process::Command::new(pass[0]);
        let done = command.args(&pass[1..]).env("OVS_RUNDIR", ovs.file("")).status().expect("ovs-ofctl");
        assert!(done.success());
        // A frame goes through the switch: the address is asked for by ARP, and the question is counted behind it.
        run("ip", &["addr", "add", "10.9.9.1/24", "dev", "pfab1"]);
        let received = || received("pfab2");
        let before = received();
        until("frames pass", || {
            try_run("ping", &["-c", "1", "-W", "1", "10.9.9.2"]);
            received() > before
        })
        .await;
    });
}

#[test]
fn one_port_takes_milliseconds() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let mut room = Room::on(&ovs);
        room.ready().await;
        let mut times = Vec::new();
        for port in 0..30 {
            let name = format!("fab{port}");
            veth(&name);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let begin = Instant::now();
            let task = room.add(&name, 40000 + port).await;
            room.done(task).await.expect("added");
            times.push(begin.elapsed());
        }
        times.sort();
        println!("one port added in {:?} (median), {:?} (worst of 30)", times[15], times[29]);
        assert!(times[15] < Duration::from_millis(100), "{:?}", times[15]);
    });
}

#[test]
fn tunnels_of_every_kind_and_patches_to_physical_networks() {
    in_namespace(|| async {
        let ovs = Ovs::running().await;
        let physical = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let wanted = PortsConfig {
            tunnels: Tunnel::ALL.to_vec(),
            physical: physical(&["lan", "twelve-chars"]),
            ..config(&ovs)
        };
        let mut room = Room::new(wanted.clone());
        let rows = room.ready().await;
        for (name, kind, number) in
            [("fabric-vxlan", "vxlan", 1), ("fabric-geneve", "geneve", 2), ("fabric-gre", "gre", 3)]
        {
            let row = find(&rows, name);
            assert_eq!((row.kind.as_str(), row.ofport), (kind, Some(number)), "{row:?}");
        }
        assert_eq!(ovs.vsctl(&["get", "Interface", "fabric-gre", "options"]), "{key=flow, remote_ip=flow}");
        let patch = find(&rows, "to-lan");
        assert_eq!(patch.kind, "patch");
        assert_eq!(patch.external_ids, room::owned(&[("fabric", "n1"), ("fabric.physical", "lan")]));
        assert_eq!(ovs.vsctl(&["get", "Interface", "to-lan", "options:peer"]), "fabric-lan");
        // The other end is not there yet: no fault of this bridge.
        assert_eq!(room.handle.problems(), Vec::<String>::new());
        drop(room);

        // A network that the node is not on any more.
        let mut room = Room::new(PortsConfig { physical: physical(&["lan"]), ..wanted });
        room.ready().await;
        until("the patch goes", || !ovs.vsctl(&["list-ports", "br-fabric"]).contains("to-twelve-chars"))
            .await;
        assert!(ovs.vsctl(&["list-ports", "br-fabric"]).contains("to-lan"));
        assert_eq!(ovs.vsctl(&["get", "Interface", "to-lan", "ofport_request"]), "16");
    });
}
