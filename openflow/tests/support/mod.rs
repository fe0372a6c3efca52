//! A real switch for tests: `ovsdb-server` and `ovs-vswitchd` with the userspace datapath, in a network namespace and a
//! folder of their own, gone when dropped. Needs root and Debian's `openvswitch-switch`; without them a test fails and
//! says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub struct Switch {
    namespace: String,
    folder: PathBuf,
}

impl Switch {
    /// Starts a switch with the bridge `br0`, which forwards nothing by itself.
    pub fn start() -> Switch {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("of-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&namespace);
        fs::create_dir_all(&folder).expect("a folder for the switch");
        let switch = Switch { namespace, folder };
        run("ip", &["netns", "add", &switch.namespace]);
        run("ip", &["-n", &switch.namespace, "link", "set", "lo", "up"]);
        switch.start_database();
        switch.start_vswitchd();
        switch.vsctl(&[
            "add-br",
            "br0",
            "--",
            "set",
            "bridge",
            "br0",
            "datapath_type=netdev",
            "fail_mode=secure",
        ]);
        switch.await_socket();
        switch
    }

    /// The management socket of the bridge.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("br0.mgmt")
    }

    /// Adds a port that is a network device of the namespace, with this OpenFlow number.
    pub fn add_port(&self, name: &str, number: u32) {
        let request = format!("ofport_request={number}");
        self.vsctl(&["add-port", "br0", name, "--", "set", "interface", name, "type=internal", &request]);
        run("ip", &["-n", &self.namespace, "link", "set", name, "up"]);
    }

    /// Packets that came out of the switch through a port of [`Switch::add_port`].
    pub fn received(&self, port: &str) -> u64 {
        let file = format!("/sys/class/net/{port}/statistics/rx_packets");
        let text = run("ip", &["netns", "exec", &self.namespace, "cat", &file]);
        text.trim().parse().expect("a number of packets")
    }

    /// Sends one UDP packet to port 2000 of `to` into the switch, through a port of [`Switch::add_port`].
    pub fn send_udp(&self, port: &str, from: &str, to: &str) {
        run("ip", &["-n", &self.namespace, "addr", "add", from, "dev", port]);
        run("ip", &["-n", &self.namespace, "neigh", "add", to, "lladdr", "02:00:00:00:00:02", "dev", port]);
        let script = format!("echo hello > /dev/udp/{to}/2000");
        run("ip", &["netns", "exec", &self.namespace, "bash", "-c", &script]);
    }

    pub fn vsctl(&self, arguments: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        run("ovs-vsctl", &[&[database.as_str(), "--timeout=20"], arguments].concat())
    }

    pub fn appctl(&self, arguments: &[&str]) -> String {
        let target = self.path("vs.ctl");
        run("ovs-appctl", &[&["-t", target.as_str()], arguments].concat())
    }

    /// Ends `ovs-vswitchd` without giving it a chance.
    pub fn kill_vswitchd(&self) {
        self.signal("vs.pid", "-KILL");
        // What the dead process left behind would be taken for its successor's.
        for file in ["vs.pid", "vs.ctl", "br0.mgmt"] {
            let _ = fs::remove_file(self.folder.join(file));
        }
    }

    pub fn start_vswitchd(&self) {
        let folder = self.folder.display().to_string();
        let database = format!("unix:{}", self.path("db.sock"));
        let control = format!("--unixctl={}", self.path("vs.ctl"));
        let pid = format!("--pidfile={}", self.path("vs.pid"));
        let log = format!("--log-file={}", self.path("vs.log"));
        let run_folder = format!("OVS_RUNDIR={folder}");
        let command = ["netns", "exec", &self.namespace, "env", &run_folder, "ovs-vswitchd", &database];
        let options = [control.as_str(), &pid, &log, "--no-chdir", "--detach"];
        run("ip", &[&command[..], &options].concat());
    }

    pub fn await_socket(&self) {
        await_that("the bridge's socket", || self.socket().exists());
    }

    fn start_database(&self) {
        let file = self.path("conf.db");
        run("ovsdb-tool", &["create", &file, SCHEMA]);
        let remote = format!("--remote=punix:{}", self.path("db.sock"));
        let control = format!("--unixctl={}", self.path("db.ctl"));
        let pid = format!("--pidfile={}", self.path("db.pid"));
        let log = format!("--log-file={}", self.path("db.log"));
        run("ovsdb-server", &[&file, &remote, &control, &pid, &log, "--no-chdir", "--detach"]);
        self.vsctl(&["--no-wait", "init"]);
    }

    fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    fn signal(&self, pid_file: &str, signal: &str) {
        if let Ok(pid) = fs::read_to_string(self.folder.join(pid_file)) {
            let pid = pid.trim();
            let _ = Command::new("kill").args([signal, pid]).status();
            let process = Path::new("/proc").join(pid);
            let end = Instant::now() + Duration::from_secs(5);
            while process.exists() && Instant::now() < end {
                sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.signal("vs.pid", "-TERM");
        self.signal("vs.pid", "-KILL");
        self.signal("db.pid", "-KILL");
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until `condition` holds, for ten seconds.
pub fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come within 10 s");
        sleep(Duration::from_millis(5));
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{program} cannot be run ({error}): this test needs root and the package openvswitch-switch")
    });
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{program} {}: {}\n{text}{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}
