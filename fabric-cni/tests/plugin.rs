//! The program as a process, against an agent that is played here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod common;

use std::time::{Duration, Instant};

use common::{Agent, CONF, Run, attached, conf, error, plugin};
use fabric_cni::protocol::{Answer, Request};
use fabric_cni::{Code, Error};
use serde_json::{Value, json};

fn done() -> Agent {
    Agent::answering(|_| Answer::Done)
}

#[test]
fn add_prints_the_result_of_each_version() {
    let agent = Agent::answering(|_| Answer::Attached(attached()));
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let run = plugin("ADD").conf(&conf(&agent, version)).run();
        assert!(run.ok, "{run:?}");
        let golden = format!("{}/tests/golden/add-{version}.json", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(run.stdout, std::fs::read_to_string(golden).unwrap());
    }
}

#[test]
fn add_tells_the_agent_everything() {
    let agent = Agent::answering(|_| Answer::Attached(attached()));
    let mut conf = conf(&agent, "1.1.0");
    conf["mtu"] = json!(1400);
    conf["runtimeConfig"] = json!({"mac": "0a:58:0a:00:00:07", "ips": ["10.0.0.7/24"]});
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u;IP=10.0.0.8";
    assert!(plugin("ADD").env("CNI_ARGS", args).conf(&conf).run().ok);
    let Some(Request::Add(add)) = agent.asked().pop() else { panic!("no ADD") };
    assert_eq!((add.key.container_id.as_str(), add.key.ifname.as_str()), ("c1", "eth0"));
    assert_eq!((add.netns.as_str(), add.network.as_str(), add.mtu), ("/run/netns/x", "fabric", Some(1400)));
    assert_eq!(add.pod.unwrap().name, "web");
    assert_eq!(add.mac.unwrap().to_string(), "0a:58:0a:00:00:07");
    let wanted: std::net::IpAddr = "10.0.0.7".parse().unwrap();
    assert_eq!(add.ips, [wanted], "the capability wins over CNI_ARGS");
}

#[test]
fn add_goes_on_from_an_earlier_result() {
    let agent = Agent::answering(|_| Answer::Attached(attached()));
    let mut conf = conf(&agent, "1.0.0");
    conf["prevResult"] =
        json!({"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": "/run/netns/x"}]});
    let run = plugin("ADD").conf(&conf).run();
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["interfaces"][0]["name"], "net1");
    assert_eq!(result["ips"][0]["interface"], 2);
    conf["prevResult"]["interfaces"][0]["name"] = json!("eth0");
    assert_eq!(error(&plugin("ADD").conf(&conf).run()).code, Code::CONFIG);
    assert_eq!(agent.asked().len(), 1, "the agent is not asked for an interface that is taken");
}

#[test]
fn del_check_gc_and_status_succeed_in_silence() {
    let agent = done();
    let mut conf = conf(&agent, "1.1.0");
    conf["prevResult"] =
        serde_json::from_str(include_str!("golden/add-1.1.0.json")).expect("the golden file is JSON");
    conf["cni.dev/valid-attachments"] = json!([{"containerID": "c2", "ifname": "eth0"}]);
    for command in ["DEL", "CHECK", "GC", "STATUS"] {
        let run = plugin(command).conf(&conf).run();
        assert!(run.ok && run.stdout.is_empty(), "{command}: {run:?}");
    }
    let asked = agent.asked();
    assert!(matches!(&asked[0], Request::Del(key) if key.container_id == "c1"));
    assert!(matches!(&asked[1], Request::Check(check) if check.addresses.len() == 2 && check.mac.is_some()));
    assert!(
        matches!(&asked[2], Request::Gc(gc) if gc.network == "fabric" && gc.valid[0].container_id == "c2")
    );
    assert_eq!(asked[3], Request::Status);
}

