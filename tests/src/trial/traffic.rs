//! Connections that last while something happens.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Trial, wait};
use crate::lab::command::command;
use crate::lab::netns;

/// A TCP connection between two pods that iperf3 keeps busy.
#[derive(Debug)]
pub struct Stream {
    name: String,
    server: Child,
    client: Child,
}

impl Stream {
    /// Starts it for that many seconds between pods of the namespace `default`, and
    /// returns once it is established.
    #[must_use]
    pub fn start(trial: &Trial, from: &str, to: &str, seconds: u32) -> Self {
        let netns_of = |pod: &str| trial.lab.pod(&format!("default/{pod}")).unwrap().netns.clone();
        let ip = trial.ip(to);
        let mut server = command(["iperf3", "-s", "-1", "-B", &ip]);
        let server = netns::spawn_in(&netns_of(to), server.stdout(Stdio::null())).unwrap();
        wait("iperf3 listens", Duration::from_secs(10), || {
            !trial.in_pod(to, &["ss", "-Hltn", "sport = :5201"]).stdout.is_empty()
        });
        // A tenth of what the switch could carry: the processor is for what the test does meanwhile.
        let mut client = command(["iperf3", "-c", &ip, "-J", "-b", "50M", "-t", &seconds.to_string()]);
        let client = netns::spawn_in(&netns_of(from), client.stdout(Stdio::piped())).unwrap();
        let stream = Self { name: format!("{from} to {to}"), server, client };
        wait("iperf3 is connected", Duration::from_secs(10), || {
            // The control connection and the one that carries the data.
            let established = ["ss", "-Htn", "state", "established", "dport = :5201"];
            let output = trial.in_pod(from, &established).stdout;
            String::from_utf8_lossy(&output).lines().count() >= 2
        });
        stream
    }

    /// Waits for its end: it must have carried bytes in every second but at most `pause`
    /// in a row, by one and the same connection.
    pub fn finish(mut self, pause: usize) {
        let client = &mut self.client;
        let output = client.stdout.take().map(std::io::read_to_string).unwrap().unwrap();
        let status = client.wait().unwrap();
        let report: Value = serde_json::from_str(&output).unwrap_or_default();
        assert!(status.success(), "{}: {}", self.name, report["error"]);
        assert!(self.server.wait().unwrap().success(), "{}: the server failed", self.name);
        let intervals = report["intervals"].as_array().unwrap();
        let bytes: Vec<u64> = intervals.iter().filter_map(|i| i["sum"]["bytes"].as_u64()).collect();
        let silent = bytes.split(|bytes| *bytes > 0).map(<[u64]>::len).max().unwrap_or_default();
        assert!(silent <= pause, "{}: silent for {silent} s: {bytes:?}", self.name);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        for child in [&mut self.client, &mut self.server] {
            // Those that have ended already need neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
