use super::*;

const PATH: &str = "/etc/fabric/node.yaml";

fn parse(text: &str) -> Result<NodeConfig, ConfigError> {
    NodeConfig::parse(Path::new(PATH), text, "host-a")
}

/// What the administrator reads.
fn message(text: &str) -> String {
    parse(text).expect_err("the file is wrong").to_string()
}

#[test]
fn the_store_is_enough() {
    let config = parse("store: { directory: /world }").expect("a sound file");
    assert_eq!(config.node, "host-a");
    assert_eq!(config.store.directory, Path::new("/world"));
    assert_eq!(config.ovs, Ovs::default());
    assert_eq!(config.ovs.datapath, Datapath::Auto);
    assert_eq!(config.bridge, "br-fabric");
    assert_eq!(config.tunnels, Tunnels::default());
    assert_eq!(config.cni_socket(), Path::new("/run/fabric/cni.sock"));
    assert_eq!(config.agent_socket(), Path::new("/run/fabric/agent.sock"));
    assert_eq!(config.reconcile(), Duration::from_secs(300));
    assert_eq!(config.claim_rest(), Duration::from_secs(30));
    assert_eq!(config.claim_retention(), Duration::from_secs(3_600));
    assert_eq!(config.limits, Limits::default());
}

#[test]
fn the_sample_shows_every_field_and_its_default() {
    let sample = include_str!("../../../deploy/examples/node.yaml");
    let config = parse(sample).expect("the sample is sound");
    let defaults =
        parse("node: n1\nstore: { directory: /var/lib/fabric/world }\ntunnels: { interface: eth0 }");
    assert_eq!(config, defaults.expect("a sound file"));

    let mut value: serde_json::Value = serde_saphyr::from_str(sample).expect("the sample is YAML");
    let mut fields = Vec::new();
    collect("", &mut value, &mut fields);
    assert_eq!(
        fields,
        [
            "bridge",
            "claimRestSeconds",
            "claimRetentionSeconds",
            "egress",
            "limits.connectionsPerPod",
            "limits.conversationsPerSecond",
            "limits.learnedFlowsPerPod",
            "log",
            "node",
            "ovs.database",
            "ovs.datapath",
            "ovs.runDir",
            "physicalNetworks",
            "reconcileSeconds",
            "sharedNamespaces",
            "sockets.directory",
            "store.directory",
            "tunnels.interface",
        ]
    );
}

#[test]
fn the_node_file_that_the_page_about_installing_shows_is_sound() {
    let page = include_str!("../../../docs/install.md");
    let block = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let block: String = block.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    let config = parse(&block).expect("a sound file");
    assert_eq!((config.node.as_str(), config.tunnels.interface.as_deref()), ("n1", Some("eth0")));
}

fn collect(prefix: &str, value: &mut serde_json::Value, fields: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) if !map.is_empty() => {
            let mut keys: Vec<_> = map.keys().cloned().collect();
            keys.sort();
            for key in keys {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                collect(&path, &mut map[&key], fields);
            }
        }
        _ => fields.push(prefix.to_owned()),
    }
}

#[test]
fn every_field_is_read() {
    let config = parse(
        "node: n2.example.org\nstore: { directory: /w }\n\
         ovs: { database: /o/db.sock, runDir: /o, datapath: netdev }\nbridge: br0\n\
         tunnels: { cidr: 192.168.77.0/24 }\nsockets: { directory: /s }\nlog: info,fabric_node=debug\n\
         reconcileSeconds: 5\nclaimRestSeconds: 0\nsharedNamespaces: [infra, dns]\n\
         limits: { conversationsPerSecond: 7, connectionsPerPod: 2048, learnedFlowsPerPod: 64 }\n\
         physicalNetworks: { lan: { nic: eth1 }, dc.2: { nic: bond0, allowManagement: true } }",
    )
    .expect("a sound file");
    assert_eq!(config.node, "n2.example.org");
    assert_eq!(config.ovs.database, Path::new("/o/db.sock"));
    assert_eq!(config.ovs.run_dir, Path::new("/o"));
    assert_eq!(config.ovs.datapath, Datapath::Netdev);
    assert_eq!(config.bridge, "br0");
    assert_eq!(config.tunnels.cidr, "192.168.77.0/24".parse().ok());
    assert_eq!(config.sockets.directory, Path::new("/s"));
    assert_eq!(config.reconcile_seconds, 5);
    assert_eq!(config.claim_rest_seconds, 0);
    assert_eq!(config.shared_namespaces, ["infra", "dns"]);
    let limits =
        Limits { conversations_per_second: 7, connections_per_pod: 2_048, learned_flows_per_pod: 64 };
    assert_eq!(config.limits, limits);
    let network = |nic: &str, allow_management| PhysicalNetwork { nic: nic.to_owned(), allow_management };
    let networks = [("dc.2", network("bond0", true)), ("lan", network("eth1", false))];
    assert_eq!(config.physical_networks, networks.map(|(name, network)| (name.to_owned(), network)).into());
}

