//! The hands.

use fabric_core::node::{WireCommand, WireSpec};

use crate::room::{Room, spec};
use crate::space::{Space, sh};

fn remove(room: &mut Room) -> Result<(), String> {
    room.wire(WireCommand::Remove { host_name: "fab0123456789a".into() })
}

#[test]
fn a_dual_stack_interface_is_complete_when_the_outcome_comes() {
    let mut room = Room::new();
    let space = Space::new();
    let spec = spec(&space);
    room.create(&spec).unwrap();

    let link = space.sh("ip -d link show eth0");
    assert!(
        link.contains("0a:58:0a:00:00:09") && link.contains("mtu 1400") && link.contains(",UP"),
        "{link}"
    );
    assert!(space.sh("ip link show lo").contains(",UP"));
    let addresses = space.sh("ip addr show eth0");
    assert!(addresses.contains("inet 10.0.0.9/32") && addresses.contains("inet6 fd00::9/128"), "{addresses}");
    assert!(!addresses.contains("tentative"), "no duplicate detection is under way: {addresses}");
    let routes = space.sh("ip route; ip -6 route");
    for route in [
        "default via 10.0.0.1 dev eth0",
        "10.0.0.1 dev eth0",
        "default via fd00::1 dev eth0",
        "fd00::1 dev eth0",
    ] {
        assert!(routes.contains(route), "{route}: {routes}");
    }
    let neighbours = space.sh("ip neigh show nud permanent");
    for address in ["10.0.0.1", "fd00::1"] {
        assert!(neighbours.contains(&format!("{address} dev eth0 lladdr 0a:58:a9:fe:01:01")), "{neighbours}");
    }

    let host = sh("ip addr show fab0123456789a");
    assert!(host.contains("mtu 1400") && host.contains(",UP") && host.contains("NOARP"), "{host}");
    assert!(!host.contains("inet"), "the host's end has no address: {host}");
    room.check(&spec).unwrap();
}

#[test]
fn the_hosts_own_stack_accepts_nothing_from_a_container() {
    let mut room = Room::new();
    let space = Space::new();
    sh(
        "ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up; sysctl -qw net.ipv4.ip_forward=1",
    );
    sh("ip addr add 10.99.0.1/24 dev up0; ip addr add fd99::1/64 dev up0 nodad");
    sh("ip route add 10.0.0.0/24 dev up0; ip -6 route add fd00::/64 dev up0");
    room.create(&spec(&space)).unwrap();
    let host = sh("cat /sys/class/net/fab0123456789a/address 2>/dev/null || ip -br link show fab0123456789a");
    let mac =
        host.split_whitespace().find(|word| word.matches(':').count() == 5).expect("an address").to_owned();
    let reaches = |space: &Space| {
        space.sh(&format!(
            "for g in 10.0.0.1 fd00::1; do ip neigh replace $g lladdr {mac} dev eth0 nud permanent; done; \
             for a in 10.99.0.1 fd99::1; do ping -c 1 -W 1 $a >/dev/null && echo reached $a; done; true"
        ))
    };
    for all in ["0", "2"] {
        sh(&format!("sysctl -qw net.ipv4.conf.all.rp_filter={all}"));
        assert_eq!(reaches(&space), "", "with net.ipv4.conf.all.rp_filter={all}");
    }
    // The same addresses answer where the host's end is an ordinary interface: the test can fail.
    sh("ip link set up0 down; ip link set fab0123456789a arp on; sysctl -qw net.ipv4.conf.all.rp_filter=0");
    sh("sysctl -qw net.ipv4.conf.fab0123456789a.rp_filter=0; ip route add 10.0.0.9 dev fab0123456789a");
    sh("ip addr add 10.99.0.1/32 dev lo");
    assert!(reaches(&space).contains("10.99.0.1"));
}

#[test]
fn one_family_and_underlay_prefixes_work() {
    let mut room = Room::new();
    for (addresses, gateways, route) in [
        (vec!["10.0.0.9/32"], vec!["10.0.0.1"], "10.0.0.1 dev eth0"),
        (vec!["fd00::9/128"], vec!["fe80::1"], "default via fe80::1"),
        (vec!["192.168.4.9/24"], vec!["192.168.4.1"], "192.168.4.0/24 dev eth0 proto kernel"),
        (vec!["fd44::9/64"], vec!["fd44::1"], "fd44::/64 dev eth0"),
        (vec!["10.0.0.9/32"], vec![], ""),
    ] {
        let space = Space::new();
        let mut spec = spec(&space);
        spec.addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        spec.gateways = gateways.iter().map(|text| text.parse().unwrap()).collect();
        room.create(&spec).unwrap();
        room.check(&spec).unwrap();
        let routes = space.sh("ip route; ip -6 route");
        assert!(routes.contains(route), "{routes}");
        remove(&mut room).unwrap();
    }
}

