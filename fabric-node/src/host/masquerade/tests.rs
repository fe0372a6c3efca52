use super::*;

#[test]
fn the_script_has_a_table_for_each_family_with_pods() {
    let prefixes = |list: &[&str]| list.iter().map(|prefix| prefix.parse().unwrap()).collect();
    let state = HostState {
        device: "br-fabric".to_owned(),
        routes: prefixes(&["10.0.0.0/16", "10.1.0.0/16", "192.168.77.2/32"]),
        masquerade: prefixes(&["10.0.0.0/16", "10.0.3.0/24"]),
        ..HostState::default()
    };
    assert_eq!(
        script(&state),
        "table ip fabric
delete table ip fabric
table ip fabric {
  set pods { type ipv4_addr; flags interval; elements = { 10.0.0.0/16 }; }
  set inside { type ipv4_addr; flags interval; elements = { 10.0.0.0/15, 192.168.77.2/32 }; }
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    ip saddr @pods ip daddr != @inside oifname != \"br-fabric\" masquerade
  }
}
table ip6 fabric
delete table ip6 fabric
"
    );
}

#[test]
fn a_missing_program_is_named() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(run(Path::new("/nonexistent/nft"), &removal()));
    let error = outcome.unwrap_err();
    assert!(error.contains("/nonexistent/nft") && error.contains("install nftables"), "{error}");
}
