//! Addresses from another plugin: the real host-local and static of containernetworking-plugins, and one played here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod common;

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use common::folder::Folder;
use common::{Agent, Run, conf, error, plugin};
use fabric_cni::protocol::{Answer, Attached, Request};
use fabric_cni::{Code, Error};
use serde_json::{Value, json};

/// Where distributions put the plugins.
const PLUGINS: &str = "/usr/lib/cni";

/// An agent that attaches with the addresses that it is told, on an overlay.
fn obedient() -> Agent {
    Agent::answering(|request| match request {
        Request::Add(add) => Answer::Attached(Attached {
            host_name: "fab0123456789a".into(),
            mac: "0a:58:0a:00:00:09".parse().unwrap(),
            mtu: 1450,
            addresses: add.ips.iter().map(|ip| format!("{ip}/32").parse().unwrap()).collect(),
            gateways: vec!["10.1.0.1".parse().unwrap()],
        }),
        _ => Answer::Done,
    })
}

fn busy() -> Agent {
    Agent::answering(|request| match request {
        Request::Add(_) => Answer::Error(Error::new(Code::NO_ADDRESS, "address 10.1.0.5 is held by pod a/b")),
        _ => Answer::Done,
    })
}

fn played(agent: &Agent) -> Value {
    let mut conf = conf(agent, "1.1.0");
    conf["ipam"] = json!({"type": "played", "colour": "blue"});
    conf
}

fn run(command: &str, path: &Path, conf: &Value) -> Run {
    plugin(command)
        .env("CNI_PATH", &format!("/nowhere:{}:/bin", path.display()))
        .env("PATH", "/usr/bin:/bin")
        .conf(conf)
        .run()
}

fn added(agent: &Agent) -> (Vec<IpAddr>, Option<String>) {
    let asked = agent.asked();
    let add = asked.iter().rev().find_map(|request| match request {
        Request::Add(add) => Some(add),
        _ => None,
    });
    let add = add.expect("an ADD");
    (add.ips.clone(), add.ipam.clone())
}

const GIVES: &str = r#"echo '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24","gateway":"10.1.0.1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.96.0.0/12"},{"dst":"10.9.0.0/16","gw":"10.1.0.1"}],"dns":{"nameservers":["10.1.0.2"]}}'"#;

