//! What is wrong from outside is named, with its cause and its place, and the rest goes
//! on: manifests, node files, CNI configurations, addresses, and peers that break off.
//! Needs root and Open vSwitch, and fails where they are missing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::fs;
use std::time::{Duration, Instant};

use fabric_tests::lab::command::command;
use fabric_tests::lab::node::BRIDGE_FABRIC;
use fabric_tests::lab::{LabError, agent, cni, find_program};
use fabric_tests::trial::manifest::{annotated, network, pod};
use fabric_tests::trial::proxy::{Fault, Proxy};
use fabric_tests::trial::{Trial, wait};
use serde_json::{Value, json};

const SEC: Duration = Duration::from_secs(1);

#[test]
fn what_is_wrong_is_named_and_the_rest_goes_on() {
    // Five addresses for pods: the first one is the gateway's.
    let mut trial = Trial::up("rbbad", 1, &network("10.66.0.0/29", ""), json!({ "claimRestSeconds": 0 }));
    trial.add("pods.yaml", &(pod("a", "n1") + &pod("b", "n1")));
    broken_manifests(&trial);
    addresses(&mut trial);
    cni_configurations(&trial);
    node_files(&trial);
    old_switch(&mut trial);
    broken_openflow(&trial);
    broken_database(&trial);
    assert!(trial.pings("a", "b"));
    trial.wait_compiled("n1");
}

fn broken_manifests(trial: &Trial) {
    let second = network("[10.1.0.0/16", "").replace("name: pods", "name: second");
    let documents = [
        pod("fine", "n1"),
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: odd, namespace: default}\nspec: {nodeName: [n1]}\n"
            .into(),
        "---\napiVersion: fabric.io/v1alpha1\nkind: Network\nmetadata: {name: third}\n\
         spec: {mode: overlay, cidrs: [10.1.0.0/99], colour: blue}\n"
            .into(),
    ];
    trial.lab.write_manifest("wrong.yaml", &documents.concat()).unwrap();
    trial.lab.write_manifest("unreadable.yaml", &second).unwrap();
    let wanted = [
        ["wrong.yaml#2", "Pod default/odd", "spec.nodeName"],
        ["wrong.yaml#3", "Network third", "spec.cidrs[0]"],
        ["wrong.yaml#3", "Network third", "spec.colour"],
        ["unreadable.yaml", "", ""],
    ];
    let mut problems = Vec::new();
    for words in wanted {
        let named = fabric_tests::trial::holds_within(5 * SEC, || {
            problems = trial.problems("n1");
            problems.iter().any(|problem| words.iter().all(|word| problem.contains(word)))
        });
        assert!(named, "wanted {words:?} in:\n{}", problems.join("\n"));
    }
    assert!(trial.pings("a", "b"));
    for file in ["wrong.yaml", "unreadable.yaml"] {
        trial.lab.remove_manifest(file).unwrap();
    }
    wait("the problems go with their files", 5 * SEC, || trial.problems("n1").is_empty());
}

/// ADD fails with this code and all of these words.
fn refused(trial: &mut Trial, name: &str, annotations: &str, code: u64, words: &[&str]) {
    let manifest = annotated(name, "n1", annotations);
    match trial.try_add(name, &manifest) {
        Err(LabError::Cni { code: found, message, .. }) if found == code => {
            assert!(words.iter().all(|word| message.contains(word)), "wanted {words:?}: {message}");
        }
        other => panic!("{name}: wanted CNI error {code} with {words:?}: {other:?}"),
    }
    trial.lab.remove_manifest(&format!("pod-{name}.yaml")).unwrap();
}

fn addresses(trial: &mut Trial) {
    let taken = trial.ip("a");
    let fixed = |ip: &str| format!("fabric.io/ip: {ip}");
    refused(trial, "greedy", &fixed(&taken), 100, &[&taken, "default/a", "n1"]);
    refused(trial, "outside", &fixed("10.67.0.1"), 100, &["10.67.0.1", "Network pods", "10.66.0.0/29"]);
    refused(trial, "gateway", &fixed("10.66.0.1"), 100, &["10.66.0.1", "gateway", "Network pods"]);
    refused(trial, "lost", "fabric.io/network: nowhere", 7, &["nowhere"]);
    for name in ["c", "d", "e"] {
        trial.try_add(name, &pod(name, "n1")).unwrap();
    }
    refused(trial, "late", "", 100, &["Network pods", "no free address"]);
    assert!(trial.pings("a", "e"));
    for name in ["c", "d", "e"] {
        trial.lab.remove_pod(&format!("default/{name}")).unwrap();
    }
    let claims = trial.lab.layout().world().join(".claims");
    let held = || fs::read_dir(&claims).unwrap().flatten().filter(|e| e.path().extension().is_some()).count();
    assert_eq!(held(), 2, "failed attachments leave no claims");
}

/// Runs `fabric-cni ADD` with a configuration that is none of a runtime's; the error that it prints.
fn add_with(trial: &Trial, config: &str) -> Value {
    let node = trial.node("n1");
    let mut plugin = command([&trial.lab.programs().unwrap().cni]);
    plugin.env("CNI_COMMAND", "ADD").env("CNI_CONTAINERID", "odd").env("CNI_IFNAME", "eth0");
    plugin.env("CNI_NETNS", "/run/netns/none").env("CNI_PATH", "/");
    let netns = &node.namespace;
    let output = fabric_tests::lab::netns::output_in(netns, &mut plugin, config.as_bytes()).unwrap();
    assert!(!output.status.success(), "{config}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{config}: {error}: {output:?}"))
}

