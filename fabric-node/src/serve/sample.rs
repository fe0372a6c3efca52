//! A status with a bit of everything, for the golden texts.

use fabric_api::{
    Attachment, Conflict, Flows, Lease, LeaseState, Path, PolicyState, Pool, Problem, Punts, Rates, Segment,
    State, Status, Store, StoreKind, Switch, TableFlows, Tally, WorldCounts,
};

/// A node with a bit of everything.
pub(super) fn sample() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        node: "n1".to_owned(),
        state: State::Degraded,
        since: 1_000,
        waiting_for: vec!["the database of Open vSwitch (/run/openvswitch/db.sock)".to_owned()],
        switch: Switch {
            connected: true,
            database_connected: false,
            bridge: "br-fabric".to_owned(),
            ovs_version: Some("3.1.0".to_owned()),
            datapath: Some("netdev".to_owned()),
        },
        store: Store {
            kind: StoreKind::Directory,
            location: "/var/lib/fabric/world".to_owned(),
            synced: true,
        },
        world: WorldCounts {
            namespaces: 2,
            pods: 12,
            nodes: 3,
            networks: 1,
            claims: 13,
            ..Default::default()
        },
        attachments: attachments(),
        leases: vec![
            lease("10.0.0.5", LeaseState::Held),
            lease("10.0.0.6", LeaseState::Held),
            lease("10.0.0.7", LeaseState::Resting),
        ],
        pools: vec![Pool {
            network: "pods".to_owned(),
            family: 4,
            size: 253,
            claimed: 2,
            retained: 0,
            pending: 0,
            resting: 1,
            disputed: 0,
            free: 250,
        }],
        conflicts: vec![Conflict {
            ip: "10.0.0.5".parse().expect("v4"),
            holder: "pod default/a".to_owned(),
            network: "pods".to_owned(),
            segment: Segment { physical_network: "lan".to_owned(), vlan: Some(100) },
            mac: "52:54:00:00:00:07".to_owned(),
        }],
        defences: 3,
        flows: Flows {
            r#static: 52,
            learned: vec![
                TableFlows { table: "Egress".to_owned(), flows: 1 },
                TableFlows { table: "Route".to_owned(), flows: 2 },
            ],
        },
        punts: vec![
            Punts { table: "Egress".to_owned(), outcome: "allowed".to_owned(), packets: 4 },
            Punts { table: "Route".to_owned(), outcome: "waiting".to_owned(), packets: 1 },
        ],
        denied: tally("NetworkPolicy default/web: no ingress rule matches", 7),
        audited: tally("NetworkPolicy default/trial: no egress rule matches", 2),
        policy: PolicyState { edits: 31, settled: true, judged_again: 12, dormant: 1 },
        drops: [("spoofed-ipv4".to_owned(), 3), ("unknown-port".to_owned(), 0)].into(),
        paths: vec![
            Path { node: "n2".to_owned(), address: "192.0.2.2".parse().expect("v4"), mtu: 1300 },
            Path { node: String::new(), address: "2001:db8::3".parse().expect("v6"), mtu: 1420 },
        ],
        problems: vec![Problem {
            source: "pods.yaml#2".to_owned(),
            object: Some("Pod default/b".to_owned()),
            field: "spec.nodeName".to_owned(),
            message: "a text is wanted".to_owned(),
        }],
    }
}

fn attachments() -> Vec<Attachment> {
    vec![
        Attachment {
            container: "c0ffee".to_owned(),
            ifname: "eth0".to_owned(),
            pod: Some("default/a".to_owned()),
            network: "pods".to_owned(),
            segment: Some(Segment { physical_network: "lan".to_owned(), vlan: Some(100) }),
            addresses: vec!["10.0.0.5".parse().expect("v4"), "fd00::5".parse().expect("v6")],
            mtu: 1_500,
            rates: Rates { egress: Some(10_000_000), ingress: None },
            mac: "0a:58:0a:00:00:05".to_owned(),
            port: "fab0123456789a".to_owned(),
            ofport: Some(32_768),
            zone: 1,
            ready: true,
        },
        Attachment {
            container: "decaf".to_owned(),
            ifname: "eth0".to_owned(),
            pod: None,
            network: "pods".to_owned(),
            segment: None,
            addresses: vec!["10.0.0.6".parse().expect("v4")],
            mtu: 1_450,
            rates: Rates::default(),
            mac: "0a:58:0a:00:00:06".to_owned(),
            port: "fabba9876543210".to_owned(),
            ofport: None,
            zone: 2,
            ready: false,
        },
    ]
}

fn tally(because: &str, count: u64) -> Vec<Tally> {
    vec![Tally { because: because.to_owned(), count }]
}

fn lease(ip: &str, state: LeaseState) -> Lease {
    let ip = ip.parse().expect("an address");
    Lease { ip, network: "pods".to_owned(), owner: "c0ffee/eth0".to_owned(), state }
}