#[test]
fn what_the_plugin_gives_is_claimed_and_told() {
    let (folder, agent) = (Folder::new(), obedient());
    folder.plugin("played", GIVES);
    let run = run("ADD", &folder.0, &played(&agent));
    assert!(run.ok, "{run:?}");
    assert_eq!(added(&agent), (vec!["10.1.0.5".parse().unwrap()], Some("played".to_owned())));
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["ips"][0]["address"], "10.1.0.5/32", "as the agent made it");
    assert_eq!(result["dns"]["nameservers"], json!(["10.1.0.2"]));
    let routes: Vec<&str> =
        result["routes"].as_array().unwrap().iter().map(|r| r["dst"].as_str().unwrap()).collect();
    assert_eq!(routes, ["0.0.0.0/0", "10.96.0.0/12", "10.9.0.0/16"], "each once");
    let log = fs::read_to_string(folder.0.join("log")).unwrap();
    assert!(log.starts_with("ADD c1 eth0 {") && log.contains(r#""colour":"blue""#), "as it came: {log}");
}

#[test]
fn the_configurations_dns_goes_before_the_plugins() {
    let (folder, agent) = (Folder::new(), obedient());
    folder.plugin("played", GIVES);
    let mut conf = played(&agent);
    conf["dns"] = json!({"nameservers": ["9.9.9.9"]});
    let result: Value = serde_json::from_str(&run("ADD", &folder.0, &conf).stdout).unwrap();
    assert_eq!(result["dns"]["nameservers"], json!(["9.9.9.9"]));
}

#[test]
fn a_failed_add_gives_the_address_back() {
    let (folder, agent) = (Folder::new(), busy());
    folder.plugin("played", GIVES);
    let refused = error(&run("ADD", &folder.0, &played(&agent)));
    assert_eq!(
        (refused.code, refused.details.as_str()),
        (Code::NO_ADDRESS, "address 10.1.0.5 is held by pod a/b")
    );
    assert_eq!(folder.commands(), ["ADD", "DEL"]);
}

#[test]
fn a_plugin_that_fails_is_asked_to_clean_up_and_its_error_is_told() {
    let (folder, agent) = (Folder::new(), obedient());
    folder.plugin(
        "played",
        r#"echo '{"cniVersion":"1.1.0","code":111,"msg":"pool is dry","details":"no rain"}'; exit 1"#,
    );
    let failed = error(&run("ADD", &folder.0, &played(&agent)));
    assert_eq!(failed.code, Code(111));
    assert_eq!(
        (failed.msg.as_str(), failed.details.as_str()),
        ("pool is dry", "ipam plugin played: pool is dry: no rain")
    );
    assert_eq!(folder.commands(), ["ADD", "DEL"]);
    assert!(agent.asked().is_empty(), "the agent has nothing to do with it");
    for (script, says) in [
        ("exit 3", "exit status: 3"),
        ("echo nonsense", "its result cannot be read"),
        (r#"echo '{"cniVersion":"1.1.0"}'"#, "its result has no address"),
    ] {
        folder.plugin("played", script);
        let failed = error(&run("ADD", &folder.0, &played(&agent)));
        assert!(failed.details.contains(says) && failed.details.contains("played"), "{failed}");
    }
}

#[test]
fn a_route_by_another_router_is_refused_and_all_is_undone() {
    let (folder, agent) = (Folder::new(), obedient());
    folder.plugin("played", r#"echo '{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"}],"routes":[{"dst":"10.9.0.0/16","gw":"10.1.0.99"}]}'"#);
    let refused = error(&run("ADD", &folder.0, &played(&agent)));
    assert_eq!(refused.code, Code::UNSUPPORTED_FIELD);
    assert!(refused.details.contains("10.9.0.0/16") && refused.details.contains("10.1.0.99"), "{refused}");
    assert!(matches!(agent.asked().last(), Some(Request::Del(_))));
    assert_eq!(folder.commands(), ["ADD", "DEL"]);
}

#[test]
fn other_commands_reach_the_plugin_too() {
    let (folder, agent) = (Folder::new(), obedient());
    folder.plugin("played", "true");
    let mut conf = played(&agent);
    conf["prevResult"] = serde_json::from_str(include_str!("golden/add-1.1.0.json")).unwrap();
    conf["cni.dev/valid-attachments"] = json!([{"containerID": "c2", "ifname": "eth0"}]);
    for command in ["CHECK", "DEL", "GC", "STATUS"] {
        let run = run(command, &folder.0, &conf);
        assert!(run.ok && run.stdout.is_empty(), "{command}: {run:?}");
    }
    assert_eq!(folder.commands(), ["CHECK", "DEL", "GC", "STATUS"]);
    assert_eq!(agent.asked().len(), 4);
    folder.plugin("played", r#"echo '{"cniVersion":"1.1.0","code":50,"msg":"no"}'; exit 1"#);
    assert_eq!(error(&run("STATUS", &folder.0, &conf)).code, Code::NOT_AVAILABLE);
    let kept = error(&run("DEL", &folder.0, &conf));
    assert!(kept.details.contains("ipam plugin played"), "an address that is not given back is told: {kept}");
}

#[test]
fn a_plugin_that_is_not_there_is_named_with_the_places() {
    let (folder, agent) = (Folder::new(), obedient());
    let missing = error(&run("ADD", &folder.0, &played(&agent)));
    assert_eq!(missing.code, Code::CONFIG);
    assert!(missing.details.contains("no plugin played in /nowhere:"), "{missing}");
    let mut conf = played(&agent);
    for kind in ["../bin/sh", "/bin/true", "."] {
        conf["ipam"]["type"] = json!(kind);
        assert_eq!(error(&run("ADD", &folder.0, &conf)).code, Code::CONFIG, "{kind}");
    }
    let unset = error(&plugin("ADD").without("CNI_PATH").conf(&played(&agent)).run());
    assert_eq!(unset.code, Code::ENVIRONMENT);
    assert!(agent.asked().is_empty());
}

fn real(name: &str) -> &'static Path {
    let path = Path::new(PLUGINS);
    assert!(path.join(name).is_file(), "{PLUGINS}/{name} is missing: install containernetworking-plugins");
    path
}

#[test]
fn host_local_gives_checks_and_takes_back() {
    let (folder, path) = (Folder::new(), real("host-local"));
    for version in ["0.3.1", "0.4.0", "1.0.0"] {
        let agent = obedient();
        let data = folder.0.join(version);
        let mut conf = conf(&agent, version);
        conf["ipam"] = json!({"type": "host-local", "dataDir": data,
            "ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.7", "rangeEnd": "10.1.0.8"}]],
            "routes": [{"dst": "10.96.0.0/12"}]});
        let first = run("ADD", path, &conf);
        assert!(first.ok, "{version}: {first:?}");
        assert_eq!(added(&agent).0, ["10.1.0.7".parse::<IpAddr>().unwrap()]);
        let result: Value = serde_json::from_str(&first.stdout).unwrap();
        assert_eq!(result["cniVersion"], version);
        assert_eq!(result["routes"][1]["dst"], "10.96.0.0/12");
        let reserved = data.join("fabric/10.1.0.7");
        assert!(reserved.is_file());
        if version != "0.3.1" {
            let mut conf = conf.clone();
            conf["prevResult"] = result;
            assert!(run("CHECK", path, &conf).ok);
            fs::remove_file(&reserved).unwrap();
            assert!(!run("CHECK", path, &conf).ok, "{version}: host-local does not know it any more");
            fs::write(&reserved, "c1\r\neth0").unwrap();
        }
        assert!(run("DEL", path, &conf).ok);
        assert!(!reserved.exists(), "{version}");
        assert!(run("DEL", path, &conf).ok, "again");
        // An agent that refuses costs no address.
        let (busy, mut conf) = (busy(), conf);
        conf["socket"] = json!(busy.socket);
        for _ in 0..3 {
            assert_eq!(
                error(&run("ADD", path, &conf)).code,
                Code::NO_ADDRESS,
                "it is the agent that refuses"
            );
        }
        assert!(!data.join("fabric/10.1.0.8").exists() && !data.join("fabric/10.1.0.7").exists());
    }
}