#[test]
fn check_names_every_difference() {
    let mut room = Room::new();
    let space = Space::new();
    let spec = spec(&space);
    for (change, words) in [
        ("ip link set eth0 mtu 1300", "the MTU is 1300, not 1400"),
        ("ip link set eth0 address 02:00:00:00:00:01", "the hardware address is 02:00:00:00:00:01"),
        ("ip addr del 10.0.0.9/32 dev eth0", "the address 10.0.0.9/32 is missing"),
        ("ip -6 addr del fd00::9/128 dev eth0", "the address fd00::9/128 is missing"),
        ("ip route del default", "the default route via 10.0.0.1 is missing"),
        ("ip -6 route del default", "the default route via fd00::1 is missing"),
        ("ip -6 route del fd00::1 dev eth0", "the route to fd00::1 is missing"),
        ("ip link set eth0 down", "the interface is down"),
        ("ip link set eth0 down; ip link set eth0 name eth9", "the interface is missing"),
        ("ip link del eth0", "the host's end fab0123456789a is missing; the interface is missing"),
    ] {
        room.create(&spec).unwrap();
        space.sh(change);
        let error = room.check(&spec).unwrap_err();
        assert!(error.contains(words) && error.starts_with("eth0 in /proc"), "{change}: {error}");
        remove(&mut room).unwrap();
    }
    room.create(&spec).unwrap();
    space.sh("ip addr add 172.16.0.1/24 dev eth0; ip route add 172.17.0.0/16 dev eth0");
    room.check(&spec).expect("what others add is no difference");
}

fn resize(room: &mut Room, space: &Space, mtu: u32) -> Result<(), String> {
    let (netns, ifname) = (space.path.clone(), "eth0".into());
    room.wire(WireCommand::Resize { netns, ifname, host_name: "fab0123456789a".into(), mtu })
}

#[test]
fn another_mtu_costs_nothing_else() {
    let mut room = Room::new();
    let space = Space::new();
    let mut spec = spec(&space);
    room.create(&spec).unwrap();
    for mtu in [1300, 1500, 1500] {
        resize(&mut room, &space, mtu).unwrap();
        spec.mtu = mtu;
        room.check(&spec).unwrap();
        assert!(sh("ip link show fab0123456789a").contains(&format!("mtu {mtu}")));
    }
    let error = resize(&mut room, &space, 1279).unwrap_err();
    assert!(error.contains("IPv6") && error.contains("1280"), "{error}");
    room.check(&spec).unwrap();
    space.sh("ip link del eth0");
    let error = resize(&mut room, &space, 1400).unwrap_err();
    assert!(error.contains("fab0123456789a is missing"), "{error}");
}

#[test]
fn addresses_may_come_later_and_again() {
    let mut room = Room::new();
    let space = Space::new();
    let whole = spec(&space);
    let bare = WireSpec { addresses: Vec::new(), gateways: Vec::new(), ..whole.clone() };
    let error = room.wire(WireCommand::Address(whole.clone())).unwrap_err();
    assert!(error.contains("the host's end fab0123456789a is missing"), "{error}");
    room.create(&bare).unwrap();
    room.check(&bare).unwrap();
    assert!(room.check(&whole).is_err());
    for _ in 0..2 {
        room.wire(WireCommand::Address(whole.clone())).unwrap();
        room.check(&whole).unwrap();
    }
    space.sh("ip link set eth0 down; ip link set eth0 name eth9");
    let error = room.wire(WireCommand::Address(whole)).unwrap_err();
    assert!(error.contains("the interface is missing"), "{error}");
}

#[test]
fn leftovers_of_an_earlier_try_are_replaced() {
    let mut room = Room::new();
    let space = Space::new();
    let mut spec = spec(&space);
    room.create(&spec).unwrap();
    spec.addresses = vec!["10.0.0.77/32".parse().unwrap()];
    spec.gateways.truncate(1);
    room.create(&spec).unwrap();
    room.check(&spec).unwrap();
    let addresses = space.sh("ip addr show eth0");
    assert!(!addresses.contains("10.0.0.9"), "{addresses}");

    let elsewhere = Space::new();
    spec.netns.clone_from(&elsewhere.path);
    room.create(&spec).expect("the leftover is in another namespace");
    assert!(!space.sh("ip link").contains("eth0"));
}

#[test]
fn remove_succeeds_on_what_is_gone() {
    let mut room = Room::new();
    let space = Space::new();
    room.create(&spec(&space)).unwrap();
    remove(&mut room).unwrap();
    assert!(!space.sh("ip link").contains("eth0") && !sh("ip link").contains("fab0123"));
    remove(&mut room).unwrap();
}

