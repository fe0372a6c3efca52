//! Another network namespace, and what arrives there.

use std::path::PathBuf;

use super::support::{self, Process, run, try_run, until};

/// Another network namespace, held by a process that sleeps.
pub struct Namespace(Process);

impl Namespace {
    /// Takes a device of the test's namespace, with an address and a default route.
    pub async fn behind(device: &str, address: &str, gateway: &str) -> Self {
        let null = PathBuf::from("/dev/null");
        let namespace = Self(Process::start("unshare", &["-n", "sleep", "1000"], &null, &[]));
        let id = namespace.id();
        let own = std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
        let path = format!("/proc/{id}/ns/net");
        until("another namespace", || std::fs::read_link(&path).is_ok_and(|other| other != own)).await;
        run("ip", &["link", "set", device, "netns", &id]);
        namespace.run(&["ip", "addr", "add", address, "dev", device]);
        namespace.run(&["ip", "link", "set", device, "up"]);
        namespace.run(&["ip", "route", "add", "default", "via", gateway, "dev", device, "onlink"]);
        namespace
    }

    /// Number of the process that holds it.
    pub fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn enter(&self, command: &[&str]) -> Vec<String> {
        let enter = ["-t".to_owned(), self.0.id().to_string(), "-n".to_owned(), "--".to_owned()];
        enter.into_iter().chain(command.iter().map(|word| (*word).to_owned())).collect()
    }

    pub fn run(&self, command: &[&str]) -> String {
        let words = self.enter(command);
        run("nsenter", &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub fn try_run(&self, command: &[&str]) -> bool {
        let words = self.enter(command);
        try_run("nsenter", &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub fn capture(&self, device: &str, filter: &str) -> Capture {
        let folder = support::Folder::new();
        let words = self.enter(&["tcpdump", "-lni", device, filter]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let process = Process::start("nsenter", &words, &folder.file("capture"), &[]);
        Capture { _process: process, folder }
    }
}

/// A running capture.
pub struct Capture {
    _process: Process,
    folder: support::Folder,
}

impl Capture {
    pub fn text(&self) -> String {
        std::fs::read_to_string(self.folder.file("capture")).unwrap_or_default()
    }
}