#[test]
fn a_full_host_local_says_so() {
    let (folder, path, agent) = (Folder::new(), real("host-local"), obedient());
    let mut conf = conf(&agent, "1.0.0");
    conf["ipam"] = json!({"type": "host-local", "dataDir": folder.0,
        "ranges": [[{"subnet": "10.1.0.0/24", "rangeStart": "10.1.0.7", "rangeEnd": "10.1.0.7"}]]});
    assert!(run("ADD", path, &conf).ok);
    let next = plugin("ADD").env("CNI_CONTAINERID", "c2").env("CNI_PATH", PLUGINS).conf(&conf).run();
    let full = error(&next);
    assert!(
        full.details.contains("ipam plugin host-local: ") && full.details.contains("no IP addresses"),
        "{full}"
    );
}

#[test]
fn static_gives_what_it_is_told() {
    let (path, agent) = (real("static"), obedient());
    let mut conf = conf(&agent, "1.0.0");
    conf["ipam"] = json!({"type": "static", "addresses": [{"address": "10.1.0.77/24"}, {"address": "fd00:1::77/64"}],
        "dns": {"nameservers": ["10.1.0.2"], "search": ["shop"]}});
    let run = run("ADD", path, &conf);
    assert!(run.ok, "{run:?}");
    assert_eq!(added(&agent).0, ["10.1.0.77".parse::<IpAddr>().unwrap(), "fd00:1::77".parse().unwrap()]);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["dns"], json!({"nameservers": ["10.1.0.2"], "search": ["shop"]}));
}
