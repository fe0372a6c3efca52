use serde_json::json;

use super::*;
use crate::args::Args;

fn target() -> Target {
    Target {
        container_id: "c1".into(),
        ifname: "eth0".into(),
        netns: Some("/run/netns/x".into()),
        args: Args::default(),
    }
}

fn attached() -> Attached {
    Attached {
        host_name: "fab0123456789a".into(),
        mac: "0a:58:0a:00:00:09".parse().unwrap(),
        mtu: 1450,
        addresses: vec!["10.0.0.9/32".parse().unwrap(), "fd00::9/128".parse().unwrap()],
        gateways: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
    }
}

fn add(version: Version, previous: Option<Value>) -> Value {
    let previous = previous.map(|value| serde_json::from_value(value).unwrap());
    serde_json::to_value(of_add(version, previous, &target(), &attached(), Dns::default())).unwrap()
}

#[test]
fn the_newest_shape() {
    let expected = json!({
        "cniVersion": "1.1.0",
        "interfaces": [
            {"name": "fab0123456789a"},
            {"name": "eth0", "mac": "0a:58:0a:00:00:09", "mtu": 1450, "sandbox": "/run/netns/x"},
        ],
        "ips": [
            {"address": "10.0.0.9/32", "gateway": "10.0.0.1", "interface": 1},
            {"address": "fd00::9/128", "gateway": "fd00::1", "interface": 1},
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}, {"dst": "::/0", "gw": "fd00::1"}],
    });
    assert_eq!(add(Version::V1_1_0, None), expected);
}

#[test]
fn older_shapes_differ_in_family_and_mtu() {
    for version in [Version::V0_3_1, Version::V0_4_0] {
        let result = add(version, None);
        assert_eq!(result["cniVersion"], version.as_str());
        assert_eq!(result["ips"][0]["version"], "4");
        assert_eq!(result["ips"][1]["version"], "6");
        assert_eq!(result["interfaces"][1].get("mtu"), None);
    }
    let result = add(Version::V1_0_0, None);
    assert_eq!(result["ips"][0].get("version"), None);
    assert_eq!(result["interfaces"][1].get("mtu"), None);
}

#[test]
fn an_earlier_result_is_carried_on() {
    let previous = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "net1", "sandbox": "/run/netns/x", "pciID": "0000:04:00.5"}],
        "ips": [{"address": "192.168.5.2/24", "interface": 0}],
        "routes": [{"dst": "192.168.0.0/16", "priority": 5}],
        "dns": {"nameservers": ["1.1.1.1"]},
        "vendor": {"x": 1},
    });
    let result = add(Version::V1_1_0, Some(previous));
    assert_eq!(result["interfaces"][0]["pciID"], "0000:04:00.5");
    assert_eq!(result["interfaces"][2]["name"], "eth0");
    assert_eq!(result["ips"][0]["interface"], 0);
    assert_eq!(result["ips"][1]["interface"], 2);
    assert_eq!(result["routes"][0]["priority"], 5);
    assert_eq!(result["dns"]["nameservers"][0], "1.1.1.1");
    assert_eq!(result["vendor"]["x"], 1);
}

#[test]
fn what_is_returned_can_be_read_back() {
    for version in Version::ALL {
        let result = of_add(version, None, &target(), &attached(), Dns::default());
        let (mac, addresses) = expected(&result, &target()).unwrap();
        assert_eq!(mac, Some(attached().mac));
        assert_eq!(addresses, attached().addresses);
        assert_eq!(host_end(&result, &target()), Some("fab0123456789a"));
        assert!(check_free(&result, &target()).is_err());
    }
}

#[test]
fn an_interface_elsewhere_is_not_ours() {
    let previous: Success = serde_json::from_value(json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0"}, {"name": "eth0", "sandbox": "/run/netns/other"}],
    }))
    .unwrap();
    assert!(check_free(&previous, &target()).is_ok());
    assert!(expected(&previous, &target()).is_err());
    assert_eq!(host_end(&previous, &target()), None);
}
