//! A network namespace and an Open vSwitch for one test, gone when the test is over, however it ends.
//!
//! A test runs in a thread that has left the host's network namespace; the switch runs as children of that thread,
//! which the kernel kills when the thread ends (`setpriv --pdeathsig`).

#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

/// Time that anything in a test may take before it counts as failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Runs a test in a network namespace of its own.
pub fn in_namespace<T: Future<Output = ()>>(test: impl FnOnce() -> T + Send + 'static) {
    assert!(nix::unistd::geteuid().is_root(), "this test makes network namespaces: run it as root");
    for program in ["ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ip", "nft", "setpriv", "ping"] {
        let found = std::env::var("PATH").unwrap_or_default();
        let found = found.split(':').any(|folder| Path::new(folder).join(program).exists());
        assert!(
            found,
            "this test needs {program}: install openvswitch-switch, iproute2, nftables, util-linux, iputils-ping"
        );
    }
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        run("ip", &["link", "set", "lo", "up"]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(test());
    });
    if let Err(failure) = thread.join() {
        std::panic::resume_unwind(failure);
    }
}

/// Runs a program in the test's namespace; what it prints. It must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// As [`run`]; whether it succeeded.
pub fn try_run(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output().expect(program);
    output.status.success()
}

/// Waits until `holds`, or fails the test with `what`.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A child that dies with its owner, or with the thread.
pub struct Process(Child);

impl Process {
    /// Starts a program in the test's namespace.
    pub fn start(program: &str, arguments: &[&str], log: &Path, environment: &[(&str, &Path)]) -> Self {
        let log = std::fs::File::create(log).expect("a log");
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        Self(child.expect(program))
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that goes with its owner.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fabric-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An Open vSwitch with the userspace datapath.
pub struct Ovs {
    database: Option<Process>,
    switch: Option<Process>,
    folder: Folder,
}

impl Ovs {
    /// An empty database with its server; no switch yet.
    pub async fn new() -> Self {
        let folder = Folder::new();
        let schema = "/usr/share/openvswitch/vswitch.ovsschema";
        run("ovsdb-tool", &["create", &text(&folder.file("conf.db")), schema]);
        let mut ovs = Self { database: None, switch: None, folder };
        ovs.start_database().await;
        ovs.vsctl(&["--no-wait", "init"]);
        ovs
    }

    /// Database and switch.
    pub async fn running() -> Self {
        let mut ovs = Self::new().await;
        ovs.start_switch().await;
        ovs
    }

    /// The database's socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.file("db.sock")
    }

    /// Starts `ovsdb-server`.
    pub async fn start_database(&mut self) {
        let socket = self.socket();
        let _ = std::fs::remove_file(&socket);
        let arguments = [
            text(&self.folder.file("conf.db")),
            format!("--remote=punix:{}", socket.display()),
            format!("--unixctl={}", self.folder.file("db.ctl").display()),
        ];
        self.database = Some(self.start("ovsdb-server", &arguments));
        until("ovsdb-server listens", || listens(&socket)).await;
    }

    /// Kills `ovsdb-server`.
    pub fn kill_database(&mut self) {
        self.database = None;
    }

    /// Starts `ovs-vswitchd`.
    pub async fn start_switch(&mut self) {
        let pid_file = self.pid_file();
        let _ = std::fs::remove_file(&pid_file);
        let arguments =
            [format!("unix:{}", self.socket().display()), format!("--pidfile={}", pid_file.display())];
        self.switch = Some(self.start("ovs-vswitchd", &arguments));
        until("ovs-vswitchd listens", || self.control().is_some_and(|control| listens(&control))).await;
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.file("ovs-vswitchd.pid")
    }

    /// The switch's control socket, once it has one.
    fn control(&self) -> Option<PathBuf> {
        let pid = std::fs::read_to_string(self.pid_file()).ok()?;
        Some(self.folder.file(&format!("ovs-vswitchd.{}.ctl", pid.trim())))
    }

    /// Kills `ovs-vswitchd` (SIGKILL).
    pub fn kill_switch(&mut self) {
        self.switch = None;
    }

    /// Stops `ovs-vswitchd` where it is (SIGSTOP).
    pub fn suspend_switch(&self) {
        self.signal_switch("-STOP");
    }

    /// Lets it go on.
    pub fn resume_switch(&self) {
        self.signal_switch("-CONT");
    }

    fn signal_switch(&self, signal: &str) {
        let switch = self.switch.as_ref().expect("a switch");
        run("kill", &[signal, &switch.id().to_string()]);
    }

    /// Runs `ovs-vsctl`; what it prints.
    pub fn vsctl(&self, arguments: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.socket().display());
        run("ovs-vsctl", &[&[database.as_str(), "--timeout=10"], arguments].concat())
    }

    /// Runs a command of `ovs-vswitchd`; what it prints.
    pub fn appctl(&self, arguments: &[&str]) -> String {
        let control = text(&self.control().expect("a switch"));
        run("ovs-appctl", &[&["-t", control.as_str(), "--timeout=10"], arguments].concat())
    }

    /// A file beside the database.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    fn start(&self, program: &str, arguments: &[String]) -> Process {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let log = self.folder.file(&format!("{program}.log"));
        Process::start(program, &arguments, &log, &[("OVS_RUNDIR", &self.folder.0)])
    }
}

fn listens(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
