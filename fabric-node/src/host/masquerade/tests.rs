use super::*;
use fabric_core::pipeline::vocabulary::egress_mac;

#[test]
fn the_script_has_a_table_for_each_family_with_somebody_to_guard() {
    let prefixes =
        |list: &[&str]| -> BTreeSet<IpNet> { list.iter().map(|prefix| prefix.parse().unwrap()).collect() };
    let state = HostState {
        device: "br-fabric".to_owned(),
        routes: prefixes(&["10.0.0.0/16", "10.1.0.0/16", "192.168.77.2/32"]),
        masquerade: prefixes(&["10.0.0.0/16", "10.0.3.0/24"]),
        unmasked: [("10.0.3.0/24".parse().unwrap(), prefixes(&["10.99.0.0/17", "10.99.128.0/17"]))].into(),
        on_wire: prefixes(&["192.168.77.2/32"]),
        egress: ["192.168.77.200", "192.168.77.201", "fd77::200"]
            .map(|ip| ip.parse().unwrap())
            .map(|ip| (ip, egress_mac(ip)))
            .into(),
        ..HostState::default()
    };
    assert_eq!(
        script(&state),
        "table ip fabric
delete table ip fabric
table ip fabric {
  set pods { type ipv4_addr; flags interval; elements = { 10.0.0.0/16 }; }
  set inside { type ipv4_addr; flags interval; elements = { 10.0.0.0/15, 192.168.77.2/32 }; }
  set wire { type ipv4_addr; flags interval; elements = { 192.168.77.2/32 }; }
  chain forward {
    type filter hook forward priority 0; policy accept;
    iifname \"br-fabric\" ether saddr 0a:59:c0:a8:4d:c8 meta mark set 0x0fab0001 accept
    iifname \"br-fabric\" ether saddr 0a:59:c0:a8:4d:c9 meta mark set 0x0fab0002 accept
    iifname \"br-fabric\" ether saddr & ff:ff:00:00:00:00 == 0a:59:00:00:00:00 drop
    iifname != \"br-fabric\" oifname \"br-fabric\" ip daddr @wire ct status dnat accept
    iifname != \"br-fabric\" oifname \"br-fabric\" ip daddr @wire drop
  }
  chain prerouting {
    type filter hook prerouting priority -150; policy accept;
    iifname != { \"lo\", \"br-fabric\" } ip daddr @inside fib saddr type local drop
  }
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    meta mark 0x0fab0001 oifname != \"br-fabric\" snat to 192.168.77.200
    meta mark 0x0fab0002 oifname != \"br-fabric\" snat to 192.168.77.201
    ip saddr 10.0.3.0/24 ip daddr { 10.99.0.0/16 } accept
    ip saddr @pods ip daddr != @inside oifname != \"br-fabric\" masquerade
  }
}
table ip6 fabric
delete table ip6 fabric
"
    );
}