fn cni_configurations(trial: &Trial) {
    let good = cni::configuration(trial.node("n1"));
    let without = |field: &str| {
        let mut config = good.clone();
        config.as_object_mut().unwrap().remove(field);
        config.to_string()
    };
    let with = |field: &str, value: Value| {
        let mut config = good.clone();
        config[field] = value;
        config.to_string()
    };
    let cases = [
        ("{\"cniVersion\": \"1.1".to_owned(), 6, "EOF"),
        (without("name"), 7, "name"),
        (without("cniVersion"), 1, "cniVersion"),
        (with("cniVersion", json!("9.9.9")), 1, "9.9.9"),
        (with("socket", json!(7)), 7, "socket"),
        (with("soket", json!("/run/x.sock")), 2, "soket"),
    ];
    for (config, code, word) in cases {
        let error = add_with(trial, &config);
        let text = format!("{} {}", error["msg"], error["details"]);
        assert!(error["code"] == code && text.contains(word), "{config}: wanted {code}, {word}: {error}");
    }
    let absent = add_with(trial, &good.to_string());
    assert!(absent.to_string().contains("/run/netns/none"), "{absent}");
    cni::status(trial.node("n1"), trial.lab.programs().unwrap()).unwrap();
}

fn node_files(trial: &Trial) {
    let good = fs::read_to_string(trial.node("n1").config()).unwrap();
    let file = trial.node("n1").directory.join("odd.yaml");
    let program = find_program("fabric-node", "fabric-node").unwrap();
    let cases = [
        (format!("{good}\nreconcileSecond: 5\n"), "reconcileSecond"),
        (good.replace("store:", "stores:"), "stores"),
        (format!("{good}\nreconcileSeconds: soon\n"), "reconcileSeconds"),
    ];
    for (text, word) in cases {
        fs::write(&file, text).unwrap();
        let mut run = command([program.as_os_str(), "run".as_ref(), "--config".as_ref(), file.as_os_str()]);
        let output = fabric_tests::lab::command::output(&mut run, &[]).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("odd.yaml") && said.contains(word), "wanted {word}: {said}");
    }
}

/// A database that says that its switch is of a version that is not supported.
fn old_switch(trial: &mut Trial) {
    let version = |version: &str| {
        trial.vsctl("n1", &["--no-wait", "set", "Open_vSwitch", ".", &format!("ovs_version={version}")])
    };
    version("2.5.0");
    trial.lab.stop_agent("n1").unwrap();
    trial.lab.start_agent("n1").unwrap();
    wait("status names the old version", 10 * SEC, || {
        trial
            .problems("n1")
            .iter()
            .any(|p| p.contains("2.5.0") && p.contains("too old") && p.contains("2.17"))
    });
    assert!(trial.pings("a", "b"), "what runs goes on");
    version("3.1.0");
    trial.lab.wait_agent("n1").unwrap();
    wait("the problem is gone", 5 * SEC, || trial.problems("n1").is_empty());
}

/// Starts the agent again, with proxies in front of the switch and its database.
fn restart_behind(trial: &Trial, database: &std::path::Path, run_dir: &std::path::Path) -> usize {
    let node = trial.node("n1");
    trial.lab.stop_agent("n1").unwrap();
    let ovs = json!({ "ovs": { "database": database, "runDir": run_dir, "datapath": "netdev" } });
    agent::configure(node, &trial.lab.layout().world(), ovs.as_object().unwrap()).unwrap();
    let said = fs::read_to_string(node.agent_log()).unwrap().len();
    trial.lab.start_agent("n1").unwrap();
    said
}

/// What the agent has said since; it names each of these.
fn says(trial: &Trial, since: usize, words: &[&str]) {
    let log = fs::read_to_string(trial.node("n1").agent_log()).unwrap();
    let said = log.get(since..).unwrap_or_default();
    for word in words {
        assert!(said.contains(word), "wanted {word:?} in:\n{said}");
    }
}

fn broken_openflow(trial: &Trial) {
    let folder = trial.node("n1").directory.clone();
    let (run_dir, socket) = (folder.join("proxy"), format!("{BRIDGE_FABRIC}.mgmt"));
    fs::create_dir_all(&run_dir).unwrap();
    // In the first header, in the features, with a length below a header's, with another protocol.
    let short = vec![6, 2, 0, 4, 0, 0, 0, 1];
    let faults = vec![
        Fault::CutAfter(5),
        Fault::CutAfter(5),
        Fault::CutAfter(30),
        Fault::CutAfter(30),
        Fault::Say(short.clone()),
        Fault::Say(short),
        Fault::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        Fault::Say(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ];
    let proxy = Proxy::start(&run_dir.join(&socket), &folder.join(&socket), faults);
    let since = restart_behind(trial, &trial.node("n1").database(), &run_dir);
    wait("every fault was met", 20 * SEC, || proxy.left() == 0);
    trial.lab.wait_agent("n1").unwrap();
    says(trial, since, &["the stream ends inside a message"]);
    assert!(trial.pings("a", "b"));
    trial.wait_compiled("n1");
}

fn broken_database(trial: &Trial) {
    let folder = trial.node("n1").directory.clone();
    let faults = vec![
        Fault::CutAfter(10),
        Fault::CutAfter(3000),
        Fault::Say(b"{\"id\": 1, \"result\": [".to_vec()),
        Fault::Say(b"no JSON at all\n".to_vec()),
    ];
    let proxy = Proxy::start(&folder.join("odd.sock"), &trial.node("n1").database(), faults);
    let since = restart_behind(trial, &folder.join("odd.sock"), &folder);
    let began = Instant::now();
    wait("every fault was met", 20 * SEC, || proxy.left() == 0);
    trial.lab.wait_agent("n1").unwrap();
    println!("  ready {:?} after the first fault", began.elapsed());
    says(trial, since, &["database of Open vSwitch at"]);
    assert!(trial.pings("a", "b"));
    trial.wait_compiled("n1");
}
