//! A real DHCP server (dnsmasq) for a VLAN of the office, and the daemon of the real IPAM plugin `dhcp` for a node.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::Place;
use crate::lab::cni::OTHERS;
use crate::lab::command::{command, spawn};
use crate::lab::{Lab, netns, process};

/// Seconds after which a lease is renewed. The shortest lease that dnsmasq gives is two minutes; clients take this
/// figure from the server's answer.
pub const RENEW: u64 = 4;

/// A program that ends with the value.
#[derive(Debug)]
struct Running {
    child: Child,
}

impl Running {
    fn signal(&self, signal: Signal) {
        process::signal(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A DHCP server.
#[derive(Debug)]
pub struct Server {
    running: Running,
    folder: PathBuf,
}

impl Server {
    /// Starts one on a server's interface that gives addresses from `first` to `last` and names a router, with further
    /// words for dnsmasq.
    #[must_use]
    pub fn start(lab: &Lab, at: &Place, [first, last]: [&str; 2], router: IpAddr, more: &[&str]) -> Self {
        let folder = lab.layout().directory.join("dhcp-server");
        fs::create_dir_all(&folder).unwrap();
        let file = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
        let mut words = vec![
            "dnsmasq".to_owned(),
            "--keep-in-foreground".to_owned(),
            "--conf-file=/dev/null".to_owned(),
            "--user=root".to_owned(),
            // No name server.
            "--port=0".to_owned(),
            format!("--interface={}", at.device),
            "--bind-interfaces".to_owned(),
            "--no-ping".to_owned(),
            "--dhcp-authoritative".to_owned(),
            format!("--dhcp-range={first},{last},2m"),
            format!("--dhcp-option-force=option:T1,{RENEW}s"),
            format!("--dhcp-option=option:router,{router}"),
            "--log-dhcp".to_owned(),
            file("log-facility", "log"),
            file("dhcp-leasefile", "leases"),
            file("pid-file", "pid"),
        ];
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let child = netns::spawn_in(&at.netns, &mut command(&words)).unwrap();
        Self { running: Running { child }, folder }
    }

    /// Lets it hear nothing, or hear again.
    pub fn pause(&self, paused: bool) {
        self.running.signal(if paused { Signal::SIGSTOP } else { Signal::SIGCONT });
    }

    /// How often it has said or heard a kind of message about an address, by its log.
    #[must_use]
    pub fn count(&self, kind: &str, address: &str) -> usize {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        log.lines().filter(|line| line.contains(kind) && line.contains(&format!(" {address} "))).count()
    }

    /// Addresses that are leased.
    #[must_use]
    pub fn leases(&self) -> Vec<String> {
        let leases = fs::read_to_string(self.folder.join("leases")).unwrap_or_default();
        leases.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
    }

    /// What it wrote into its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

/// The plugin's daemon.
#[derive(Debug)]
pub struct Daemon {
    _running: Running,
    /// Where the plugin asks it.
    pub socket: PathBuf,
}

impl Daemon {
    /// Starts one.
    #[must_use]
    pub fn start(lab: &Lab) -> Self {
        let folder = lab.layout().directory.join("dhcp-daemon");
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("socket");
        let program = Path::new(OTHERS).join("dhcp").display().to_string();
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut daemon = command([
            program.as_str(),
            "daemon",
            "-timeout",
            "2s",
            "-socketpath",
            &socket.display().to_string(),
        ]);
        daemon.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = spawn(&mut daemon).unwrap();
        let daemon = Self { _running: Running { child }, socket };
        assert!(
            crate::trial::holds_within(std::time::Duration::from_secs(10), || daemon.socket.exists()),
            "the daemon of dhcp does not listen"
        );
        daemon
    }
}
