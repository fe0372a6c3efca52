use super::*;
use crate::ports::Tunnel;
use crate::ports::fixture::{Fixture, Rows, references, switch, uuid};
use ovsdb::Operation;
use serde_json::{Value, json};

fn config() -> PortsConfig {
    PortsConfig { mtu: Some(1450), tunnels: vec![Tunnel::Vxlan], ..PortsConfig::new("n1") }
}

fn surroundings() -> Surroundings {
    Surroundings { kernel_module: true, ..Surroundings::default() }
}

fn check(config: &PortsConfig, rows: Rows, surroundings: &Surroundings) -> Result<Plan, String> {
    let view = View::new(&config.bridge, Fixture::new(rows).1);
    plan(config, &view, surroundings)
}

/// A switch without the bridge.
fn bare() -> Rows {
    let mut rows = switch(1, &[]);
    rows.retain(|(table, _), _| *table == "Open_vSwitch");
    root(&mut rows)["bridges"] = references([]);
    rows
}

fn root(rows: &mut Rows) -> &mut Value {
    rows.get_mut(&("Open_vSwitch", uuid(1))).unwrap()
}

/// A switch that is as it should be.
fn complete() -> Rows {
    let tunnel = json!({"name": "fabric-vxlan", "type": "vxlan", "ofport": 1, "ofport_request": 1,
        "options": ["map", [["remote_ip", "flow"], ["key", "flow"], ["dst_port", "4789"]]],
        "external_ids": ["map", [["fabric", "n1"]]]});
    let mut rows = switch(1, &[(10, tunnel)]);
    rows.get_mut(&("Bridge", uuid(2))).unwrap()["other_config"] =
        json!(["map", [["hwaddr", local_mac("n1")], ["disable-in-band", "true"]]]);
    rows.get_mut(&("Interface", uuid(4))).unwrap()["mtu_request"] = json!(1450);
    rows
}

fn written(plan: Plan) -> Vec<String> {
    let describe = |operation: &Operation| match operation {
        Operation::Insert { table, .. } => format!("insert {table}"),
        Operation::Update { table, row, .. } => {
            format!("update {table} {}", row.keys().cloned().collect::<Vec<_>>().join(" "))
        }
        Operation::Mutate { table, mutations, .. } => {
            let columns: BTreeSet<&str> = mutations.iter().map(|mutation| mutation.column.as_str()).collect();
            format!("mutate {table} {}", columns.into_iter().collect::<Vec<_>>().join(" "))
        }
        Operation::Wait { table, .. } => format!("wait {table}"),
        other => format!("{other:?}"),
    };
    plan.transaction.map(|txn| txn.operations().iter().map(describe).collect()).unwrap_or_default()
}

#[test]
fn a_complete_switch_needs_nothing() {
    let plan = check(&config(), complete(), &surroundings()).unwrap();
    assert_eq!(plan, Plan { datapath: "netdev".to_owned(), transaction: None });
}

#[test]
fn a_bare_switch_gets_everything_at_once() {
    let plan = check(&config(), bare(), &surroundings()).unwrap();
    assert_eq!(plan.datapath, "system");
    assert_eq!(
        written(plan),
        [
            "wait Bridge",
            "insert Interface",
            "insert Port",
            "insert Interface",
            "insert Port",
            "insert Bridge",
            "mutate Open_vSwitch bridges"
        ]
    );
}

#[test]
fn only_what_differs_is_written() {
    let bridge = ("Bridge", uuid(2));
    type Spoil = fn(&mut Rows);
    let cases: [(Spoil, &[&str]); 5] = [
        (
            |rows| rows.get_mut(&("Bridge", uuid(2))).unwrap()["fail_mode"] = json!("standalone"),
            &["update Bridge datapath_type fail_mode mcast_snooping_enable"],
        ),
        (
            |rows| {
                rows.get_mut(&("Bridge", uuid(2))).unwrap()["other_config"] = json!(["map", [["other", "1"]]])
            },
            &["mutate Bridge other_config"],
        ),
        (
            |rows| rows.get_mut(&("Bridge", uuid(2))).unwrap()["protocols"] = json!("OpenFlow13"),
            &["mutate Bridge protocols"],
        ),
        (
            |rows| {
                rows.get_mut(&("Interface", uuid(11))).unwrap()["options"] = json!(["map", [["key", "5"]]])
            },
            &["update Interface ofport_request options type"],
        ),
        (
            |rows| rows.get_mut(&("Interface", uuid(4))).unwrap()["mtu_request"] = json!(["set", []]),
            &["update Interface mtu_request"],
        ),
    ];
    for (spoil, expected) in cases {
        let mut rows = complete();
        assert!(rows.contains_key(&bridge));
        spoil(&mut rows);
        assert_eq!(written(check(&config(), rows, &surroundings()).unwrap()), expected);
    }
}