#[test]
fn version_answers_with_and_without_configuration() {
    for (stdin, version) in [
        ("", "1.1.0"),
        ("{", "1.1.0"),
        (r#"{"cniVersion":"0.4.0"}"#, "0.4.0"),
        (r#"{"cniVersion":"7.0.0"}"#, "1.1.0"),
    ] {
        let run = Run::new("VERSION").stdin(stdin).run();
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(run.ok);
        assert_eq!(result["cniVersion"], version, "{stdin}");
        assert_eq!(result["supportedVersions"], json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"]));
    }
}

#[test]
fn the_agents_error_is_printed_in_the_version_of_the_request() {
    let agent =
        Agent::answering(|_| Answer::Error(Error::new(Code::NO_ADDRESS, "Network blue is full: 254 of 254")));
    let run = plugin("ADD").conf(&conf(&agent, "0.4.0")).run();
    assert!(!run.ok);
    let printed: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        printed,
        json!({"cniVersion": "0.4.0", "code": 100, "msg": "no address available",
               "details": "Network blue is full: 254 of 254"})
    );
}

#[test]
fn commands_that_a_version_lacks_are_error_1() {
    let agent = done();
    for (command, version) in [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "0.4.0"), ("ADD", "0.2.0")] {
        let run = plugin(command).conf(&conf(&agent, version)).run();
        assert_eq!(error(&run).code, Code::VERSION, "{command} {version}");
        assert!(error(&run).details.contains(version));
    }
    assert!(agent.asked().is_empty());
}

#[test]
fn malformed_input_is_named() {
    let long = format!("{{\"cniVersion\":\"1.1.0\",\"name\":\"{}\"}}", "x".repeat(1 << 20));
    for (stdin, code, word) in [
        ("", Code::DECODE, "no network configuration"),
        ("{\"cniVersion\":", Code::DECODE, "standard input"),
        ("[1]", Code::DECODE, "map"),
        ("{\"name\":\"a\"}", Code::VERSION, "cniVersion"),
        ("{\"cniVersion\":\"1.1.0\",\"type\":\"fabric-cni\"}", Code::CONFIG, "name"),
        ("{\"cniVersion\":\"1.1.0\",\"name\":\"a\"}", Code::CONFIG, "type"),
        (
            "{\"cniVersion\":\"1.1.0\",\"name\":\"a\",\"type\":\"f\",\"mtuu\":9}",
            Code::UNSUPPORTED_FIELD,
            "mtuu",
        ),
        (long.as_str(), Code::IO, "longer"),
    ] {
        let run = plugin("ADD").stdin(stdin).run();
        let error = error(&run);
        assert_eq!(error.code, code, "{error}");
        assert!(error.details.contains(word), "{error}");
    }
}

#[test]
fn a_faulty_environment_is_named() {
    for (name, value) in
        [("CNI_COMMAND", "FROB"), ("CNI_CONTAINERID", "../x"), ("CNI_IFNAME", "a/b"), ("CNI_ARGS", "A=1")]
    {
        let error = error(&plugin("ADD").env(name, value).stdin(CONF).run());
        assert_eq!(error.code, Code::ENVIRONMENT);
        assert!(error.details.contains(name), "{error}");
    }
    for name in ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"] {
        let error = error(&plugin("ADD").without(name).stdin(CONF).run());
        assert_eq!(error.code, Code::ENVIRONMENT);
        assert_eq!(error.details, format!("{name} is not set"));
    }
}

#[test]
fn an_agent_that_is_away_is_try_again_or_not_available() {
    for (command, code) in
        [("ADD", Code::TRY_AGAIN), ("CHECK", Code::TRY_AGAIN), ("STATUS", Code::NOT_AVAILABLE)]
    {
        let mut conf: Value = serde_json::from_str(CONF).unwrap();
        conf["prevResult"] = serde_json::from_str(include_str!("golden/add-1.1.0.json")).unwrap();
        if command == "ADD" {
            conf["prevResult"] = Value::Null;
        }
        let error = error(&plugin(command).conf(&conf).run());
        assert_eq!(error.code, code);
        assert!(error.details.contains("/nonexistent/cni.sock"), "{error}");
    }
    let run = plugin("DEL").without("CNI_NETNS").stdin(CONF).run();
    assert!(run.ok, "{run:?}");
}

#[test]
fn an_agent_that_breaks_off_is_try_again() {
    for part in ["", "{\"protocol\":1,\"ans", "\n", "{\"protocol\":1}\n", "\u{1}\u{2}\n"] {
        let agent = Agent::writing(part.as_bytes());
        let error = error(&plugin("ADD").conf(&conf(&agent, "1.1.0")).run());
        assert_eq!(error.code, Code::TRY_AGAIN, "{part:?}: {error}");
    }
}

#[test]
fn an_agent_of_another_release_is_named() {
    let agent = Agent::writing(b"{\"protocol\":3,\"reply\":{}}\n");
    let error = error(&plugin("ADD").conf(&conf(&agent, "1.1.0")).run());
    assert_eq!(error.code, Code::PROTOCOL, "{error}");
}

#[test]
fn a_silent_agent_meets_the_deadline() {
    let agent = Agent::silent();
    let start = Instant::now();
    let error = error(&plugin("STATUS").conf(&conf(&agent, "1.1.0")).run());
    assert_eq!(error.code, Code::NOT_AVAILABLE);
    assert!(error.details.contains("no answer within 5 s"), "{error}");
    assert!((4..8).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[test]
fn an_agent_that_does_not_accept_meets_the_deadline() {
    let agent = Agent::full();
    let start = Instant::now();
    let error = error(&plugin("ADD").conf(&conf(&agent, "1.1.0")).run());
    assert_eq!(error.code, Code::TRY_AGAIN);
    assert!(error.details.contains("not accepted"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(6));
}

#[test]
fn help_shows_a_configuration_that_is_valid_json() {
    let run = Run::new("").without("CNI_COMMAND").argument("--help").run();
    assert!(run.ok);
    let from = run.stdout.find("  {\n").unwrap();
    let to = run.stdout.find("\n  }\n").unwrap();
    let example: Value = serde_json::from_str(&run.stdout[from..to + 4]).unwrap();
    assert_eq!(example["plugins"][0]["type"], "fabric-cni");
    assert!(
        Run::new("").without("CNI_COMMAND").argument("--version").run().stdout.starts_with("fabric-cni 0")
    );
    assert!(!Run::new("").without("CNI_COMMAND").argument("add").run().ok);
}
