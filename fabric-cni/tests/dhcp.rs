//! The IPAM plugin `dhcp`, played here: it is asked on the container's interface, which comes first and goes last.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod common;

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use common::folder::Folder;
use common::{Agent, Run, conf, error, plugin};
use fabric_cni::protocol::{Answer, Attached, Request};
use fabric_cni::{Code, Error};
use serde_json::{Value, json};

const GIVES: &str = r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"10.100.0.9/24","gateway":"10.100.0.1"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.100.0.1"}]}'"#;

fn interface(ips: &[IpAddr]) -> Answer {
    Answer::Attached(Attached {
        host_name: "fab0123456789a".into(),
        mac: "0a:58:0a:00:00:09".parse().unwrap(),
        mtu: 1500,
        addresses: ips.iter().map(|ip| format!("{ip}/24").parse().unwrap()).collect(),
        gateways: ips.iter().map(|_| "10.100.0.1".parse().unwrap()).collect(),
    })
}

/// An agent that makes interfaces, and notes the order in which it and the plugin are asked.
fn agent(folder: &Folder, attach: impl Fn(&[IpAddr]) -> Answer + Send + 'static) -> Agent {
    let log = folder.log();
    Agent::answering(move |request| {
        let (word, answer) = match request {
            Request::Prepare(_) => ("prepare", interface(&[])),
            Request::Add(add) => ("attach", attach(&add.ips)),
            Request::Del(_) => ("detach", Answer::Done),
            Request::Check(_) => ("check", Answer::Done),
            Request::Gc(_) | Request::Status => ("other", Answer::Done),
        };
        common::folder::append(&log, word);
        answer
    })
}

fn run(command: &str, folder: &Folder, agent: &Agent) -> Run {
    let mut conf = conf(agent, "1.0.0");
    conf["ipam"] = json!({"type": "dhcp"});
    if command == "CHECK" {
        conf["prevResult"] = serde_json::from_str(include_str!("golden/add-1.0.0.json")).unwrap();
    }
    plugin(command).env("CNI_PATH", &folder.path()).env("PATH", "/usr/bin:/bin").conf(&conf).run()
}

#[test]
fn the_interface_comes_first_and_goes_last() {
    let folder = Folder::new();
    folder.plugin("dhcp", GIVES);
    let agent = agent(&folder, interface);
    let added = run("ADD", &folder, &agent);
    assert!(added.ok, "{added:?}");
    assert_eq!(folder.commands(), ["prepare", "ADD", "attach"]);
    let result: Value = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!(result["ips"][0]["address"], "10.100.0.9/24");
    assert_eq!(result["routes"], json!([{"dst": "0.0.0.0/0", "gw": "10.100.0.1"}]), "once");
    let asked = agent.asked();
    let [Request::Prepare(first), Request::Add(second)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((first.ips.len(), first.ipam.as_deref()), (0, Some("dhcp")));
    assert_eq!(
        (&second.ips[..], second.ipam.as_deref()),
        (&["10.100.0.9".parse().unwrap()][..], Some("dhcp"))
    );
    folder.plugin("dhcp", "true");
    assert!(run("CHECK", &folder, &agent).ok && run("DEL", &folder, &agent).ok);
    assert_eq!(folder.commands()[3..], ["CHECK", "check", "DEL", "detach"]);
}

#[test]
fn what_fails_gives_the_lease_back_and_then_the_interface() {
    let held =
        |_: &[IpAddr]| Answer::Error(Error::new(Code::NO_ADDRESS, "address 10.100.0.9 is held by pod a/b"));
    let folder = Folder::new();
    folder.plugin("dhcp", GIVES);
    let agent = agent(&folder, held);
    assert_eq!(error(&run("ADD", &folder, &agent)).code, Code::NO_ADDRESS);
    assert_eq!(folder.commands(), ["prepare", "ADD", "attach", "DEL", "detach"]);
    for (script, says) in [
        (
            r#"[ $CNI_COMMAND = DEL ] || { echo '{"cniVersion":"1.0.0","code":999,"msg":"no more tries"}'; exit 1; }"#,
            "no more tries",
        ),
        ("exit 1", "exit status"),
    ] {
        let folder = Folder::new();
        folder.plugin("dhcp", script);
        let agent = self::agent(&folder, interface);
        let failed = error(&run("ADD", &folder, &agent));
        assert!(failed.details.contains(says), "{failed}");
        assert_eq!(folder.commands(), ["prepare", "ADD", "DEL", "detach"]);
    }
    let folder = Folder::new();
    folder.plugin("dhcp", &GIVES.replace(r#""gw":"10.100.0.1""#, r#""gw":"10.100.0.99""#));
    let agent = self::agent(&folder, interface);
    let failed = error(&run("ADD", &folder, &agent));
    assert!(failed.details.contains("10.100.0.99") && failed.details.contains("Network"), "{failed}");
    assert_eq!(folder.commands(), ["prepare", "ADD", "attach", "DEL", "detach"]);
}

#[test]
fn an_agent_without_a_place_for_it_ends_it_at_once() {
    let folder = Folder::new();
    folder.plugin("dhcp", GIVES);
    let agent = Agent::answering(|_| Answer::Error(Error::new(Code::CONFIG, "Network pods is an overlay")));
    assert_eq!(error(&run("ADD", &folder, &agent)).code, Code::CONFIG);
    assert!(folder.commands().is_empty(), "no server is asked");
}

#[test]
fn a_container_that_was_attached_before_loses_nothing_by_another_try() {
    let folder = Folder::new();
    folder.plugin("dhcp", "exit 1");
    let agent = Agent::answering(|_| interface(&["10.100.0.9".parse().unwrap()]));
    assert!(!run("ADD", &folder, &agent).ok);
    assert_eq!(folder.commands(), ["ADD"]);
    assert_eq!(agent.asked().len(), 1);
}

#[test]
fn a_lease_that_the_plugin_does_not_give_back_is_told_and_the_interface_goes() {
    let folder = Folder::new();
    folder.plugin("dhcp", "exit 1");
    let agent = agent(&folder, interface);
    let told = error(&run("DEL", &folder, &agent));
    assert!(told.details.contains("ipam plugin dhcp"), "{told}");
    assert_eq!(folder.commands(), ["DEL", "detach"]);
}

#[test]
fn an_agent_that_starts_anew_is_waited_for_once_there_is_a_lease() {
    let folder = Folder::new();
    folder.plugin("dhcp", GIVES);
    let agent = agent(&folder, interface);
    let socket = agent.socket.clone();
    let aside = socket.with_extension("aside");
    // From the plugin's end on, for a second.
    let script = format!("mv {} {}; {GIVES}", socket.display(), aside.display());
    folder.plugin("dhcp", &script);
    let back = thread::spawn(move || {
        while !aside.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_secs(1));
        std::fs::rename(&aside, &socket).unwrap();
    });
    let added = run("ADD", &folder, &agent);
    back.join().unwrap();
    assert!(added.ok, "{added:?}");
    assert_eq!(folder.commands(), ["prepare", "ADD", "attach"]);
}