#[test]
fn a_missing_tunnel_port_is_made() {
    let mut rows = complete();
    rows.remove(&("Port", uuid(10)));
    rows.remove(&("Interface", uuid(11)));
    rows.get_mut(&("Bridge", uuid(2))).unwrap()["ports"] = references([3]);
    let plan = check(&config(), rows, &surroundings()).unwrap();
    assert_eq!(written(plan), ["wait Bridge", "insert Interface", "insert Port", "mutate Bridge ports"]);
}

#[test]
fn auto_takes_the_datapath_of_the_bridges_or_of_the_kernel() {
    let auto = |rows, kernel_module| {
        let surroundings = Surroundings { kernel_module, ..Surroundings::default() };
        check(&config(), rows, &surroundings).unwrap().datapath
    };
    let beside = |datapath: &str| {
        let mut rows = bare();
        rows.insert(("Bridge", uuid(50)), json!({"name": "br-phy", "datapath_type": datapath}));
        rows
    };
    assert_eq!(auto(bare(), true), "system");
    assert_eq!(auto(bare(), false), "netdev");
    assert_eq!(auto(beside("netdev"), true), "netdev");
    assert_eq!(auto(beside(""), true), "system");
    assert_eq!(auto(complete(), true), "netdev", "a bridge keeps what it has");
    let explicit = PortsConfig { datapath: Datapath::System, ..config() };
    let plan = check(&explicit, complete(), &surroundings()).unwrap();
    assert_eq!(plan.datapath, "system");
    assert_eq!(written(plan), ["update Bridge datapath_type fail_mode mcast_snooping_enable"]);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let spoiled = |spoil: &dyn Fn(&mut Rows)| {
        let mut rows = complete();
        spoil(&mut rows);
        rows
    };
    let foreign_port = |rows: &mut Rows| {
        rows.insert(("Bridge", uuid(50)), json!({"name": "br-other", "ports": references([60])}));
        rows.insert(("Port", uuid(60)), json!({"name": "fabric-vxlan", "interfaces": references([61])}));
        rows.insert(("Interface", uuid(61)), json!({"name": "fabric-vxlan"}));
    };
    let mut elsewhere = bare();
    foreign_port(&mut elsewhere);
    let cases: [(Rows, &str); 8] = [
        (Rows::new(), "table Open_vSwitch is empty"),
        (
            spoiled(&|rows| root(rows)["ovs_version"] = json!("2.16.2")),
            "2.16.2 is too old: 2.17 or newer is needed",
        ),
        (spoiled(&|rows| root(rows)["ovs_version"] = json!("unknown")), "unknown is too old"),
        (spoiled(&|rows| root(rows)["datapath_types"] = json!(["set", []])), "is it running?"),
        (
            spoiled(&|rows| root(rows)["datapath_types"] = json!("system")),
            "offers no datapath netdev, only system",
        ),
        (
            spoiled(&|rows| {
                rows.get_mut(&("Bridge", uuid(2))).unwrap()["external_ids"] = json!(["map", []]);
            }),
            "bridge br-fabric is not Fabric's",
        ),
        (
            spoiled(&|rows| {
                rows.get_mut(&("Interface", uuid(11))).unwrap()["external_ids"] = json!(["map", []]);
            }),
            "port fabric-vxlan of bridge br-fabric is not Fabric's",
        ),
        (elsewhere, "bridge br-other has a port called fabric-vxlan"),
    ];
    for (rows, expected) in cases {
        let problem = check(&config(), rows, &surroundings()).unwrap_err();
        assert!(problem.contains(expected), "{problem:?} does not say {expected:?}");
    }
}

#[test]
fn versions_are_read_as_distributions_spell_them() {
    for (version, supported) in
        [("2.17.9-0ubuntu1", true), ("3.1.0", true), ("10.0.0", true), ("2.9.0", false), ("1.20.0", false)]
    {
        let mut rows = complete();
        root(&mut rows)["ovs_version"] = json!(version);
        assert_eq!(check(&config(), rows, &surroundings()).is_ok(), supported, "{version}");
    }
}

#[test]
fn without_a_version_the_schema_counts() {
    let mut rows = complete();
    root(&mut rows)["ovs_version"] = json!(["set", []]);
    let with = |schema: &str| Surroundings { schema: Some(schema.to_owned()), ..surroundings() };
    assert!(check(&config(), rows.clone(), &with("8.3.1")).is_ok());
    let problem = check(&config(), rows, &with("8.2.0")).unwrap_err();
    assert!(problem.contains("schema 8.2.0") && problem.contains("2.17"), "{problem}");
}

#[test]
fn the_local_address_is_stable_local_and_unicast() {
    assert_eq!(local_mac("n1"), local_mac("n1"));
    assert_ne!(local_mac("n1"), local_mac("n2"));
    let mac: openflow::Mac = local_mac("n1").parse().unwrap();
    assert!(!mac.is_multicast() && mac.0[0] & 2 == 2);
}