/// Each text with what is said about it.
const WRONG: &[(&str, &str)] = &[
    ("", ":1: unexpected end of file"),
    (
        "store: { directory: /w }\nbrige: br0",
        ":2: brige: unknown field `brige`, expected one of node, store, ovs, bridge, tunnels, sockets, log, reconcileSeconds, claimRestSeconds, claimRetentionSeconds, sharedNamespaces, egress, limits, physicalNetworks",
    ),
    (
        "store:\n  directory: /w\novs:\n  rundir: /x",
        ":4: ovs.rundir: unknown field `rundir`, expected one of database, runDir, datapath",
    ),
    ("node: n1", ":1: missing field `store`"),
    ("store: {}", ":1: store: missing field `directory`"),
    (
        "store: { directory: /w }\nreconcileSeconds: soon",
        ":2: reconcileSeconds: give a whole number, 0 or above",
    ),
    (
        "store: { directory: /w }\novs: { datapath: kernel }",
        ":2: ovs.datapath: unknown variant `kernel`, expected one of auto, system, netdev",
    ),
    (
        "store: { directory: /w }\nlog: info\nlog: debug",
        ":3: duplicate mapping key `log` is not allowed here",
    ),
    (
        "store: { directory: /w }\ntunnels: { cidr: 192.168.77.0/33 }",
        ":2: tunnels.cidr: invalid IP address syntax",
    ),
    ("store: { directory: /w", ":1: store: unclosed bracket '{'"),
    ("store: { directory: w }", ": store.directory: \"w\" is not absolute; begin it with '/'"),
    (
        "node: N1\nstore: { directory: /w }",
        ": node: \"N1\" cannot name a node; give the name of this node's Node object (lower-case letters, digits, '-' and '.')",
    ),
    (
        "store: { directory: /w }\nbridge: a-bridge-with-a-long-name",
        ": bridge: \"a-bridge-with-a-long-name\" cannot name a network device; give 1 to 15 bytes without '/', ':' and blanks",
    ),
    (
        "store: { directory: /w }\ntunnels: { interface: eth0, cidr: 10.0.0.0/8 }",
        ": tunnels: both interface (eth0) and cidr (10.0.0.0/8) are given; give the one that is meant",
    ),
    (
        "store: { directory: /w }\ntunnels: { interface: 'eth 0' }",
        ": tunnels.interface: \"eth 0\" cannot name a network device; give 1 to 15 bytes without '/', ':' and blanks",
    ),
    (
        "store: { directory: /w }\nlog: fabric=loud",
        ": log: \"fabric=loud\" is no filter (error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5); give error, warn, info, debug or trace, or TARGET=LEVEL,...",
    ),
    (
        "store: { directory: /w }\nreconcileSeconds: 0",
        ": reconcileSeconds: 0 is too small; give a number of at least 1",
    ),
    (
        "store: { directory: /w }\nclaimRetentionSeconds: 18446744073709551615",
        ": claimRetentionSeconds: 18446744073709551615 is too large; give a number of at most 315360000",
    ),
    (
        "store: { directory: /w }\nclaimRestSeconds: 315360001",
        ": claimRestSeconds: 315360001 is too large; give a number of at most 315360000",
    ),
    (
        "store: { directory: /w }\nlimits: { learnedFlowsPerPod: 10 }",
        ": limits.learnedFlowsPerPod: 10 is too small; give a number of at least 64",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { a-very-long-n: { nic: eth1 } }",
        ": physicalNetworks: \"a-very-long-n\" cannot name a physical network; give 1 to 12 lower-case letters, digits, '-' and '.'",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { lan: { nic: '' } }",
        ": physicalNetworks: lan: nic: \"\" cannot name a network device; give 1 to 15 bytes without '/', ':' and blanks",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { a: { nic: eth1 }, b: { nic: eth1 } }",
        ": physicalNetworks: b and a both name the NIC eth1; a NIC leads to one network: give its VLANs in the Networks",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { fabric: { nic: eth1 } }",
        ": physicalNetworks: fabric: its bridge br-fabric would be the one that carries the pods; give another name, or another `bridge`",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { lan: { nic: br-lan } }",
        ": physicalNetworks: lan: nic: br-lan is a bridge of Fabric's; give the NIC itself",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { a: { nic: br-b }, b: { nic: eth1 } }",
        ": physicalNetworks: a: nic: br-b is the bridge of b; give the NIC itself",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { gre: { nic: eth1 } }",
        ": physicalNetworks: \"gre\" would name a port like that of a tunnel; give another name",
    ),
    (
        "store: { directory: /w }\nphysicalNetworks: { lan: { nics: eth1 } }",
        ":2: physicalNetworks.lan.nics: unknown field `nics`, expected one of nic, allowManagement",
    ),
    (
        "store: { directory: /w }\nsharedNamespaces: [dns, Kube-System]",
        ": sharedNamespaces: \"Kube-System\" cannot name a namespace; give up to 63 lower-case letters, digits and '-', or [] for none",
    ),
];

#[test]
fn what_is_wrong_is_said_with_file_line_and_field() {
    for (text, expected) in WRONG {
        assert_eq!(message(text), format!("{PATH}{expected}"), "{text}");
    }
}

#[test]
fn a_missing_file_says_how_to_get_one() {
    let error = NodeConfig::load(Path::new("/nonexistent/node.yaml"), "n1").expect_err("no such file");
    assert_eq!(
        error.to_string(),
        "/nonexistent/node.yaml: No such file or directory (os error 2); write one \
         (deploy/examples/node.yaml shows every field) or name another with --config"
    );
}