#[test]
fn names_in_use_by_others_are_left_alone() {
    let mut room = Room::new();
    let space = Space::new();
    let spec = spec(&space);
    space.sh("ip link add eth0 type veth peer name other");
    let error = room.create(&spec).unwrap_err();
    assert!(error.contains("in use by an interface that Fabric did not make"), "{error}");
    assert!(space.sh("ip link show eth0").contains("eth0@other"));
    assert!(!sh("ip link").contains("fab0123"), "nothing is left of the try");

    space.sh("ip link del eth0");
    sh("ip tuntap add fab0123456789a mode tap");
    for error in [room.create(&spec).unwrap_err(), remove(&mut room).unwrap_err()] {
        assert!(error.contains("in use by an interface that Fabric did not make"), "{error}");
    }
    assert!(sh("ip -d link show fab0123456789a").contains("tap"));
}

#[test]
fn what_is_no_container_namespace_is_named() {
    let mut room = Room::new();
    let space = Space::new();
    let own = format!("/proc/{}/task/{}/ns/net", std::process::id(), nix::unistd::gettid());
    for (path, words) in [
        ("/nonexistent/net", "there is no network namespace /nonexistent/net"),
        ("/etc/hostname", "/etc/hostname is no network namespace"),
        ("/dev/null", "/dev/null is no network namespace"),
        ("/proc/self/ns/mnt", "/proc/self/ns/mnt is no network namespace"),
        (own.as_str(), "is the node's own network namespace"),
    ] {
        let mut spec = spec(&space);
        spec.netns = path.into();
        let error = room.create(&spec).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert!(room.check(&spec).is_err());
        assert!(!sh("ip link").contains("fab0123"), "{path}: nothing is left of the try");
    }
}

#[test]
fn nothing_is_left_of_a_failure() {
    let mut room = Room::new();
    let space = Space::new();
    let mut bad = spec(&space);
    bad.addresses.push("ff02::5/128".parse().unwrap());
    let error = room.create(&bad).unwrap_err();
    assert!(error.contains("add the address ff02::5/128") && error.contains("eth0 in /proc"), "{error}");
    assert!(!space.sh("ip link").contains("eth0") && !sh("ip link").contains("fab0123"));

    let mut bad = spec(&space);
    bad.mtu = 1000;
    let error = room.create(&bad).unwrap_err();
    assert!(error.contains("1280"), "{error}");
    assert!(!sh("ip link").contains("fab0123"));
}

#[test]
fn checksums_are_computed_where_the_switch_needs_it() {
    let mut room = Room::new();
    let space = Space::new();
    let mut spec = spec(&space);
    for software in [false, true] {
        spec.software_checksums = software;
        room.create(&spec).unwrap();
        let features = space.sh("ethtool -k eth0");
        let state = if software { "off" } else { "on" };
        for name in ["tx-checksumming", "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-checksum-sctp"] {
            assert!(features.contains(&format!("{name}: {state}")), "{name}: {features}");
        }
    }
}

#[test]
fn ipv6_is_switched_on_where_the_runtime_switched_it_off() {
    let mut room = Room::new();
    let space = Space::new();
    space.sh("for d in all default; do echo 1 > /proc/sys/net/ipv6/conf/$d/disable_ipv6; done");
    let spec = spec(&space);
    room.create(&spec).unwrap();
    room.check(&spec).unwrap();
    assert!(space.sh("ip addr show eth0").contains("fd00::9/128"));
}

#[test]
fn many_errands_at_once_are_all_carried_out() {
    let mut room = Room::new();
    let spaces: Vec<Space> = (0..20).map(|_| Space::new()).collect();
    let specs: Vec<_> = spaces
        .iter()
        .enumerate()
        .map(|(index, space)| {
            let mut spec = spec(space);
            spec.host_name = format!("fab{index:011x}");
            spec
        })
        .collect();
    room.runtime.block_on(async {
        for (index, spec) in (0..).zip(&specs) {
            let task = fabric_core::node::Task(index);
            room.handle.wire(task, WireCommand::Create(spec.clone())).await;
            room.handle.wire(task, WireCommand::Check(spec.clone())).await;
        }
    });
    let mut seen = vec![0; specs.len()];
    for _ in 0..2 * specs.len() {
        let event = room.runtime.block_on(room.events.recv()).unwrap();
        let fabric_core::node::Event::Done { task, outcome: fabric_core::node::Outcome::Wire(result) } =
            event
        else {
            panic!("not an outcome")
        };
        result.unwrap();
        seen[usize::try_from(task.0).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| *count == 2), "{seen:?}");
}
