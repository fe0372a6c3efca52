//! A room with a node that is played here.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabric_core::node::{Event, Outcome, Task, WireCommand, WireSpec};
use fabric_node::attach::{AttachConfig, Handle, start};
use openflow::Mac;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::space::{Space, node};

/// A room in a node of its own.
pub struct Room {
    pub runtime: Runtime,
    pub handle: Handle,
    pub events: mpsc::Receiver<Event>,
    pub folder: PathBuf,
}

impl Room {
    pub fn new() -> Room {
        node();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("fabric-attach-{}-{number}", std::process::id()));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (give, events) = mpsc::channel(16);
        let guard = runtime.enter();
        let handle = start(AttachConfig { socket: folder.join("cni.sock") }, give).unwrap();
        drop(guard);
        Room { runtime, handle, events, folder }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("cni.sock")
    }

    /// Has an errand carried out.
    pub fn wire(&mut self, command: WireCommand) -> Result<(), String> {
        self.runtime.block_on(async {
            self.handle.wire(Task(7), command).await;
            match timeout(Duration::from_secs(20), self.events.recv()).await.expect("an outcome in time") {
                Some(Event::Done { task: Task(7), outcome: Outcome::Wire(result) }) => result,
                other => panic!("not an outcome: {other:?}"),
            }
        })
    }

    pub fn create(&mut self, spec: &WireSpec) -> Result<(), String> {
        self.wire(WireCommand::Create(spec.clone()))
    }

    pub fn check(&mut self, spec: &WireSpec) -> Result<(), String> {
        self.wire(WireCommand::Check(spec.clone()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A dual-stack interface of an overlay.
pub fn spec(space: &Space) -> WireSpec {
    WireSpec {
        netns: space.path.clone(),
        ifname: "eth0".into(),
        host_name: "fab0123456789a".into(),
        mac: Mac([0x0a, 0x58, 0x0a, 0, 0, 9]),
        mtu: 1400,
        addresses: vec!["10.0.0.9/32".parse().unwrap(), "fd00::9/128".parse().unwrap()],
        gateways: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        gateway_mac: Some(Mac([0x0a, 0x58, 0xa9, 0xfe, 1, 1])),
        software_checksums: false,
    }
}
