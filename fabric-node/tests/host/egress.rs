//! Egress addresses on a real kernel: on loan, announced, and never another one in their place.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use fabric_core::node::HostState;
use fabric_core::pipeline::vocabulary::egress_mac;
use fabric_node::host::{HostConfig, cleanup};

use super::space::Namespace;
use super::support::{in_namespace, run, until};
use super::{Room, device, mac_of, node_addresses, state};

/// The addresses of a device that are on loan: nobody else's are deprecated here.
fn lent(device: &str) -> String {
    let all = run("ip", &["-o", "addr", "show", "dev", device]);
    all.lines().filter(|line| line.contains("deprecated")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_egress_address_is_lent_to_the_interface_on_its_network_and_announced() {
    in_namespace(|| async {
        device();
        node_addresses();
        run("ip", &["link", "add", "lan", "type", "veth", "peer", "name", "world"]);
        run("ip", &["addr", "add", "203.0.113.1/24", "dev", "lan"]);
        run("ip", &["addr", "add", "2001:db8::1/64", "dev", "lan", "nodad"]);
        run("ip", &["link", "set", "lan", "up"]);
        let world = Namespace::behind("world", "203.0.113.9/24", "203.0.113.1").await;
        let capture = world.capture("world", "arp or icmp6[icmp6type] == icmp6-neighboradvert");
        let mut room = Room::new(HostConfig::default());
        let egress: [IpAddr; 2] = ["203.0.113.200", "2001:db8::c8"].map(|ip| ip.parse().expect("an address"));
        let wanted =
            HostState { egress_asked: true, egress: egress.map(|ip| (ip, egress_mac(ip))).into(), ..state() };
        room.apply(&wanted).await;
        until("the addresses are there", || {
            let there = lent("lan");
            egress.iter().all(|ip| there.contains(&ip.to_string()))
        })
        .await;
        let there = lent("lan");
        assert!(there.contains("203.0.113.200/32") && there.contains("2001:db8::c8/128"), "{there}");
        assert!(there.contains("valid_lft 1") && !there.contains("forever"), "{there}");
        until("both are announced", || {
            let heard = capture.text();
            heard.contains("203.0.113.200 tell 203.0.113.200") && heard.contains("2001:db8::c8 > ff02::1")
        })
        .await;
        // The host itself goes on with its own address.
        let route = run("ip", &["route", "get", "203.0.113.9"]);
        assert!(route.contains("src 203.0.113.1 "), "{route}");
        let links = room.told().await;
        assert!(links.contains(&"203.0.113.0/24".parse().expect("a prefix")), "{links:?}");
        // Renewed as long as the room lives, and gone by itself some time after.
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(lent("lan").contains("203.0.113.200"), "renewed");
        room.end().await;
        let end = Instant::now() + Duration::from_secs(25);
        while !lent("lan").trim().is_empty() {
            assert!(Instant::now() < end, "nobody renews it: {}", lent("lan"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // One that is not wanted goes at once, and a room that starts finds what another has left.
        let mut room = Room::new(HostConfig::default());
        room.apply(&wanted).await;
        room.end().await;
        let mut room = Room::new(HostConfig::default());
        room.apply(&HostState { egress: [(egress[1], egress_mac(egress[1]))].into(), ..wanted.clone() })
            .await;
        until("the one that is not wanted is gone", || !lent("lan").contains("203.0.113.200")).await;
        assert!(lent("lan").contains("2001:db8::c8"));
        room.end().await;
        cleanup(&HostConfig::default()).await.expect("cleaned up");
        assert_eq!(lent("lan").trim(), "");
    });
}

#[test]
fn what_is_to_leave_under_an_egress_address_leaves_under_no_other() {
    in_namespace(|| async {
        device();
        node_addresses();
        let pod = Namespace::behind("far", "10.0.0.5/16", "169.254.1.1").await;
        run("ip", &["link", "add", "lan", "type", "veth", "peer", "name", "world"]);
        run("ip", &["addr", "add", "203.0.113.1/24", "dev", "lan"]);
        run("ip", &["link", "set", "lan", "up"]);
        let world = Namespace::behind("world", "203.0.113.9/24", "203.0.113.1").await;
        let egress: IpAddr = "203.0.113.200".parse().expect("an address");
        let mut room = Room::new(HostConfig::default());
        let mut wanted = HostState { egress_asked: true, ..state() };
        wanted.masquerade = ["10.0.0.0/16"].iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
        room.apply(&wanted).await;
        // As the switch sends it: from the hardware address of the egress address.
        pod.run(&["ip", "link", "set", "far", "address", &egress_mac(egress).to_string()]);
        pod.run(&["ip", "neigh", "add", "169.254.1.1", "lladdr", &mac_of("br-fabric"), "dev", "far"]);
        let capture = world.capture("world", "icmp[icmptype] == icmp-echo");
        for _ in 0..3 {
            assert!(!pod.try_run(&["ping", "-c", "1", "-W", "1", "203.0.113.9"]), "nobody holds the address");
        }
        assert!(!capture.text().contains("> 203.0.113.9"), "{}", capture.text());
        wanted.egress = [(egress, egress_mac(egress))].into();
        room.apply(&wanted).await;
        // The way back is by the router, whom the pod plays for the host.
        run(
            "ip",
            &[
                "neigh",
                "replace",
                "169.254.1.1",
                "lladdr",
                &egress_mac(egress).to_string(),
                "dev",
                "br-fabric",
            ],
        );
        until("the world saw the egress address", || {
            pod.try_run(&["ping", "-c", "1", "-W", "1", "203.0.113.9"]);
            capture.text().contains("203.0.113.200 > 203.0.113.9")
        })
        .await;
        assert!(!capture.text().contains("203.0.113.1 > 203.0.113.9"), "{}", capture.text());
        room.end().await;
    });
}
