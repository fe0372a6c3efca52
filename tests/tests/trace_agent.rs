//! `fabric-trace` asks a real agent over its socket, and says what it says of the agent's folder offline. The agent
//! has no switch: it judges from its store alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fabric_tests::lab::find_program;

/// An agent on a copy of a case, in a network namespace of its own.
struct Agent {
    folder: PathBuf,
    child: Child,
    trace: PathBuf,
}

impl Agent {
    fn start(purpose: &str, case: &str) -> Self {
        let name = format!("fabric-trace-{purpose}-{case}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("world")).unwrap();
        fs::copy(self::case(case).join("world.yaml"), folder.join("world/world.yaml")).unwrap();
        let at = |name: &str| folder.join(name).display().to_string();
        let config = format!(
            "node: n1\nstore: {{directory: {}}}\novs: {{database: {}, runDir: {}}}\nsockets: {{directory: {}}}\n",
            at("world"),
            at("db.sock"),
            at("ovs"),
            at("run")
        );
        fs::write(folder.join("node.yaml"), config).unwrap();
        let child = Command::new("unshare")
            .args(["--net".as_ref(), find_program("fabric-node", "fabric-node").unwrap().as_os_str()])
            .args(["run", "--config", &at("node.yaml")])
            .stdin(Stdio::null())
            .stderr(fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        let trace = find_program("fabric-trace", "fabric-trace").unwrap();
        let agent = Self { folder, child, trace };
        agent.wait();
        agent
    }

    /// Waits until it has read its store.
    fn wait(&self) {
        let begun = Instant::now();
        loop {
            let asked = self.online(&["lint"]);
            if asked.status.code() != Some(2) {
                return;
            }
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(20), "{}\n{log}", err(&asked));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn online(&self, words: &[&str]) -> Output {
        let socket = self.folder.join("run/agent.sock");
        Command::new(&self.trace).args(words).arg("--socket").arg(socket).output().unwrap()
    }

    fn offline(&self, words: &[&str]) -> Output {
        let world = self.folder.join("world");
        Command::new(&self.trace).args(words).arg("--manifests").arg(world).output().unwrap()
    }

    /// Asks both, and gives the answer that they agree upon.
    fn both(&self, words: &[&str]) -> (i32, String) {
        let (online, offline) = (self.online(words), self.offline(words));
        assert_eq!(online.status.code(), offline.status.code(), "{words:?}: {}", err(&online));
        assert_eq!(out(&online), out(&offline), "{words:?}");
        assert_eq!(err(&online), err(&offline), "{words:?}");
        (online.status.code().unwrap(), out(&online))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/tests/cases").join(name)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_agent_and_its_folder_say_the_same() {
    for name in ["tenants", "ports", "dualstack"] {
        let agent = Agent::start("same", name);
        let questions = case(name).join("questions.csv").display().to_string();
        for form in ["text", "csv", "json"] {
            assert_eq!(agent.both(&["check", &questions, "-o", form]).0, 0, "{name}");
            assert_eq!(
                agent.both(&["matrix", "--tcp", "80,8080", "--icmp", "--ip", "203.0.113.5", "-o", form]).0,
                0
            );
        }
        let findings = agent.online(&["lint"]).status.code();
        assert_eq!(findings, agent.offline(&["lint"]).status.code(), "{name}");
    }
}

#[test]
fn the_agent_explains_and_follows_its_store() {
    let agent = Agent::start("follow", "tenants");
    let words = ["verdict", "blue/c", "tools/t", "--tcp", "80", "-o", "json"];
    assert_eq!(agent.both(&words).0, 0);
    assert_eq!(agent.both(&["verdict", "blue/c", "red1/a", "--tcp", "80"]).0, 1);
    assert_eq!(agent.both(&["verdict", "blue/c", "red1/gone", "--tcp", "80"]).0, 2);
    let deny = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: tools, name: none}\n\
                spec: {podSelector: {}}\n";
    fs::write(agent.folder.join("world/deny.yaml"), deny).unwrap();
    let begun = Instant::now();
    while agent.online(&words).status.code() != Some(1) {
        assert!(begun.elapsed() < Duration::from_secs(10), "the agent does not see the policy");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(agent.both(&words).0, 1);
}
