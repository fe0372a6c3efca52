//! The switch of a node: an `ovsdb-server` and an `ovs-vswitchd` of its own, with the
//! userspace datapath, in the node's namespace and folder. The host's Open vSwitch is
//! not touched: every command names the node's sockets.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::command::{command, run};
use super::error::LabError;
use super::node::{BRIDGE_PHYSICAL, Node, ROUTER, addresses};
use super::wiring::UPLINK;
use super::{interrupt, netns, process};

/// Schema of the database, from Debian's package.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// How long a switch may take to act on its database.
const PATIENCE: Duration = Duration::from_secs(15);

/// Makes the database, starts both daemons, and gives the node its address.
///
/// # Errors
/// With what the failing program said; its log is in the node's folder.
pub fn start(node: &Node) -> Result<(), LabError> {
    make_database(node, &if node.is_on_wire() { physical_bridge(node) } else { Vec::new() })?;
    start_vswitchd(node)
}

/// Makes the database, with what these words of `ovs-vsctl` ask for, and starts its server.
///
/// # Errors
/// With what the failing program said.
pub fn make_database(node: &Node, words: &[String]) -> Result<(), LabError> {
    let database = node.directory.join("conf.db");
    run(command(["ovsdb-tool", "create"]).arg(database).arg(SCHEMA))?;
    start_ovsdb(node)?;
    run(&mut vsctl(node, &["--no-wait", "init", "--"], words)).map(drop)
}

/// Starts the database server on the node's database.
///
/// # Errors
/// With what `ovsdb-server` said.
pub fn start_ovsdb(node: &Node) -> Result<(), LabError> {
    let mut server = daemon(node, "ovsdb-server");
    server.arg(node.directory.join("conf.db")).arg(format!("--remote=punix:{}", node.database().display()));
    netns::run_in(&node.namespace, &mut server).map(drop)
}

/// Stops the database server; the switch goes on with what it knows.
///
/// # Errors
/// Where it cannot be signalled.
pub fn stop_ovsdb(node: &Node) -> Result<(), LabError> {
    process::end(&pid_file(node, "ovsdb-server"), &node.directory, Signal::SIGTERM)
}

/// Starts the switch daemon. Where the node's address is on `br-phy`, waits until that is there and puts it on.
///
/// # Errors
/// With what the failing program said.
pub fn start_vswitchd(node: &Node) -> Result<(), LabError> {
    run_vswitchd(node)?;
    if !node.is_on_wire() {
        return Ok(());
    }
    wait_for(node, BRIDGE_PHYSICAL)?;
    netns::batch(&node.namespace, &address_lines(node, BRIDGE_PHYSICAL))
}

/// Starts the switch daemon alone.
///
/// # Errors
/// With what it said.
pub fn run_vswitchd(node: &Node) -> Result<(), LabError> {
    let mut daemon = daemon(node, "ovs-vswitchd");
    daemon.arg(format!("unix:{}", node.database().display()));
    netns::run_in(&node.namespace, &mut daemon).map(drop)
}

/// Lines of `ip` that put the node's addresses on a device, and its way out where there is an office.
pub fn address_lines(node: &Node, device: &str) -> String {
    let [v4, v6] = node.addresses();
    let mut lines = format!(
        "addr replace {v4}/24 dev {device}\naddr replace {v6}/64 dev {device} nodad\nlink set {device} up\n"
    );
    if node.wiring.is_some() {
        for router in addresses(ROUTER) {
            lines += &format!("route replace default via {router}\n");
        }
    }
    lines
}

/// Kills the switch daemon, as a crash would.
///
/// # Errors
/// Where it cannot be signalled.
pub fn kill_vswitchd(node: &Node) -> Result<(), LabError> {
    process::end(&pid_file(node, "ovs-vswitchd"), &node.directory, Signal::SIGKILL)
}

/// Ends both daemons.
///
/// # Errors
/// Where one cannot be signalled.
pub fn stop(node: &Node) -> Result<(), LabError> {
    process::end(&pid_file(node, "ovs-vswitchd"), &node.directory, Signal::SIGTERM)?;
    stop_ovsdb(node)
}

/// Whether both daemons run.
pub fn runs(node: &Node) -> bool {
    ["ovsdb-server", "ovs-vswitchd"]
        .iter()
        .all(|daemon| process::find(&pid_file(node, daemon), &node.directory).is_some())
}

/// `ovs-vsctl` on the node's database.
pub fn vsctl<S: AsRef<std::ffi::OsStr>>(node: &Node, options: &[&str], words: &[S]) -> Command {
    let mut vsctl = command(["ovs-vsctl"]);
    vsctl.arg(format!("--db=unix:{}", node.database().display())).args(options).args(words);
    vsctl
}

/// The environment in which OVS's programs find this node's daemons by themselves.
pub fn environment(node: &Node) -> [(&'static str, &Path); 3] {
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"].map(|name| (name, node.directory.as_path()))
}

fn daemon(node: &Node, program: &str) -> Command {
    let mut daemon = command([program]);
    daemon.envs(environment(node)).arg("--detach").arg("--no-chdir");
    daemon.arg(format!("--pidfile={}", pid_file(node, program).display()));
    daemon.arg(format!("--log-file={}", node.directory.join(format!("{program}.log")).display()));
    daemon.args(["-vconsole:off", "-vsyslog:off"]);
    daemon
}

fn pid_file(node: &Node, program: &str) -> PathBuf {
    node.directory.join(format!("{program}.pid"))
}

/// The bridge's hardware address is its own, not the wire's: the node's kernel sees the
/// frames of the wire too, and would answer those for its address a second time.
fn physical_bridge(node: &Node) -> Vec<String> {
    let mac = format!("02:77:00:00:00:{:02x}", node.index);
    let words = format!(
        "add-br {BRIDGE_PHYSICAL} -- set Bridge {BRIDGE_PHYSICAL} datapath_type=netdev fail_mode=standalone \
         other_config:hwaddr=\"{mac}\" -- add-port {BRIDGE_PHYSICAL} {UPLINK}"
    );
    words.split(' ').map(str::to_owned).collect()
}

/// Waits until a switch has made a device.
///
/// # Errors
/// [`LabError::Timeout`] names the log to look at.
pub fn wait_for(node: &Node, device: &str) -> Result<(), LabError> {
    let until = Instant::now() + PATIENCE;
    let file = format!("/proc/sys/net/ipv4/conf/{device}");
    while !netns::inside(&node.namespace, || Ok(Path::new(&file).exists()))? {
        if Instant::now() >= until {
            let what = format!("{}: {device} (see {}/ovs-vswitchd.log)", node.name, node.directory.display());
            return Err(LabError::Timeout { what, after: PATIENCE });
        }
        interrupt::check()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
