//! Network namespaces that live as long as a thread.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{Uid, gettid};

/// Puts the calling test, and the threads it starts, into a node of its own.
pub fn node() {
    assert!(Uid::effective().is_root(), "this test makes network namespaces: run it as root");
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
    sh("ip link set lo up");
}

/// A container's network namespace.
pub struct Space {
    pub path: String,
    end: Option<mpsc::Sender<()>>,
    keeper: Option<thread::JoinHandle<()>>,
}

impl Space {
    pub fn new() -> Space {
        let (give, path) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let keeper = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            give.send(format!("/proc/{}/task/{}/ns/net", std::process::id(), gettid())).unwrap();
            let _ = ended.recv();
        });
        Space { path: path.recv().unwrap(), end: Some(end), keeper: Some(keeper) }
    }

    /// What a shell command inside prints.
    pub fn sh(&self, command: &str) -> String {
        let (path, command) = (self.path.clone(), command.to_owned());
        let inside = move || {
            setns(fs::File::open(path).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            sh(&command)
        };
        thread::spawn(inside).join().expect("the command inside")
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.keeper.take().unwrap().join();
    }
}

/// What a shell command in the namespace of the calling thread prints.
pub fn sh(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
