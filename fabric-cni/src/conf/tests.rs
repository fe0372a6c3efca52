use serde_json::json;

use super::*;

fn check(value: &Value, command: Command) -> Result<NetConf, Error> {
    Document::read(value.to_string().as_bytes())?.check(command)
}

fn minimal() -> Value {
    json!({"cniVersion": "1.1.0", "name": "fabric", "type": "fabric-cni"})
}

fn with(key: &str, value: Value) -> Value {
    let mut conf = minimal();
    conf[key] = value;
    conf
}

#[test]
fn the_least_configuration_has_the_defaults() {
    let conf = check(&minimal(), Command::Add).unwrap();
    assert_eq!(conf.socket, PathBuf::from(DEFAULT_SOCKET));
    assert_eq!((conf.mtu, conf.ipam, conf.prev_result), (None, None, None));
    assert_eq!(conf.runtime, RuntimeConfig::default());
}

#[test]
fn everything_known_is_accepted() {
    let conf = json!({
        "cniVersion": "1.0.0", "name": "fabric", "type": "fabric-cni", "socket": "/tmp/s", "mtu": 1400,
        "capabilities": {"ips": true}, "ipMasq": false, "ipam": {}, "disableCheck": false,
        "dns": {"nameservers": ["10.96.0.10"]}, "cni.dev/anything": 1,
        "args": {"cni": {"ips": ["10.0.0.7/24"], "labels": []}, "other": {}},
        "runtimeConfig": {
            "bandwidth": {"ingressRate": 1000, "ingressBurst": 100},
            "ips": ["10.0.0.9/24", "fd00::9"], "mac": "0a:58:0a:00:00:09",
            "portMappings": [{"hostPort": 80, "containerPort": 80, "protocol": "tcp"}],
        },
    });
    let conf = check(&conf, Command::Add).unwrap();
    assert_eq!(conf.mtu, Some(1400));
    assert_eq!(conf.runtime.ips.len(), 2);
    assert_eq!(conf.runtime.bandwidth.unwrap().ingress_rate, 1000);
    assert_eq!(conf.args_ips.len(), 1);
    assert_eq!(conf.dns.nameservers, ["10.96.0.10"]);
}

#[test]
fn a_field_that_cannot_be_honoured_is_named_with_its_value() {
    for (conf, words) in [
        (with("mtuu", json!(1400)), ["mtuu", "1400"]),
        (with("ipMasq", json!(true)), ["ipMasq", "true"]),
        (with("runtimeConfig", json!({"deviceID": "0000:04"})), ["runtimeConfig.deviceID", "0000:04"]),
    ] {
        let error = check(&conf, Command::Add).unwrap_err();
        assert_eq!(error.code, Code::UNSUPPORTED_FIELD, "{error}");
        assert!(words.iter().all(|word| error.details.contains(word)), "{error}");
    }
}

#[test]
fn a_bad_value_names_its_field() {
    for (key, value, word) in [
        ("name", json!("-x"), "name"),
        ("name", json!(7), "name"),
        ("type", json!(""), "type"),
        ("mtu", json!("big"), "mtu"),
        ("mtu", json!(67), "mtu"),
        ("mtu", json!(-1), "mtu"),
        ("socket", json!("run/x"), "socket"),
        ("ipam", json!("host-local"), "ipam"),
        ("dns", json!("1.1.1.1"), "dns"),
        ("runtimeConfig", json!({"ips": ["ten"]}), "runtimeConfig.ips"),
        ("runtimeConfig", json!({"mac": "ten"}), "runtimeConfig.mac"),
        ("runtimeConfig", json!({"bandwidth": {"rate": 1}}), "runtimeConfig.bandwidth"),
        ("args", json!({"cni": {"ips": ["ten"]}}), "args.cni.ips"),
        ("prevResult", json!({"cniVersion": "1.1.0", "interfaces": 5}), "prevResult"),
    ] {
        let error = check(&with(key, value), Command::Add).unwrap_err();
        assert_eq!(error.code, Code::CONFIG, "{key}: {error}");
        assert!(error.details.contains(word), "{key}: {error}");
    }
}

#[test]
fn a_missing_field_is_named() {
    for key in ["name", "type"] {
        let mut conf = minimal();
        conf.as_object_mut().unwrap().remove(key);
        let error = check(&conf, Command::Add).unwrap_err();
        assert_eq!(error.code, Code::CONFIG);
        assert!(error.details.starts_with(key), "{error}");
    }
    let error = check(&minimal(), Command::Check).unwrap_err();
    assert!(error.details.starts_with("prevResult"), "{error}");
    let error = check(&minimal(), Command::Gc).unwrap_err();
    assert!(error.details.starts_with("cni.dev/valid-attachments"), "{error}");
}

#[test]
fn versions_are_checked() {
    for (value, code) in [
        (json!({"name": "a", "type": "b"}), Code::VERSION),
        (json!({"cniVersion": "0.2.0", "name": "a", "type": "b"}), Code::VERSION),
        (json!({"cniVersion": "9.0.0", "name": "a", "type": "b"}), Code::VERSION),
        (json!({"cniVersion": 1, "name": "a", "type": "b"}), Code::DECODE),
    ] {
        assert_eq!(check(&value, Command::Add).unwrap_err().code, code);
    }
    for bytes in [&b""[..], b"  \n", b"{", b"[]", b"\"a\"", b"{} trailing", b"\xff\xfe"] {
        assert_eq!(Document::read(bytes).unwrap_err().code, Code::DECODE);
    }
}

#[test]
fn gc_takes_both_names_of_the_list_and_null() {
    let list = json!([{"containerID": "c1", "ifname": "eth0"}]);
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        let conf = check(&with(key, list.clone()), Command::Gc).unwrap();
        assert_eq!(conf.valid_attachments.unwrap().len(), 1);
        let conf = check(&with(key, Value::Null), Command::Gc).unwrap();
        assert_eq!(conf.valid_attachments.unwrap(), []);
    }
    let error = check(&with("cni.dev/valid-attachments", json!([{"ifname": "e"}])), Command::Gc).unwrap_err();
    assert!(error.details.contains("containerID"), "{error}");
}

#[test]
fn del_is_lenient() {
    let conf = json!({"cniVersion": "1.0.0", "mtuu": 1, "mtu": "x", "socket": "/s", "prevResult": 5});
    let conf = check(&conf, Command::Del).unwrap();
    assert_eq!(conf.socket, PathBuf::from("/s"));
    assert_eq!(conf.prev_result, None);
}
